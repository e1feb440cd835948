"""The posterior as functions and predictions, how good they are, and which model explains the data best."""

from kosambi.posterior._functions import BasisExpansion
from kosambi.posterior._matheron import Clipping, MatheronDraws
from kosambi.posterior._modes import ModeSummary
from kosambi.posterior._near_functions import AllData, NearData
from kosambi.posterior._predictive import LOW_SUPPORT
from kosambi.posterior.averaged import AveragedDraws, AveragedPosterior
from kosambi.posterior.averaged_prediction import AveragedPrediction
from kosambi.posterior.certificate import Certificate, divergence_estimate
from kosambi.posterior.comparison import Comparison, compare
from kosambi.posterior.importance import smoothed_weights, systematic
from kosambi.posterior.posterior import Posterior
from kosambi.posterior.prediction import Prediction

__all__ = [
    "LOW_SUPPORT",
    "AllData",
    "AveragedDraws",
    "AveragedPosterior",
    "AveragedPrediction",
    "BasisExpansion",
    "Certificate",
    "Clipping",
    "Comparison",
    "MatheronDraws",
    "ModeSummary",
    "NearData",
    "Posterior",
    "Prediction",
    "compare",
    "divergence_estimate",
    "smoothed_weights",
    "systematic",
]
