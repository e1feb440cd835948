"""Kernels: what the prior believes about how a function changes with its inputs.

Every kernel is a pytree with float64 parameters: differentiable, `vmap`-able, and closed under `+`, `*` and scaling
by a positive number.
"""

from kosambi.kernels._base import AbstractCombination as AbstractCombination
from kosambi.kernels._base import AbstractFinite as AbstractFinite
from kosambi.kernels._base import AbstractKernel as AbstractKernel
from kosambi.kernels._base import Constant as Constant
from kosambi.kernels._base import Product as Product
from kosambi.kernels._base import Sum as Sum
from kosambi.kernels._factor import scaled as scaled
from kosambi.kernels._factor import with_factor as with_factor
from kosambi.kernels.linear import Linear as Linear
from kosambi.kernels.periodic import Periodic as Periodic
from kosambi.kernels.rational_quadratic import RationalQuadratic as RationalQuadratic
from kosambi.kernels.stationary import AbstractRadial as AbstractRadial
from kosambi.kernels.stationary import AbstractStationary as AbstractStationary
from kosambi.kernels.stationary import Matern12 as Matern12
from kosambi.kernels.stationary import Matern32 as Matern32
from kosambi.kernels.stationary import Matern52 as Matern52
from kosambi.kernels.stationary import SquaredExponential as SquaredExponential
