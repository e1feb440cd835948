"""How good predictions are on held-out data, beside those of a law that ignores the inputs."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float

from kosambi.calibration.checks import label_probabilities
from kosambi.plots.predictions import expected
from kosambi.posterior import Prediction


@dataclasses.dataclass(frozen=True)
class Scores:
    """Means over held-out rows; NaN where a score is not defined."""

    gain: float
    """Log score above that of the trivial law, in nats an observation."""
    gain_error: float
    """Its standard error."""
    log_score: float
    """Mean log density, or log probability, of what was observed."""
    trivial: str
    """The trivial law in words."""
    r_squared: float = np.nan
    """Share of the variance of y that the predicted mean explains; for numbers."""
    error: float = np.nan
    """Root mean squared error of the mean; for numbers."""
    trivial_error: float = np.nan
    """That of the training mean."""
    accuracy: float = np.nan
    """Share of rows whose likeliest class was right; for labels."""
    trivial_accuracy: float = np.nan
    """That of the most frequent class of the training rows."""
    auc: float = np.nan
    """Area under the ROC curve; the mean over classes against the rest where there are more than two."""

    @property
    def is_better(self) -> bool | None:
        """Whether the gain is above twice its standard error; None where it is not known."""
        return bool(self.gain > 2.0 * self.gain_error) if np.isfinite(self.gain) else None


def number_scores(
    prediction: Prediction,
    y: Float[np.ndarray, " N"],
    train: Float[np.ndarray, " T"],
    weights: Float[np.ndarray, " T"],
) -> Scores:
    """Of numbers and counts."""
    centre = float(np.average(train, weights=weights))
    residual, total = y - expected(prediction), float(np.sum(np.square(y - np.mean(y))))
    trivial, words = _trivial(prediction, y, train, weights)
    known = prediction.likelihood.is_density and prediction.is_noise_known
    density = np.asarray(prediction.log_density(y)) if known else np.full(len(y), np.nan)
    return Scores(
        *_gain(density, trivial),
        trivial=words,
        r_squared=float(1.0 - np.sum(np.square(residual)) / total) if total > 0 else np.nan,
        error=float(np.sqrt(np.mean(np.square(residual)))),
        trivial_error=float(np.sqrt(np.mean(np.square(y - centre)))),
    )


def label_scores(
    prediction: Prediction,
    y: Float[np.ndarray, " N"],
    train: Float[np.ndarray, " T"],
    weights: Float[np.ndarray, " T"],
) -> Scores:
    """Of labels."""
    table, labels = np.asarray(label_probabilities(prediction)), y.astype(int)
    # One more of each, so that no class that occurs is impossible.
    counts = np.bincount(train.astype(int), weights=weights, minlength=table.shape[1]) + 1.0
    trivial = np.log(counts / counts.sum())[labels]
    return Scores(
        *_gain(np.asarray(prediction.log_density(y)), trivial),
        trivial="the frequencies of the classes in the training rows",
        accuracy=float(np.mean(table.argmax(axis=1) == labels)),
        trivial_accuracy=float(np.mean(labels == counts.argmax())),
        auc=_auc(table, labels),
    )


def _gain(density: np.ndarray, trivial: np.ndarray) -> tuple[float, float, float]:
    gains = density - trivial
    error = float(np.std(gains, ddof=1) / np.sqrt(len(gains))) if len(gains) > 1 else np.nan
    return float(np.mean(gains)), error, float(np.mean(density))


def _trivial(prediction: Prediction, y: np.ndarray, train: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, str]:
    """The log density of y under a law with the mean and variance of the training rows."""
    from scipy import stats

    mean = float(np.average(train, weights=weights))
    variance = float(np.average(np.square(train - mean), weights=weights))
    likelihood = prediction.likelihood
    if variance <= 0:
        return np.full(len(y), np.nan), "a constant"
    if likelihood.is_discrete:
        if variance <= mean * (1.0 + 1e-9):
            return stats.poisson(mean).logpmf(y), "a Poisson law with the mean of the training rows"
        law = stats.nbinom(mean**2 / (variance - mean), mean / variance)
        return law.logpmf(y), "a negative binomial law with the mean and variance of the training rows"
    if likelihood.lowest >= 0:
        law = stats.gamma(mean**2 / variance, scale=variance / mean)
        return law.logpdf(y), "a gamma law with the mean and variance of the training rows"
    return stats.norm(mean, np.sqrt(variance)).logpdf(y), "a normal law with the mean and variance of the training rows"


def _auc(table: np.ndarray, labels: np.ndarray) -> float:
    from sklearn.metrics import roc_auc_score

    wanted = (1,) if table.shape[1] == 2 else range(table.shape[1])
    areas = [roc_auc_score(labels == k, table[:, k]) for k in wanted if np.any(labels == k) and not np.all(labels == k)]
    return float(np.mean(areas)) if areas else np.nan
