"""What a page is made from: the fitted model, and how it does on held-out data."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from kosambi._core.types import ArrayLike
from kosambi.calibration import Calibration, calibration_report
from kosambi.errors import InputError
from kosambi.page._scores import Scores, scores_of
from kosambi.plots.predictions import interval
from kosambi.plots.style import as_columns, as_fitted
from kosambi.plots.units import check_one_output
from kosambi.posterior import Posterior, Prediction
from kosambi.posterior.certificate import Certificate
from kosambi.samplers.report import Report


@dataclasses.dataclass(frozen=True, eq=False)
class HeldOut:
    """Rows that were not used to fit, with what is said of them."""

    x: Float[np.ndarray, "N D"]
    """Inputs, in their own units."""
    y: Float[np.ndarray, " N"]
    """Observations; labels by their numbers."""
    prediction: Prediction
    """The predictive distributions at these inputs."""
    calibration: Calibration | None
    """None where a new observation has no distribution."""
    scores: Scores
    """How good predictions are, and those of a model that ignores the inputs."""
    num_outside: int
    """Rows that lie outside the range of the training rows in some column, by half a standard deviation or more."""


@dataclasses.dataclass(frozen=True, eq=False)
class Facts:
    """All that the sections of a page ask for."""

    estimator: Any
    """The fitted estimator."""
    names: list[str]
    """Of the input columns."""
    target: str
    """What y is called."""
    classes: list[str]
    """Of a classifier."""
    x: Float[np.ndarray, "N D"]
    """Training inputs, in their own units."""
    held_out: HeldOut | None
    """None where no such data were given."""
    certificate: Certificate | str
    """Or the reason why there is none."""

    @property
    def posterior(self) -> Posterior:
        """The posterior, whose inputs are standardised."""
        return self.estimator.posterior_

    @property
    def report(self) -> Report | None:
        """How the draws were made."""
        return self.posterior.report

    @property
    def has_labels(self) -> bool:
        """Whether observations are labels."""
        return self.posterior.likelihood.num_labels is not None

    @property
    def warnings(self) -> list[str]:
        """What the user was warned of, each once."""
        learned, drawn = self.estimator.fit_report_, self.report
        said = [*(() if learned is None else learned.warnings), *(() if drawn is None else drawn.warnings)]
        if self.held_out is not None:
            said += self.held_out.prediction.warnings
        return list(dict.fromkeys(said))


def gathered(estimator: Any, X: ArrayLike | None, y: ArrayLike | None, target: str | None = None) -> Facts:
    """The facts of an estimator, with held-out data if there are any; `target` is what y is called."""
    if not hasattr(estimator, "posterior_") or not hasattr(estimator, "predict_distribution"):
        raise InputError(
            "`estimator` must be a fitted `ProjectedLangevinRegressor` or `ProjectedLangevinClassifier`. Got "
            f"{type(estimator).__name__}. Call `fit` first, and pass the last step of a pipeline."
        )
    check_one_output("page.write", estimator)
    if (X is None) != (y is None):
        raise InputError("`X` and `y` belong together. Give both, or None for both where there are no held-out data.")
    x = training_inputs(estimator)
    names = as_columns(estimator, x)[1] if X is None else as_columns(estimator, X)[1]
    certificate: Certificate | str
    near = estimator.posterior_.target.neighborhood
    if near is not None and near.is_all:
        certificate = (
            "All rows inform every input directly, so that no answer depends on inducing points: with Gaussian noise "
            "this is the full posterior."
        )
    elif near is not None:
        # It takes longer than the fit.
        certificate = "`posterior_.certificate()` compares the draws with those of twice as many neighbours."
    else:
        try:
            certificate = estimator.certificate_
        except InputError as error:
            certificate = str(error)
    return Facts(
        estimator=estimator,
        names=names,
        target=str(getattr(y, "name", None) or "y") if target is None else target,
        classes=[str(name) for name in getattr(estimator, "classes_", ())],
        x=x,
        held_out=None if X is None or y is None else _held_out(estimator, x, X, y),
        certificate=certificate,
    )


def training_inputs(estimator: Any) -> Float[np.ndarray, "N D"]:
    """The rows that the model was fitted to, in their own units, without the last digits that rounding has spoilt."""
    scale = np.asarray(estimator.x_scale_)
    x = np.asarray(estimator.posterior_.target.x) * scale + np.asarray(estimator.x_mean_)
    size = 10.0 ** np.floor(np.log10(np.maximum(np.abs(x).max(axis=0), scale)) - 11)
    return np.round(x / size) * size


def _held_out(estimator: Any, training: Float[np.ndarray, "N D"], X: ArrayLike, y: ArrayLike) -> HeldOut:
    x, _ = as_columns(estimator, X)
    observed = _numbers(estimator, y)
    if observed.shape != (len(x),):
        raise InputError(f"`y` has shape {observed.shape} for {len(x)} rows of `X`. Give one observation per row.")
    # The table itself where names must be checked against those of the fit.
    prediction = estimator.predict_distribution(X if hasattr(X, "columns") else as_fitted(estimator, x))
    target, likelihood = estimator.posterior_.target, estimator.posterior_.likelihood
    train, weights = np.asarray(target.y), np.ones(len(target.y)) if target.weights is None else target.weights
    calibration = None
    if likelihood.num_labels is not None:
        calibration = calibration_report(prediction, observed)
    elif interval(prediction, 0.95) is not None:
        calibration = calibration_report(prediction, observed, jax.random.key(0))
    scores = scores_of(prediction, observed, train, np.asarray(weights))
    # Of many columns some row is always a little beyond the others, so a little does not count.
    slack = 0.5 * np.asarray(estimator.x_scale_)
    outside = np.any((x < training.min(axis=0) - slack) | (x > training.max(axis=0) + slack), axis=1)
    return HeldOut(x, observed, prediction, calibration, scores, int(outside.sum()))


def _numbers(estimator: Any, y: ArrayLike) -> np.ndarray:
    """Observations as the likelihood knows them."""
    values = np.asarray(y)
    if not hasattr(estimator, "classes_"):
        return np.asarray(estimator.posterior_.likelihood.check(values))
    known = np.asarray(estimator.classes_)
    places = {name: number for number, name in enumerate(known.tolist())}
    unknown = sorted({str(value) for value in values.ravel().tolist() if value not in places})
    if unknown:
        raise InputError(
            f"`y` has classes that were not in the training data: {', '.join(unknown[:4])}. The model knows "
            f"{', '.join(map(str, known[:6]))}. Leave those rows out."
        )
    return np.array([places[value] for value in values.ravel().tolist()], dtype=np.float64).reshape(values.shape)
