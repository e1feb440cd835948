"""How often predictive intervals hold what they promise, how wide they are, and where observations fall (PIT)."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_level, check_key
from kosambi._core.precision import host_generator
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.calibration.checks import (
    PredictiveDistribution,
    as_held_out,
    as_levels,
    as_prediction,
    check_cdf,
    has_order,
    label_probabilities,
    likeliest_labels,
)
from kosambi.errors import InputError

LEVELS = (0.5, 0.8, 0.9, 0.95)
"""Coverages that are looked at unless others are asked for."""


@dataclasses.dataclass(frozen=True, eq=False)
class Coverage:
    """How many observations lie inside the intervals of each level."""

    levels: Float[Array, " Q"]
    """The coverages that were asked of the intervals."""
    share: Float[Array, " Q"]
    """The share of observations inside."""
    expected: Float[Array, " Q"]
    """The probability that the predictions give their intervals: the level, and more for counts and labels, which come
    in steps."""
    standard_error: Float[Array, " Q"]
    """Of the share if that distribution were right and observations independent: √(e(1 − e)/N)."""

    def __str__(self) -> str:
        rows = zip(self.levels, self.share, self.expected, self.standard_error, strict=True)
        return "\n".join(
            f"{100 * level:g} % intervals: {100 * share:.1f} % inside, "
            f"expected {100 * expected:.1f} ± {100 * error:.1f} %"
            for level, share, expected, error in rows
        )


def coverage(prediction: PredictiveDistribution, y: ArrayLike, levels: ArrayLike = LEVELS) -> Coverage:
    """The share of observations `y` (N,) inside central intervals, for each of Q levels.

    Labels: inside the fewest labels that have that probability together.

    Arguments:
        prediction: `posterior.predict(x_new)`, or a tempered one.
        y: (N,), what was observed at these inputs, and not used to fit.
        levels: Q numbers between 0 and 1.

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(-1.0, 1.0, 400)[:, None]
    >>> y = np.sin(3 * x[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=400)
    >>> gaussian = ko.likelihoods.Gaussian(0.1)
    >>> posterior = ko.infer(jax.random.key(0), ko.kernels.Matern52(), gaussian, x[::2], y[::2])
    >>> print(ko.calibration.coverage(posterior.predict(x[1::2]), y[1::2], [0.5, 0.95]))
    50 % intervals: 49.0 % inside, expected 50.0 ± 3.5 %
    95 % intervals: 96.0 % inside, expected 95.0 ± 1.5 %
    """
    prediction = as_prediction(prediction)
    y, wanted = as_held_out(prediction, y), as_levels("levels", levels)
    rows = [_inside(prediction, y, float(level)) for level in wanted]
    share, expected = (np.array([np.mean(row[i]) for row in rows]) for i in (0, 1))
    return Coverage(wanted, share, expected, np.sqrt(expected * (1.0 - expected) / len(y)))


def _inside(prediction: PredictiveDistribution, y: Array, level: float) -> tuple[Array, Array]:
    """Which observations are inside, and the probability of each interval."""
    if prediction.likelihood.num_labels is not None:
        table = label_probabilities(prediction)
        chosen = likeliest_labels(table, level)
        return chosen[np.arange(len(y)), y.astype(int)], np.sum(table * chosen, axis=1)
    lower, upper = prediction.interval(level)
    inside = (lower <= y) & (y <= upper)
    if not prediction.likelihood.is_discrete:
        return inside, np.full(len(y), level)
    points = np.arange(len(y))
    return inside, prediction._cdf(upper, points) - prediction._cdf(lower - 1.0, points)


def interval_width(prediction: PredictiveDistribution, level: float = 0.95) -> Float[Array, " N"]:
    """upper − lower of the central interval at each input, (N,); for labels how many of them there are.

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(-1.0, 1.0, 50)[:, None]
    >>> gaussian = ko.likelihoods.Gaussian(0.1)
    >>> posterior = ko.infer(jax.random.key(0), ko.kernels.Matern52(), gaussian, x, np.sin(3 * x[:, 0]))
    >>> ko.calibration.interval_width(posterior.predict([[0.0], [9.0]])).round(1)
    array([0.4, 3.9])
    """
    prediction, level = as_prediction(prediction), as_level("level", level)
    if prediction.likelihood.num_labels is not None:
        return likeliest_labels(label_probabilities(prediction), level).sum(axis=1).astype(float)
    lower, upper = prediction.interval(level)
    return upper - lower


def pit(prediction: PredictiveDistribution, y: ArrayLike, key: Key | None = None) -> Float[Array, " N"]:
    """The probability integral transform, P(observation ≤ y), (N,): uniform numbers if the prediction is right.

    Heaped at both ends, predictions are too narrow; in the middle, too wide. For counts and ordered labels it is
    P(observation < y) + t P(observation = y) with a uniform t, which is uniform too.

    Arguments:
        prediction: `posterior.predict(x_new)`, or a tempered one.
        y: (N,), what was observed at these inputs, and not used to fit.
        key: a JAX random key, for counts and labels only.

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(-1.0, 1.0, 50)[:, None]
    >>> gaussian = ko.likelihoods.Gaussian(0.1)
    >>> posterior = ko.infer(jax.random.key(0), ko.kernels.Matern52(), gaussian, x, np.sin(3 * x[:, 0]))
    >>> ko.calibration.pit(posterior.predict([[0.0], [0.0], [0.0]]), [-1.0, 0.0, 1.0]).round(2)
    array([0. , 0.5, 1. ])
    """
    prediction = as_prediction(prediction)
    y = as_held_out(prediction, y)
    check_cdf(prediction, "PIT")
    if not prediction.likelihood.is_discrete:
        return prediction._cdf(y, np.arange(len(y)))
    if not has_order(prediction.likelihood):
        raise InputError(
            f"The labels of `{type(prediction.likelihood).__name__}` have no order, so there is no PIT. Look at "
            "`coverage`, `crps` and `log_density`."
        )
    if key is None:
        raise InputError(
            "`pit` of counts or labels needs random numbers, because their cdf has steps. Pass `key=jax.random.key(0)`."
        )
    below, upto = _steps(prediction, y)
    return below + host_generator(check_key(key)).uniform(size=len(y)) * (upto - below)


def _steps(prediction: PredictiveDistribution, y: Array) -> tuple[Array, Array]:
    """P(observation < y) and P(observation ≤ y)."""
    points = np.arange(len(y))
    if prediction.likelihood.num_labels is None:
        below = np.where(y > 0, prediction._cdf(np.maximum(y - 1.0, 0.0), points), 0.0)
        return below, prediction._cdf(y, points)
    table = label_probabilities(prediction)
    upto = np.cumsum(table, axis=1)[points, y.astype(int)]
    return upto - table[points, y.astype(int)], upto
