r"""The part of a potential that the data make, as a function of whitened coordinates: value, gradient, curvature.

    D(w) = Σ_n weight_n c(y_n, m(x_n) + ψ(x_n)ᵀw)

for J particles at once: a value is one product with the N×M matrix ψ, a gradient two, each a matrix-matrix product over
all particles. Rows are taken in blocks, so that no more than a bounded number of latent values exists at a time. A
Gaussian likelihood leaves a quadratic in w, which never touches the data again.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.precision import Module
from kosambi._core.types import Array
from kosambi.errors import InputError
from kosambi.likelihoods import AbstractLikelihood, CustomJoint
from kosambi.likelihoods.quadrature import Rule, finer
from kosambi.target.row_blocks import sum_over_rows

# Latent values held at once: 2**25 float64 numbers are 256 MiB. With quadrature each is used many times, and blocks
# that fit a core's cache are faster.
MAX_LATENT_VALUES = 2**20
MAX_LATENT_VALUES_QUADRATURE = 2**17


def largest_slope(dtype: Any) -> float:
    """Where slopes are cut, so that their products with ψ stay finite and no gradient turns NaN as a cost overflows."""
    return 1e-4 * float(np.sqrt(np.finfo(dtype).max))


class AbstractDataTerm(Module):
    """D(w), for w of shape (J, M), or (J, M, C) with C latent functions."""

    @abc.abstractmethod
    def value(self, w: Array) -> Float[Array, " J"]:
        """D(w_j), traceable."""

    @abc.abstractmethod
    def gradient(self, w: Array) -> Array:
        """∇D(w_j), shaped like w, traceable."""

    @abc.abstractmethod
    def curvature(self, w: Array) -> Float[Array, "K K"]:
        """A positive semi-definite curvature for one w, (M,) or (M, C), with K = M·C rows in that order."""

    def search_curvature(self, w: Array) -> Float[Array, "K K"]:
        """A positive curvature for a search for the mode where the Hessian will not do."""
        return self.curvature(w)

    def hessian(self, w: Array) -> Float[Array, "K K"]:
        """The second derivatives where they are known, which need not be positive; otherwise the curvature."""
        return self.curvature(w)

    @abc.abstractmethod
    def compose(self, matrix: Float[Array, "M L"]) -> AbstractDataTerm:
        """The same data as a function of a, with w = matrix @ a."""

    def value_and_gradient(self, w: Array) -> tuple[Float[Array, " J"], Array]:
        """Both, sharing what they share."""
        return self.value(w), self.gradient(w)

    def quadrature_error(self, w: Array) -> Float[Array, " J"]:
        """An upper estimate of the error of the value; zero where nothing is integrated numerically."""
        return jnp.zeros(w.shape[0], dtype=w.dtype)


class QuadraticTerm(AbstractDataTerm):
    """½|Rw − q|² + constant: all that a Gaussian likelihood leaves of the data.

    RᵀR is the normal matrix Σ_n ψ(x_n)ψ(x_n)ᵀ/σ_n². Kept as a root, so that a small misfit is no difference of large
    numbers.
    """

    root: Float[Array, "K M"]
    aim: Float[Array, " K"]
    constant: Array

    def value(self, w: Array) -> Float[Array, " J"]:
        """½|Rw − q|² + constant."""
        return 0.5 * jnp.sum(jnp.square(w @ self.root.T - self.aim), axis=1) + self.constant

    def gradient(self, w: Array) -> Array:
        """Rᵀ(Rw − q)."""
        return (w @ self.root.T - self.aim) @ self.root

    def curvature(self, w: Array) -> Float[Array, "K K"]:
        """RᵀR."""
        del w
        return self.root.T @ self.root

    def compose(self, matrix: Float[Array, "M L"]) -> AbstractDataTerm:
        """½|R·matrix·a − q|²."""
        return QuadraticTerm(self.root @ matrix, self.aim, self.constant)


class FactorisedTerm(AbstractDataTerm):
    """A cost that is a sum over data, at a value f, or in expectation over f ~ N(·, deviation²)."""

    likelihood: AbstractLikelihood
    psi: Float[Array, "N M"]
    y: Float[Array, " N"]
    offset: Float[Array, " N"]
    weights: Float[Array, " N"] | None
    deviation: Float[Array, " N"] | None
    rule: Rule | None

    def value(self, w: Array) -> Float[Array, " J"]:
        """Σ_n weight_n c_n, in blocks of rows."""
        return self._over_blocks(lambda part: part._block_value(part._latent(w)), w, jnp.zeros(w.shape[0], w.dtype))

    def gradient(self, w: Array) -> Array:
        """Σ_n weight_n c'_n ψ(x_n), in blocks of rows."""
        return self._over_blocks(lambda part: part._block_gradient(part._latent(w)), w, jnp.zeros_like(w))

    def value_and_gradient(self, w: Array) -> tuple[Float[Array, " J"], Array]:
        """Both from one list of latent values."""

        def both(part: FactorisedTerm) -> tuple[Array, Array]:
            f = part._latent(w)
            return part._block_value(f), part._block_gradient(f)

        return self._over_blocks(both, w, (jnp.zeros(w.shape[0], w.dtype), jnp.zeros_like(w)))

    def quadrature_error(self, w: Array) -> Float[Array, " J"]:
        """Twice the larger difference to two finer rules, summed over data without cancellation."""
        if self.rule is None:
            return jnp.zeros(w.shape[0], dtype=w.dtype)
        start = jnp.zeros(w.shape[0], w.dtype)
        return self._over_blocks(lambda part: part._block_error(part._latent(w)), w, start)

    def _block_error(self, f: Array) -> Float[Array, " J"]:
        assert self.rule is not None
        value = self._block_costs(f, self.rule)
        others = (jnp.abs(value - self._block_costs(f, rule)) for rule in finer(self.rule))
        return 2.0 * jnp.sum(functools.reduce(jnp.maximum, others), axis=1)

    def curvature(self, w: Array) -> Float[Array, "K K"]:
        """Σ_n h_n ψ(x_n)ψ(x_n)ᵀ; with C latent functions the blocks h_n are C×C."""
        f = self._latent(w[None])[0]
        if self.rule is None:
            return self._spread(self.likelihood.raw_curvature(self.y, f))
        return self._spread(self.likelihood.raw_expected_curvature(self.y, f, self.deviation, self.rule))

    def search_curvature(self, w: Array) -> Float[Array, "K K"]:
        """The likelihood's own, or its expectation."""
        f = self._latent(w[None])[0]
        if self.rule is None:
            return self._spread(self.likelihood.raw_search_curvature(self.y, f))
        return self._spread(self.likelihood.raw_expected_search_curvature(self.y, f, self.deviation, self.rule))

    def hessian(self, w: Array) -> Float[Array, "K K"]:
        """Σ_n c''_n ψ(x_n)ψ(x_n)ᵀ, with the expectation of c where the cost is one."""
        f = self._latent(w[None])[0]
        if self.rule is None:
            return self._spread(self.likelihood.raw_second_derivative(self.y, f))
        return self._spread(self.likelihood.raw_expected_second_derivative(self.y, f, self.deviation, self.rule))

    def _spread(self, h: Array) -> Float[Array, "K K"]:
        """Second derivatives in the latent values, (N,) or (N, C, C), as those in w."""
        h = jnp.minimum(h, largest_slope(h.dtype))
        if self.weights is not None:
            h = h * (self.weights if h.ndim == 1 else self.weights[:, None, None])
        if h.ndim == 1:
            return (self.psi * h[:, None]).T @ self.psi
        size = self.psi.shape[1] * h.shape[1]
        return jnp.einsum("nm,ncd,nk->mckd", self.psi, h, self.psi).reshape(size, size)

    def compose(self, matrix: Float[Array, "M L"]) -> AbstractDataTerm:
        """ψ·matrix in place of ψ."""
        return self.at_rows((self.psi @ matrix, *self.rows()[1:]))

    def rows(self) -> tuple[Any, ...]:
        """Everything that has an entry for each row, features first."""
        return self.psi, self.y, self.offset, self.weights, self.deviation

    def at_rows(self, rows: tuple[Any, ...]) -> FactorisedTerm:
        """The term of other rows, given as `rows` has them."""
        psi, y, offset, weights, deviation = rows
        return FactorisedTerm(self.likelihood, psi, y, offset, weights, deviation, self.rule)

    def _latent(self, w: Array) -> Array:
        """f = m(x) + ψ(x)w, (J, N) or (J, N, C)."""
        if w.ndim == 2:
            return self.offset + w @ self.psi.T
        return self.offset[:, None] + jnp.moveaxis(jnp.moveaxis(w, 2, 1) @ self.psi.T, 1, 2)

    def _block_value(self, f: Array) -> Float[Array, " J"]:
        return jnp.sum(self._block_costs(f, self.rule), axis=1)

    def _block_costs(self, f: Array, rule: Rule | None) -> Float[Array, "J N"]:
        if rule is None:
            cost = self.likelihood.raw_cost(self.y, f)
        else:
            cost = self.likelihood.raw_expected_cost(self.y, f, self.deviation, rule)
        if self.weights is not None:
            # An observation of weight zero is absent, also where its cost is infinite.
            cost = jnp.where(self.weights > 0, self.weights * cost, 0.0)
        return cost

    def _block_gradient(self, f: Array) -> Array:
        if self.rule is None:
            slope = self.likelihood.raw_derivative(self.y, f)
        else:
            slope = self.likelihood.raw_expected_derivative(self.y, f, self.deviation, self.rule)
        limit = largest_slope(slope.dtype)
        slope = jnp.clip(slope, -limit, limit)
        if self.weights is not None:
            slope = slope * (self.weights if slope.ndim == 2 else self.weights[:, None])
        if slope.ndim == 2:
            return slope @ self.psi
        return jnp.moveaxis(jnp.moveaxis(slope, 2, 1) @ self.psi, 1, 2)

    def _over_blocks(self, function: Callable[[FactorisedTerm], Any], w: Array, start: Any) -> Any:
        """The sum of `function` over blocks of rows."""
        limit = MAX_LATENT_VALUES if self.rule is None else MAX_LATENT_VALUES_QUADRATURE
        values = w.shape[0] * self.likelihood.num_latents
        return sum_over_rows(
            lambda pieces: function(self.at_rows(pieces)),
            self.rows(),
            values,
            limit,
            start,
            is_quadrature=self.rule is not None,
        )


class JointTerm(AbstractDataTerm):
    """A loss of all latent values together."""

    likelihood: CustomJoint
    psi: Float[Array, "N M"]
    y: Float[Array, " N"]
    offset: Float[Array, " N"]

    def hessian(self, w: Array) -> Float[Array, "K K"]:
        """ψᵀ∇²ℓ_N(f) ψ, by autodiff."""
        return jax.hessian(self._loss)(w)

    def compose(self, matrix: Float[Array, "M L"]) -> AbstractDataTerm:
        """ψ·matrix in place of ψ."""
        return JointTerm(self.likelihood, self.psi @ matrix, self.y, self.offset)

    def _loss(self, w: Float[Array, " M"]) -> Array:
        return self.likelihood.loss(self.y, self.offset + self.psi @ w)

    def value(self, w: Array) -> Float[Array, " J"]:
        """ℓ_N(f_j)."""
        return jax.vmap(self._loss)(w)

    def gradient(self, w: Array) -> Array:
        """ψᵀ∇ℓ_N(f_j), by autodiff."""
        return jax.vmap(jax.grad(self._loss))(w)

    def curvature(self, w: Array) -> Float[Array, "K K"]:
        """The Hessian with its negative eigenvalues set to zero."""
        values, vectors = jnp.linalg.eigh(self.hessian(w))
        return (vectors * jnp.maximum(values, 0.0)) @ vectors.T


@jax.custom_jvp
def data_value(term: AbstractDataTerm, w: Array) -> Array:
    """D(w) with its gradient by hand: autodiff would keep every latent value, and every node of a quadrature."""
    return term.value(w)


def _data_value_jvp(primals: tuple[Any, Array], tangents: tuple[Any, Array]) -> tuple[Array, Array]:
    (term, w), (term_dot, w_dot) = primals, tangents
    zero = jax.custom_derivatives.SymbolicZero
    if not all(isinstance(leaf, zero) for leaf in jax.tree.leaves(term_dot, is_leaf=lambda v: isinstance(v, zero))):
        raise InputError("A potential is differentiable in the coordinates u only, not in the data or the model.")
    value, gradient = term.value_and_gradient(w)
    if isinstance(w_dot, zero):
        return value, jnp.zeros_like(value)
    return value, jnp.sum(gradient * w_dot, axis=tuple(range(1, w.ndim)))


data_value.defjvp(_data_value_jvp, symbolic_zeros=True)
