r"""Inducing functions h_m = k(z_m, ·), the paper's second basis (appendix "PLS for other inducing functions").

    u = ⟨F − m, h⟩ = F(Z) − m(Z),   φ(x) = k(Z, Z)⁻¹ k(Z, x),   Λ = k(Z, Z)²/M

φᵀu is the orthogonal projection of F in the Hilbert space of k, not its conditional mean, and Λ takes Z for a sample
of ν: the covariance of u itself is r(Z, Z).
"""

from __future__ import annotations

import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from jaxtyping import Float

from kosambi._types import Array, ArrayLike
from kosambi.basis._base import AbstractBasis, BasisReport, as_inducing_points, as_random_element, as_tolerance
from kosambi.basis._residual import AbstractResidual, GeneralResidual, PointResidual
from kosambi.basis.points import DEFAULT_TOLERANCE
from kosambi.errors import NumericalError
from kosambi.linalg import cholesky, independent_rows
from kosambi.precision import at_rest, compiled, public
from kosambi.priors import AbstractPrior, GaussianRandomElement


class InducingBasis(AbstractBasis):
    """The paper's inducing functions k(z_m, ·).

    Arguments:
        prior: a `GaussianRandomElement`.
        inducing_points: (M, D), taken as a sample of the measure.
        tolerance: a point whose k(z, z) given the others is at or below this part of the largest is dropped.

    >>> import kosambi as ko
    >>> z = [[0.0], [1.0], [2.0]]
    >>> prior = ko.GaussianRandomElement(ko.kernels.Matern32(), ko.measures.empirical(z))
    >>> basis = ko.InducingBasis(prior, z)
    >>> bool(abs(basis.covariance - prior.kernel(z) @ prior.kernel(z) / 3).max() < 1e-14)
    True
    """

    is_conditional = False

    prior: GaussianRandomElement
    inducing_points: Float[Array, "M D"]
    gram: Float[Array, "M M"]
    factor: Float[Array, "M M"]
    remainder: AbstractResidual
    num_given: Array
    tolerance: Array

    @public
    def __init__(
        self, prior: AbstractPrior, inducing_points: ArrayLike, *, tolerance: float = DEFAULT_TOLERANCE
    ) -> None:
        prior, points = as_inducing_points("InducingBasis", prior, inducing_points)
        self.prior = as_random_element("InducingBasis", prior)
        self.tolerance, self.num_given = as_tolerance(tolerance), np.asarray(points.shape[0])
        gram = self.prior.kernel(points)
        kept = independent_rows(gram, float(self.tolerance))
        if kept.size == 0:
            raise NumericalError("k(Z, Z) is zero, so the inducing points span nothing. Choose other ones.")
        self.inducing_points = np.ascontiguousarray(points[kept])
        self.gram = np.ascontiguousarray(gram[np.ix_(kept, kept)])
        advice = "Raise `tolerance`, so that more nearly dependent inducing points are dropped."
        self.factor = cholesky(self.gram, advice)
        self.remainder = at_rest(_remainder(self.prior, self.inducing_points, self.factor))

    @property
    def size(self) -> int:
        """M, the number of points kept."""
        return int(self.inducing_points.shape[0])

    @property
    def covariance(self) -> Float[Array, "M M"]:
        """k(Z, Z)²/M."""
        return self.gram @ self.gram / self.size

    @property
    def report(self) -> BasisReport:
        """How many points were kept."""
        given = int(self.num_given)
        singular = np.linalg.svd(np.asarray(self.factor), compute_uv=False)
        condition = float((singular[0] / singular[-1]) ** 2)
        return BasisReport(given, self.size, given - self.size, float(self.tolerance), 0.0, condition)

    def functions(self, x: Float[Array, "N D"]) -> Float[Array, "N M"]:
        """h(x) = k(x, Z)."""
        return self.prior.kernel.pairwise(x, self.inducing_points)

    def mean_weights(self, x: Float[Array, "N D"]) -> Float[Array, "N M"]:
        """φ(x) = k(x, Z) k(Z, Z)⁻¹."""
        return jsl.cho_solve((self.factor, True), self.functions(x).T).T

    def whitened_weights(self, x: Float[Array, "N D"]) -> Float[Array, "N M"]:
        """ψ(x) = φ(x) k(Z, Z)/√M = k(x, Z)/√M."""
        return self.functions(x) / np.sqrt(self.size)

    def colour(self, w: Float[Array, "... M"]) -> Float[Array, "... M"]:
        """U = k(Z, Z) w/√M."""
        return w @ self.gram / np.sqrt(self.size)

    def whiten(self, u: Float[Array, "... M"]) -> Float[Array, "... M"]:
        """W = √M k(Z, Z)⁻¹ u."""
        flat = jnp.reshape(u, (-1, u.shape[-1]))
        return np.sqrt(self.size) * jsl.cho_solve((self.factor, True), flat.T).T.reshape(u.shape)

    def from_values(self, values: Float[Array, "J Z"]) -> Float[Array, "J M"]:
        """U = F(Z), by the reproducing property."""
        return values


@compiled
def _remainder(prior: GaussianRandomElement, points: Array, factor: Array) -> AbstractResidual:
    """W = √M k(Z, Z)⁻¹F(Z)."""
    scale = jnp.sqrt(points.shape[0])
    if prior.has_points:
        return PointResidual(scale * jsl.cho_solve((factor, True), prior.root(points)).T)
    whitening = scale * jsl.cho_solve((factor, True), jnp.eye(points.shape[0]))
    return GeneralResidual(whitening, whitening.T @ prior.pairwise(points, points) @ whitening)
