"""Learning: hyperparameters from data, and how many inducing points they are worth."""

from kosambi.learning.drawn import HyperparameterDraws
from kosambi.learning.fit import fit_hyperparameters
from kosambi.learning.report import FitReport
from kosambi.learning.selected import Selection
from kosambi.learning.selection import select_inducing

__all__ = ["FitReport", "HyperparameterDraws", "Selection", "fit_hyperparameters", "select_inducing"]
