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
from reproduction.comparison.data import Part, Split
from reproduction.comparison.scores import of_labels

_FIRST_KEY = 2**30 + 16
# Of a generator, beside the seed of the split, which alone is that of the scores.
_STUDENT = 2


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
    """Student's t-distribution around the mean of the draws with the fitted scale, without the spread of the posterior.

    The scale of the noise of the draws themselves is the noise variance of the exact process (5). The code renews its
    draws for every number; here one set serves all.
    """
    likelihood = posterior.likelihood
    assert isinstance(likelihood, StudentT)
    freedom, rng = float(likelihood.degrees_of_freedom), np.random.default_rng([seed, _STUDENT])
    test, held_out = (
        student_draws(
            rng,
            _functions(posterior, part, seed, number, "matheron"),
            _weights(posterior, part.x),
            freedom,
            exact_noise**2,
        )
        for part, number in ((split.test, 4), (split.validation, 5))
    )
    mean = test.mean(axis=0)
    student = stats.t(freedom, mean, float(likelihood.scale))
    return {
        "published": {
            "nll": -float(np.mean(student.logpdf(split.test.y))),
            "mae": float(np.mean(np.abs(split.test.y - mean))),
        },
        "published_conformal": conformal_scores(held_out, split.validation.y, test, split.test.y),
    }


def student_draws(
    rng: np.random.Generator, f: np.ndarray, weights: np.ndarray, freedom: float, scale: float
) -> np.ndarray:
    """Draws f (J, N) with Student noise on every entry of the joint draw, as the code adds it.

    Matheron's rule then subtracts φ(x) times the part of the draw at the coordinates, and so the noise there; the rows
    of a particle share it.
    """
    at_rows = rng.standard_t(freedom, size=f.shape)
    at_coordinates = rng.standard_t(freedom, size=(len(f), weights.shape[1]))
    return f + scale * (at_rows - at_coordinates @ weights.T)


def _weights(posterior: ko.Posterior, x: np.ndarray) -> np.ndarray:
    with jax.enable_x64(True):
        return np.asarray(posterior.basis.mean_weights(jax.numpy.asarray(x)))


def normal_scores(draws: np.ndarray, y: np.ndarray, factor: float = 1.0) -> dict[str, float]:
    """NLL and MAE of the normal distribution with the mean and the sample variance (times a factor) of draws (J, N).

    >>> normal_scores(np.array([[-1.0], [1.0]]), np.array([1.0]))["mae"]
    1.0
    """
    mean, variance = draws.mean(axis=0), factor * draws.var(axis=0, ddof=1)
    nll = 0.5 * np.log(2 * np.pi * variance) + np.square(y - mean) / (2 * variance)
    return {"nll": float(np.mean(nll)), "mae": float(np.mean(np.abs(y - mean)))}


def conformal_scores(
    validation: np.ndarray, y_validation: np.ndarray, draws: np.ndarray, y: np.ndarray
) -> dict[str, float]:
    """The code's conformal predictions: median, half the width of the interval of two thirds as a standard deviation.

    NLL is NaN, as in the code, where that interval is nothing but its median.
    """
    lower, upper = _conformal(validation, y_validation, draws, 2.0 / 3.0)
    median, deviation = np.median(draws, axis=0), 0.5 * (upper - lower)
    low, high = _conformal(validation, y_validation, draws, 0.95)
    return {
        "nll": -float(np.mean(stats.norm.logpdf(y, median, deviation))) if np.all(deviation > 0) else float("nan"),
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
