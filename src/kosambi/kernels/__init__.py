"""Kernels: what the prior believes about how a function changes with its inputs.

Every kernel is a pytree with float64 parameters: differentiable, `vmap`-able, and closed under `+`, `*` and scaling
by a positive number.
"""

from kosambi.kernels.base import (
    AbstractCombination,
    AbstractFinite,
    AbstractKernel,
    AbstractScalable,
    Constant,
    Product,
    Sum,
    scaled,
)
from kosambi.kernels.coregionalization import Coregionalization, coregionalizations
from kosambi.kernels.linear import Linear
from kosambi.kernels.periodic import Periodic
from kosambi.kernels.radial import AbstractMatern, Matern12, Matern32, Matern52, SquaredExponential
from kosambi.kernels.rational_quadratic import RationalQuadratic
from kosambi.kernels.stationary import AbstractRadial, AbstractStationary, column_scales

RBF = SquaredExponential
"""The squared exponential under the name that scikit-learn and GPyTorch give it."""

__all__ = [
    "RBF",
    "AbstractCombination",
    "AbstractFinite",
    "AbstractKernel",
    "AbstractMatern",
    "AbstractRadial",
    "AbstractScalable",
    "AbstractStationary",
    "Constant",
    "Coregionalization",
    "Linear",
    "Matern12",
    "Matern32",
    "Matern52",
    "Periodic",
    "Product",
    "RationalQuadratic",
    "SquaredExponential",
    "Sum",
    "column_scales",
    "coregionalizations",
    "scaled",
]
