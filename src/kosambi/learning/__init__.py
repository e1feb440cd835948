"""Learning: hyperparameters from data, and how many inducing points they are worth."""

from kosambi.learning.fit import fit_hyperparameters
from kosambi.learning.report import FitReport
from kosambi.learning.selected import Selection
from kosambi.learning.selection import select_inducing

__all__ = ["FitReport", "Selection", "fit_hyperparameters", "select_inducing"]
