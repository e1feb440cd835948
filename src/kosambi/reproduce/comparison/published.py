"""The predictions of the paper's published code from the draws of the recipe, so that what its defects do is seen.

Numbers refer to the list of defects of that code: (3) the joint matrix of Matheron's rule is no covariance, and is
clipped, (4) its support contains the test rows, so that predictions depend on the batch, (5) the learned noise
variance is used as a standard deviation, one draw of noise is shared by all rows of a particle, (6) the tempering
factor is twice its optimum. Its Gaussian scores come from the mean and variance of J = 100 draws. Which of plain,
tempered and conformal predictions feed the table of the paper is not recorded; all three are computed.
"""

from __future__ import annotations

import warnings
from typing import Any

import jax
import numpy as np
from scipy import stats

import kosambi as ko
from kosambi.likelihoods import Gaussian, StudentT
from kosambi.reproduce.comparison.data import Part, Split
from kosambi.reproduce.comparison.scores import of_labels

_FIRST_KEY = 2**30 + 16


def variants(posterior: ko.Posterior, split: Split, seed: int, exact_noise: float) -> dict[str, dict[str, float]]:
    """Scores on the test rows under the steps from sound predictions to those of the code.

    Arguments:
        posterior: of the recipe.
        split: the rows.
        seed: of the split.
        exact_noise: standard deviation of the noise of the exact process that the kernel comes from.
    """
    if isinstance(posterior.likelihood, Gaussian):
        found = _of_numbers(posterior, split, seed)
    elif isinstance(posterior.likelihood, StudentT):
        found = _of_student(posterior, split, seed, exact_noise)
    else:
        probability = np.mean(1.0 / (1.0 + np.exp(-_functions(posterior, split.test, seed, 0, "matheron"))), axis=0)
        found = {"published": of_labels(probability, split.test.y)}
    return {name: {k: float(f"{v:.6g}") for k, v in scores.items()} for name, scores in found.items()}


def _functions(posterior: ko.Posterior, part: Part, seed: int, number: int, method: str) -> np.ndarray:
    key = jax.random.fold_in(jax.random.key(seed), _FIRST_KEY + number)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that R was clipped is the point here
        draws: Any = posterior.functions(key, method=method)
        return np.asarray(draws(part.x))


def _of_numbers(posterior: ko.Posterior, split: Split, seed: int) -> dict[str, dict[str, float]]:
    likelihood = posterior.likelihood
    assert isinstance(likelihood, Gaussian)
    deviation, rng = float(likelihood.noise), np.random.default_rng(seed)
    y = split.test.y

    def noise(shape: tuple[int, ...], as_published: bool) -> np.ndarray:
        if as_published:
            return deviation**2 * rng.normal(size=(shape[0], 1))
        return deviation * rng.normal(size=shape)

    pathwise = _functions(posterior, split.test, seed, 1, "pathwise")
    joint = _functions(posterior, split.test, seed, 2, "matheron")
    held_out = _functions(posterior, split.validation, seed, 3, "matheron")
    # Added in this order, each with noise of its own.
    found = {
        "moments": normal_scores(pathwise + noise(pathwise.shape, False), y),
        "noise": normal_scores(pathwise + noise(pathwise.shape, True), y),
        "joint": normal_scores(joint + noise(joint.shape, False), y),
    }
    draws, validation = joint + noise(joint.shape, True), held_out + noise(held_out.shape, True)
    found["published"] = normal_scores(draws, y)
    mean, variance = validation.mean(axis=0), validation.var(axis=0, ddof=1)
    factor = 2.0 * float(np.mean(np.square(split.validation.y - mean) / variance))
    found["published_tempered"] = normal_scores(draws, y, factor)
    found["published_conformal"] = conformal_scores(validation, split.validation.y, draws, y)
    return found


def _of_student(posterior: ko.Posterior, split: Split, seed: int, exact_noise: float) -> dict[str, dict[str, float]]:
    """Student's law around the mean of the draws with the fitted scale, without the spread of the posterior.

    The conformal predictions come from draws with Student noise, whose scale is the noise variance of the exact
    process (defect 5 again).
    """
    likelihood = posterior.likelihood
    assert isinstance(likelihood, StudentT)
    freedom, rng = float(likelihood.degrees_of_freedom), np.random.default_rng(seed)
    joint = _functions(posterior, split.test, seed, 4, "matheron")
    held_out = _functions(posterior, split.validation, seed, 5, "matheron")
    mean = joint.mean(axis=0)
    law = stats.t(freedom, mean, float(likelihood.scale))
    draws, validation = (f + exact_noise**2 * rng.standard_t(freedom, size=f.shape) for f in (joint, held_out))
    return {
        "published": {
            "nll": -float(np.mean(law.logpdf(split.test.y))),
            "mae": float(np.mean(np.abs(split.test.y - mean))),
        },
        "published_conformal": conformal_scores(validation, split.validation.y, draws, split.test.y),
    }


def normal_scores(draws: np.ndarray, y: np.ndarray, factor: float = 1.0) -> dict[str, float]:
    """NLL and MAE of the normal law with the mean and the sample variance (times a factor) of draws (J, N).

    >>> normal_scores(np.array([[-1.0], [1.0]]), np.array([1.0]))["mae"]
    1.0
    """
    mean, variance = draws.mean(axis=0), factor * draws.var(axis=0, ddof=1)
    nll = 0.5 * np.log(2 * np.pi * variance) + np.square(y - mean) / (2 * variance)
    return {"nll": float(np.mean(nll)), "mae": float(np.mean(np.abs(y - mean)))}


def conformal_scores(
    validation: np.ndarray, y_validation: np.ndarray, draws: np.ndarray, y: np.ndarray
) -> dict[str, float]:
    """The code's conformal predictions: median, half the width of the interval of two thirds as a deviation."""
    lower, upper = _conformal(validation, y_validation, draws, 2.0 / 3.0)
    median, deviation = np.median(draws, axis=0), np.maximum(0.5 * (upper - lower), 1e-12)
    low, high = _conformal(validation, y_validation, draws, 0.95)
    return {
        "nll": -float(np.mean(stats.norm(median, deviation).logpdf(y))),
        "mae": float(np.mean(np.abs(y - median))),
        "width": float(np.mean(high - low)),
        "coverage": float(np.mean((low <= y) & (y <= high))),
    }


def _conformal(
    validation: np.ndarray, y: np.ndarray, draws: np.ndarray, coverage: float
) -> tuple[np.ndarray, np.ndarray]:
    levels = [(1.0 - coverage) / 2.0, (1.0 + coverage) / 2.0]
    lower, upper = np.quantile(validation, levels, axis=0)
    level = min(1.0, (len(y) + 1) * coverage / len(y))
    correction = np.quantile(np.maximum(lower - y, y - upper), level)
    low, high = np.quantile(draws, levels, axis=0)
    median = np.median(draws, axis=0)
    return np.minimum(low - correction, median), np.maximum(high + correction, median)
