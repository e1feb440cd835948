"""The posterior as functions and predictions."""

from kosambi.posterior._matheron import Clipping as Clipping
from kosambi.posterior._matheron import MatheronDraws as MatheronDraws
from kosambi.posterior._modes import ModeSummary as ModeSummary
from kosambi.posterior.posterior import LOW_SUPPORT as LOW_SUPPORT
from kosambi.posterior.posterior import Posterior as Posterior
from kosambi.posterior.prediction import Prediction as Prediction
