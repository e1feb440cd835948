"""Do predictions keep their promises? Scores on held-out data, and two repairs that need nothing but such data.

`calibration_report` sums up coverage, widths, CRPS and PIT. `temper` finds the one factor of the predictive variance
that fits held-out data best, `conformal` intervals that cover whatever the model is worth. Both take predictions at
inputs that neither the posterior nor the hyperparameters have seen, and hand the repair to any other prediction.
"""

from kosambi.calibration.conformal import Conformal as Conformal
from kosambi.calibration.conformal import conformal as conformal
from kosambi.calibration.crps import crps as crps
from kosambi.calibration.distributions import StretchedPrediction as StretchedPrediction
from kosambi.calibration.distributions import TemperedLabels as TemperedLabels
from kosambi.calibration.report import Calibration as Calibration
from kosambi.calibration.report import calibration_report as calibration_report
from kosambi.calibration.scores import Coverage as Coverage
from kosambi.calibration.scores import coverage as coverage
from kosambi.calibration.scores import interval_width as interval_width
from kosambi.calibration.scores import pit as pit
from kosambi.calibration.tempering import Tempering as Tempering
from kosambi.calibration.tempering import temper as temper
