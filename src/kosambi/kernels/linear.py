"""The linear kernel: straight lines and planes."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from kosambi._core.checks import as_positive
from kosambi._core.types import Array, ArrayLike
from kosambi.kernels.base import AbstractFinite, AbstractScalable
from kosambi.kernels.stationary import as_active_dims, check_selected, min_columns, select


class Linear(AbstractFinite, AbstractScalable):
    """Σ_d variance_d x_d z_d: straight lines and planes through the origin.

    Add `Constant` for planes that need not pass through the origin.

    Arguments:
        variance: of the slope, in squared units of f over x; a number, or one per column.
        active_dims: numbers of the columns that the kernel looks at; all when None.

    >>> import kosambi as ko
    >>> ko.kernels.Linear(variance=[1.0, 10.0])([[1.0, 2.0]])
    array([[41.]])
    """

    variance: Array
    active_dims: tuple[int, ...] | None = eqx.field(static=True)

    def __init__(self, variance: ArrayLike = 1.0, *, active_dims: Any = None) -> None:
        self.variance = as_positive("Linear(variance=...)", variance, max_ndim=1)
        self.active_dims = as_active_dims("Linear", active_dims)

    def check_columns(self, num_columns: int) -> None:
        """Refuse inputs whose columns do not match the variances or `active_dims`."""
        check_selected("Linear", self.active_dims, {"variance": self.variance}, num_columns)

    @property
    def min_columns(self) -> int:
        """The smallest number of input columns that fits the parameters."""
        return min_columns(self.active_dims, self.variance)

    def finite_features(self, x: Float[Array, "N D"]) -> Float[Array, "N P"]:
        """√variance · x."""
        return jnp.sqrt(self.variance) * select(x, self.active_dims)

    def pairwise(self, x: Float[Array, "N D"], z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        """x diag(variance) zᵀ."""
        return (select(x, self.active_dims) * self.variance) @ select(z, self.active_dims).T

    def pointwise(self, x: Float[Array, "N D"]) -> Float[Array, " N"]:
        """Σ_d variance_d x_d²."""
        return jnp.sum(self.variance * jnp.square(select(x, self.active_dims)), axis=1)
