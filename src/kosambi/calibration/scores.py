"""Scores of predictions on held-out rows, each with its standard error: the one place where they are computed.

`held_out_scores` takes a prediction. `number_scores` and `label_scores` take what was predicted as arrays, from
whichever model; `baseline_log_density` is what a model that ignores the inputs would have said.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from kosambi._core.checks import as_level
from kosambi._core.types import Array, ArrayLike
from kosambi.calibration.checks import PredictiveDistribution, as_held_out, as_prediction, label_probabilities
from kosambi.likelihoods import AbstractLikelihood

COVERAGE = 0.95
"""The probability of the intervals that are looked at unless another is asked for."""


class Score(NamedTuple):
    """A score over held-out rows."""

    value: float
    """NaN where it is not defined, as the area under the ROC curve of one class."""
    standard_error: float
    """Over draws of the rows; NaN where it is not known."""

    def __str__(self) -> str:
        return f"{self.value:.4g}" + ("" if np.isnan(self.standard_error) else f" ± {self.standard_error:.2g}")


UNKNOWN = Score(np.nan, np.nan)


def held_out_scores(prediction: PredictiveDistribution, y: ArrayLike, coverage: float = COVERAGE) -> dict[str, Score]:
    """How good predictions are, per observation, on rows that were not used to fit.

    Arguments:
        prediction: `posterior.predict(x_new)`, or a tempered one.
        y: (N,), what was observed at these inputs.
        coverage: the probability of the intervals, between 0 and 1.

    Returns:
        By name. Numbers and counts: those of `number_scores`; labels: those of `label_scores`. What the likelihood
        cannot give, such as the log density of a loss, is left out.

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(-1.0, 1.0, 400)[:, None]
    >>> y = np.sin(3 * x[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=400)
    >>> gaussian = ko.likelihoods.Gaussian(0.1)
    >>> posterior = ko.infer(jax.random.key(0), ko.kernels.Matern52(), gaussian, x[::2], y[::2])
    >>> scores = ko.calibration.held_out_scores(posterior.predict(x[1::2]), y[1::2])
    >>> list(scores), round(scores["rmse"].value, 2)
    (['nll', 'mae', 'rmse', 'r2', 'coverage', 'width'], 0.1)
    """
    prediction = as_prediction(prediction)
    y, coverage, likelihood = as_held_out(prediction, y), as_level("coverage", coverage), prediction.likelihood
    if likelihood.num_labels is not None:
        return label_scores(y.astype(int), label_probabilities(prediction), prediction.log_density(y))
    is_known = likelihood.is_density and getattr(prediction, "is_noise_known", True)
    interval = prediction.interval(coverage) if is_known and likelihood.has_cdf else None
    density = prediction.log_density(y) if is_known else None
    return number_scores(y, point_prediction(prediction), density, interval)


def point_prediction(prediction: PredictiveDistribution) -> Float[Array, " N *C"]:
    """E y, for labels their probabilities; E f where an observation has no mean, or none that is known."""
    likelihood = prediction.likelihood
    latent = np.asarray(prediction.mean)
    if not (likelihood.is_density and likelihood.has_moments and getattr(prediction, "is_noise_known", True)):
        return latent
    mean = np.asarray(prediction.observation_mean)
    return mean if np.all(np.isfinite(mean)) else np.where(np.isfinite(mean), mean, latent)


def number_scores(
    y: Float[Array, " N"],
    mean: Float[Array, " N"],
    log_density: Float[Array, " N"] | None = None,
    interval: tuple[Float[Array, " N"], Float[Array, " N"]] | None = None,
) -> dict[str, Score]:
    """Scores of predictions of numbers or counts: "nll", "mae", "rmse", "r2", "coverage" and "width" of intervals.

    Arguments:
        y: (N,), what was observed.
        mean: (N,), what was predicted.
        log_density: (N,), of each observation; without it there is no "nll", the mean negative log density.
        interval: (lower, upper), each (N,); without them neither "coverage", the share of y inside, nor their "width".
    """
    errors = y - mean
    squares, variance = mean_score(np.square(errors)), float(np.var(y))
    rmse = float(np.sqrt(squares.value))
    found = {} if log_density is None else {"nll": mean_score(-np.asarray(log_density))}
    found["mae"] = mean_score(np.abs(errors))
    # By the derivative of the root, and of the quotient with the variance of y taken as known.
    found["rmse"] = Score(rmse, squares.standard_error / (2.0 * rmse) if rmse > 0.0 else np.nan)
    found["r2"] = UNKNOWN
    if variance > 0.0:
        found["r2"] = Score(1.0 - squares.value / variance, squares.standard_error / variance)
    if interval is not None:
        lower, upper = interval
        found |= {"coverage": share_score((lower <= y) & (y <= upper)), "width": mean_score(upper - lower)}
    return found


def label_scores(
    labels: Int[Array, " N"], probabilities: Float[Array, "N L"], log_probability: Float[Array, " N"] | None = None
) -> dict[str, Score]:
    """Scores of probabilities of labels: "accuracy", "log_loss", "brier" and "auc".

    Arguments:
        labels: (N,), the numbers of the labels that were observed.
        probabilities: (N, L).
        log_probability: (N,), of the label observed, where that has more digits than the table.
    """
    truth = labels[:, None] == np.arange(probabilities.shape[1])
    if log_probability is None:
        log_probability = np.log(np.maximum(probabilities[truth], np.finfo(np.float64).tiny))
    return {
        "accuracy": share_score(np.argmax(probabilities, axis=1) == labels),
        "log_loss": mean_score(-np.asarray(log_probability)),
        "brier": mean_score(np.sum(np.square(probabilities - truth), axis=1)),
        "auc": area_under_curve(truth, probabilities),
    }


def mean_score(values: Float[Array, " N"]) -> Score:
    """The mean of independent values with its standard error."""
    values = np.asarray(values, dtype=np.float64)
    if len(values) < 2 or not np.all(np.isfinite(values)):
        return Score(float(np.mean(values)), np.nan)
    return Score(float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values))))


def share_score(is_so: Bool[Array, " N"]) -> Score:
    """A share with its standard error; one more of each kind keeps that from being zero where all agree."""
    number, count = len(is_so), int(np.sum(is_so))
    near = (count + 1) / (number + 2)
    return Score(count / number, float(np.sqrt(near * (1.0 - near) / number)))


def area_under_curve(truth: Bool[Array, "N L"], probabilities: Float[Array, "N L"]) -> Score:
    """The area under the ROC curve of two labels; of more, the mean over those observed, each against the rest.

    With DeLong's standard error for two labels.
    """
    if truth.shape[1] == 2:
        return two_sample_area(probabilities[truth[:, 1], 1], probabilities[~truth[:, 1], 1])
    areas = [two_sample_area(p[is_so], p[~is_so]).value for is_so, p in zip(truth.T, probabilities.T, strict=True)]
    known = [area for area in areas if not np.isnan(area)]
    return Score(float(np.mean(known)), np.nan) if known else UNKNOWN


def two_sample_area(positive: Float[Array, " P"], negative: Float[Array, " Q"]) -> Score:
    """P(positive > negative) + ½P(equal) with DeLong's standard error; NaN where one of them is empty.

    >>> import numpy as np
    >>> two_sample_area(np.array([0.9, 0.8]), np.array([0.1, 0.85])).value
    0.75
    """
    from scipy.stats import rankdata

    if not len(positive) or not len(negative):
        return UNKNOWN
    ranks = rankdata(np.concatenate([positive, negative]))
    # For each positive the share of negatives below it, and the other way round.
    above = (ranks[: len(positive)] - rankdata(positive)) / len(negative)
    below = 1.0 - (ranks[len(positive) :] - rankdata(negative)) / len(positive)
    area = float(np.mean(above))
    if len(positive) < 2 or len(negative) < 2:
        return Score(area, np.nan)
    variance = np.var(above, ddof=1) / len(positive) + np.var(below, ddof=1) / len(negative)
    return Score(area, float(np.sqrt(variance)))


def baseline_log_density(
    likelihood: AbstractLikelihood, y: Float[Array, " N"], train: Float[Array, " T"], weights: Float[Array, " T"]
) -> tuple[Float[np.ndarray, " N"], str]:
    """The log density of y under a distribution that ignores the inputs, and that distribution in words.

    Arguments:
        likelihood: which says what is observed: numbers, positive numbers, counts or labels.
        y: (N,), the held-out observations.
        train: (T,), the training observations, whose mean and variance, or frequencies, it has.
        weights: (T,), how often each of them counts.
    """
    from scipy import stats

    if likelihood.num_labels is not None:
        frequencies = label_frequencies(train, weights, likelihood.num_labels)
        return np.log(frequencies)[y.astype(int)], "the frequencies of the classes in the training rows"
    mean = float(np.average(train, weights=weights))
    variance = float(np.average(np.square(train - mean), weights=weights))
    both = "distribution with the mean and variance of the training rows"
    if variance <= 0:
        return np.full(len(y), np.nan), "a constant"
    if likelihood.is_discrete:
        if variance <= mean * (1.0 + 1e-9):
            return stats.poisson(mean).logpmf(y), "a Poisson distribution with the mean of the training rows"
        return stats.nbinom(mean**2 / (variance - mean), mean / variance).logpmf(y), f"a negative binomial {both}"
    if likelihood.lowest >= 0:
        return stats.gamma(mean**2 / variance, scale=variance / mean).logpdf(y), f"a gamma {both}"
    return stats.norm(mean, np.sqrt(variance)).logpdf(y), f"a normal {both}"


def label_frequencies(
    train: Float[Array, " T"], weights: Float[Array, " T"] | Sequence[float], num_labels: int
) -> Float[np.ndarray, " L"]:
    """Shares of the labels in the training rows, each counted once more, so that none is impossible."""
    counts = np.bincount(train.astype(int), weights=weights, minlength=num_labels) + 1.0
    return counts / counts.sum()
