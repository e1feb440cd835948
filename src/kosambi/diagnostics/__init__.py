"""How far to trust a set of particles: convergence of the sampler, and the report that says so; and predictions."""

from kosambi.diagnostics import calibration as calibration
from kosambi.diagnostics.convergence import R_HAT_LIMIT as R_HAT_LIMIT
from kosambi.diagnostics.convergence import effective_sample_size as effective_sample_size
from kosambi.diagnostics.convergence import mcse as mcse
from kosambi.diagnostics.convergence import nested_r_hat as nested_r_hat
from kosambi.diagnostics.report import LadderReport as LadderReport
from kosambi.diagnostics.report import LogEvidence as LogEvidence
from kosambi.diagnostics.report import Report as Report
