"""A fitted scikit-learn estimator as a file holds it: its settings, its posterior, numbers and names."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import numpy as np
from jaxtyping import Float

from kosambi.errors import InputError
from kosambi.kernels import AbstractKernel, coregionalizations
from kosambi.learning import FitReport
from kosambi.learning.hyperpriors import AbstractHyperprior
from kosambi.likelihoods import AbstractLikelihood, Gaussian
from kosambi.posterior import Posterior
from kosambi.samplers import AbstractSampler

_KINDS = {"regressor": "ProjectedLangevinRegressor", "classifier": "ProjectedLangevinClassifier"}
# Types of labels, as NumPy writes them: text, whole numbers, numbers, Boolean values, and text as Python objects.
_LABEL_KINDS = "UiufbO"
# Labels of text are padded to the longest one: bytes that this may take, and for each character that a file holds.
_PADDED, _PADDED_EACH = 2**24, 64


@dataclasses.dataclass(frozen=True, eq=False)
class SavedEstimator:
    """What `kosambi.save` writes for an estimator, and `kosambi.load` turns back into one."""

    kind: str
    likelihood: str | AbstractLikelihood | None
    kernel: AbstractKernel | str | None
    n_inducing: int | str | None
    n_neighbors: int | str | None
    n_samples: int
    hyperparameters: str | None
    sampler: str | AbstractSampler
    potential: str
    progress: bool | None
    random_state: int | None
    posterior: Posterior
    fit_report: FitReport | None
    x_mean: Float[np.ndarray, " D"]
    x_scale: Float[np.ndarray, " D"]
    feature_names: tuple[str, ...] | None
    label_type: str | None
    """How NumPy writes the type of the labels."""
    labels: tuple[str, ...] | None
    warm_start: bool = False
    standardize: bool = True
    kernel_units: str = "input"
    freeze: str | tuple[str, ...] | list[str] = ()
    tie: tuple[Any, ...] | list[Any] = ()
    priors: dict[str, AbstractHyperprior] | None = None
    y_mean: Float[np.ndarray, " P"] | None = None
    """With several outputs: where each lies."""
    y_scale: Float[np.ndarray, " P"] | None = None
    """And how large it is."""

    @property
    def problem(self) -> str | None:
        """Why no fit could have made this; None if one could."""
        number, likelihood = self.posterior.target.x.shape[1], self.posterior.likelihood
        if (self.y_mean is None) != (self.y_scale is None):
            return "it has a part of the units of its outputs"
        if self.y_mean is not None and self.y_scale is not None:
            known = {part.num_outputs for part in coregionalizations(self.posterior.prior.kernel)}
            if self.kind != "regressor" or known != {len(self.y_mean)} or not isinstance(likelihood, Gaussian):
                return "it has units of other outputs than its posterior"
            if not (np.all(np.isfinite([self.y_mean, self.y_scale])) and np.all(self.y_scale > 0)):
                return "the units of the outputs are not positive numbers"
            # The last column is the number of the output.
            number -= 1
        if self.kind not in _KINDS:
            return f"there is no estimator of kind {self.kind!r}"
        if self.x_mean.shape != (number,) or self.x_scale.shape != (number,):
            return "the scales of the inputs are not one per column"
        if not (np.all(np.isfinite(self.x_mean)) and np.all(np.isfinite(self.x_scale)) and np.all(self.x_scale > 0)):
            return "the scales of the inputs are not positive numbers"
        if self.feature_names is not None and len(self.feature_names) != number:
            return "the names of the inputs are not one per column"
        if (self.kind == "classifier") != (self.labels is not None) or (self.labels is None) != (
            self.label_type is None
        ):
            return "a classifier has labels, and a regressor has none"
        if self.labels is None:
            return None
        if len(self.labels) != likelihood.num_labels or len(set(self.labels)) != len(self.labels):
            return "the labels are not one per class"
        text, longest = sum(map(len, self.labels)), max(map(len, self.labels))
        if 4 * len(self.labels) * longest > _PADDED + _PADDED_EACH * text:
            return f"it has {len(self.labels)} labels, one with {longest} characters, too many to be padded to that"
        try:
            _as_labels(self.labels, self.label_type)
        except (TypeError, ValueError):
            return f"the labels are not of the type {self.label_type!r}"
        return None

    def restored(self) -> Any:
        """The estimator."""
        from kosambi import estimators

        cls = getattr(estimators, _KINDS[self.kind])
        made = cls(**{name: getattr(self, name) for name in cls._get_param_names()})
        made.posterior_, made.report_, made.fit_report_ = self.posterior, self.posterior.report, self.fit_report
        made.x_mean_, made.x_scale_, made.n_features_in_ = self.x_mean, self.x_scale, len(self.x_mean)
        if self.feature_names is not None:
            made.feature_names_in_ = np.array(self.feature_names, dtype=object)
        if self.y_mean is not None:
            made.y_mean_, made.y_scale_ = self.y_mean, self.y_scale
        if self.labels is not None:
            made.classes_ = _as_labels(self.labels, self.label_type)
        return made


def is_estimator(value: object) -> bool:
    """Whether `value` is one of kosambi's estimators."""
    # Who has an estimator has imported them; others need not wait for scikit-learn.
    module = sys.modules.get("kosambi.estimators")
    return module is not None and isinstance(value, module.AbstractEstimator)


def as_saved(value: Any) -> Any:
    """A fitted estimator as what a file holds of it; anything else as it is."""
    if not is_estimator(value):
        return value
    settings = settings_of(value)
    if not hasattr(value, "posterior_"):
        raise InputError(f"This {type(value).__name__} has not been fitted. Call `fit` before `save`.")
    names, labels = getattr(value, "feature_names_in_", None), getattr(value, "classes_", None)
    return SavedEstimator(
        kind=_kind(value),
        **settings,
        posterior=value.posterior_,
        fit_report=value.fit_report_,
        x_mean=value.x_mean_,
        x_scale=value.x_scale_,
        feature_names=None if names is None else tuple(map(str, names)),
        label_type=None if labels is None else _label_type(labels),
        labels=None if labels is None else tuple(map(str, labels.tolist())),
        y_mean=getattr(value, "y_mean_", None),
        y_scale=getattr(value, "y_scale_", None),
    )


def settings_of(estimator: Any) -> dict[str, Any]:
    """The arguments of an estimator, fitted or not, as a file holds them."""
    _kind(estimator)
    settings = {"likelihood": None} | estimator.get_params(deep=False)
    seed = settings["random_state"]
    if seed is not None and not isinstance(seed, int | np.integer):
        raise InputError("`random_state` is a generator, which a file cannot hold. Give a whole number.")
    return settings | {"random_state": None if seed is None else int(seed)}


def _kind(estimator: Any) -> str:
    for kind, name in _KINDS.items():
        if type(estimator).__name__ == name:
            return kind
    raise InputError(f"`save` knows kosambi's own estimators. Got a class of your own, {type(estimator).__name__}.")


def _label_type(labels: np.ndarray) -> str:
    if labels.dtype.kind not in _LABEL_KINDS or (
        labels.dtype.kind == "O" and not all(isinstance(label, str) for label in labels)
    ):
        raise InputError(f"`save` stores labels that are numbers or text. These are of type {labels.dtype}.")
    # As wide as the labels need, which may be less than the array that they come from.
    return np.array(labels.tolist()).dtype.str if labels.dtype.kind == "U" else labels.dtype.str


def _as_labels(labels: tuple[str, ...], kind: str | None) -> np.ndarray:
    dtype = np.dtype(kind)
    if dtype.kind not in _LABEL_KINDS:
        raise TypeError(kind)
    if dtype.kind == "O":
        return np.array(labels, dtype=object)
    if dtype.kind == "b":
        return np.array([label == "True" for label in labels])
    # Text is as wide as it is: a width that a file names would be memory for the asking.
    return np.array(labels) if dtype.kind == "U" else np.array(labels).astype(dtype)
