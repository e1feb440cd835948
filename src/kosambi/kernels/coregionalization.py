r"""Several outputs as one function: a covariance between outputs, by their number in a column of the inputs.

A row of inputs (x, p) stands for the value of output p at x. With

    B = LLᵀ + diag(κ),   L of shape (P, R), κ > 0,

the kernel B[p, q] times an ordinary kernel k of the other columns is the intrinsic model of coregionalisation: with
independent draws g_r and h_p of N(0, k),

    f_p(x) = Σ_r L_pr g_r(x) + √κ_p h_p(x),   Cov(f_p(x), f_q(z)) = B[p, q] k(x, z).

A sum of such products, each with a kernel of its own, is the linear model of coregionalisation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_float_array, as_positive, is_traced
from kosambi._core.precision import with_fields
from kosambi._core.types import Array, ArrayLike
from kosambi.errors import InputError
from kosambi.kernels.base import AbstractCombination, AbstractFinite, AbstractKernel


class Coregionalization(AbstractFinite):
    """B[p, q] = (LLᵀ + diag(κ))[p, q] for two inputs whose outputs are p and q: how outputs vary together.

    Times an ordinary kernel with `active_dims` it is the covariance of several outputs; a sum of such products is the
    linear model of coregionalisation. `kosambi.outputs.stack` makes the column of numbers.

    Arguments:
        loadings: (P, R), L: how much of each of R shared functions is in each of P outputs.
        own_variance: (P,), κ: what each output has for itself; none when None.
        column: the input column that holds the number of the output, 0 to P − 1; from the end if negative.

    A value that is the number of no output belongs to none: the kernel is zero there. `infer` refuses such rows.

    >>> import kosambi as ko
    >>> kernel = ko.kernels.Coregionalization([[1.0], [0.5]], own_variance=[0.1, 0.2])
    >>> kernel.output_covariance
    array([[1.1 , 0.5 ],
           [0.5 , 0.45]])
    >>> kernel([[0.3, 0.0]], [[0.7, 0.0], [0.7, 1.0]])
    array([[1.1, 0.5]])
    """

    supports: ClassVar[Mapping[str, str]] = {"loadings": "real"}

    loadings: Float[Array, "P R"]
    own_variance: Float[Array, " P"] | None
    column: int = eqx.field(static=True)

    def __init__(self, loadings: ArrayLike, own_variance: ArrayLike | None = None, *, column: int = -1) -> None:
        array = as_float_array("Coregionalization(loadings=...)", loadings)
        if array.ndim != 2 or 0 in array.shape or not (is_traced(array) or np.all(np.isfinite(array))):
            raise InputError(
                "`Coregionalization(loadings=...)` must be finite numbers of shape (P, R), a row for each output. Got "
                f"shape {array.shape}. For one shared function write `loadings[:, None]`."
            )
        if own_variance is not None:
            name = "Coregionalization(own_variance=...)"
            own_variance = as_positive(name, own_variance, max_ndim=1)
            if own_variance.shape != array.shape[:1]:
                raise InputError(
                    f"`{name}` needs one number for each of {array.shape[0]} outputs. Got shape {own_variance.shape}."
                )
        if isinstance(column, bool) or not isinstance(column, int | np.integer):
            raise InputError(f"`Coregionalization(column=...)` must be a column number. Got {column!r}.")
        self.loadings, self.own_variance, self.column = array, own_variance, int(column)

    @property
    def num_outputs(self) -> int:
        """P."""
        return int(self.loadings.shape[0])

    @property
    def output_covariance(self) -> Float[Array, "P P"]:
        """B = LLᵀ + diag(κ), (P, P)."""
        shared = self.loadings @ self.loadings.T
        if self.own_variance is None:
            return shared
        return shared + (jnp if is_traced(self) else np).diag(self.own_variance)

    @property
    def min_columns(self) -> int:
        """The smallest number of input columns that has the column of outputs."""
        return self.column + 1 if self.column >= 0 else -self.column

    def check_columns(self, num_columns: int) -> None:
        """Refuse inputs without the column of outputs."""
        if num_columns < self.min_columns:
            raise InputError(
                f"`Coregionalization` has the numbers of outputs in column {self.column}, but the inputs have "
                f"{num_columns} columns. Make them with `kosambi.outputs.stack(x, y)`, or change `column`."
            )

    def check_inputs(self, x: Float[np.ndarray, "N D"]) -> None:
        """Refuse rows that belong to no output."""
        super().check_inputs(x)
        given = x[:, self.column]
        wrong = (given != np.round(given)) | (given < 0) | (given >= self.num_outputs)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InputError(
                f"`x` has {given[row]:g} in row {row}, column {self.column}, which holds the number of the output, and "
                f"`Coregionalization` has {self.num_outputs} of them, 0 to {self.num_outputs - 1}. Make the rows with "
                "`kosambi.outputs.stack(x, y)`, or change `column`."
            )

    @property
    def takes_factor(self) -> bool:
        """Loadings and variances take it up."""
        return True

    def with_factor(self, factor: float) -> AbstractKernel:
        """The same correlations with other variances."""
        loadings = np.asarray(self.loadings * np.sqrt(factor))
        if self.own_variance is None:
            return with_fields(self, loadings=loadings)
        return with_fields(self, loadings=loadings, own_variance=np.asarray(self.own_variance * factor))

    def finite_features(self, x: Float[Array, "N D"]) -> Float[Array, "N F"]:
        """Rows of [L, diag(√κ)]."""
        features = self.loadings
        if self.own_variance is not None:
            features = jnp.concatenate([features, jnp.diag(jnp.sqrt(self.own_variance))], axis=1)
        return self._indicators(x) @ features

    def pairwise(self, x: Float[Array, "N D"], z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        """B[p, q], from indicators of the outputs on both sides."""
        return self._indicators(x) @ self._covariance @ self._indicators(z).T

    def pointwise(self, x: Float[Array, "N D"]) -> Float[Array, " N"]:
        """B[p, p]."""
        return self._indicators(x) @ jnp.diag(self._covariance)

    @property
    def _covariance(self) -> Array:
        shared = self.loadings @ self.loadings.T
        return shared if self.own_variance is None else shared + jnp.diag(self.own_variance)

    def _indicators(self, x: Float[Array, "N D"]) -> Float[Array, "N P"]:
        # The nearest number: scaling there and back may leave the last digit of a whole number wrong.
        away = jnp.abs(x[:, self.column, None] - jnp.arange(self.num_outputs, dtype=x.dtype))
        return jnp.where(away < 0.5, 1.0, 0.0).astype(x.dtype)


def coregionalizations(kernel: AbstractKernel) -> list[Coregionalization]:
    """Every one in a kernel, in order; none where the kernel is of one output."""
    if isinstance(kernel, AbstractCombination):
        return [found for part in kernel.kernels for found in coregionalizations(part)]
    return [kernel] if isinstance(kernel, Coregionalization) else []
