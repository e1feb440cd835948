r"""The collapsed bound of Gaussian noise with inducing points, on all rows, and its gradient by formula.

With ψ_n = L⁻¹r(Z, x_n), LLᵀ = r(Z, Z) + εI, e = y − μ, precisions p_n = w_n/σ_n² and

    A = Σ_n p_n ψ_nψ_nᵀ,   b = Σ_n p_n ψ_n e_n,   B = I + A,   ŵ = B⁻¹b

the bound (Titsias 2009) is

    F = −½ [log|B| + Σ_n w_n log 2πσ_n² + Σ_n p_n e_n² − bᵀŵ + Σ_n p_n (r(x_n, x_n) − |ψ_n|²)]

and, since it depends on Z and the kernel through r(x, Z) r(Z, Z)⁻¹ r(Z, x) alone, no factor has to be differentiated:

    ∂F/∂r(Z, x_n) = G_n = p_n L⁻ᵀ[(I − B⁻¹)ψ_n + ŵ(e_n − ψ_nᵀŵ)],   ∂F/∂r(Z, Z) = −½ Σ_n G_n (L⁻ᵀψ_n)ᵀ.

Rows are taken in chunks; sums are in float64; ψ is kept between the two passes where it fits in memory. An evaluation
costs 4NM² operations, all of them in products of matrices.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.linalg import all_blas_threads
from kosambi._core.precision import compiled, lift
from kosambi._core.types import Array
from kosambi.basis.points import JITTER
from kosambi.learning._layout import Layout, Model, rebuilt
from kosambi.learning._limits import Limits
from kosambi.likelihoods import Gaussian
from kosambi.priors import AbstractPrior
from kosambi.priors.base import evaluate_mean

CHUNK = 4096
"""Rows at a time, where there are so many."""
KEPT_BYTES = 2**30
"""Memory that ψ may take between the passes; beyond it is computed again."""


@dataclasses.dataclass(frozen=True)
class _Chunk:
    """Rows, those that fill it up having weight zero."""

    x: Array
    y: Float[np.ndarray, " n"]
    weights: Float[np.ndarray, " n"]
    given: Model


class CollapsedEvaluator:
    """Minus the collapsed bound and minus the log of the weak prior, in the free numbers and the inducing points.

    Arguments:
        layout: which parameters are free.
        given: the model whose other parameters stand still; its likelihood is `Gaussian`.
        prior: whose kernel and mean are replaced.
        x: (N, D).
        y: (N,).
        counts: (N,), how often each observation counts; once when None.
        bounds: the weak prior.
    """

    def __init__(
        self,
        layout: Layout,
        given: Model,
        prior: AbstractPrior,
        x: Float[Array, "N D"],
        y: Float[Array, " N"],
        counts: Float[Array, " N"] | None,
        bounds: Limits,
    ) -> None:
        self.layout, self.bounds, self.evidence = layout, bounds, -np.inf
        self._lowest, self._given, self._prior = np.inf, lift(given), lift(prior)
        size = min(CHUNK, len(x))
        weights = np.ones(len(x)) if counts is None else np.asarray(counts)
        self._chunks = []
        for start in range(0, len(x), size):
            rows = np.arange(start, min(start + size, len(x)))
            filled = np.concatenate([rows, np.repeat(rows[:1], size - len(rows))])
            own = np.where(np.arange(size) < len(rows), weights[filled], 0.0)
            model = given._replace(likelihood=given.likelihood.at_rows(filled))
            self._chunks.append(_Chunk(lift(np.asarray(x)[filled]), np.asarray(y)[filled], own, lift(model)))

    @all_blas_threads()
    def __call__(
        self, vector: Float[np.ndarray, " P"], points: Float[np.ndarray, "M D"]
    ) -> tuple[float, Float[np.ndarray, " P"], Float[np.ndarray, "M D"]]:
        """Value and both gradients; not finite where r(Z, Z) is not numerically positive definite."""
        from scipy.linalg import blas, lapack

        failed = np.inf, np.full(len(vector), np.nan), np.full(points.shape, np.nan)
        gram = np.array(_gram(self.layout, vector, self._given, self._prior, points), order="F")
        gram[np.diag_indices_from(gram)] += JITTER * np.mean(np.diagonal(gram))
        factor, status = lapack.dpotrf(gram, lower=1, clean=1)
        if status or not np.all(np.isfinite(np.diagonal(factor))):
            return failed
        size, rows = len(points), len(self._chunks) * len(self._chunks[0].y)
        keeps = 8 * rows * size <= KEPT_BYTES
        normal, aim, misfit = np.zeros((size, size), order="F"), np.zeros(size), 0.0
        kept, parts = [], []
        for chunk in self._chunks:
            psi, error, variance, noise = self._features(chunk, vector, points, factor)
            precision = chunk.weights / noise
            normal = blas.dsyrk(1.0, psi * np.sqrt(precision), beta=1.0, c=normal, lower=1, overwrite_c=1)
            aim += psi @ (precision * error)
            residual = variance - np.einsum("mn,mn->n", psi, psi)
            misfit += float(precision @ np.square(error) + chunk.weights @ np.log(2.0 * np.pi * noise))
            parts.append((precision, residual))
            kept.append(psi if keeps else None)
        normal = np.tril(normal) + np.tril(normal, -1).T
        root, status = lapack.dpotrf(normal + np.eye(size), lower=1)
        if status:
            return failed
        inverse, _ = lapack.dpotri(root, lower=1)
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        best = inverse @ aim
        spread = sum(float(precision @ residual) for precision, residual in parts)
        log_determinant = 2.0 * float(np.sum(np.log(np.diagonal(root))))
        evidence = -0.5 * (log_determinant + misfit - float(aim @ best) + spread)
        # L⁻ᵀ(I − B⁻¹), L⁻ᵀŵ, and what r(Z, Z) gets.
        shrink = np.eye(size) - inverse
        load = blas.dtrsm(1.0, factor, np.array(shrink, order="F"), lower=1, trans_a=1)
        turned = blas.dtrsm(1.0, factor, best[:, None], lower=1, trans_a=1)[:, 0]
        inner = shrink @ normal + np.multiply.outer(best, aim - normal @ best)
        both = blas.dtrsm(1.0, factor, np.array(inner, order="F"), lower=1, trans_a=1)
        both = blas.dtrsm(1.0, factor, both, side=1, lower=1)
        gram_slope = -0.25 * (both + both.T)
        # Σ_n p_n ψ_nᵀB⁻¹ψ_n, shared out among the rows: one noise for all is what is learned.
        explained = (size - float(np.trace(inverse))) / rows
        slope, push = (
            np.array(part) for part in _gram_pulled(self.layout, vector, self._given, self._prior, points, gram_slope)
        )
        for chunk, known, (precision, residual) in zip(self._chunks, kept, parts, strict=True):
            psi = self._features(chunk, vector, points, factor)[0] if known is None else known
            error, noise = (np.asarray(v) for v in _offsets(self.layout, vector, chunk.given, chunk.x, chunk.y))
            miss = error - best @ psi
            cross = (load @ psi + np.multiply.outer(turned, miss)) * precision
            noise_slope = 0.5 * (precision * (np.square(miss) + residual) - chunk.weights + explained) / noise
            slopes = cross, -0.5 * precision, precision * miss, noise_slope
            pulled = _pulled(self.layout, vector, chunk.given, self._prior, points, chunk.x, slopes)
            slope, push = slope + np.asarray(pulled[0]), push + np.asarray(pulled[1])
        away = (vector - self.bounds.centre) / self.bounds.width
        value = -evidence + 0.5 * float(away @ away)
        if value < self._lowest:
            self._lowest, self.evidence = value, evidence
        return value, away / self.bounds.width - slope, -push

    def _features(
        self, chunk: _Chunk, vector: np.ndarray, points: np.ndarray, factor: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """ψ (M, n), errors, prior variances, variances of the noise."""
        from scipy.linalg import blas

        parts = _cross(self.layout, vector, chunk.given, self._prior, points, chunk.x)
        cross, variance = np.array(parts[0], order="F"), np.asarray(parts[1])
        psi = blas.dtrsm(1.0, factor, cross, lower=1, overwrite_b=1)
        error, noise = (np.asarray(v) for v in _offsets(self.layout, vector, chunk.given, chunk.x, chunk.y))
        return psi, error, variance, noise


def _kernels(layout: Layout, vector: Array, given: Model, prior: AbstractPrior, z: Array, x: Array) -> Any:
    one = rebuilt(prior, layout.model(vector, given))
    return one.pairwise(z, x), one.pointwise(x)


_cross = compiled(_kernels)


@compiled
def _gram(layout: Layout, vector: Array, given: Model, prior: AbstractPrior, z: Array) -> Array:
    return rebuilt(prior, layout.model(vector, given)).pairwise(z, z)


@compiled
def _gram_pulled(
    layout: Layout, vector: Array, given: Model, prior: AbstractPrior, points: Array, slope: Array
) -> tuple[Array, Array]:
    """ε is a part of the mean variance, so that the diagonal of the slope counts for all of them."""

    def weighted(v: Array, z: Array) -> Array:
        gram = rebuilt(prior, layout.model(v, given)).pairwise(z, z)
        return jnp.sum(slope * gram) + JITTER * jnp.trace(slope) * jnp.mean(jnp.diagonal(gram))

    return jax.grad(weighted, argnums=(0, 1))(vector, points)


def _offset_parts(layout: Layout, vector: Array, given: Model, x: Array) -> tuple[Array, Array]:
    model = layout.model(vector, given)
    assert isinstance(model.likelihood, Gaussian)
    noise = jnp.broadcast_to(jnp.square(model.likelihood.noise), (x.shape[0],))
    return jnp.broadcast_to(jnp.asarray(evaluate_mean(model.mean, x)), noise.shape), noise


@compiled
def _offsets(layout: Layout, vector: Array, given: Model, x: Array, y: Array) -> tuple[Array, Array]:
    mean, noise = _offset_parts(layout, vector, given, x)
    return y - mean, noise


@compiled
def _pulled(
    layout: Layout,
    vector: Array,
    given: Model,
    prior: AbstractPrior,
    points: Array,
    x: Array,
    slopes: tuple[Array, Array, Array, Array],
) -> tuple[Array, Array]:
    """The slopes in the free numbers and the points, from those in r(Z, x), r(x, x), μ and the noise."""

    def weighted(v: Array, z: Array) -> Array:
        cross, variance = _kernels(layout, v, given, prior, z, x)
        mean, noise = _offset_parts(layout, v, given, x)
        parts = zip(slopes, (cross, variance, mean, noise), strict=True)
        return sum(jnp.sum(slope * part) for slope, part in parts)

    return jax.grad(weighted, argnums=(0, 1))(vector, points)
