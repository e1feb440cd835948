r"""The residual variance of a basis, which its coordinates do not explain: that of G − φᵀu(G) for a prior draw G.

With a measure made of points, G(x) = κ(x)ω and the whitened coordinates of G are w = Bᵀω (B: the *loading*), so the
variance is |κ(x) − ψ(x)Bᵀ|², a sum of squares. Otherwise it is r(x, x) − |ψ(x)|² where φᵀu is the conditional mean, and
r(x, x) − 2 φ·r(x, Z)A + φSφᵀ, with u = AᵀG(Z) and S = Cov(u), where it is not; rounding can leave these two a little
below zero.
"""

from __future__ import annotations

import abc
from typing import Any

import jax.numpy as jnp
from jaxtyping import Float

from kosambi._core.precision import Module
from kosambi._core.types import Array


class AbstractResidual(Module):
    """How the residual variance of a basis is computed."""

    @abc.abstractmethod
    def variance(self, basis: Any, x: Float[Array, "N D"]) -> Float[Array, " N"]:
        """The residual variance of `basis` at the rows of `x`, traceable."""

    @abc.abstractmethod
    def elements_per_row(self, basis: Any) -> int:
        """How many numbers `variance` holds at once for each row."""


class PointResidual(AbstractResidual):
    """For a `GaussianRandomElement` whose measure is made of points."""

    loading: Float[Array, "S M"]

    def variance(self, basis: Any, x: Array) -> Array:
        """|κ(x) − ψ(x)Bᵀ|²."""
        return jnp.sum(jnp.square(basis.prior.root(x) - basis.whitened_weights(x) @ self.loading.T), axis=1)

    def elements_per_row(self, basis: Any) -> int:
        """S numbers, three times over."""
        del basis
        return 3 * self.loading.shape[0]


class ProjectionResidual(AbstractResidual):
    """For a basis whose φᵀu is the conditional mean: r(x, x) − |ψ(x)|²."""

    def variance(self, basis: Any, x: Array) -> Array:
        """r(x, x) − |ψ(x)|²."""
        return basis.prior.pointwise(x) - jnp.sum(jnp.square(basis.whitened_weights(x)), axis=1)

    def elements_per_row(self, basis: Any) -> int:
        """r(x, Z), ψ, and its squares."""
        return 3 * basis.inducing_points.shape[0]


class GeneralResidual(AbstractResidual):
    """For any φ: r(x, x) − 2 φ·r(x, Z)A + φSφᵀ. `transform` is A, the identity when None."""

    transform: Float[Array, "Z M"] | None
    covariance: Float[Array, "M M"]

    def variance(self, basis: Any, x: Array) -> Array:
        """r(x, x) − 2 φ·r(x, Z)A + φSφᵀ."""
        cross, phi = basis.prior.pairwise(x, basis.inducing_points), basis.mean_weights(x)
        if self.transform is not None:
            cross = cross @ self.transform
        return basis.prior.pointwise(x) + jnp.sum(phi * (phi @ self.covariance - 2.0 * cross), axis=1)

    def elements_per_row(self, basis: Any) -> int:
        """r(x, Z) and three matrices like φ."""
        return 4 * basis.inducing_points.shape[0]
