r"""The exact evidence of a Gaussian likelihood and its gradient, with the factorisation on the host.

    log p(y) = log N(y; m, K),   K = r(x, x) + σ²I,
    ∂ log p = Σ_nm W_nm ∂K_nm + αᵀ∂m,   W = ½(ααᵀ − K⁻¹),   α = K⁻¹(y − m)

Where datum n counts w_n times, with S = diag(√w): S(y − m) and S r(x, x) S + σ²I stand for y − m and K, and
½ Σ_n (w_n − 1) log σ_n² + ½ log 2π Σ_n w_n for the constant; a weight of zero takes a row out.

JAX makes K and pulls W back to the hyperparameters; LAPACK factorises and inverts (potrf, potri) in N³ operations:
differentiating a Cholesky factorisation takes several times as many.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.precision import compiled, lift
from kosambi._core.types import Array
from kosambi.learning._layout import Layout, Model, rebuilt
from kosambi.learning._limits import Limits
from kosambi.likelihoods import Gaussian
from kosambi.priors import AbstractPrior
from kosambi.priors.base import evaluate_mean


class ExactEvaluator:
    """Minus the log evidence without inducing points, and minus the log of the weak prior where there is one.

    Arguments:
        layout: which parameters are free.
        given: the model whose other parameters stand still.
        prior: whose kernel and mean are replaced.
        x: (N, D).
        y: (N,), or (N, C) for C data sets with one covariance, whose evidences are added.
        bounds: the weak prior; none when None.
        known: (N,), variances of noise that is known and comes on top.
        counts: (N,), how often each datum counts; once when None.
    """

    def __init__(
        self,
        layout: Layout,
        given: Model,
        prior: AbstractPrior,
        x: Float[Array, "N D"],
        y: Float[Array, "N *C"],
        bounds: Limits | None = None,
        known: Float[Array, " N"] | None = None,
        counts: Float[Array, " N"] | None = None,
    ) -> None:
        self.layout, self.bounds, self.evidence = layout, bounds, -np.inf
        self._known = np.zeros(len(y)) if known is None else known
        self._y, self._lowest = np.asarray(y, dtype=np.float64).reshape(len(y), -1), np.inf
        counts = np.ones(len(y)) if counts is None else np.asarray(counts)
        self._root, self._excess, self._total = np.sqrt(counts), counts - 1.0, float(np.sum(counts))
        self._held = lift((given, prior, x))

    def __call__(self, vector: Float[np.ndarray, " P"]) -> tuple[float, Float[np.ndarray, " P"]]:
        """Value and gradient; not finite where K is not numerically positive definite."""
        from scipy.linalg import lapack

        gram, variance, mean = (np.asarray(part) for part in _covariance(self.layout, vector, *self._held))
        # The upper triangle is not read, and r is symmetric.
        matrix = np.array(gram * np.multiply.outer(self._root, self._root), order="F")
        matrix[np.diag_indices_from(matrix)] += variance + self._known
        factor, failed = lapack.dpotrf(matrix, lower=1, overwrite_a=1)
        if failed or not np.all(np.isfinite(np.diagonal(factor))):
            return np.inf, np.full(len(vector), np.nan)
        error = self._root[:, None] * (self._y - mean[:, None])
        number = error.shape[1]
        alpha, _ = lapack.dpotrs(factor, error, lower=1)
        log_determinant = 2.0 * np.sum(np.log(np.diagonal(factor)))
        constant = self._excess @ np.log(variance) + self._total * np.log(2.0 * np.pi)
        evidence = -0.5 * float(np.sum(error * alpha) + number * (log_determinant + constant))
        inverse, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
        # potri fills the lower triangle; K is symmetric, so what lies below the diagonal counts twice.
        weights = np.tril(alpha @ alpha.T - number * inverse)
        weights[np.diag_indices_from(weights)] *= 0.5
        slopes = np.diagonal(weights) - 0.5 * number * self._excess / variance
        weights = weights * np.multiply.outer(self._root, self._root)
        pulled = _pulled_back(self.layout, vector, *self._held, weights, slopes, self._root * np.sum(alpha, axis=1))
        value, gradient = -evidence, -np.asarray(pulled)
        if self.bounds is not None:
            away = (vector - self.bounds.centre) / self.bounds.width
            value, gradient = value + 0.5 * float(away @ away), gradient + away / self.bounds.width
        if value < self._lowest:
            self._lowest, self.evidence = value, evidence
        return value, gradient


def _parts(
    layout: Layout, vector: Array, given: Model, prior: AbstractPrior, x: Array
) -> tuple[Float[Array, "N N"], Float[Array, " N"], Float[Array, " N"]]:
    model = layout.model(vector, given)
    assert isinstance(model.likelihood, Gaussian)
    variance = jnp.broadcast_to(jnp.square(model.likelihood.noise), (x.shape[0],))
    mean = jnp.asarray(evaluate_mean(model.mean, x))
    return rebuilt(prior, model).pairwise(x, x), variance, mean


_covariance = compiled(_parts)


@compiled
def _pulled_back(
    layout: Layout,
    vector: Array,
    given: Model,
    prior: AbstractPrior,
    x: Array,
    weights: Array,
    slopes: Array,
    alpha: Array,
) -> Float[Array, " P"]:
    """The slope in the free numbers, from those in r, in the variances of the noise, and in the mean."""

    def weighted(v: Array) -> Array:
        gram, variance, mean = _parts(layout, v, given, prior, x)
        return jnp.sum(weights * gram) + jnp.sum(slopes * variance) + jnp.sum(alpha * mean)

    return jax.grad(weighted)(vector)
