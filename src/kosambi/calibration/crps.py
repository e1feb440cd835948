r"""The continuous ranked probability score (CRPS) of predictive distributions.

    CRPS(F, y) = ∫ (F(t) − 1{y ≤ t})² dt = E|Y − y| − ½ E|Y − Y'|

in the unit of y, smaller is better, and the absolute error for a distribution without spread.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from kosambi._core.types import Array, ArrayLike
from kosambi.calibration.checks import (
    PredictiveDistribution,
    as_held_out,
    as_prediction,
    check_cdf,
    has_order,
    label_probabilities,
)
from kosambi.calibration.distributions import StretchedPrediction
from kosambi.likelihoods import Gaussian

# Pairs of components, or nodes, of one block of inputs.
_VALUES_AT_ONCE = 2**22
# Counts of one input that are looked at; where there are more, some stand for their neighbours.
_MOST_COUNTS = 512
# What may lie beyond the ends of sums and integrals. It enters squared.
_TAIL = 1e-6
# Panels on either side of the observation, and nodes of each.
_PANELS, _NODES = 6, 12


def crps(prediction: PredictiveDistribution, y: ArrayLike) -> Float[Array, " N"]:
    """CRPS(F, y) = E|Y − y| − ½ E|Y − Y'| of each observation, (N,), for independent Y, Y' from the prediction.

    Closed for `Gaussian`, at O(K²) per input with K components. Counts and ordered labels: Σ_k (F(k) − 1{y ≤ k})²,
    which for two labels is Brier's score (P(y = 1) − y)². The classes of `Categorical` have no order; they are 1 apart
    from each other, which makes it ½ Σ_k (P(k) − 1{y = k})². For all others the integral of the distribution function
    is taken numerically.

    Arguments:
        prediction: `posterior.predict(x_new)`, or a tempered one.
        y: (N,), what was observed at these inputs, and not used to fit.

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(-1.0, 1.0, 50)[:, None]
    >>> gaussian = ko.likelihoods.Gaussian(0.1)
    >>> posterior = ko.infer(jax.random.key(0), ko.kernels.Matern52(), gaussian, x, np.sin(3 * x[:, 0]))
    >>> ko.calibration.crps(posterior.predict([[0.0], [0.0]]), [0.0, 1.0]).round(2)
    array([0.02, 0.94])
    """
    prediction = as_prediction(prediction)
    y = as_held_out(prediction, y)
    check_cdf(prediction, "CRPS")
    if isinstance(prediction, StretchedPrediction):
        # The score has the unit of y, and shifts with it.
        return np.sqrt(prediction.factor) * crps(prediction.prediction, prediction.unstretched(y))
    if prediction.likelihood.num_labels is not None:
        return _of_labels(prediction, y)
    if prediction.likelihood.is_discrete:
        return _of_counts(prediction, y)
    if isinstance(prediction.likelihood, Gaussian) and prediction.component_deviation.ndim == 1:  # type: ignore[attr-defined]
        return _of_normal_components(prediction, y)
    return _by_integration(prediction, y)


def _of_labels(prediction: PredictiveDistribution, y: Array) -> Float[Array, " N"]:
    table = label_probabilities(prediction)
    truth = y[:, None] == np.arange(table.shape[1])
    if not has_order(prediction.likelihood):
        return 0.5 * np.sum(np.square(table - truth), axis=1)
    return np.sum(np.square(np.cumsum(table, axis=1) - np.cumsum(truth, axis=1))[:, :-1], axis=1)


def _of_normal_components(prediction: PredictiveDistribution, y: Array) -> Float[Array, " N"]:
    """For K normal components: mean A(y − μ_k, s) − ½ mean A(μ_k − μ_l, √2 s) with A(m, s) = E|m + sξ|."""
    means = prediction.component_means  # type: ignore[attr-defined]
    # Asked for first, because it refuses a noise that is not known.
    within = prediction.observation_variance - np.var(means, axis=0)
    s = np.sqrt(np.maximum(within, 0.0))
    scores = np.mean(_absolute(y - means, s), axis=0)
    count = means.shape[0]
    size = max(1, _VALUES_AT_ONCE // count)
    for start in range(0, len(y), size):
        block = slice(start, start + size)
        some, spread = means[:, block], np.sqrt(2.0) * s[block]
        # Each pair once; a component with itself has A(0, s) = s√(2/π).
        total = 0.5 * count * np.sqrt(2.0 / np.pi) * spread
        for k in range(1, count):
            total = total + np.sum(_absolute(some[k:] - some[:-k], spread), axis=0)
        scores[block] -= total / count**2
    return scores


def _absolute(m: Array, s: Array) -> Array:
    """E|m + sξ| = 2s φ(m/s) + m (2Φ(m/s) − 1)."""
    from scipy.special import erf

    s = np.maximum(s, 1e-300)
    z = m / s
    return np.sqrt(2.0 / np.pi) * s * np.exp(-0.5 * np.square(z)) + m * erf(z / np.sqrt(2.0))


class _Coordinate:
    """t = median + unit · sinh(v), in which the middle and the tails of a distribution both have a moderate extent."""

    def __init__(self, prediction: PredictiveDistribution) -> None:
        self.low, quarter, self.median, three, self.high = prediction.quantile([_TAIL, 0.25, 0.5, 0.75, 1.0 - _TAIL])
        self.unit = np.maximum(0.5 * (three - quarter), 1e-12 * (self.high - self.low) + 1e-300)

    def inverse(self, t: Array) -> Array:
        return np.arcsinh((t - self.median) / self.unit)


def _of_counts(prediction: PredictiveDistribution, y: Array) -> Float[Array, " N"]:
    """Σ_{k<y} F(k)² + Σ_{k≥y} (1 − F(k))², between quantiles beyond which there is next to nothing."""
    at = _Coordinate(prediction)
    at.unit = np.maximum(at.unit, 1.0)
    below = _sum_of_counts(prediction, at, np.minimum(at.low, y), y - 1.0, np.square)
    return below + _sum_of_counts(prediction, at, y, np.maximum(at.high, y), lambda share: np.square(1.0 - share))


def _sum_of_counts(
    prediction: PredictiveDistribution, at: _Coordinate, first: Array, last: Array, term: Callable[[Array], Array]
) -> Float[Array, " N"]:
    """Σ term(F(k)) over k = first, …, last at each input; zero where last < first."""
    points = np.flatnonzero(last >= first)
    counts = []
    for n in points:
        if last[n] - first[n] < _MOST_COUNTS:
            counts.append(np.arange(first[n], last[n] + 0.5))
            continue
        start, end = (float(np.arcsinh((end - at.median[n]) / at.unit[n])) for end in (first[n], last[n]))
        k = np.round(at.median[n] + at.unit[n] * np.sinh(np.linspace(start, end, _MOST_COUNTS)))
        counts.append(np.unique(np.clip(k, first[n], last[n])))
    total = np.zeros(len(first))
    if not counts:
        return total
    where = np.repeat(points, [len(k) for k in counts])
    shares = np.split(prediction._cdf(np.concatenate(counts), where), np.cumsum([len(k) for k in counts])[:-1])
    for n, taken, share in zip(points, counts, shares, strict=True):
        values = term(share)
        # Straight lines between those that were taken: the sum over a gap is its length times the mean of its ends.
        total[n] = np.sum(np.diff(taken) * 0.5 * (values[1:] + values[:-1])) + 0.5 * (values[0] + values[-1])
    return total


def _by_integration(prediction: PredictiveDistribution, y: Array) -> Float[Array, " N"]:
    """∫ F² below y and ∫ (1 − F)² above, by Gauss-Legendre in panels that are wider in the tails."""
    at = _Coordinate(prediction)
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    shares = ((np.arange(_PANELS)[:, None] + 0.5 + 0.5 * nodes) / _PANELS).ravel()[:, None]
    weights = np.tile(0.5 * weights / _PANELS, _PANELS)

    def integral(start: Array, end: Array, term: Callable[[Array], Array]) -> Array:
        low, high = at.inverse(start), at.inverse(end)
        v = low + shares * (high - low)
        t = at.median + at.unit * np.sinh(v)
        where = np.broadcast_to(np.arange(len(y)), t.shape)
        share = prediction._cdf(t.ravel(), where.ravel()).reshape(t.shape)
        return (high - low) * (weights @ (term(share) * at.unit * np.cosh(v)))

    below = integral(np.minimum(at.low, y), y, np.square)
    return below + integral(y, np.maximum(at.high, y), lambda share: np.square(1.0 - share))
