"""Pictures of posteriors, runs, bases and held-out data: axes in, axes out.

Every function draws into the matplotlib `axes` it is given, or into those of a new figure, and returns them. Nothing is
shown or saved, and no setting of matplotlib is changed. Needs matplotlib: `pip install kosambi[plots]`.
"""

from kosambi.plots._bases import selection as selection
from kosambi.plots._bases import spectrum as spectrum
from kosambi.plots._calibration import calibration as calibration
from kosambi.plots._calibration import pit as pit
from kosambi.plots._functions import posterior as posterior
from kosambi.plots._labels import confusion as confusion
from kosambi.plots._labels import reliability as reliability
from kosambi.plots._labels import roc as roc
from kosambi.plots._regions import highest_density as highest_density
from kosambi.plots.effects import partial_effect as partial_effect
from kosambi.plots.predictions import predictions as predictions
from kosambi.plots.runs import energy as energy
from kosambi.plots.runs import ladder as ladder
from kosambi.plots.runs import modes as modes
from kosambi.plots.runs import r_hat as r_hat
from kosambi.plots.style import BLACK as BLACK
from kosambi.plots.style import BLUE as BLUE
from kosambi.plots.style import ORANGE as ORANGE
from kosambi.plots.style import plain as plain
