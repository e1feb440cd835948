"""Bases: how a function is summed up by M numbers, and what those numbers say about the rest of it.

| basis           | coordinates u          | prior                   | φᵀu                                |
|-----------------|------------------------|-------------------------|------------------------------------|
| `NystromBasis`  | ⟨F, e⟩, e estimated    | `GaussianRandomElement` | projection (paper)                 |
| `RitzBasis`     | ⟨F, e⟩, e best in span | `GaussianRandomElement` | conditional mean                   |
| `InducingBasis` | ⟨F, k(z, ·)⟩           | `GaussianRandomElement` | projection (paper)                 |
| `PointBasis`    | F(z)                   | both                    | conditional mean                   |
"""

from kosambi.basis.base import AbstractBasis, BasisReport
from kosambi.basis.inducing_functions import InducingBasis
from kosambi.basis.nystrom import NystromBasis
from kosambi.basis.points import PointBasis
from kosambi.basis.residual import PointResidual
from kosambi.basis.ritz import RitzBasis

__all__ = [
    "AbstractBasis",
    "BasisReport",
    "InducingBasis",
    "NystromBasis",
    "PointBasis",
    "PointResidual",
    "RitzBasis",
]
