"""How far hyperparameters may go: a weak prior and bounds around values of the right size for the data.

The prior is normal in the free numbers (logarithms of positive ones), three wide: a variance twenty times the usual one
costs half a nat. It decides only what the data leave open; the bounds keep the search where floating point is safe.

Lengthscales of several columns have a prior that is one wide: twenty times the usual one costs 4.5 nats, so that a
column is not told from the others by few data. Without it the evidence, free to choose one for each, learns noise.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float

from kosambi._core.types import Array
from kosambi.learning._layout import Layout, Model, Parameter
from kosambi.learning._starts import Scales
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
