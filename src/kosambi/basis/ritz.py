r"""The Ritz basis: the best estimate of the eigenpairs of C inside the span of k(Z, ·).

With A₀ᵀk(Z, Z)A₀ = I, Rayleigh-Ritz diagonalises A₀ᵀ r(Z, Z) A₀ = WΛWᵀ and takes e = Aᵀk(Z, ·), A = A₀W. Then Λ is the
exact covariance of u = ⟨F − m, e⟩, and

    φ(x) = Λ⁻¹ Aᵀ r(Z, x) = E[F(x) − m(x) | u],   r − φᵀΛφ positive semi-definite.

With a measure made of points, everything comes from one singular value decomposition √p e₀(S) = U Λ^{1/2} Wᵀ, and
ψ(x) = κ(x)U: going through r(Z, Z) would square the condition number. For other measures r(Z, Z) = QτQᵀ takes the part
of κ: ψ(x) = r(x, Z) Q τ^{−1/2} P with A₀ᵀQτ^{1/2} = W Λ^{1/2} Pᵀ.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.linalg import by_rows, count_above, eigh_decreasing, thin_svd
from kosambi._core.precision import at_rest, compiled, public
from kosambi._core.types import Array, ArrayLike
from kosambi.basis.base import as_inducing_points, as_random_element, as_tolerance
from kosambi.basis.orthonormal import DEFAULT_TOLERANCE, AbstractOrthonormalBasis, orthonormal_span
from kosambi.basis.residual import PointResidual, ProjectionResidual
from kosambi.errors import NumericalError
from kosambi.priors import AbstractPrior, GaussianRandomElement
from kosambi.priors.measures import PointMeasure

# Coordinates whose prior standard deviation is below this part of the largest are lost in rounding.
_RANK_TOLERANCE = 1e-12
# Eigenvalues of r(Z, Z) below this part of the largest are rounding errors.
_DENSE_TOLERANCE = 1e-13


class RitzBasis(AbstractOrthonormalBasis):
    """Rayleigh-Ritz estimates of the eigenfunctions of the covariance operator; exact conditional means.

    Arguments:
        prior: a `GaussianRandomElement`.
        inducing_points: (M, D), anything: they need not be a sample of the measure.
        tolerance: eigenvalues of k(Z, Z) at or below this part of the largest are dropped.

    >>> import numpy as np, kosambi as ko
    >>> x = np.linspace(-3.0, 3.0, 200)[:, None]
    >>> prior = ko.GaussianRandomElement(ko.kernels.SquaredExponential(), ko.measures.empirical(x))
    >>> basis = ko.RitzBasis(prior, x[ko.inducing.greedy_variance(prior, x, 12)])
    >>> dense = np.linalg.eigvalsh(prior.kernel(x) / 200)[::-1]
    >>> (basis.eigenvalues[:4] / dense[:4]).round(4)
    array([1., 1., 1., 1.])
    """

    is_conditional = True

    # ψ(x) = basis of the prior's root at x, times this: U (S, M) for points, Q τ^{-1/2} P (Z, M) otherwise.
    projection: Float[Array, "_ M"]

    @public
    def __init__(
        self, prior: AbstractPrior, inducing_points: ArrayLike, *, tolerance: float = DEFAULT_TOLERANCE
    ) -> None:
        prior, points = as_inducing_points("RitzBasis", prior, inducing_points)
        self.prior = as_random_element("RitzBasis", prior)
        self.inducing_points = points
        self.tolerance = as_tolerance(tolerance)
        spectrum, start = orthonormal_span(self.prior, points, float(self.tolerance))
        if self.prior.has_points:
            projection, deviations, rotation = thin_svd(_point_loading(self.prior, points, start))
        else:
            values, vectors = eigh_decreasing(self.prior.covariance(points))
            root, whitening = _dense_root(values, vectors, count_above(values, _DENSE_TOLERANCE))
            right, deviations, rotation = thin_svd(root.T @ start)
            projection = whitening @ right
        kept = count_above(np.asarray(deviations), _RANK_TOLERANCE)
        if kept == 0:
            raise NumericalError(
                "The prior has no variance at the inducing points: the measure lies too far from them. "
                "Choose inducing points where the measure has weight, for example rows of the data."
            )
        transform, projection = _rotated(start, projection, rotation, kept)
        self.spectrum, self.transform, self.projection = at_rest((spectrum, transform, projection))
        self.eigenvalues = np.asarray(deviations)[:kept] ** 2
        self.remainder = PointResidual(self.projection) if self.prior.has_points else ProjectionResidual()

    def whitened_weights(self, x: Float[Array, "N D"]) -> Float[Array, "N M"]:
        """ψ(x) = κ(x)U."""
        if self.prior.has_points:
            return by_rows(lambda rows: self.prior.root(rows) @ self.projection, x, 2 * self.projection.shape[0])
        return by_rows(
            lambda rows: self.prior.pairwise(rows, self.inducing_points) @ self.projection, x, self.projection.shape[0]
        )

    def mean_weights(self, x: Float[Array, "N D"]) -> Float[Array, "N M"]:
        """φ = ψ Λ^{−1/2}."""
        return self.whitened_weights(x) / jnp.sqrt(self.eigenvalues)


@compiled
def _point_loading(prior: GaussianRandomElement, points: Array, transform: Array) -> Float[Array, "S M"]:
    """√p e₀(S), whose Gram matrix is A₀ᵀ r(Z, Z) A₀."""
    measure = prior.measure
    assert isinstance(measure, PointMeasure)
    functions = by_rows(lambda rows: prior.kernel.pairwise(rows, points) @ transform, measure.points, points.shape[0])
    return functions * jnp.sqrt(measure.weights)[:, None]


@compiled
def _dense_root(values: Array, vectors: Array, kept: int) -> tuple[Float[Array, "Z K"], Float[Array, "Z K"]]:
    """Q τ^{1/2} and Q τ^{−1/2}."""
    scale = jnp.sqrt(values[:kept])
    return vectors[:, :kept] * scale, vectors[:, :kept] / scale


@compiled
def _rotated(start: Array, projection: Array, rotation: Array, kept: int) -> tuple[Array, Array]:
    """A = A₀W and the projection, with the sign of each function fixed by its largest coefficient."""
    transform = start @ rotation[:kept].T
    largest = jnp.argmax(jnp.abs(transform), axis=0)
    signs = jnp.where(jnp.take_along_axis(transform, largest[None], axis=0) < 0, -1.0, 1.0)
    return transform * signs, projection[:, :kept] * signs
