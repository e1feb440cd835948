r"""Inducing points: the coordinates are the values of the function, u = F(Z) − m(Z). For any prior.

    Cov(u) = r(Z, Z),   φ(x) = r(Z, Z)⁻¹ r(Z, x) = the weights of E[F(x) − m(x) | u]

It spans what `RitzBasis` does for a `GaussianRandomElement`, in other coordinates. With a measure made of points the
factor of r(Z, Z) = κ(Z)κ(Z)ᵀ comes from a QR decomposition of κ(Z)ᵀ, which does not square its condition number.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from jaxtyping import Float

from kosambi._core.checks import is_traced
from kosambi._core.linalg import (
    MAX_ELEMENTS,
    by_rows,
    check_gram,
    cholesky,
    count_above,
    independent_rows,
    is_for_host,
    one_blas_thread,
    pivoted_qr,
    positive_qr,
)
from kosambi._core.precision import at_rest, compiled, public
from kosambi._core.types import Array, ArrayLike
from kosambi.basis.base import AbstractBasis, BasisReport, Explained, as_inducing_points, as_tolerance
from kosambi.basis.residual import AbstractResidual, PointResidual, ProjectionResidual
from kosambi.errors import NumericalError
from kosambi.priors import AbstractPrior, GaussianProcess, GaussianRandomElement
from kosambi.priors.base import evaluate_mean

# Points whose variance given the others is below this part of the largest are dropped; no more than the jitter that is
# usually added in its place.
DEFAULT_TOLERANCE = 1e-6
# An exact root of r resolves standard deviations as finely as r itself resolves variances.
ROOT_TOLERANCE = 1e-16
# φᵀr(Z, Z)φ loses |φ|² times machine precision, so with an exact root points are also dropped until |φ|² is below this
# on the support of the measure; badly placed points would otherwise extrapolate with huge weights of both signs.
LARGEST_SQUARED_WEIGHT = 1e5
# How many support points that is checked on.
_CHECKED_ROWS = 500
MOST_SINGULAR_VALUES = 512
"""Points up to which the condition number is computed, and not estimated."""


class PointBasis(AbstractBasis):
    """The values of the function at the inducing points as coordinates; for either prior.

    Arguments:
        prior: a `GaussianProcess` or a `GaussianRandomElement`.
        inducing_points: (M, D). Points that the others determine are dropped; see `report`. None at all, (0, D), leave
            everything to the neighbours of `Target(potential="neighbors")`.
        tolerance: the conditional variance, as a part of the largest variance, at or below which a point is dropped;
            when None 1e-6, and 1e-16 where r has an exact root (a measure made of points) while φ stays moderate.

    >>> import kosambi as ko
    >>> prior = ko.GaussianProcess(ko.kernels.Matern52())
    >>> basis = ko.PointBasis(prior, [[0.0], [1.0], [1.0]])
    >>> basis.conditional_mean([[0.0]]).round(12) + 0.0, basis.report.dropped
    (array([[1., 0.]]), 1)
    """

    is_conditional = True

    prior: AbstractPrior
    inducing_points: Float[Array, "M D"]
    factor: Float[Array, "M M"]
    projection: Float[Array, "S M"] | None
    remainder: AbstractResidual
    num_given: int = eqx.field(static=True)
    tolerance: Array

    @public
    def __init__(self, prior: AbstractPrior, inducing_points: ArrayLike, *, tolerance: float | None = None) -> None:
        self.prior, points = as_inducing_points("PointBasis", prior, inducing_points, allow_none=True)
        element = self.prior if isinstance(self.prior, GaussianRandomElement) and self.prior.has_points else None
        if tolerance is None:
            tolerance = DEFAULT_TOLERANCE if element is None else ROOT_TOLERANCE
        self.tolerance, self.num_given = as_tolerance(tolerance), int(points.shape[0])
        kept = np.arange(0)
        if not self.num_given:
            size = None if element is None else element.measure.points.shape[0]  # type: ignore[attr-defined]
            self.factor, self.projection = np.zeros((0, 0)), None if size is None else np.zeros((size, 0))
            self.remainder = ProjectionResidual() if self.projection is None else PointResidual(self.projection)
        elif element is not None:
            root = check_gram("The root of r(Z, Z)", _root_columns(element, points))
            kept = _stable_columns(element, root, float(self.tolerance))
            _check_some(kept)
            projection, triangle = positive_qr(at_rest(root)[:, kept])
            self.projection, self.factor = at_rest(projection), at_rest(triangle.T)
            self.remainder = PointResidual(self.projection)
        else:
            gram = check_gram("r(Z, Z)", self.prior.covariance(points))
            kept = independent_rows(gram, float(self.tolerance))
            _check_some(kept)
            advice = "Raise `tolerance`, so that more nearly dependent inducing points are dropped."
            self.factor = cholesky(gram[np.ix_(kept, kept)], advice)
            self.projection, self.remainder = None, ProjectionResidual()
        self.inducing_points = np.ascontiguousarray(points[kept])

    @property
    def size(self) -> int:
        """M, the number of points kept."""
        return int(self.inducing_points.shape[0])

    @property
    def covariance(self) -> Float[Array, "M M"]:
        """r(Z, Z)."""
        return self.factor @ self.factor.T

    @property
    def report(self) -> BasisReport:
        """How many points were kept."""
        return point_report(self.num_given, self.factor, self.tolerance)

    def functions(self, x: Float[Array, "N D"]) -> Float[Array, "N M"]:
        """r(x, Z): the functions that represent the coordinates as inner products."""
        return self.prior.pairwise(x, self.inducing_points)

    def whitened_weights(self, x: Float[Array, "N D"]) -> Float[Array, "N M"]:
        """ψ(x) = r(x, Z) L⁻ᵀ."""
        if not self.size:
            return jnp.zeros((x.shape[0], 0), dtype=jnp.asarray(x).dtype)
        if self.projection is None:
            return jsl.solve_triangular(self.factor, self.functions(x).T, lower=True).T
        assert isinstance(self.prior, GaussianRandomElement)
        return _project(self.prior, self.projection, x)

    @property
    def host_factor(self) -> Float[np.ndarray, "M M"] | None:
        """L, unless it is being traced."""
        return self.factor if isinstance(self.factor, np.ndarray) else None

    def explained_on_host(self, x: Float[Array, "N D"]) -> Explained | None:
        """For a `GaussianProcess`, whose covariances take no integral, while there are not too many numbers."""
        factor = self.host_factor
        number = len(x) * self.size
        is_usual = isinstance(self.prior, GaussianProcess) and number <= MAX_ELEMENTS and is_for_host(number)
        if factor is None or not is_usual or is_traced((self.prior, x)):
            return None
        variance = np.asarray(self.prior.variance(x)) if len(x) else np.empty(0)
        if not self.size:
            return Explained(np.zeros((len(x), 0)), variance, variance)
        from scipy.linalg import solve_triangular  # here, because it doubles what `import kosambi` adds to `import jax`

        cross = np.asarray(self.prior.covariance(self.inducing_points, x))
        with one_blas_thread(self.size):
            psi = np.ascontiguousarray(solve_triangular(factor, cross, lower=True, check_finite=False).T)
        return Explained(psi, variance - np.einsum("nm,nm->n", psi, psi), variance)

    def mean_weights(self, x: Float[Array, "N D"]) -> Float[Array, "N M"]:
        """φ(x) = ψ(x) L⁻¹."""
        return jsl.solve_triangular(self.factor, self.whitened_weights(x).T, lower=True, trans=1).T

    def multiply_root(self, w: Float[Array, "... M"]) -> Float[Array, "... M"]:
        """u = L w."""
        return w @ self.factor.T

    def divide_root(self, u: Float[Array, "... M"]) -> Float[Array, "... M"]:
        """w = L⁻¹ u."""
        flat = jnp.reshape(u, (-1, u.shape[-1]))
        return jsl.solve_triangular(self.factor, flat.T, lower=True).T.reshape(u.shape)

    def from_values(self, values: Float[Array, "J Z"]) -> Float[Array, "J M"]:
        """u = F(Z)."""
        return values


def point_report(num_given: int, factor: Float[Array, "M M"], tolerance: Array) -> BasisReport:
    """The report of a basis of points whose covariance, or Gram matrix, has this Cholesky factor."""
    given, kept = num_given, int(factor.shape[0])
    return BasisReport(given, kept, given - kept, float(tolerance), 0.0, _condition(np.asarray(factor)) ** 2)


def _condition(factor: Float[np.ndarray, "M M"]) -> float:
    """The condition number of a triangular matrix; of many rows LAPACK's estimate, within a small factor of it."""
    if not len(factor):
        return 1.0
    if len(factor) <= MOST_SINGULAR_VALUES:
        singular = np.linalg.svd(factor, compute_uv=False)
        return float(singular[0] / singular[-1])
    from scipy.linalg import lapack

    reciprocal, _ = lapack.dtrcon(factor, norm="1", uplo="L")
    return 1.0 / max(float(reciprocal), float(np.finfo(np.float64).tiny))


@compiled
def _root_columns(prior: GaussianRandomElement, points: Array) -> Float[Array, "S Z"]:
    return prior.root(points).T


def _stable_columns(prior: GaussianRandomElement, root: Float[Array, "S Z"], tolerance: float) -> np.ndarray:
    """The inducing points to keep, in increasing order: those least explained by the others come first."""
    basis, triangle, pivots = pivoted_qr(root)
    count = count_above(np.abs(np.diagonal(triangle)) ** 2, tolerance)
    support = prior.measure.points  # type: ignore[attr-defined]
    psi = np.asarray(_project(prior, basis, support[:: -(-len(support) // _CHECKED_ROWS)]))

    def is_moderate(size: int) -> bool:
        phi = np.asarray(_solve_upper(triangle[:size, :size], psi[:, :size].T))
        return bool(np.max(np.sum(phi**2, axis=0)) <= LARGEST_SQUARED_WEIGHT)

    while count > 1 and not is_moderate(count):
        count -= 1
    return np.sort(pivots[:count])


@compiled
def _solve_upper(triangle: Array, right: Array) -> Array:
    return jsl.solve_triangular(triangle, right)


@compiled
def _project(prior: GaussianRandomElement, basis: Array, x: Array) -> Float[Array, "N K"]:
    return by_rows(lambda rows: prior.root(rows) @ basis, x, 2 * basis.shape[0])


def _check_some(kept: np.ndarray) -> None:
    if kept.size == 0:
        raise NumericalError(
            "The prior has no variance at the inducing points. "
            "Choose inducing points where it has some, for example rows of the data."
        )


JITTER = 1e-8
"""ε as a part of the mean prior variance at the inducing points."""
SMALLEST_RESIDUAL = 1e-10
"""Residual variances below this part of the prior variance are rounding errors, and a square root has no slope at 0."""


class Features(NamedTuple):
    """What the inducing points say about the function at N inputs."""

    psi: Float[Array, "N M"]
    """Whitened features: m(x_n) + ψ(x_n)ᵀw is the conditional mean."""
    residual: Float[Array, " N"]
    """σ_n², the residual variance."""
    offset: Float[Array, " N"]
    """The prior mean m(x_n)."""


def whitened_features(prior: AbstractPrior, x: Float[Array, "N D"], points: Float[Array, "M D"]) -> Features:
    """ψ, σ² and m at the rows of `x`; traceable and differentiable, O(NM²), and O(NSM) with a measure of S points."""
    gram = prior.pairwise(points, points)
    scale = jnp.mean(jnp.diagonal(gram))
    # In float32, under a trace of the caller's, more is needed.
    jitter = max(JITTER, 10.0 * float(np.finfo(gram.dtype).eps))
    factor = jnp.linalg.cholesky(gram + jitter * scale * jnp.eye(points.shape[0], dtype=gram.dtype))
    psi = jsl.solve_triangular(factor, prior.pairwise(x, points).T, lower=True).T
    variance = prior.pointwise(x)
    residual = jnp.maximum(variance - jnp.sum(jnp.square(psi), axis=1), SMALLEST_RESIDUAL * variance)
    return Features(psi, residual, jnp.asarray(evaluate_mean(prior.mean, x)))


def whitened_on_host(
    prior: AbstractPrior, x: Float[np.ndarray, "N D"], points: Float[np.ndarray, "M D"]
) -> Float[np.ndarray, "N M"]:
    """ψ alone, with LAPACK: nothing but the kernel is compiled for a number of points that is used once."""
    import scipy.linalg  # here, because it doubles what `import kosambi` adds to `import jax`

    gram = np.array(prior.covariance(points))
    gram[np.diag_indices_from(gram)] += JITTER * np.mean(np.diag(gram))
    factor = scipy.linalg.cholesky(gram, lower=True, overwrite_a=True, check_finite=False)
    cross = np.array(prior.covariance(points, x))
    return scipy.linalg.solve_triangular(factor, cross, lower=True, overwrite_b=True, check_finite=False).T
