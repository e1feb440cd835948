"""Where the search for hyperparameters begins, and how far it may go: values of the right size for the data.

Lengthscales are measured in standard deviations of the input columns, times √D, since distances grow with the number of
columns; the prior variance is that of rough latent values; noise is a share of it. A kernel that is not known here, and
every frozen parameter, stays as it was given.

Around these values lies a weak prior, normal in the free numbers (logarithms of positive ones), three wide: a variance
twenty times the usual one costs half a nat. It decides only what the data leave open; bounds keep the search where
floating point is safe. Lengthscales of several columns have a prior that is one wide: twenty times the usual one costs
4.5 nats, so that a column is not told from the others by few data. Without it the evidence, free to choose one for
each, learns noise.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float

from kosambi._core.long_tables import column_groups
from kosambi._core.precision import with_fields
from kosambi._core.types import Array
from kosambi.kernels import (
    AbstractCombination,
    AbstractKernel,
    AbstractStationary,
    Linear,
    Periodic,
)
from kosambi.learning.layout import Layout, Model, Parameter, rebuilt
from kosambi.likelihoods import AbstractLikelihood
from kosambi.priors import AbstractPrior, GaussianRandomElement
from kosambi.priors.base import evaluate_mean

WIDTH = 3.0
"""Standard deviation of the prior over logarithms."""
# Factors below and above the usual value, by the last part of a name; others get the last line.
_FACTORS: dict[str, tuple[float, float]] = {
    "lengthscale": (1e-3, 1e2),
    "noise": (3e-4, 30.0),
    "scale": (3e-4, 30.0),
    "degrees_of_freedom": (0.25, 50.0),
}
_USUAL_FACTORS = (1e-4, 1e4)
# Noise in units of y.
_NOISE = ("likelihood.noise", "likelihood.scale")
# Heavy tails and normal ones are all that degrees of freedom tell apart.
_WIDTHS = {"degrees_of_freedom": 1.5}
COLUMN_WIDTH = 1.0
"""The same for a lengthscale that is one of several."""


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
        return cls(columns, float(np.mean(rough)), deviation if deviation > 0 else 1.0, rounding_of(y))


def bulk_scales(x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, " D"]:
    """Standard deviations of the columns; of the bulk of a column where a few cells lie so far out that they decide it.

    From quartiles where the two differ by more than a factor of three: one cell of −999 among standard normal ones
    makes a standard deviation of 70.
    """
    found = [_bulk_scales(x[:, group]) for group in column_groups(x.shape[1])]
    return np.concatenate(found)


def _bulk_scales(x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, " D"]:
    spread = np.std(x, axis=0)
    bulk = np.subtract(*np.quantile(x, [0.75, 0.25], axis=0)) / 1.35
    return np.where((bulk > 0) & (spread > 3.0 * bulk), bulk, spread)


def rounding_of(y: Array) -> float:
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
    beginning: Beginning | None = None,
) -> Model:
    """A model to begin with; of the usual size when nothing else is asked for."""
    beginning = Beginning() if beginning is None else beginning
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


@dataclasses.dataclass(frozen=True)
class Limits:
    """For each free number the middle and the width of its prior, and its bounds."""

    centre: Float[np.ndarray, " P"]
    width: Float[np.ndarray, " P"]
    lower: Float[np.ndarray, " P"]
    upper: Float[np.ndarray, " P"]
    scale: Float[np.ndarray, " P"]
    """A step of usual size: one in logarithms; for a real number what moves the latent function by its spread."""
    rounded: tuple[str, ...] = ()
    """Names of noise whose lower bound is what the rounding of y adds."""

    def names_at_bound(self, layout: Layout, vector: np.ndarray) -> tuple[str, ...]:
        """Names of the numbers that lie at a bound."""
        margin = 1e-6 * (self.upper - self.lower)
        there = (vector <= self.lower + margin) | (vector >= self.upper - margin)
        return tuple(p.entry(i) for (p, i), at in zip(layout.entries(), there, strict=True) if at)


def penalty(bounds: Limits | None, vector: Float[np.ndarray, " P"]) -> tuple[float, Float[np.ndarray, " P"] | float]:
    """Minus the log of the weak prior, up to a constant, and its gradient; nothing where there is none."""
    if bounds is None:
        return 0.0, 0.0
    away = (vector - bounds.centre) / bounds.width
    return 0.5 * float(away @ away), away / bounds.width


def limits(layout: Layout, usual: Model, given: Model, scales: Scales, x: Float[Array, "N D"]) -> Limits:
    """The limits around a model of the usual size, widened so that the given one lies inside."""
    centre, inside = layout.vector(usual), layout.vector(given)
    spreads = _real_spreads(layout, usual, scales, x)
    rows = [_row(p, i, m, s) for (p, i), m, s in zip(layout.entries(), centre, spreads, strict=True)]
    width, lower, upper = np.array(rows).reshape(-1, 3).T
    names = [p.entry(i) for p, i in layout.entries()]
    # Two rows with the same inputs and the same rounded y would let the evidence rise without end as noise falls; but
    # rounding is noise by itself.
    least = np.log(scales.rounding) if scales.rounding > 0 else -np.inf
    is_rounded = np.array([name in _NOISE for name in names], dtype=bool) & (lower < least) & (least < upper)
    lower = np.minimum(np.where(is_rounded, least, lower), inside - 1e-3 * width)
    rounded = tuple(name for name, is_one in zip(names, is_rounded, strict=True) if is_one)
    is_real = np.array([p.support == "real" for p, _ in layout.entries()], dtype=bool)
    scale = np.where(is_real, spreads, 1.0)
    return Limits(centre, width, lower, np.maximum(upper, inside + 1e-3 * width), scale, rounded)


def usual_limits(
    layout: Layout,
    prior: AbstractPrior,
    given: Model,
    x: Float[np.ndarray, "N D"],
    y: Float[np.ndarray, " N"],
    likelihood: AbstractLikelihood | None = None,
) -> Limits:
    """The limits around values of the right size for the data; sizes of noise are those of `likelihood`, if given."""
    known = given.likelihood if likelihood is None else likelihood
    scales = Scales.of(prior, known, x, y, learns_mean(layout))
    return limits(layout, start(prior, known, x, y, scales), given, scales, x)


def _real_spreads(layout: Layout, usual: Model, scales: Scales, x: Float[Array, "N D"]) -> np.ndarray:
    """For real numbers the step that moves the latent function by its standard deviation, as far as that is known."""
    spreads = np.full(layout.size, scales.latent_deviation)
    some, vector = np.asarray(x)[:200], layout.vector(usual)
    for at, (parameter, _) in enumerate(layout.entries()):
        if parameter.support != "real":
            continue
        if not parameter.name.startswith("mean"):
            # A shift in units of y, or a parameter of one's own: the given value has the right size.
            spreads[at] += abs(vector[at])
        elif parameter.name != "mean":
            step = 1e-3 * (1.0 + abs(vector[at]))
            moved = vector.copy()
            moved[at] += step
            means = [evaluate_mean(layout.model(v, usual).mean, some) for v in (vector, moved)]
            slope = float(np.sqrt(np.mean(np.square(np.asarray(means[1]) - np.asarray(means[0]))))) / step
            spreads[at] = scales.latent_deviation / slope if slope > 0 and np.isfinite(slope) else spreads[at]
    return spreads


def _row(parameter: Parameter, i: int, middle: float, spread: float) -> tuple[float, float, float]:
    """Width, lower and upper bound of one free number."""
    field = parameter.name.rsplit(".", 1)[-1]
    if parameter.support == "positive":
        low, high = _FACTORS.get(field, _USUAL_FACTORS)
        is_column = field == "lengthscale" and parameter.size > 1
        width = COLUMN_WIDTH if is_column else _WIDTHS.get(field, WIDTH)
        return width, middle + np.log(low), middle + np.log(high)
    if parameter.support == "unit":
        return WIDTH, min(middle, 0.0) - 8.0, max(middle, 0.0) + 8.0
    if parameter.support == "increasing":
        reach = 20.0 if i == 0 else 7.0
        return WIDTH, middle - reach, middle + reach
    return WIDTH * spread, middle - 30.0 * spread, middle + 30.0 * spread
