"""Scores of held-out rows as a run records them, each number with its standard error where it has one."""

from __future__ import annotations

from typing import Any

import numpy as np

from kosambi.calibration.scores import COVERAGE as COVERAGE
from kosambi.calibration.scores import Score, label_scores, number_scores

Metrics = dict[str, dict[str, float | None]]


def regression_metrics(estimator: Any, inputs: Any, y: np.ndarray) -> Metrics:
    """Negative log density, errors of the mean, and coverage and width of 95 % intervals."""
    mean, density = np.asarray(estimator.predict(inputs)), np.asarray(estimator.predict_log_density(inputs, y))
    found = number_scores(y, mean, density, estimator.predict_interval(inputs, coverage=COVERAGE))
    level = f"_{100 * COVERAGE:g}"
    return {name + (level if name in ("coverage", "width") else ""): _entry(score) for name, score in found.items()}


def classification_metrics(estimator: Any, inputs: Any, y: np.ndarray) -> Metrics:
    """Accuracy, that of always naming the commonest label, log loss, Brier score, and the AUC of two classes."""
    classes, density = estimator.classes_, np.asarray(estimator.predict_log_density(inputs, y))
    # A label that was not in the training rows has no number: no prediction is right about it.
    numbers = np.array([{name: i for i, name in enumerate(classes.tolist())}.get(label, -1) for label in y.tolist()])
    found = label_scores(numbers, np.asarray(estimator.predict_proba(inputs)), density)
    commonest = Score(float(np.max(np.mean(numbers[:, None] == np.arange(len(classes)), axis=0))), np.nan)
    kept = {"accuracy": found["accuracy"], "accuracy_of_commonest": commonest} | found
    return {name: _entry(score) for name, score in kept.items() if name != "auc" or len(classes) == 2}


def _entry(score: Score) -> dict[str, float | None]:
    """As JSON has it, which knows no NaN."""
    value, error = (None if np.isnan(number) else number for number in score)
    return {"value": value, "se": error}


def as_text(metrics: Metrics) -> str:
    """A table of them for people."""
    names = {
        "nll": "negative log density",
        "mae": "mean absolute error",
        "rmse": "root mean squared error",
        "r2": "R²",
        "coverage_95": "inside 95 % intervals",
        "width_95": "mean width of these",
        "accuracy": "accuracy",
        "accuracy_of_commonest": "accuracy of the commonest label",
        "log_loss": "log loss",
        "brier": "Brier score",
        "auc": "area under the ROC curve",
    }
    lines = []
    for name, entry in metrics.items():
        value, error = entry["value"], entry["se"]
        shown = "–" if value is None else f"{value:.4g}" + ("" if error is None else f" ± {error:.2g}")
        lines.append(f"  {names[name]:<32}{shown}")
    return "\n".join(lines)
