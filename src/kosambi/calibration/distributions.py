"""Distributions of observations after tempering: stretched around their mean, or probabilities to a power."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_float_array, as_level
from kosambi._core.types import Array, ArrayLike
from kosambi.calibration.checks import PredictiveDistribution, as_held_out, as_levels, has_order
from kosambi.errors import InputError
from kosambi.likelihoods import AbstractLikelihood


class _Summaries:
    """What both tempered distributions have in common."""

    @property
    def likelihood(self) -> AbstractLikelihood:
        """The likelihood of the prediction."""
        return self.prediction.likelihood  # type: ignore[attr-defined]

    @property
    def num_points(self) -> int:
        """N, the number of inputs."""
        return self.prediction.num_points  # type: ignore[attr-defined]

    @property
    def mean(self) -> Float[Array, " N *C"]:
        """E f, which tempering leaves as it is."""
        return self.prediction.mean  # type: ignore[attr-defined]

    def interval(self, coverage: float = 0.95) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
        """The central interval (lower, upper), each (N,): an observation is inside with probability `coverage`."""
        tail = 0.5 * (1.0 - as_level("coverage", coverage))
        lower, upper = self.quantile([tail, 1.0 - tail])  # type: ignore[attr-defined]
        return lower, upper


@dataclasses.dataclass(frozen=True, eq=False)
class StretchedPrediction(_Summaries):
    """The distribution of c + √τ (y − c) with c = E y at each input: the same shape and mean, τ times the variance.

    `Tempering.apply` makes it. Where E y does not exist, c is the median.
    """

    prediction: Any
    """The prediction of y."""
    factor: float
    """τ."""

    @functools.cached_property
    def _centre(self) -> Float[Array, " N"]:
        centre = np.array(self.prediction.observation_mean)
        return centre if np.all(np.isfinite(centre)) else np.asarray(self.prediction.quantile(0.5))

    @property
    def observation_mean(self) -> Float[Array, " N"]:
        """E y, as before."""
        return self.prediction.observation_mean

    @property
    def observation_variance(self) -> Float[Array, " N"]:
        """τ Var y."""
        return self.factor * self.prediction.observation_variance

    @property
    def probability(self) -> Array:
        """Refused: there are no labels."""
        return self.prediction.probability

    def quantile(self, q: ArrayLike) -> Float[Array, "*Q N"]:
        """The q-quantile of an observation: (N,) for a number q, (Q, N) for Q of them."""
        return self._centre + np.sqrt(self.factor) * (self.prediction.quantile(q) - self._centre)

    def log_density(self, y: ArrayLike) -> Float[Array, " N"]:
        """The log density of one observation `y` (N,) at each input."""
        y = as_held_out(self, y)
        return self.prediction.log_density(self.unstretched(y)) - 0.5 * np.log(self.factor)

    def unstretched(self, y: Float[Array, " N"]) -> Float[Array, " N"]:
        """The values that the stretch moved to `y`."""
        return self._centre + (y - self._centre) / np.sqrt(self.factor)

    def _cdf(self, y: np.ndarray, points: np.ndarray) -> np.ndarray:
        centre = self._centre[points]
        return self.prediction._cdf(centre + (y - centre) / np.sqrt(self.factor), points)


@dataclasses.dataclass(frozen=True, eq=False)
class TemperedLabels(_Summaries):
    """Labels with probabilities proportional to P(y = k)^{1/τ}: all the same for large τ, the likeliest for small.

    `Tempering.apply` makes it.
    """

    prediction: Any
    """The prediction of y."""
    factor: float
    """τ."""

    @functools.cached_property
    def _logarithms(self) -> Float[Array, "N L"]:
        return scaled_logarithms(label_logarithms(self.prediction), self.factor)

    @property
    def probability(self) -> Float[Array, " N *L"]:
        """P(y = 1), (N,), for `Bernoulli`; P(y = k), (N, L), for `Categorical` and `Ordinal`."""
        table = np.exp(self._logarithms)
        return np.ascontiguousarray(table[:, 1]) if self.likelihood.is_binary else table

    @property
    def observation_mean(self) -> Float[Array, " N *C"]:
        """E y; for `Categorical` the class probabilities, (N, C)."""
        table = np.exp(self._logarithms)
        return table @ np.arange(table.shape[1]) if has_order(self.likelihood) else table

    @property
    def observation_variance(self) -> Float[Array, " N *C"]:
        """Var y; for `Categorical` that of each indicator, (N, C)."""
        table = np.exp(self._logarithms)
        if not has_order(self.likelihood):
            return table * (1.0 - table)
        labels = np.arange(table.shape[1])
        return np.sum(table * np.square(labels - (table @ labels)[:, None]), axis=1)

    def quantile(self, q: ArrayLike) -> Float[Array, "*Q N"]:
        """The smallest label k with P(y ≤ k) ≥ q: (N,) for a number q, (Q, N) for Q of them."""
        if not has_order(self.likelihood):
            raise InputError(
                f"The labels of `{type(self.likelihood).__name__}` have no order, so there are no quantiles. Use "
                "`probability`."
            )
        below = np.cumsum(np.exp(self._logarithms), axis=1)
        rows = [np.argmax(below >= level * (1.0 - 1e-12), axis=1).astype(float) for level in as_levels("q", q)]
        return rows[0] if as_float_array("q", q).ndim == 0 else np.stack(rows)

    def log_density(self, y: ArrayLike) -> Float[Array, " N"]:
        """The log probability of one label `y` (N,) at each input."""
        y = as_held_out(self, y)
        return self._logarithms[np.arange(self.num_points), y.astype(int)]

    def _cdf(self, y: np.ndarray, points: np.ndarray) -> np.ndarray:
        below = np.cumsum(np.exp(self._logarithms), axis=1)
        return np.where(y < 0, 0.0, below[points, np.clip(np.floor(y), 0, below.shape[1] - 1).astype(int)])


def label_logarithms(prediction: PredictiveDistribution) -> Float[Array, "N L"]:
    """log P(y = k), which keeps its digits where the probability of another label rounds to one."""
    labels = range(prediction.likelihood.num_labels or 0)
    return np.stack([prediction.log_density(np.full(prediction.num_points, float(k))) for k in labels], axis=1)


def scaled_logarithms(logarithms: Float[Array, "N L"], factor: float) -> Float[Array, "N L"]:
    """Logarithms of probabilities that are proportional to the given ones to the power 1/τ."""
    from scipy.special import log_softmax

    return log_softmax(np.maximum(logarithms, -1e300) / factor, axis=1)
