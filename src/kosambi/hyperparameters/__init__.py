"""Hyperparameters from data: `kosambi.fit_hyperparameters` and its report."""

from kosambi.hyperparameters.fit import fit_hyperparameters as fit_hyperparameters
from kosambi.hyperparameters.report import FitReport as FitReport
