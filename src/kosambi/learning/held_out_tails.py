r"""The last word with neighbours where noise is not Gaussian: scale and noise that suit rows which were kept out.

Noise with heavy tails has no closed form, and sites in its place (`kosambi.target.sites`). Of some rows that are kept
out the m nearest others are looked up; these have sites of their own, given one another. They predict a row that was
kept out with mean b and variance D, and its density is that of the noise around N(b, D). Then, in turns,

- with b and D/a as they are, the scale `a` of the kernel and the parameters of the noise that make the rows kept out
  most probable, which takes no more than their densities,
- the sites that follow from these.

What predicts best of all that was tried goes on. Near rows have a say in the sites of one another only, so that some
thousands of them are looked at whatever N is.

Where noise is not of the family that was assumed, the parameters that make most rows probable need not have intervals
that hold what they say: most rows may lie within a minute, and one in five within an hour. So if 95 % intervals do not
hold about 95 % of the rows kept out, the noise that does and costs the least is taken, as long as that is little.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeGuard

import numpy as np
from jaxtyping import Float, Int

from kosambi._core.linalg import one_blas_thread
from kosambi._core.parameters import parameters
from kosambi._core.precision import with_fields
from kosambi.basis.local import Rows, local_conditionals
from kosambi.basis.neighbors import Nearest
from kosambi.kernels import column_scales
from kosambi.learning.held_out import LastWord
from kosambi.learning.starts import rounding_of
from kosambi.likelihoods import AbstractLikelihood, Gaussian
from kosambi.likelihoods.families import AbstractLocation
from kosambi.priors import GaussianProcess
from kosambi.target.host_rounds import Data
from kosambi.target.neighborhood import other_rows
from kosambi.target.sites import settled_sites

KEPT_OUT = 1024
"""Rows that are asked."""
ROUNDS = 2
"""How often sites follow from other numbers, at most."""
COVERAGE, NEAR_COVERAGE, CALIBRATION = 0.95, 0.01, 0.05
"""What intervals should hold, how far from it they may be, and nats per observation that this may cost."""
# Factors by which the scale and numbers of the noise may move in one round, and nats per observation that must be
# gained. What is known of f hardly stays as it is when the scale moves far.
_SCALE_FARTHEST, _FARTHEST, _GAIN = 4.0, 30.0, 5e-3
# Standard errors of a coverage that are no difference.
_ERRORS = 2.0
# Nats per observation for each part of the rows by which coverage is too far off, in the search.
_PENALTY = 20.0
# A normal distribution as wide as the rows is what they are compared with.
_SMALLEST_VARIANCE = 1e-12


def has_last_word(likelihood: AbstractLikelihood) -> TypeGuard[AbstractLocation]:
    """Whether it is noise of one size for all rows, added to f, whose density is known, and not Gaussian.

    >>> import kosambi as ko
    >>> [has_last_word(one) for one in (ko.likelihoods.StudentT(), ko.likelihoods.Gaussian(), ko.likelihoods.Poisson())]
    [True, False, False]
    """
    is_noise = isinstance(likelihood, AbstractLocation) and not isinstance(likelihood, Gaussian)
    return is_noise and likelihood.is_density and all(np.ndim(p.value) == 0 for p in parameters(likelihood=likelihood))


def last_word_tails(
    prior: GaussianProcess,
    likelihood: AbstractLocation,
    x: Float[np.ndarray, "N D"],
    y: Float[np.ndarray, " N"],
    weights: Float[np.ndarray, " N"],
    num_neighbors: int,
    held: Int[np.ndarray, " H"],
) -> LastWord:
    """The scale and the noise with which rows that were kept out are predicted best.

    Arguments:
        prior: with the kernel that was learned.
        likelihood: one that `has_last_word`, likewise.
        x: (N, D), all rows.
        y: (N,).
        weights: (N,), how often each counts.
        num_neighbors: m.
        held: numbers of the rows that are kept out.
    """
    used = np.setdiff1d(np.flatnonzero(weights > 0), held)
    scales = np.asarray(column_scales(prior.kernel, x))
    near = used[Nearest(x[used] / scales).query(x[held] / scales, num_neighbors)]
    rows, place = np.unique(near, return_inverse=True)
    around = _Around(x[rows], y[rows], weights[rows], place.reshape(near.shape), scales, x[held])
    seen, times = y[held], weights[held] / np.sum(weights[held])

    tried: list[_Tried] = []
    scale, noise, rounding = 1.0, likelihood, rounding_of(y)
    for _ in range(ROUNDS + 1):
        mean, variance = around.predicted(_scaled(prior, scale), noise)
        word = _Held(seen, times, mean, variance)
        tried.append(_Tried(word.score(noise), scale, noise, word))
        if len(tried) > ROUNDS or (len(tried) > 1 and not tried[-1].score > tried[-2].score + _GAIN):
            break
        factor, noise = _searched(noise, word.score, rounding)
        scale *= factor
    before, best = tried[0].score, max(tried, key=lambda one: one.score)
    best = best if best.score > before + _GAIN else tried[0]
    if (calibrated := _calibrated(best, rounding)) is not None:
        best = calibrated
    found = {p.field: np.asarray(p.value) for p in parameters(likelihood=best.noise)}
    return LastWord(best.scale, found, best.score, before, _constant(y, weights, seen, times))


class _Held(NamedTuple):
    """Rows that were kept out, and what is known of f there."""

    y: Float[np.ndarray, " H"]
    times: Float[np.ndarray, " H"]
    mean: Float[np.ndarray, " H"]
    variance: Float[np.ndarray, " H"]

    def score(self, noise: AbstractLocation, factor: float = 1.0) -> float:
        """Mean log density, where variances of f are `factor` times as large."""
        density = np.asarray(noise.log_predictive_density(self.y, self.mean, np.sqrt(factor * self.variance)))
        return float(self.times @ density) if np.all(np.isfinite(density)) else -np.inf

    def coverage(self, noise: AbstractLocation) -> float:
        """The part of the rows that central intervals hold which should hold `COVERAGE`."""
        below = noise.mixture_cdf(self.y, self.mean[None], np.sqrt(self.variance))
        return float(self.times @ (np.abs(below - 0.5) < 0.5 * COVERAGE))


class _Tried(NamedTuple):
    """A scale and a noise, and how well they predict."""

    score: float
    scale: float
    noise: AbstractLocation
    held: _Held


def _calibrated(best: _Tried, rounding: float) -> _Tried | None:
    """The noise whose intervals hold what they say and which costs the least; None where the best ones do, or none."""
    held, chance = best.held, np.sqrt(COVERAGE * (1.0 - COVERAGE) * np.sum(np.square(best.held.times)))
    if not best.noise.has_cdf or abs(held.coverage(best.noise) - COVERAGE) <= max(NEAR_COVERAGE, _ERRORS * chance):
        return None

    def penalised(noise: AbstractLocation, factor: float) -> float:
        off = abs(held.coverage(noise) - COVERAGE)
        return held.score(noise, factor) - _PENALTY * max(0.0, off - NEAR_COVERAGE)

    _, noise = _searched(best.noise, penalised, rounding, 1.0)
    score = held.score(noise)
    if abs(held.coverage(noise) - COVERAGE) > 2.0 * NEAR_COVERAGE or score < best.score - CALIBRATION:
        return None
    return _Tried(score, best.scale, noise, held)


def _searched(
    likelihood: AbstractLocation,
    score: Callable[[AbstractLocation, float], float],
    rounding: float,
    farthest: float = _SCALE_FARTHEST,
) -> tuple[float, AbstractLocation]:
    """A factor of the variance, up to `farthest`, and the noise with the highest score, by Nelder and Mead's search.

    Noise is not made less than what `rounding` of the observations adds.
    """
    from scipy.optimize import minimize

    learned = [p for p in parameters(likelihood=likelihood) if p.support == "positive"]

    def noise_of(logarithms: np.ndarray) -> AbstractLocation:
        values = {p.field: np.asarray(p.value * np.exp(q)) for p, q in zip(learned, logarithms, strict=True)}
        return with_fields(likelihood, **values)

    def objective(logarithms: np.ndarray) -> float:
        return -score(noise_of(logarithms[1:]), float(np.exp(logarithms[0])))

    upper = np.log([farthest] + [_FARTHEST] * len(learned))
    lower, size = -upper, len(upper)
    for place, parameter in enumerate(learned, start=1):
        if parameter.field in likelihood.in_units_of_y and rounding > 0:
            lower[place] = max(lower[place], min(0.0, np.log(rounding / float(parameter.value))))
    # Steps of half a unit to begin with: the usual ones are parts of a start at zero, and next to nothing.
    simplex = np.clip(np.vstack([np.zeros(size), 0.5 * np.eye(size)]), lower, upper)
    options = {"initial_simplex": simplex, "xatol": 0.02, "fatol": 1e-4, "maxfev": 60 * size}
    found = minimize(
        objective, np.zeros(size), method="Nelder-Mead", bounds=list(zip(lower, upper, strict=True)), options=options
    )
    return float(np.exp(found.x[0])), noise_of(found.x[1:])


class _Around:
    """The rows near those that were kept out, and what they predict of them."""

    def __init__(
        self,
        x: Float[np.ndarray, "n D"],
        y: Float[np.ndarray, " n"],
        weights: Float[np.ndarray, " n"],
        near: Int[np.ndarray, "H m"],
        scales: Float[np.ndarray, " D"],
        held: Float[np.ndarray, "H D"],
    ) -> None:
        self._x, self._y, self._weights, self._near, self._held = x, y, weights, near, held
        self._others = other_rows(x, weights, scales, near.shape[1])

    def predicted(
        self, prior: GaussianProcess, likelihood: AbstractLikelihood
    ) -> tuple[Float[np.ndarray, " H"], Float[np.ndarray, " H"]]:
        """Mean and variance of f at the rows that were kept out, given the sites of the near ones."""
        number, held = len(self._y), len(self._held)
        mean, variance = np.asarray(prior.mean_at(self._x)), np.asarray(prior.variance(self._x))
        nothing = np.empty((number, 0))
        data = Data(
            self._x, self._y, self._weights, nothing, mean, variance, np.empty((number, 0), dtype=int), self._others
        )
        with one_blas_thread():
            site = settled_sites(prior, likelihood, data).site
        rows = Rows(self._x, nothing, np.asarray(site.precision))
        found = local_conditionals(prior, rows, self._held, np.empty((held, 0)), self._near)
        error = np.asarray(site.location) - mean
        given = np.asarray(prior.mean_at(self._held)) + np.einsum("tk,tk->t", found.weights, error[self._near])
        return given, found.variance


def _scaled(prior: GaussianProcess, factor: float) -> GaussianProcess:
    return with_fields(prior, kernel=prior.kernel.with_factor(factor))


def _constant(y: np.ndarray, weights: np.ndarray, seen: np.ndarray, times: np.ndarray) -> float:
    """The score of a normal distribution with the mean and variance of all rows."""
    mean = np.average(y, weights=weights)
    spread = max(float(np.average(np.square(y - mean), weights=weights)), _SMALLEST_VARIANCE)
    return -0.5 * float(times @ (np.log(2.0 * np.pi * spread) + np.square(seen - mean) / spread))
