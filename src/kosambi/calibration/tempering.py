r"""Tempering: one factor τ for the spread of all predictive distributions, chosen on held-out data.

τ minimises the mean negative log density of the held-out observations. What it multiplies depends on what is observed:

* real numbers: the predictive variance. The density is stretched around its mean m,
  p_τ(y) = p(m + (y − m)/√τ)/√τ, and for one normal density with variance v the minimiser is the mean of (y − m)²/v.
  The published code of the paper multiplies by twice that;
* labels: the logarithms of probabilities are divided by τ, p_τ(k) ∝ p(k)^{1/τ};
* counts and positive numbers, which cannot be stretched without leaving their range, and costs of one's own: the
  variance of f. Component means are moved from their common mean by √τ, and their standard deviations multiplied by it.
  The noise of the likelihood stays, so the distribution of an observation cannot become narrower than that.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from kosambi._core.types import Array, ArrayLike
from kosambi.calibration.checks import PredictiveDistribution, as_held_out, as_prediction
from kosambi.calibration.distributions import StretchedPrediction, TemperedLabels, label_logarithms, scaled_logarithms
from kosambi.errors import HyperparameterWarning, InputError
from kosambi.likelihoods import AbstractLikelihood

SMALLEST, LARGEST = 1e-4, 1e4
"""Between which factors the best one is looked for."""
# Half a decade apart, so that of several minima the lowest is found.
# A gain of the mean log density below this part of it is rounding.
_SMALLEST_GAIN = 1e-9
_GRID = np.linspace(np.log(SMALLEST), np.log(LARGEST), 17)


@dataclasses.dataclass(frozen=True, eq=False)
class Tempering:
    """The factor that suits held-out data best, to be applied to other predictions of the same model."""

    factor: float
    """τ: above 1 the model was too sure of itself, below 1 not sure enough."""
    nll_before: float
    """The mean negative log density of the held-out data as they were predicted."""
    nll_after: float
    """The same after tempering; never larger."""
    kind: str
    """What τ multiplies: the variance of an "observation", that of the "latent" f, or the "temperature" of labels."""
    num_observations: int
    """How many held-out data there were."""
    is_at_bound: bool
    """Whether the search ended at its smallest or largest factor, so that the best one is not known."""
    likelihood: str
    """The name of the likelihood."""

    def apply(self, prediction: PredictiveDistribution) -> Any:
        """The tempered distribution at other inputs, with the summaries of an observation that a prediction has.

        Arguments:
            prediction: `posterior.predict(x_new)` of the same posterior, or of one with the same likelihood.
        """
        prediction = as_prediction(prediction)
        if type(prediction.likelihood).__name__ != self.likelihood:
            raise InputError(
                f"`prediction` has a `{type(prediction.likelihood).__name__}` likelihood, but the factor was found for "
                f"`{self.likelihood}`. Temper the predictions of each model by themselves."
            )
        return _tempered(prediction, self.kind, self.factor)

    def __str__(self) -> str:
        what = {"observation": "the predictive variance", "latent": "the variance of f", "temperature": "temperature"}
        verdict = "about right" if abs(np.log(self.factor)) < 0.1 else "too narrow" if self.factor > 1 else "too wide"
        bound = "; the search ended at its bound" if self.is_at_bound else ""
        return (
            f"factor {self.factor:.4g} of {what[self.kind]}: predictions were {verdict}{bound}\n"
            f"  mean negative log density of {self.num_observations} held-out data: "
            f"{self.nll_before:.4f} before, {self.nll_after:.4f} after"
        )


def temper(prediction: PredictiveDistribution, y: ArrayLike) -> Tempering:
    """The factor τ of the predictive spread that minimises the negative log density of held-out data.

    Arguments:
        prediction: `posterior.predict(x)` at inputs that were not used to fit.
        y: (N,), what was observed there.

    Returns:
        A `Tempering`; its `apply(prediction)` tempers other predictions. Scores of the held-out data themselves are
        too good afterwards, since they chose the factor: judge on a third part.

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(-1.0, 1.0, 400)[:, None]
    >>> y = np.sin(3 * x[:, 0]) + 0.2 * np.random.default_rng(0).normal(size=400)
    >>> gaussian = ko.likelihoods.Gaussian(0.1)                                 # half of the noise there is
    >>> posterior = ko.infer(jax.random.key(0), ko.kernels.Matern52(), gaussian, x[::2], y[::2])
    >>> prediction = posterior.predict(x[1::2])
    >>> found = ko.calibration.temper(prediction, y[1::2])
    >>> bool(3.0 < found.factor < 5.0)
    True
    >>> bool(np.allclose(found.apply(prediction).observation_variance, found.factor * prediction.observation_variance))
    True
    """
    prediction = as_prediction(prediction)
    y = as_held_out(prediction, y)
    likelihood = prediction.likelihood
    if not likelihood.is_density:
        raise likelihood.no_density("a best factor")
    kind = _kind(likelihood)
    before = -float(np.mean(prediction.log_density(y)))
    score = _score(prediction, y, kind)
    logarithm, is_at_bound = _minimiser(score)
    after = score(logarithm)
    # Where the held-out data say nothing, rounding must not say it for them.
    if before - after > _SMALLEST_GAIN * (1.0 + abs(before)):
        factor = float(np.exp(logarithm))
    else:
        factor, after, is_at_bound = 1.0, before, False
    if not np.isfinite(before):
        raise InputError(
            "`y` has observations to which the predictions give no density at all, so no factor can be found. "
            f"Look at row {int(np.argmin(prediction.log_density(y)))} of y."
        )
    if is_at_bound:
        warnings.warn(
            f"The best factor lies at or beyond {factor:g}, where the search ends. The held-out data are too few, or "
            "tempering is no cure: look at `calibration_report`.",
            HyperparameterWarning,
            stacklevel=2,
        )
    return Tempering(factor, before, after, kind, len(y), is_at_bound, type(likelihood).__name__)


def _kind(likelihood: AbstractLikelihood) -> str:
    if likelihood.num_labels is not None:
        return "temperature"
    is_real = not likelihood.is_discrete and np.isneginf(likelihood.lowest)
    return "observation" if is_real and likelihood.has_moments else "latent"


def _tempered(prediction: Any, kind: str, factor: float) -> Any:
    if kind == "observation":
        return StretchedPrediction(prediction, factor)
    if kind == "temperature":
        return TemperedLabels(prediction, factor)
    return prediction.with_latent_factor(factor)


def _score(prediction: PredictiveDistribution, y: Array, kind: str) -> Callable[[float], float]:
    """The mean negative log density as a function of log τ."""
    if kind == "temperature":
        table, rows, labels = label_logarithms(prediction), np.arange(len(y)), y.astype(int)
        return lambda t: _finite(-np.mean(scaled_logarithms(table, float(np.exp(t)))[rows, labels]))
    return lambda t: _finite(-np.mean(_tempered(prediction, kind, float(np.exp(t))).log_density(y)))


def _finite(value: Any) -> float:
    return float(value) if np.isfinite(value) else np.inf


def _minimiser(score: Callable[[float], float]) -> tuple[float, bool]:
    """log τ with the lowest score: the best of a grid, refined between its neighbours."""
    from scipy.optimize import minimize_scalar

    best = int(np.argmin([score(float(t)) for t in _GRID]))
    ends = _GRID[max(best - 1, 0)], _GRID[min(best + 1, len(_GRID) - 1)]
    found = float(minimize_scalar(score, bounds=ends, method="bounded", options={"xatol": 1e-8}).x)
    found = min((found, float(_GRID[best])), key=score)
    return found, bool(min(found - _GRID[0], _GRID[-1] - found) < 1e-3)
