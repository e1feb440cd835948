"""How far hyperparameters may go: a weak prior and bounds around values of the right size for the data.

The prior is normal in the free numbers (logarithms of positive ones), three wide: a lengthscale twenty times the usual
one costs half a nat. It decides only what the data leave open, such as the lengthscale of a column that does not
matter; the bounds keep the search where floating point is safe.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float

from kosambi.hyperparameters._layout import Layout, Parameter
from kosambi.hyperparameters._starts import Scales

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
# Heavy tails and normal ones are all that degrees of freedom tell apart.
_WIDTHS = {"degrees_of_freedom": 1.5}


@dataclasses.dataclass(frozen=True)
class Limits:
    """For each free number the middle and the width of its prior, and its bounds."""

    centre: Float[np.ndarray, " P"]
    width: Float[np.ndarray, " P"]
    lower: Float[np.ndarray, " P"]
    upper: Float[np.ndarray, " P"]

    def names_at_bound(self, layout: Layout, vector: np.ndarray) -> tuple[str, ...]:
        """Names of the numbers that lie at a bound."""
        margin = 1e-6 * (self.upper - self.lower)
        there = (vector <= self.lower + margin) | (vector >= self.upper - margin)
        return tuple(p.entry(i) for (p, i), at in zip(layout.entries(), there, strict=True) if at)


def limits(layout: Layout, usual: Any, given: Any, scales: Scales) -> Limits:
    """The limits around a model of the usual size, widened so that the given one lies inside."""
    centre, inside = layout.vector(usual), layout.vector(given)
    rows = [_row(parameter, i, middle, scales) for (parameter, i), middle in zip(layout.entries(), centre, strict=True)]
    width, lower, upper = np.array(rows).reshape(-1, 3).T
    return Limits(centre, width, np.minimum(lower, inside - 1e-3), np.maximum(upper, inside + 1e-3))


def _row(parameter: Parameter, i: int, middle: float, scales: Scales) -> tuple[float, float, float]:
    """Width, lower and upper bound of one free number."""
    field = parameter.name.rsplit(".", 1)[-1]
    if parameter.support == "positive":
        low, high = _FACTORS.get(field, _USUAL_FACTORS)
        return _WIDTHS.get(field, WIDTH), middle + np.log(low), middle + np.log(high)
    if parameter.support == "unit":
        return WIDTH, min(middle, 0.0) - 8.0, max(middle, 0.0) + 8.0
    if parameter.support == "increasing":
        reach = 20.0 if i == 0 else 7.0
        return WIDTH, middle - reach, middle + reach
    # A real number moves with the latent function.
    spread = scales.latent_deviation + (abs(middle) if parameter.name != "mean" else 0.0)
    return WIDTH * spread, middle - 30.0 * spread, middle + 30.0 * spread
