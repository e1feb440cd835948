"""Do predictions keep their promises? Scores on held-out data, and two repairs that need nothing but such data.

`held_out_scores` says how good predictions are, `calibration_report` sums up coverage, widths, CRPS and PIT. `temper`
finds the one factor of the predictive variance that fits held-out data best, `conformal` intervals that cover whatever
the model is worth. Both take predictions at inputs that neither the posterior nor the hyperparameters have seen, and
hand the repair to any other prediction.
"""

from kosambi.calibration.conformal import Conformal, conformal
from kosambi.calibration.coverage import Coverage, coverage, interval_width, pit
from kosambi.calibration.crps import crps
from kosambi.calibration.distributions import StretchedPrediction, TemperedLabels
from kosambi.calibration.report import Calibration, calibration_report
from kosambi.calibration.scores import Score, held_out_scores, label_scores, number_scores, point_prediction
from kosambi.calibration.tempering import Tempering, temper

__all__ = [
    "Calibration",
    "Conformal",
    "Coverage",
    "Score",
    "StretchedPrediction",
    "TemperedLabels",
    "Tempering",
    "calibration_report",
    "conformal",
    "coverage",
    "crps",
    "held_out_scores",
    "interval_width",
    "label_scores",
    "number_scores",
    "pit",
    "point_prediction",
    "temper",
]
