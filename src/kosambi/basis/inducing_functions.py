r"""Inducing functions h_m = k(z_m, ·), the paper's second basis (appendix "PLS for other inducing functions").

    u = ⟨F − m, h⟩ = F(Z) − m(Z),   φ(x) = k(Z, Z)⁻¹ k(Z, x),   Λ = k(Z, Z)²/M

φᵀu is the orthogonal projection of F in the Hilbert space of k, not its conditional mean, and Λ takes Z for a sample
of ν: the covariance of u itself is r(Z, Z). A point that is dropped because the others determine it keeps its weight
in that sample: with k(·, z) = c_zᵀ k(Z, ·) for each point z given, kept or dropped, Λ = K T Tᵀ K where K = k(Z, Z) for
the points kept and T Tᵀ = (1/M) Σ_z c_z c_zᵀ, which is I/M when nothing is dropped.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from jaxtyping import Float

from kosambi._core.linalg import check_gram, cholesky, independent_rows
from kosambi._core.precision import at_rest, compiled, public
from kosambi._core.types import Array, ArrayLike
from kosambi.basis.base import AbstractBasis, BasisReport, as_inducing_points, as_random_element, as_tolerance
from kosambi.basis.orthonormal import DEFAULT_TOLERANCE
from kosambi.basis.points import point_report
from kosambi.basis.residual import AbstractResidual, GeneralResidual, PointResidual
from kosambi.errors import NumericalError
from kosambi.priors import AbstractPrior, GaussianRandomElement


class InducingBasis(AbstractBasis):
    """The paper's inducing functions k(z_m, ·).

    `conditional_mean` gives the weights φ of the paper's projection, which is not the conditional mean of the prior.

    Arguments:
        prior: a `GaussianRandomElement`.
        inducing_points: (M, D), taken as a sample of the measure; duplicates count as often as they occur.
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
    spread: Float[Array, "M M"]
    remainder: AbstractResidual
    num_given: int = eqx.field(static=True)
    tolerance: Array

    @public
    def __init__(
        self, prior: AbstractPrior, inducing_points: ArrayLike, *, tolerance: float = DEFAULT_TOLERANCE
    ) -> None:
        prior, points = as_inducing_points("InducingBasis", prior, inducing_points)
        self.prior = as_random_element("InducingBasis", prior)
        self.tolerance, self.num_given = as_tolerance(tolerance), int(points.shape[0])
        gram = check_gram("k(Z, Z)", self.prior.kernel(points))
        kept = independent_rows(gram, float(self.tolerance))
        if kept.size == 0:
            raise NumericalError("k(Z, Z) is zero, so the inducing points span nothing. Choose other ones.")
        self.inducing_points = np.ascontiguousarray(points[kept])
        self.gram = np.ascontiguousarray(gram[np.ix_(kept, kept)])
        advice = "Raise `tolerance`, so that more nearly dependent inducing points are dropped."
        self.factor = cholesky(self.gram, advice)
        dropped = np.setdiff1d(np.arange(points.shape[0]), kept)
        self.spread = at_rest(_spread(self.factor, gram[np.ix_(kept, dropped)], points.shape[0]))
        self.remainder = at_rest(_remainder(self.prior, self.inducing_points, self.factor, self.spread))

    @property
    def size(self) -> int:
        """M, the number of points kept."""
        return int(self.inducing_points.shape[0])

    @property
    def covariance(self) -> Float[Array, "M M"]:
        """k(Z, Z)²/M, with the weight of what was dropped."""
        root = self.gram @ self.spread
        return root @ root.T

    @property
    def report(self) -> BasisReport:
        """How many points were kept."""
        return point_report(self.num_given, self.factor, self.tolerance)

    def functions(self, x: Float[Array, "N D"]) -> Float[Array, "N M"]:
        """h(x) = k(x, Z)."""
        return self.prior.kernel.pairwise(x, self.inducing_points)

    def mean_weights(self, x: Float[Array, "N D"]) -> Float[Array, "N M"]:
        """φ(x) = k(x, Z) k(Z, Z)⁻¹."""
        return jsl.cho_solve((self.factor, True), self.functions(x).T).T

    def whitened_weights(self, x: Float[Array, "N D"]) -> Float[Array, "N M"]:
        """ψ(x) = φ(x) K T = k(x, Z) T."""
        return self.functions(x) @ self.spread

    def multiply_root(self, w: Float[Array, "... M"]) -> Float[Array, "... M"]:
        """u = K T w."""
        return w @ self.spread.T @ self.gram

    def divide_root(self, u: Float[Array, "... M"]) -> Float[Array, "... M"]:
        """w = T⁻¹ K⁻¹ u."""
        return _whiten(self.factor, self.spread, jnp.reshape(u, (-1, u.shape[-1])).T).T.reshape(u.shape)

    def from_values(self, values: Float[Array, "J Z"]) -> Float[Array, "J M"]:
        """u = F(Z), by the reproducing property."""
        return values


@compiled
def _spread(factor: Array, cross: Float[Array, "M L"], num_given: int) -> Float[Array, "M M"]:
    """T: the Cholesky factor of (1/M) Σ_z c_z c_zᵀ over the points kept (unit vectors) and the L dropped."""
    if cross.shape[1] == 0:
        return jnp.eye(cross.shape[0]) / jnp.sqrt(num_given)
    weights = jsl.cho_solve((factor, True), cross)
    return jnp.linalg.cholesky((jnp.eye(cross.shape[0]) + weights @ weights.T) / num_given)


def _whiten(factor: Array, spread: Array, columns: Float[Array, "M N"]) -> Float[Array, "M N"]:
    """T⁻¹ K⁻¹ applied to columns."""
    return jsl.solve_triangular(spread, jsl.cho_solve((factor, True), columns), lower=True)


@compiled
def _remainder(prior: GaussianRandomElement, points: Array, factor: Array, spread: Array) -> AbstractResidual:
    """What the whitened coordinates w = T⁻¹ K⁻¹ F(Z) do not explain."""
    if prior.has_points:
        return PointResidual(_whiten(factor, spread, prior.root(points)).T)
    return GeneralResidual(None, prior.pairwise(points, points))
