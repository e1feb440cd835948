"""How good predictions are: the metrics of the paper, and a few more.

A method for numbers hands over its predictive distributions at the validation and the test rows as
`kosambi.Prediction`, so that all of them are judged by the same code; a method for labels hands over probabilities.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from kosambi import calibration
from kosambi.likelihoods import AbstractLikelihood, Gaussian, StudentT
from kosambi.posterior import Prediction
from reproduction.comparison.data import Split

COVERAGE = 0.95
# Draws of an observation for the CRPS of distributions other than one normal.
_DRAWS = 2000


def normal_latent(likelihood: AbstractLikelihood, mean: np.ndarray, deviation: np.ndarray) -> Prediction:
    """The predictive distribution of a method whose latent function is normal at each input."""
    mean = np.ascontiguousarray(mean, dtype=np.float64)
    deviation = np.ascontiguousarray(deviation, dtype=np.float64)
    return Prediction(likelihood, mean[None], deviation, np.ones_like(mean))


def of_split(predict: Callable[[np.ndarray], Prediction], split: Split, likelihood: str, seed: int) -> dict[str, float]:
    """Scores of a kosambi posterior on the test rows of a split, to six digits."""
    test = predict(split.test.x)
    if likelihood == "bernoulli":
        found = of_labels(np.asarray(test.probability), split.test.y)
    else:
        found = of_numbers(predict(split.validation.x), split.validation.y, test, split.test.y, seed)
    return {name: float(f"{value:.6g}") for name, value in found.items()}


def of_numbers(
    validation: Prediction, y_validation: np.ndarray, test: Prediction, y: np.ndarray, seed: int = 0
) -> dict[str, float]:
    """Scores of a regression on the test rows.

    NLL is the mean negative log density of an observation; `width` and `coverage` belong to conformal 95 % intervals
    (the validation rows correct them, as in the paper), `plain_width` and `plain_coverage` to those of the distribution
    itself.
    """
    centre = point_prediction(test)
    lower, upper = test.interval(COVERAGE)
    fixed_lower, fixed_upper = calibration.conformal(validation, y_validation, COVERAGE).interval(test)
    return {
        "nll": -float(np.mean(test.log_density(y))),
        "mae": float(np.mean(np.abs(y - centre))),
        "rmse": float(np.sqrt(np.mean(np.square(y - centre)))),
        "crps": float(np.mean(ranked_score(test, y, seed))),
        "width": float(np.mean(fixed_upper - fixed_lower)),
        "coverage": float(np.mean((fixed_lower <= y) & (y <= fixed_upper))),
        "plain_width": float(np.mean(upper - lower)),
        "plain_coverage": float(np.mean((lower <= y) & (y <= upper))),
    }


def point_prediction(prediction: Prediction) -> Float[np.ndarray, " N"]:
    """The mean of an observation; where noise has none (Student's with few degrees of freedom), that of f."""
    centre = np.asarray(prediction.observation_mean)
    return np.asarray(np.where(np.isfinite(centre), centre, prediction.mean))


def of_labels(probability: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Scores of P(y = 1): area under the curve and accuracy in per cent, log loss and Brier's score.

    The CRPS of a label is Brier's score. A probability of one half counts as label 0, as rounding does it.

    >>> of_labels(np.array([0.1, 0.4, 0.35, 0.8]), np.array([0.0, 0.0, 1.0, 1.0]))["auc"]
    75.0
    """
    from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

    probability = np.clip(np.asarray(probability, dtype=np.float64), 1e-15, 1.0 - 1e-15)
    return {
        "auc": 100.0 * float(roc_auc_score(y, probability)),
        "accuracy": 100.0 * float(np.mean((probability > 0.5) == (y == 1))),
        "log_loss": float(log_loss(y, probability)),
        "brier": float(brier_score_loss(y, probability)),
    }


def ranked_score(prediction: Prediction, y: np.ndarray, seed: int = 0) -> Float[np.ndarray, " N"]:
    """CRPS of each observation: closed for one normal distribution, from 2,000 draws for others."""
    if isinstance(prediction.likelihood, Gaussian):
        return np.asarray(calibration.crps(prediction, y))
    return sample_crps(observation_draws(prediction, _DRAWS, seed), y)


def observation_draws(prediction: Prediction, number: int, seed: int) -> Float[np.ndarray, "S N"]:
    """Independent observations of each input: a component, f from it, noise."""
    rng = np.random.default_rng(seed)
    means, points = prediction.component_means, prediction.num_points
    which = rng.integers(means.shape[0], size=(number, points))
    f = means[which, np.arange(points)] + prediction.component_deviation * rng.normal(size=(number, points))
    likelihood = prediction.likelihood
    if isinstance(likelihood, StudentT):
        noise = rng.standard_t(float(likelihood.degrees_of_freedom), size=f.shape)
        return f + float(likelihood.scale) * noise
    assert isinstance(likelihood, Gaussian)
    return f + likelihood.noise * rng.normal(size=f.shape)


def sample_crps(draws: Float[np.ndarray, "S N"], y: np.ndarray) -> Float[np.ndarray, " N"]:
    """E|Y − y| − ½E|Y − Y'| with both means over draws, the second over different ones (so that it has no bias).

    >>> sample_crps(np.array([[0.0], [1.0]]), np.array([0.0]))
    array([0.])
    """
    number = draws.shape[0]
    ordered = np.sort(draws, axis=0)
    rank = 2.0 * np.arange(number) - number + 1.0
    # Σ_{i<j} |y_j − y_i| of sorted draws is Σ_i rank_i y_i.
    spread = rank @ ordered / (number * (number - 1))
    return np.mean(np.abs(draws - y), axis=0) - spread
