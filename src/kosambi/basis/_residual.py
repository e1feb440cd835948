r"""What a basis leaves open: the variance of G − φᵀu(G) for a prior draw G, never negative.

With a measure made of points, G(x) = κ(x)ω and the whitened coordinates of G are w = Bᵀω (B: the *loading*), so the
variance is |κ(x) − ψ(x)Bᵀ|², a sum of squares. Otherwise w = TᵀG(Z) with Cov(w) = S, and the variance is
r(x, x) − 2 ψ·r(x, Z)T + ψSψᵀ, cut at zero against rounding.
"""

from __future__ import annotations

import abc

import jax.numpy as jnp
from jaxtyping import Float

from kosambi._types import Array
from kosambi.precision import Module
from kosambi.priors import AbstractPrior, GaussianRandomElement


class AbstractResidual(Module):
    """How the residual variance of a basis is computed."""

    @abc.abstractmethod
    def variance(
        self, prior: AbstractPrior, points: Float[Array, "Z D"], x: Float[Array, "N D"], psi: Float[Array, "N M"]
    ) -> Float[Array, " N"]:
        """The residual variance at the rows of `x`, where the whitened weights are `psi`; traceable."""

    @abc.abstractmethod
    def elements_per_row(self) -> int:
        """How many numbers `variance` holds at once for each row."""


class PointResidual(AbstractResidual):
    """For a `GaussianRandomElement` whose measure is made of points."""

    loading: Float[Array, "S M"]

    def variance(self, prior: AbstractPrior, points: Array, x: Array, psi: Array) -> Array:
        """|κ(x) − ψ(x)Bᵀ|²."""
        del points
        assert isinstance(prior, GaussianRandomElement)
        return jnp.sum(jnp.square(prior.root(x) - psi @ self.loading.T), axis=1)

    def elements_per_row(self) -> int:
        """S numbers, three times over."""
        return 3 * self.loading.shape[0]


class ProjectionResidual(AbstractResidual):
    """For a basis whose φᵀu is the conditional mean: r(x, x) − |ψ(x)|²."""

    def variance(self, prior: AbstractPrior, points: Array, x: Array, psi: Array) -> Array:
        """r(x, x) − |ψ(x)|², not below zero."""
        del points
        return jnp.maximum(prior.pointwise(x) - jnp.sum(jnp.square(psi), axis=1), 0.0)

    def elements_per_row(self) -> int:
        """Nothing wider than ψ."""
        return 1


class GeneralResidual(AbstractResidual):
    """For any φ: r(x, x) − 2 ψ·r(x, Z)T + ψSψᵀ."""

    transform: Float[Array, "Z M"]
    covariance: Float[Array, "M M"]

    def variance(self, prior: AbstractPrior, points: Array, x: Array, psi: Array) -> Array:
        """r(x, x) − 2 ψ·r(x, Z)T + ψSψᵀ, not below zero."""
        cross = prior.pairwise(x, points) @ self.transform
        correction = jnp.sum(psi * (psi @ self.covariance - 2.0 * cross), axis=1)
        return jnp.maximum(prior.pointwise(x) + correction, 0.0)

    def elements_per_row(self) -> int:
        """r(x, Z) and two matrices like ψ."""
        return 3 * self.transform.shape[0]
