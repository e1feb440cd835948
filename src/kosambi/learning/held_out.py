r"""The last word, where rows are too many for their evidence: noise and scale that suit rows which were kept out.

A kernel that was learned from a subset is used with points that leave part of its variance unexplained, so that
neither its scale nor the noise need suit the predictions that these points make. With ψ the features of the points,
A = Σ_n ψ_nψ_nᵀ = QΛQᵀ over all rows but those that are kept out, and b = Σ_n ψ_n(y_n − μ_n), a kernel that is `a` times
as large and a noise σ predict a row with

    mean μ + a (Qᵀψ)ᵀ(σ²I + aΛ)⁻¹Qᵀb,   variance a [r − |ψ|² + σ² (Qᵀψ)ᵀ(σ²I + aΛ)⁻¹Qᵀψ] + σ²,

so that after one decomposition each pair (a, σ) costs next to nothing, and the best is found on the rows kept out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, Int

from kosambi._core.linalg import all_blas_threads
from kosambi.basis.points import JITTER
from kosambi.errors import NumericalError
from kosambi.priors import AbstractPrior

KEPT_OUT = 2000
"""Rows that are kept out, at most; never more than a tenth of all."""
CHUNK = 4096
"""Rows at a time."""
# Factors between which scale and noise may move.
_FARTHEST = 30.0
# Nats per observation that must be gained.
_GAIN = 1e-3


@dataclasses.dataclass(frozen=True)
class LastWord:
    """What rows that were kept out say of a scale and a noise."""

    scale: float
    """By which the kernel is multiplied."""
    noise: Mapping[str, Float[np.ndarray, ""]]
    """The parameters of the noise, by the names of the likelihood's fields."""
    score: float
    """Mean log predictive density of the rows that were kept out, with these."""
    before: float
    """The same with what was learned."""
    constant: float
    """The score of a normal distribution with the mean and variance of the other rows."""
    square: float = np.nan
    """The mean square of standardised errors, where noise is Gaussian."""


def kept_out(
    generator: np.random.Generator, candidates: Int[np.ndarray, " C"], most: int = KEPT_OUT
) -> Int[np.ndarray, " H"]:
    """Rows to keep out, of those that are no inducing points: these have no residual, which no new input is without."""
    return np.sort(generator.choice(candidates, size=min(most, len(candidates) // 10), replace=False))


@all_blas_threads()
def last_word(
    prior: AbstractPrior,
    noise: float,
    x: Float[np.ndarray, "N D"],
    y: Float[np.ndarray, " N"],
    weights: Float[np.ndarray, " N"],
    points: Float[np.ndarray, "M D"],
    held: Int[np.ndarray, " H"],
) -> LastWord:
    """The scale and the noise with which rows that were kept out are predicted best.

    Arguments:
        prior: with the kernel that was learned.
        noise: σ, likewise.
        x: (N, D), all rows.
        y: (N,).
        weights: (N,), how often each counts.
        points: (M, D).
        held: numbers of the rows that are kept out; at least 20.
    """
    from scipy.linalg import blas, eigh, lapack
    from scipy.optimize import minimize

    gram = np.array(prior.covariance(points), order="F")
    gram[np.diag_indices_from(gram)] += JITTER * np.mean(np.diagonal(gram))
    factor, status = lapack.dpotrf(gram, lower=1, clean=1)
    if status:
        raise NumericalError(
            "The covariance of the inducing points has no Cholesky factor: some are all but the same. Take fewer."
        )
    error, used = y - np.asarray(prior.mean_at(x)), np.array(weights, dtype=np.float64)
    used[held] = 0.0

    def features(rows: np.ndarray) -> np.ndarray:
        # Always as many, so that one program serves all.
        filled = np.concatenate([rows, np.repeat(rows[:1], CHUNK - len(rows))])
        cross = np.array(prior.covariance(points, x[filled]), order="F")
        return blas.dtrsm(1.0, factor, cross, lower=1, overwrite_b=1)[:, : len(rows)]

    total, aim = np.zeros(gram.shape, order="F"), np.zeros(len(points))
    for start in range(0, len(x), CHUNK):
        rows = np.arange(start, min(start + CHUNK, len(x)))
        psi = features(rows)
        total = blas.dsyrk(1.0, psi * np.sqrt(used[rows]), beta=1.0, c=total, lower=1, overwrite_c=1)
        aim += psi @ (used[rows] * error[rows])
    values, vectors = eigh(total, lower=True, overwrite_a=True, check_finite=False)
    values, turned = np.maximum(values, 0.0), vectors.T @ aim
    psi = np.concatenate([features(held[i : i + CHUNK]) for i in range(0, len(held), CHUNK)], axis=1)
    loads, left = vectors.T @ psi, np.asarray(prior.variance(x[held])) - np.einsum("mn,mn->n", psi, psi)
    times, missed = weights[held] / np.sum(weights[held]), error[held]

    def scored(scale: float, sigma: float) -> tuple[float, float]:
        shrunk = 1.0 / (sigma**2 + scale * values)
        mean = scale * (turned * shrunk) @ loads
        variance = scale * (np.maximum(left, 0.0) + sigma**2 * (shrunk @ np.square(loads))) + sigma**2
        squares = np.square(missed - mean) / variance
        return -0.5 * float(times @ (np.log(2.0 * np.pi * variance) + squares)), float(times @ squares)

    def objective(logarithms: np.ndarray) -> float:
        return -scored(float(np.exp(logarithms[0])), noise * float(np.exp(logarithms[1])))[0]

    reach = np.log(_FARTHEST)
    found = minimize(objective, np.zeros(2), method="L-BFGS-B", bounds=[(-reach, reach)] * 2)
    before, square = scored(1.0, noise)
    mean, spread = np.average(y, weights=used), np.average(np.square(y - np.average(y, weights=used)), weights=used)
    constant = -0.5 * float(times @ (np.log(2.0 * np.pi * spread) + np.square(y[held] - mean) / spread))
    if not -found.fun > before + _GAIN:
        return LastWord(1.0, {"noise": np.asarray(noise)}, before, before, constant, square)
    scale, sigma = float(np.exp(found.x[0])), noise * float(np.exp(found.x[1]))
    score, square = scored(scale, sigma)
    return LastWord(scale, {"noise": np.asarray(sigma)}, score, before, constant, square)
