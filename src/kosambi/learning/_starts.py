"""Where the search for hyperparameters begins: values of the right size for the data.

Lengthscales are measured in standard deviations of the input columns, times √D, since distances grow with the number of
columns; the prior variance is that of rough latent values; noise is a share of it. A kernel that is not known here, and
every frozen parameter, stays as it was given.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float

from kosambi._core.precision import with_fields
from kosambi._core.types import Array
from kosambi.kernels import (
    AbstractCombination,
    AbstractKernel,
    AbstractStationary,
    Linear,
    Periodic,
)
from kosambi.learning._layout import Layout, Model, rebuilt
from kosambi.likelihoods import AbstractLikelihood
from kosambi.priors import AbstractPrior, GaussianRandomElement


@dataclasses.dataclass(frozen=True)
class Scales:
    """The sizes of things in the data."""

    columns: Float[np.ndarray, " D"]
    """Standard deviations of the input columns, of their bulk; one for a column that does not vary."""
    latent_mean: float
    """The mean of rough latent values."""
    latent_deviation: float
    """Their standard deviation."""
    rounding: float = 0.0
    """The standard deviation of what rounding to the smallest step between two observations adds."""

    @classmethod
    def of(cls, prior: AbstractPrior, likelihood: AbstractLikelihood, x: Array, y: Array, learn_mean: bool) -> Scales:
        """Measured; around the mean of the prior if that is not learned."""
        spread = bulk_scales(np.asarray(x))
        rough = np.asarray(likelihood.raw_rough_latent(y), dtype=np.float64)
        if rough.ndim == 2 and likelihood.num_labels is None:
            rough = rough[:, 0]
        if np.ptp(rough) == 0:
            # A likelihood that says nothing of its latent function, such as `Custom`: most are in units of y.
            rough = np.asarray(y, dtype=np.float64)
        fixed = np.zeros(len(y)) if learn_mean else np.asarray(prior.mean_at(x))
        away = rough - (fixed if rough.ndim == 1 else fixed[:, None])
        deviation = float(np.std(away) if learn_mean else np.sqrt(np.mean(np.square(away))))
        if likelihood.num_latents > 1:
            # One kernel for functions of different units, of which the others are logarithms or logits.
            deviation = max(deviation, 1.0)
        columns = np.where(spread > 0, spread, 1.0)
        return cls(columns, float(np.mean(rough)), deviation if deviation > 0 else 1.0, _rounding(y))


def bulk_scales(x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, " D"]:
    """Standard deviations of the columns; of the bulk of a column where a few cells lie so far out that they decide it.

    From quartiles where the two differ by more than a factor of three: one cell of −999 among standard normal ones
    makes a standard deviation of 70.
    """
    spread = np.std(x, axis=0)
    bulk = np.subtract(*np.quantile(x, [0.75, 0.25], axis=0)) / 1.35
    return np.where((bulk > 0) & (spread > 3.0 * bulk), bulk, spread)


def _rounding(y: Array) -> float:
    """δ/√12, δ being the smallest step between observations; zero unless each value occurs twice on average."""
    values = np.unique(np.asarray(y, dtype=np.float64))
    return float(np.min(np.diff(values))) / np.sqrt(12.0) if 1 < len(values) <= 0.5 * len(y) else 0.0


def learns_mean(layout: Layout) -> bool:
    """Whether the mean of the prior is free."""
    return any(parameter.name.startswith("mean") for parameter, _ in layout.entries())


@dataclasses.dataclass(frozen=True)
class Beginning:
    """How to begin: lengthscales and noise in usual units, and a period as a part of the width of its column."""

    reach: float = 1.0
    """Lengthscales, in √D standard deviations of the columns."""
    share: float = 0.3
    """Noise, as a part of the standard deviation of y."""
    period: float | None = None
    """That of periodic kernels; as given when None."""


def start(
    prior: AbstractPrior,
    likelihood: AbstractLikelihood,
    x: Array,
    y: Array,
    scales: Scales,
    beginning: Beginning = Beginning(),  # noqa: B008
) -> Model:
    """A model to begin with."""
    kernel = _spread(prior.kernel, scales.columns, beginning.reach)
    if beginning.period is not None:
        kernel = _with_period(kernel, beginning.period * np.ptp(x, axis=0))
    mean = prior.mean if callable(prior.mean) else np.asarray(scales.latent_mean)
    begun = rebuilt(prior, Model(kernel, mean, likelihood))
    variance = float(np.mean(begun.variance(x[: min(len(x), 500)])))
    wanted = scales.latent_deviation**2 / variance if variance > 0 and np.isfinite(variance) else 1.0
    # r holds k twice for a Gaussian random element.
    degree = 2.0 if isinstance(prior, GaussianRandomElement) else 1.0
    kernel = kernel.with_factor(wanted ** (1.0 / degree))
    # Noise varies about the mean of y, wherever that is.
    noise = float(np.std(np.asarray(likelihood.raw_rough_latent(y)))) or scales.latent_deviation
    return Model(kernel, mean, likelihood.started_from(y, beginning.share, noise))


def has_period(kernel: AbstractKernel) -> bool:
    """Whether there is a periodic kernel in it."""
    if isinstance(kernel, AbstractCombination):
        return any(has_period(part) for part in kernel.kernels)
    return isinstance(kernel, Periodic)


def _with_period(kernel: AbstractKernel, periods: np.ndarray) -> AbstractKernel:
    """The kernel with periods from one per column, where they are positive."""
    if isinstance(kernel, AbstractCombination):
        return with_fields(kernel, kernels=tuple(_with_period(part, periods) for part in kernel.kernels))
    if not isinstance(kernel, Periodic):
        return kernel
    own = periods if kernel.active_dims is None else periods[list(kernel.active_dims)]
    own = np.where(own > 0, own, 1.0)
    shape = np.shape(kernel.period)
    return with_fields(kernel, period=own if np.size(kernel.period) == len(own) > 1 else np.full(shape, own.mean()))


def _spread(kernel: AbstractKernel, columns: np.ndarray, reach: float) -> AbstractKernel:
    """The kernel with lengthscales for columns of these standard deviations."""
    if isinstance(kernel, AbstractCombination):
        return with_fields(kernel, kernels=tuple(_spread(part, columns, reach) for part in kernel.kernels))
    if isinstance(kernel, Periodic):
        # Its lengthscale has no unit; periods are tried one after the other.
        return kernel
    if isinstance(kernel, AbstractStationary):
        own = columns if kernel.active_dims is None else columns[list(kernel.active_dims)]
        scaled = reach * np.sqrt(len(own)) * own
        if np.size(kernel.lengthscale) == 1:
            scaled = np.full(np.shape(kernel.lengthscale), np.exp(np.mean(np.log(scaled))))
        return with_fields(kernel, lengthscale=scaled)
    if isinstance(kernel, Linear):
        own = columns if kernel.active_dims is None else columns[list(kernel.active_dims)]
        scaled = own**-2.0 / len(own)
        return with_fields(
            kernel,
            variance=scaled if np.size(kernel.variance) > 1 else np.full(np.shape(kernel.variance), scaled.mean()),
        )
    return kernel
