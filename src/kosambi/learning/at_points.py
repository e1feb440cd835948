r"""q(w) of the bound with inducing points, at given hyperparameters and points, and the gradient of the bound.

With ψ_n = L⁻¹r(Z, x_n), LLᵀ = r(Z, Z) + εI, and sites W and λ (`kosambi.learning.sites`), q(w) = N(ŵ, V) with

    V = (I + Σ_n W_n ψ_nψ_nᵀ)⁻¹,   ŵ = V Σ_n (λ_n − W_n μ_n) ψ_n

and f_n ~ N(μ_n + ψ_nᵀŵ, ψ_nᵀVψ_n + r(x_n, x_n) − |ψ_n|²) under q. The bound is

    F = −Σ_n E_q c(y_n, f_n) − ½ [tr V + |ŵ|² − M − log|V|],

for Gaussian noise the collapsed bound (Titsias 2009), whose sites are the observations themselves. At the best sites
its gradient is that of Gaussian observations with precisions W; with g_n = W_n E_q f_n − λ_n, which is E_q c' there,

    ∂F/∂r(Z, x_n) = L⁻ᵀ[W_n (I − V)ψ_n − g_n ŵ],   ∂F/∂r(x_n, x_n) = −½W_n,   ∂F/∂μ_n = −g_n,
    ∂F/∂r(Z, Z) = −½ L⁻ᵀ[(I − V) Σ_n W_n ψ_nψ_nᵀ + ŵŵᵀ] L⁻¹,   ∂F/∂(likelihood) = −Σ_n E_q ∂c.

It is symmetric by construction, which matters: L⁻¹ is large, and what does not cancel is far larger than the gradient.
A site that cannot be negative leaves out what v_n adds where E_q c'' is (an outlier of Student's distribution), by
which the gradient is off by some percent at worst.
Rows are taken in chunks; sums are in float64; ψ is kept between the passes where it fits in memory.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.precision import compiled
from kosambi._core.types import Array
from kosambi.basis.points import JITTER
from kosambi.learning import sites as _sites
from kosambi.learning.layout import Layout, Model, rebuilt
from kosambi.learning.sites import Fitted, Sites, expected, expected_cost, first_sites
from kosambi.priors import AbstractPrior
from kosambi.priors.base import evaluate_mean

KEPT_BYTES = 2**30
"""Memory that ψ may take between the passes; beyond it is computed again."""


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Rows, those that fill it up having weight zero."""

    rows: slice
    """Where they stand in what is kept for each row."""
    x: Array
    y: Array
    counts: Array
    given: Model


class _Latent(NamedTuple):
    """q(w) of one latent function."""

    mean: Float[np.ndarray, " M"]
    covariance: Float[np.ndarray, "M M"]
    normal: Float[np.ndarray, "M M"]
    """Σ_n W_n ψ_nψ_nᵀ."""


class NormalAtPoints:
    """q for one set of hyperparameters and points, as a function of the sites.

    Arguments:
        layout: which parameters are free.
        vector: their values.
        given: the model whose other parameters stand still.
        prior: whose kernel and mean are replaced.
        chunks: the rows.
        points: Z.
        factor: L.
    """

    def __init__(
        self,
        layout: Layout,
        vector: Float[np.ndarray, " P"],
        given: Model,
        prior: AbstractPrior,
        chunks: list[Chunk],
        points: Float[np.ndarray, "M D"],
        factor: Float[np.ndarray, "M M"],
    ) -> None:
        self.layout, self.prior, self.given, self.chunks = layout, prior, given, chunks
        self.vector, self.points, self.factor = vector, points, factor
        self.size, self.num_rows = len(points), len(self.chunks) * self.chunks[0].y.shape[0]
        self._keeps = 8 * self.num_rows * self.size <= KEPT_BYTES
        self._kept: dict[int, np.ndarray] = {}
        self.mean, self.variance, self.explained = (np.empty(self.num_rows) for _ in range(3))
        self.likelihoods = [self.layout.model(vector, chunk.given).likelihood for chunk in self.chunks]
        for chunk in self.chunks:
            offset, variance = _offsets(self.layout, vector, chunk.given, self.prior, chunk.x)
            self.mean[chunk.rows], self.variance[chunk.rows] = np.asarray(offset), np.asarray(variance)
            psi = self.features(chunk)
            self.explained[chunk.rows] = np.einsum("mn,mn->n", psi, psi)

    @classmethod
    def of(
        cls,
        layout: Layout,
        vector: Float[np.ndarray, " P"],
        given: Model,
        prior: AbstractPrior,
        chunks: list[Chunk],
        points: Float[np.ndarray, "M D"],
    ) -> NormalAtPoints | None:
        """None where r(Z, Z) has no factor."""
        from scipy.linalg import lapack

        gram = np.array(_gram(layout, vector, given, prior, points), order="F")
        gram[np.diag_indices_from(gram)] += JITTER * np.mean(np.diagonal(gram))
        factor, status = lapack.dpotrf(gram, lower=1, clean=1)
        if status or not np.all(np.isfinite(np.diagonal(factor))):
            return None
        return cls(layout, vector, given, prior, chunks, points, factor)

    def features(self, chunk: Chunk) -> Float[np.ndarray, "M n"]:
        """ψ of the rows of a chunk."""
        from scipy.linalg import blas

        if (known := self._kept.get(chunk.rows.start)) is not None:
            return known
        cross = np.array(_cross(self.layout, self.vector, self.given, self.prior, self.points, chunk.x), order="F")
        psi = blas.dtrsm(1.0, self.factor, cross, lower=1, overwrite_b=1)
        if self._keeps:
            self._kept[chunk.rows.start] = psi
        return psi

    def first(self) -> Sites:
        """Sites to begin with."""
        parts = [
            first_sites(own, chunk.y, chunk.counts, self.mean[chunk.rows], self.variance[chunk.rows])
            for own, chunk in zip(self.likelihoods, self.chunks, strict=True)
        ]
        return Sites(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def fitted(self, sites: Sites) -> Fitted:
        """q for these sites; see `kosambi.learning.sites.Fitted`."""
        from scipy.linalg import blas, lapack

        number = sites.precision.shape[1]
        mean, variance, slope, curvature = (np.empty((self.num_rows, number)) for _ in range(4))
        latents, divergence = [], 0.0
        for c in range(number):
            normal, aim = np.zeros((self.size, self.size), order="F"), np.zeros(self.size)
            for chunk in self.chunks:
                psi, precision = self.features(chunk), sites.precision[chunk.rows, c]
                normal = blas.dsyrk(1.0, psi * np.sqrt(precision), beta=1.0, c=normal, lower=1, overwrite_c=1)
                aim += psi @ (sites.shift[chunk.rows, c] - precision * self.mean[chunk.rows])
            normal = np.tril(normal) + np.tril(normal, -1).T
            root, status = lapack.dpotrf(normal + np.eye(self.size), lower=1)
            if status or not np.all(np.isfinite(np.diagonal(root))):
                return Fitted(sites, -np.inf, mean, variance, slope, curvature, np.inf, None)
            log_determinant = 2.0 * float(np.sum(np.log(np.diagonal(root))))
            covariance, _ = lapack.dpotri(root, lower=1)
            covariance = np.tril(covariance) + np.tril(covariance, -1).T
            best = covariance @ aim
            divergence += 0.5 * (float(np.trace(covariance)) + float(best @ best) - self.size + log_determinant)
            latents.append(_Latent(best, covariance, normal))
        pulls, cost, least = [latent.mean.copy() for latent in latents], 0.0, _sites.floor(self.variance)
        for likelihood, chunk in zip(self.likelihoods, self.chunks, strict=True):
            psi, rows = self.features(chunk), chunk.rows
            residual = np.maximum(self.variance[rows] - self.explained[rows], 0.0)
            for c, latent in enumerate(latents):
                mean[rows, c] = self.mean[rows] + latent.mean @ psi
                spread = np.einsum("mn,mn->n", psi, latent.covariance @ psi)
                variance[rows, c] = np.maximum(residual + spread, least)
            parts = expected(likelihood, chunk.y, chunk.counts, mean[rows], variance[rows])
            cost += float(parts[0])
            slope[rows], curvature[rows] = np.asarray(parts[1]), np.asarray(parts[2])
            for c in range(number):
                pulls[c] += psi @ slope[rows, c]
        pull = 0.5 * sum(float(pull @ latent.covariance @ pull) for pull, latent in zip(pulls, latents, strict=True))
        is_finite = np.all(np.isfinite(slope)) and np.all(np.isfinite(curvature))
        bound = -cost - divergence if is_finite else -np.inf
        return Fitted(sites, bound, mean, variance, slope, curvature, pull, latents)

    def gradient(self, found: Fitted) -> tuple[Float[np.ndarray, " P"], Float[np.ndarray, "M D"]]:
        """∂F in the free numbers and in the points."""
        from scipy.linalg import blas

        def turned(right: np.ndarray) -> np.ndarray:
            return blas.dtrsm(1.0, self.factor, np.array(right, order="F"), lower=1, trans_a=1)

        precision, slope = found.sites.precision, found.sites.precision * found.mean - found.sites.shift
        total, loads = np.zeros((self.size, self.size)), []
        for latent in found.factors:
            shrink = np.eye(self.size) - latent.covariance
            total += shrink @ latent.normal + np.multiply.outer(latent.mean, latent.mean)
            loads.append((turned(shrink), turned(latent.mean[:, None])[:, 0]))
        both = turned(turned(total).T)
        start = _gram_pulled(self.layout, self.vector, self.given, self.prior, self.points, -0.25 * (both + both.T))
        slopes, push = (np.array(part) for part in start)
        for chunk in self.chunks:
            psi, rows = self.features(chunk), chunk.rows
            cross = np.zeros_like(psi)
            for c, (load, aim) in enumerate(loads):
                cross += load @ (psi * precision[rows, c]) - np.multiply.outer(aim, slope[rows, c])
            parts = cross, -0.5 * np.sum(precision[rows], axis=1), -np.sum(slope[rows], axis=1)
            model = self.layout, self.vector, chunk.given, self.prior, self.points
            q = found.mean[rows], found.variance[rows]
            pulled = _pulled_back(*model, chunk.x, chunk.y, chunk.counts, parts, q)
            slopes, push = slopes + np.asarray(pulled[0]), push + np.asarray(pulled[1])
        return slopes, push


@compiled
def _offsets(layout: Layout, vector: Array, given: Model, prior: AbstractPrior, x: Array) -> tuple[Array, Array]:
    """Mean and variance of the prior at the data."""
    model = layout.model(vector, given)
    return jnp.asarray(evaluate_mean(model.mean, x)), rebuilt(prior, model).pointwise(x)


@compiled
def _cross(layout: Layout, vector: Array, given: Model, prior: AbstractPrior, z: Array, x: Array) -> Array:
    return rebuilt(prior, layout.model(vector, given)).pairwise(z, x)


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


@compiled
def _pulled_back(
    layout: Layout,
    vector: Array,
    given: Model,
    prior: AbstractPrior,
    points: Array,
    x: Array,
    y: Array,
    counts: Array,
    slopes: tuple[Array, Array, Array],
    q: tuple[Array, Array],
) -> tuple[Array, Array]:
    """The slopes in the free numbers and the points, from those in r(Z, x), r(x, x) and μ, and of the costs."""

    def weighted(v: Array, z: Array) -> Array:
        model = layout.model(v, given)
        one = rebuilt(prior, model)
        mean = jnp.broadcast_to(jnp.asarray(evaluate_mean(model.mean, x)), y.shape)
        parts = zip(slopes, (one.pairwise(z, x), one.pointwise(x), mean), strict=True)
        cost = expected_cost(model.likelihood, y, counts, q[0], jnp.sqrt(q[1]))
        return sum((jnp.sum(slope * part) for slope, part in parts), -cost)

    return jax.grad(weighted, argnums=(0, 1))(vector, points)
