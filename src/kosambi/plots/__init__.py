"""Pictures of posteriors, runs, bases and held-out data: axes in, axes out.

Every function draws into the matplotlib `axes` it is given, or into those of a new figure, and returns them. Nothing is
shown or saved, and no setting of matplotlib is changed. Needs matplotlib: `pip install kosambi[plots]`.
"""

from kosambi.plots._bases import selection, spectrum
from kosambi.plots._calibration import calibration, pit
from kosambi.plots._functions import posterior
from kosambi.plots._labels import confusion, reliability, roc
from kosambi.plots._regions import highest_density
from kosambi.plots.effects import partial_effect
from kosambi.plots.hyperparameters import hyperparameter_pairs, hyperparameters
from kosambi.plots.predictions import predictions
from kosambi.plots.runs import energy, ladder, modes, r_hat
from kosambi.plots.style import BLACK, BLUE, ORANGE, plain
from kosambi.plots.surface import surface
from kosambi.plots.timeline import timeline

__all__ = [
    "BLACK",
    "BLUE",
    "ORANGE",
    "calibration",
    "confusion",
    "energy",
    "highest_density",
    "hyperparameter_pairs",
    "hyperparameters",
    "ladder",
    "modes",
    "partial_effect",
    "pit",
    "plain",
    "posterior",
    "predictions",
    "r_hat",
    "reliability",
    "roc",
    "selection",
    "spectrum",
    "surface",
    "timeline",
]
