"""Held-out scores as the page shows them, beside those of a model that ignores the inputs."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float

from kosambi.calibration.checks import label_probabilities
from kosambi.calibration.scores import (
    baseline_log_density,
    label_frequencies,
    label_scores,
    mean_score,
    number_scores,
    point_prediction,
)
from kosambi.posterior import Prediction


@dataclasses.dataclass(frozen=True)
class Scores:
    """Means over held-out rows; NaN where a score is not defined."""

    gain: float
    """Log score above that of the baseline, a distribution that ignores the inputs, in nats per observation."""
    gain_error: float
    """Its standard error."""
    log_score: float
    """Mean log density, or log probability, of what was observed."""
    trivial: str
    """The baseline in words."""
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


def scores_of(
    prediction: Prediction,
    y: Float[np.ndarray, " N"],
    train: Float[np.ndarray, " T"],
    weights: Float[np.ndarray, " T"],
) -> Scores:
    """Of predictions at held-out rows, for a model fitted to the observations `train`, each counted `weights` times."""
    likelihood = prediction.likelihood
    baseline, words = baseline_log_density(likelihood, y, train, weights)
    is_known = likelihood.is_density and prediction.is_noise_known
    density = np.asarray(prediction.log_density(y)) if is_known else np.full(len(y), np.nan)
    gain, log_score = mean_score(density - baseline), mean_score(density)
    common = (gain.value, gain.standard_error, log_score.value, words)
    if likelihood.num_labels is not None:
        found = label_scores(y.astype(int), label_probabilities(prediction), density)
        majority = int(np.argmax(label_frequencies(train, weights, likelihood.num_labels)))
        return Scores(
            *common,
            accuracy=found["accuracy"].value,
            trivial_accuracy=float(np.mean(y == majority)),
            auc=found["auc"].value,
        )
    centre, found = float(np.average(train, weights=weights)), number_scores(y, point_prediction(prediction))
    return Scores(
        *common,
        r_squared=found["r2"].value,
        error=found["rmse"].value,
        trivial_error=float(np.sqrt(np.mean(np.square(y - centre)))),
    )
