"""Functions drawn at random, as callables and pytrees: evaluate anywhere, twice with the same answer.

J functions are kept together, each a finite sum F_j(x) = m(x) + Σ_i c_ji b_i(x), so that one call evaluates all of
them with matrix products. What the b are depends on the prior: kernels at support points, or random features.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._types import Array, ArrayLike
from kosambi.blocks import by_rows
from kosambi.errors import InputError, as_float_array, as_inputs, is_traced
from kosambi.kernels import AbstractFinite, AbstractKernel
from kosambi.precision import Module, compiled, public, warn_once_if_single

# Draws that carry features of their own are evaluated a few at a time; this many numbers at once.
_ELEMENTS_AT_ONCE = 2**20


class AbstractExpansion(Module):
    """J functions with mean zero, each a finite sum."""

    @property
    @abc.abstractmethod
    def num_draws(self) -> int:
        """J."""

    @abc.abstractmethod
    def evaluate(self, x: Float[Array, "N D"]) -> Float[Array, "J N"]:
        """The J functions at the rows of `x`, traceable."""


class KernelExpansion(AbstractExpansion):
    """F_j = Σ_i c_ji k(·, s_i), with the same points for all j."""

    kernel: AbstractKernel
    points: Float[Array, "S D"]
    coefficients: Float[Array, "J S"]

    @property
    def num_draws(self) -> int:
        """J."""
        return int(self.coefficients.shape[0])

    def evaluate(self, x: Float[Array, "N D"]) -> Float[Array, "J N"]:
        """k(x, s) cᵀ, in blocks of rows."""
        rows = by_rows(
            lambda block: self.kernel.pairwise(block, self.points) @ self.coefficients.T, x, self.points.shape[0]
        )
        return rows.T


class FiniteExpansion(AbstractExpansion):
    """F_j = Σ_p c_jp a_p(·), a the features of a product of finite-rank kernels; exact."""

    factors: tuple[AbstractFinite, ...]
    coefficients: Float[Array, "J P"]

    @property
    def num_draws(self) -> int:
        """J."""
        return int(self.coefficients.shape[0])

    def evaluate(self, x: Float[Array, "N D"]) -> Float[Array, "J N"]:
        """C a(x)ᵀ."""
        num_features = self.coefficients.shape[1]
        rows = by_rows(lambda block: product_features(self.factors, block) @ self.coefficients.T, x, 2 * num_features)
        return rows.T


class FourierExpansion(AbstractExpansion):
    """F_j = Σ_p a_p(·) Σ_r (c_jpr cos ω_jr·x + s_jpr sin ω_jr·x).

    `frequencies` has a first axis of J, or of 1 when all draws share them.
    """

    factors: tuple[AbstractFinite, ...]
    frequencies: Float[Array, "_ R D"]
    cosine: Float[Array, "J P R"]
    sine: Float[Array, "J P R"]

    @property
    def num_draws(self) -> int:
        """J."""
        return int(self.cosine.shape[0])

    def evaluate(self, x: Float[Array, "N D"]) -> Float[Array, "J N"]:
        """All draws at once when they share frequencies, otherwise a few at a time."""
        num_frequencies = self.frequencies.shape[1]
        if self.frequencies.shape[0] == 1:
            frequencies = self.frequencies[0]
            width = max(num_frequencies, self.cosine.shape[0] * self.cosine.shape[1])
            return by_rows(lambda block: self._rows(block, frequencies, self.cosine, self.sine), x, width).T

        def one(part: tuple[Array, Array, Array]) -> Array:
            frequencies, cosine, sine = part
            rows = by_rows(lambda block: self._rows(block, frequencies, cosine[None], sine[None]), x, num_frequencies)
            return rows[:, 0]

        return _map_draws(one, (self.frequencies, self.cosine, self.sine), x.shape[0] * num_frequencies)

    def _rows(self, x: Array, frequencies: Array, cosine: Array, sine: Array) -> Float[Array, "N J"]:
        angle = x @ frequencies.T
        waves = jnp.einsum("nr,jpr->njp", jnp.cos(angle), cosine) + jnp.einsum("nr,jpr->njp", jnp.sin(angle), sine)
        return jnp.einsum("njp,np->nj", waves, product_features(self.factors, x))


def product_features(factors: tuple[AbstractFinite, ...], x: Float[Array, "N D"]) -> Float[Array, "N P"]:
    """The features of a product of finite-rank kernels: all products of one feature from each."""
    features = jnp.ones((x.shape[0], 1))
    for factor in factors:
        columns = factor.finite_features(x)
        features = (features[:, :, None] * columns[:, None, :]).reshape(x.shape[0], -1)
    return features


def _map_draws(function: Callable[[Any], Array], parts: Any, elements_per_draw: int) -> Float[Array, "J N"]:
    num_draws = jax.tree.leaves(parts)[0].shape[0]
    at_once = int(np.clip(_ELEMENTS_AT_ONCE // max(1, elements_per_draw), 1, num_draws))
    return jax.lax.map(function, parts, batch_size=at_once)


class FunctionDraws(Module):
    """J random functions: `draws(x)` gives their values, (J, N), the same at every call.

    Arguments:
        mean: what is added to every draw, a number or a callable from (N, D) to (N,).
        parts: independent expansions whose values add up.
        num_columns: D, the number of input columns.

    >>> import jax, numpy as np, kosambi as ko
    >>> prior = ko.GaussianProcess(ko.kernels.Matern52(lengthscale=0.5))
    >>> draws = prior.draw(jax.random.key(0), num_draws=3)
    >>> x = np.linspace(0.0, 1.0, 5)[:, None]
    >>> draws(x).shape
    (3, 5)
    >>> bool(np.allclose(draws(x)[:, 2:4], draws(x[2:4]), rtol=0, atol=1e-12))
    True
    """

    mean: Any
    parts: tuple[AbstractExpansion, ...]
    num_columns: int = eqx.field(static=True)

    @property
    def num_draws(self) -> int:
        """J, the number of functions."""
        return self.parts[0].num_draws

    @public
    def __call__(self, x: ArrayLike) -> Float[Array, "J N"]:
        """The values of all draws at the rows of `x` (N, D), mean included."""
        x = self._checked(x)
        return _add_mean(self._centred(x), evaluate_mean(self.mean, x))

    @public
    def centred(self, x: ArrayLike) -> Float[Array, "J N"]:
        """The values of all draws at the rows of `x` without the prior mean: draws with mean zero."""
        return self._centred(self._checked(x))

    def _checked(self, x: ArrayLike) -> Array:
        array = as_inputs("x", x, allow_empty=True)
        if array.shape[1] != self.num_columns:
            raise InputError(
                f"`x` has {array.shape[1]} columns, but these functions were drawn for {self.num_columns}. "
                f"Pass inputs with {self.num_columns} columns, or draw with `num_columns={array.shape[1]}`."
            )
        return array

    def _centred(self, x: Array) -> Array:
        if is_traced((self, x)):
            warn_once_if_single("A function draw is evaluated")
        if x.shape[0] == 0:
            return np.empty((self.num_draws, 0))
        return _evaluate(self.parts, x)


@compiled
def _evaluate(parts: tuple[AbstractExpansion, ...], x: Array) -> Array:
    total = parts[0].evaluate(x)
    for part in parts[1:]:
        total = total + part.evaluate(x)
    return total


class MeanFunction(Module):
    """A plain function as a prior mean, kept out of the leaves so that its owner stays a pytree of arrays."""

    function: Callable[[Array], ArrayLike] = eqx.field(static=True)

    def __call__(self, x: Array) -> ArrayLike:
        """The function itself."""
        return self.function(x)


@compiled
def _add_mean(values: Array, mean: Array) -> Array:
    return values + mean


def as_mean(mean: Any) -> Any:
    """A checked prior mean: a finite number as a float64 array, or a callable as it is."""
    if isinstance(mean, eqx.Module):
        return mean
    if callable(mean):
        return MeanFunction(mean)
    value = as_float_array("mean", mean)
    if value.ndim != 0 or not (is_traced(value) or np.isfinite(value)):
        raise InputError(f"`mean` must be a finite number or a callable from (N, D) to (N,). Got {mean!r}.")
    return value


def evaluate_mean(mean: Any, x: Float[Array, "N D"]) -> Float[Array, " N"]:
    """The prior mean at the rows of `x`."""
    if not callable(mean):
        return jnp.broadcast_to(mean, (x.shape[0],)) if is_traced(mean) else np.broadcast_to(mean, (x.shape[0],))
    value = as_float_array("mean(x)", mean(x))
    if value.shape != (x.shape[0],):
        raise InputError(
            f"`mean` must map inputs of shape (N, D) to N numbers. For shape {x.shape} it returned shape "
            f"{value.shape}. Return one number a row, for example `lambda x: x[:, 0]`."
        )
    return value
