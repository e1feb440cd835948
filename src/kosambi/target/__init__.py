"""The target: the potential of the coordinates given the data, its modes, and the log marginal likelihood.

V(u) = Σ_n c(y_n, m(x_n) + φ(x_n)ᵀu) + ½ uᵀΛ⁻¹u                                             (paper, section 5)
"""

from kosambi.target.bounds import DivergenceBounds, divergence_bounds, gaussian_gap
from kosambi.target.data_terms import AbstractDataTerm, FactorisedTerm, JointTerm, QuadraticTerm
from kosambi.target.evidence import log_evidence
from kosambi.target.modes import find_modes
from kosambi.target.target import Target

__all__ = [
    "AbstractDataTerm",
    "DivergenceBounds",
    "FactorisedTerm",
    "JointTerm",
    "QuadraticTerm",
    "Target",
    "divergence_bounds",
    "find_modes",
    "gaussian_gap",
    "log_evidence",
]
