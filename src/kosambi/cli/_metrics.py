"""How good predictions of held-out rows are, each number with its standard error where it has one."""

from __future__ import annotations

from typing import Any

import numpy as np

COVERAGE = 0.95
Metrics = dict[str, dict[str, float | None]]


def regression_metrics(estimator: Any, inputs: Any, y: np.ndarray) -> Metrics:
    """Negative log density, errors of the mean, and coverage and width of 95 % intervals."""
    mean = np.asarray(estimator.predict(inputs))
    lower, upper = estimator.predict_interval(inputs, coverage=COVERAGE)
    errors = y - mean
    rmse = float(np.sqrt(np.mean(errors**2)))
    squares, variance = _average(errors**2), float(np.var(y))
    # By the derivative of the root, and of the quotient with the variance of y taken as known.
    rmse_error = None if squares["se"] is None or rmse == 0.0 else squares["se"] / (2.0 * rmse)
    r2 = 1.0 - squares["value"] / variance if variance > 0.0 and squares["value"] is not None else None
    r2_error = None if squares["se"] is None or variance == 0.0 else squares["se"] / variance
    return {
        "nll": _average(-np.asarray(estimator.predict_log_density(inputs, y))),
        "mae": _average(np.abs(errors)),
        "rmse": {"value": rmse, "se": rmse_error},
        "r2": {"value": r2, "se": r2_error},
        "coverage_95": _share((lower <= y) & (y <= upper)),
        "width_95": _average(upper - lower),
    }


def classification_metrics(estimator: Any, inputs: Any, y: np.ndarray) -> Metrics:
    """Accuracy, that of always naming the commonest label, log loss, Brier score, and the AUC of two classes."""
    probabilities = np.asarray(estimator.predict_proba(inputs))
    classes = estimator.classes_
    truth = y[:, None] == classes
    commonest = float(np.max(truth.mean(axis=0)))
    found: Metrics = {
        "accuracy": _share(classes[np.argmax(probabilities, axis=1)] == y),
        "accuracy_of_commonest": {"value": commonest, "se": None},
        "log_loss": _average(-np.asarray(estimator.predict_log_density(inputs, y))),
        "brier": _average(np.sum((probabilities - truth) ** 2, axis=1)),
    }
    if len(classes) == 2:
        found["auc"] = _auc(probabilities[truth[:, 1], 1], probabilities[~truth[:, 1], 1])
    return found


def _average(values: np.ndarray) -> dict[str, float | None]:
    values = np.asarray(values, dtype=np.float64)
    error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
    return {"value": float(np.mean(values)), "se": error}


def _share(is_so: np.ndarray) -> dict[str, float | None]:
    """A share with its standard error; one more of each kind keeps that from being zero where all agree."""
    number, count = len(is_so), int(np.sum(is_so))
    near = (count + 1) / (number + 2)
    return {"value": count / number, "se": float(np.sqrt(near * (1.0 - near) / number))}


def _auc(positive: np.ndarray, negative: np.ndarray) -> dict[str, float | None]:
    """The area under the ROC curve with DeLong's standard error; None where a label does not occur.

    >>> _auc(np.array([0.9, 0.8]), np.array([0.1, 0.85]))["value"]
    0.75
    """
    from scipy.stats import rankdata

    if not len(positive) or not len(negative):
        return {"value": None, "se": None}
    ranks = rankdata(np.concatenate([positive, negative]))
    # For each positive the share of negatives below it, and the other way round.
    above = (ranks[: len(positive)] - rankdata(positive)) / len(negative)
    below = 1.0 - (ranks[len(positive) :] - rankdata(negative)) / len(positive)
    area = float(np.mean(above))
    if len(positive) < 2 or len(negative) < 2:
        return {"value": area, "se": None}
    variance = np.var(above, ddof=1) / len(positive) + np.var(below, ddof=1) / len(negative)
    return {"value": area, "se": float(np.sqrt(variance))}


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
