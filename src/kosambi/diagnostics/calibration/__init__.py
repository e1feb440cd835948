"""Do predictions keep their promises? Scores on held-out data, and two repairs that need nothing but such data.

`calibration_report` sums up coverage, widths, CRPS and PIT. `temper` finds the one factor of the predictive variance
that fits held-out data best, `conformal` intervals that cover whatever the model is worth. Both take predictions at
inputs that neither the posterior nor the hyperparameters have seen, and hand the repair to any other prediction.
"""

from kosambi.diagnostics.calibration._conformal import Conformal as Conformal
from kosambi.diagnostics.calibration._conformal import conformal as conformal
from kosambi.diagnostics.calibration._crps import crps as crps
from kosambi.diagnostics.calibration._laws import StretchedPrediction as StretchedPrediction
from kosambi.diagnostics.calibration._laws import TemperedLabels as TemperedLabels
from kosambi.diagnostics.calibration._report import Calibration as Calibration
from kosambi.diagnostics.calibration._report import calibration_report as calibration_report
from kosambi.diagnostics.calibration._scores import Coverage as Coverage
from kosambi.diagnostics.calibration._scores import coverage as coverage
from kosambi.diagnostics.calibration._scores import interval_width as interval_width
from kosambi.diagnostics.calibration._scores import pit as pit
from kosambi.diagnostics.calibration._tempering import Tempering as Tempering
from kosambi.diagnostics.calibration._tempering import temper as temper
