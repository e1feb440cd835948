r"""The last word with neighbours: the noise and the scale of the kernel that suit rows which were kept out.

A row that is kept out is predicted as `kosambi.target.neighborhood` predicts, from the m nearest of the other rows and
the coordinates ŵ, which are those of the marginal potential (m = 0) and are not searched again. A kernel that is `a`
times as large and a noise σ change B through ρ = a/σ² alone, and the variance is a·(R − BR_{𝒩x} + 1/ρ), so that for
each ρ the best `a` is a mean square. A few ρ are tried, each of which solves the small systems of those rows.
"""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import Float, Int

from kosambi._core.linalg import all_blas_threads
from kosambi._core.precision import lift
from kosambi.basis import PointBasis
from kosambi.basis.local import residual_blocks
from kosambi.basis.neighbors import Nearest
from kosambi.kernels import column_scales
from kosambi.learning.held_out import LastWord
from kosambi.priors import AbstractPrior

KEPT_OUT = 1024
"""Rows that are asked."""
# Rows from which the coordinates are found, at most, how many of those kept out are looked at together, and how many
# rows have their features computed at a time.
_MOST_ROWS, _CHUNK, _ROWS_AT_ONCE = 50_000, 64, 4096
# Factors of ρ that are tried, and nats per observation that must be gained.
_FACTORS, _GAIN = (1.0 / 27.0, 1.0 / 9.0, 1.0 / 3.0, 1.0, 3.0), 5e-3


@all_blas_threads()
def last_word_near(
    prior: AbstractPrior,
    noise: float,
    x: Float[np.ndarray, "N D"],
    y: Float[np.ndarray, " N"],
    weights: Float[np.ndarray, " N"],
    points: Float[np.ndarray, "M D"],
    num_neighbors: int,
    held: Int[np.ndarray, " H"],
) -> LastWord:
    """The scale and the noise with which rows that were kept out are predicted best.

    Arguments:
        prior: with the kernel that was learned.
        noise: σ, likewise.
        x: (N, D), all rows.
        y: (N,).
        weights: (N,), how often each counts.
        points: (M, D), the inducing points.
        num_neighbors: m.
        held: numbers of the rows that are kept out.
    """
    basis = PointBasis(prior, points)
    used = np.setdiff1d(np.flatnonzero(weights > 0), held)
    error = y - np.asarray(prior.mean_at(x))
    mode = _coordinates(basis, noise, x, error, weights, used)
    scales = column_scales(prior.kernel, x)
    near = used[Nearest(x[used] / scales).query(x[held] / scales, num_neighbors)]
    grams, towards, misses, given = _blocks(basis, x, error, mode, near, held)
    left = np.asarray(basis.residual_variance(x[held]))
    times, root = weights[held] / np.sum(weights[held]), np.sqrt(weights[near])

    def predicted(ratio: float) -> tuple[np.ndarray, np.ndarray]:
        """Errors, and variances of new observations over a."""
        scaled = np.sqrt(ratio) * root
        gram = grams * scaled[:, :, None] * scaled[:, None, :]
        gram[:, np.arange(gram.shape[1]), np.arange(gram.shape[1])] += 1.0
        solved = scaled * np.linalg.solve(gram, (scaled * towards)[:, :, None])[:, :, 0]
        variance = np.maximum(left - np.sum(solved * towards, axis=1), 0.0)
        return given - np.sum(solved * misses, axis=1), variance + 1.0 / ratio

    def scored(ratio: float, scale: float | None = None) -> tuple[float, float, float]:
        miss, variance = predicted(ratio)
        scale = float(times @ (np.square(miss) / variance)) if scale is None else scale
        square = float(times @ (np.square(miss) / (scale * variance)))
        return -0.5 * float(times @ np.log(2.0 * np.pi * scale * variance)) - 0.5 * square, square, scale

    first = 1.0 / noise**2
    before, square, _ = scored(first, 1.0)
    mean, spread = np.average(y, weights=weights), float(np.cov(y, aweights=weights))
    constant = -0.5 * float(times @ (np.log(2.0 * np.pi * spread) + np.square(y[held] - mean) / spread))
    tried = {factor: scored(factor * first) for factor in _FACTORS}
    best = max(tried, key=lambda factor: tried[factor][0])
    # Next to no noise is hard to tell from less, so it stays unless that is worth something.
    best = best if tried[best][0] > tried[1.0][0] + _GAIN else 1.0
    score, after, scale = tried[best]
    if not score > before + _GAIN:
        return LastWord(1.0, {"noise": np.asarray(noise)}, before, before, constant, square)
    return LastWord(scale, {"noise": np.asarray(noise * np.sqrt(scale / best))}, score, before, constant, after)


def _features(basis: PointBasis, x: np.ndarray, rows: Int[np.ndarray, " R"]) -> Float[np.ndarray, "R M"]:
    """ψ at some rows, always as many at a time, so that one program serves all."""
    found = np.empty((len(rows), basis.size))
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        some = rows[start : start + _ROWS_AT_ONCE]
        filled = np.concatenate([some, np.repeat(some[:1], _ROWS_AT_ONCE - len(some))])
        found[start : start + len(some)] = np.asarray(basis.whitened_mean(x[filled]))[: len(some)]
    return found


def _coordinates(
    basis: PointBasis,
    noise: float,
    x: np.ndarray,
    error: np.ndarray,
    weights: np.ndarray,
    used: Int[np.ndarray, " U"],
) -> Float[np.ndarray, " M"]:
    """ŵ of the marginal potential, from some rows."""
    some = used[np.unique(np.linspace(0, len(used) - 1, min(len(used), _MOST_ROWS)).round().astype(int))]
    total, aim, variance = np.eye(basis.size), np.zeros(basis.size), np.asarray(basis.prior.variance(x[some]))
    for start in range(0, len(some), _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        psi = _features(basis, x, some[part])
        left = np.maximum(variance[part] - np.sum(np.square(psi), axis=1), 0.0)
        strength = 1.0 / (noise**2 / weights[some[part]] + left)
        total += (psi * strength[:, None]).T @ psi
        aim += psi.T @ (strength * error[some[part]])
    return np.linalg.solve(total, aim)


def _blocks(
    basis: PointBasis, x: np.ndarray, error: np.ndarray, mode: np.ndarray, near: np.ndarray, held: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """R among the neighbours of each row and with it, and what the coordinates leave of the errors of both."""
    size, places = near.shape
    grams, towards = np.empty((size, places, places)), np.empty((size, places))
    misses, given = np.empty((size, places)), np.empty(size)
    with jax.enable_x64(True):
        prior = lift(basis.prior)
    for start in range(0, size, _CHUNK):
        part = slice(start, start + _CHUNK)
        rows, inverse = np.unique(near[part], return_inverse=True)
        at = _features(basis, x, rows)[inverse.reshape(near[part].shape)]
        psi = _features(basis, x, held[part])
        grams[part], towards[part] = residual_blocks(prior, x[near[part]], at, x[held[part]], psi)
        misses[part] = error[near[part]] - at @ mode
        given[part] = error[held[part]] - psi @ mode
    return grams, towards, misses, given
