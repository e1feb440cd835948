"""What calibration asks of a prediction, and the checks of arguments that all of it shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_float_array, is_traced
from kosambi._core.types import Array, ArrayLike
from kosambi.errors import InputError
from kosambi.likelihoods import AbstractLikelihood

if TYPE_CHECKING:

    class PredictiveDistribution(Protocol):
        """The distributions of an observation at N inputs: a `kosambi.Prediction`, or one that was tempered."""

        @property
        def likelihood(self) -> AbstractLikelihood: ...
        @property
        def num_points(self) -> int: ...
        @property
        def mean(self) -> Array: ...
        @property
        def observation_mean(self) -> Array: ...
        @property
        def observation_variance(self) -> Array: ...
        @property
        def probability(self) -> Array: ...
        def quantile(self, q: ArrayLike) -> Array: ...
        def interval(self, coverage: float = 0.95) -> tuple[Array, Array]: ...
        def log_density(self, y: ArrayLike) -> Array: ...
        def _cdf(self, y: np.ndarray, points: np.ndarray) -> np.ndarray: ...
else:
    # A run-time check of a protocol would compute all its properties.
    PredictiveDistribution = Any

_NEEDED = ("likelihood", "num_points", "quantile", "log_density")


def as_prediction(prediction: object) -> PredictiveDistribution:
    """Refuse what is not a prediction."""
    if all(hasattr(prediction, name) for name in _NEEDED):
        return prediction  # type: ignore[return-value]
    raise InputError(
        f"`prediction` must be what `posterior.predict(x_new)` returns. Got {type(prediction).__name__}. Pass the "
        "prediction at the inputs of y."
    )


def as_held_out(prediction: PredictiveDistribution, y: ArrayLike) -> Float[Array, " N"]:
    """One possible observation for each input of the prediction."""
    if is_traced(y):
        raise InputError("Calibration looks at numbers, so it cannot run inside `jit`. Call it outside.")
    values = prediction.likelihood.check(y)
    if values.shape != (prediction.num_points,):
        raise InputError(
            f"`y` has {values.shape[0]} observations for the {prediction.num_points} inputs of the prediction. "
            "Give one per input, in the order of `x_new`."
        )
    return values


def as_levels(name: str, values: ArrayLike) -> Float[Array, " Q"]:
    """Numbers between 0 and 1, one at least."""
    levels = np.atleast_1d(as_float_array(name, values))
    if levels.ndim != 1 or levels.size == 0 or not np.all((levels > 0) & (levels < 1)):
        raise InputError(f"`{name}` must be numbers between 0 and 1. Got {values!r}. For 95 % write 0.95.")
    return levels


def check_cdf(prediction: PredictiveDistribution, what: str) -> None:
    """Refuse likelihoods without a cdf of an observation."""
    likelihood = prediction.likelihood
    if likelihood.is_density and (likelihood.has_cdf or likelihood.num_labels is not None):
        return
    raise InputError(
        f"`{type(likelihood).__name__}` has no cdf of an observation, so there is no {what}. Use a "
        "likelihood that has one, for example `StudentT` in place of `Huber`."
    )


def has_order(likelihood: AbstractLikelihood) -> bool:
    """Whether observations can be compared; the classes of `Categorical` cannot."""
    return likelihood.num_labels is None or likelihood.num_latents == 1


def label_probabilities(prediction: PredictiveDistribution) -> Float[Array, "N L"]:
    """P(y = k), also for two labels."""
    table = np.asarray(prediction.probability)
    return np.stack([1.0 - table, table], axis=1) if table.ndim == 1 else table


def likeliest_labels(table: Float[Array, "N L"], level: float) -> np.ndarray:
    """(N, L), true for the fewest labels that have probability `level` together."""
    order = np.argsort(-table, axis=1, kind="stable")
    before = np.cumsum(np.take_along_axis(table, order, axis=1), axis=1) - np.take_along_axis(table, order, axis=1)
    chosen = np.zeros(table.shape, dtype=bool)
    np.put_along_axis(chosen, order, before < level * (1.0 - 1e-12), axis=1)
    return chosen
