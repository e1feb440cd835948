"""How far two sets of draws are from each other, and straight lines through logarithms."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.spatial.distance import cdist
from scipy.stats import linregress


def energy_distance(a: Float[np.ndarray, "A D"], b: Float[np.ndarray, "B D"]) -> float:
    """2 E|a − b| − E|a − a'| − E|b − b'| over all pairs of rows: zero for equal samples, never below.

    Its square root is a metric on distributions (Székely and Rizzo 2013). Over all pairs, each row with itself
    included, it is never negative but grows with fewer rows, also for equal distributions: `Yardstick.noise` says how
    large it is then.

    >>> import numpy as np
    >>> energy_distance(np.zeros((3, 2)), np.ones((5, 2))).__round__(6)
    2.828427
    """
    across = 2.0 * float(np.mean(cdist(a, b)))
    return max(0.0, across - float(np.mean(cdist(a, a))) - float(np.mean(cdist(b, b))))


class Noise(NamedTuple):
    """The distance of draws from the distribution of the reference itself."""

    mean: float
    limit: float
    """What 99 of 100 sets of draws stay below."""


class Comparison(NamedTuple):
    """Two sets of draws beside the reference."""

    first: float
    second: float
    standard_error: float
    """Of their difference; it knows nothing of the bias that both share, the mean of `Noise`."""


class Yardstick:
    """A long run to which draws are compared, in units of its standard deviation at each input.

    Arguments:
        reference: (R, D), independent draws or nearly so, in random order; draws are compared to the first half.
    """

    def __init__(self, reference: Float[np.ndarray, "R D"]) -> None:
        self.mean, self.deviation = reference.mean(axis=0), reference.std(axis=0, ddof=1)
        self.all = self._scaled(reference)
        self.half = self.all[: len(reference) // 2]

    def distance(self, draws: Float[np.ndarray, "J D"]) -> float:
        """The energy distance of `draws` to the first half of the reference, per coordinate."""
        return energy_distance(self._scaled(draws), self.half) / self.half.shape[1]

    def noise(self, num_draws: int, repeats: int = 200, seed: int = 0) -> Noise:
        """Distances of `num_draws` rows of the reference to as many others as a half has, drawn at random."""
        generator, total, half = np.random.default_rng(seed), len(self.all), len(self.half)
        count = min(num_draws, total - half)
        signs = np.zeros((repeats, total))
        for row in signs:
            order = generator.permutation(total)
            row[order[:half]], row[order[half : half + count]] = 1.0 / half, -1.0 / count
        # 2 aᵀDb − aᵀDa − bᵀDb = −(a − b)ᵀD(a − b) with the weights a and b of the two sets.
        distances = -np.sum((signs @ cdist(self.all, self.all)) * signs, axis=1) / self.all.shape[1]
        return Noise(float(distances.mean()), float(np.quantile(distances, 0.99)))

    def compare(self, first: Float[np.ndarray, "J D"], second: Float[np.ndarray, "K D"]) -> Comparison:
        """Both distances, with what the draws of all three sets make uncertain in their difference."""
        sets, variance, pulls = [self._scaled(first), self._scaled(second)], 0.0, []
        for draws in sets:
            across = cdist(draws, self.half)
            # How much each draw, and each row of the reference, moves the distance, to first order.
            influence = 2.0 * (across.mean(axis=1) - cdist(draws, draws).mean(axis=1))
            variance += float(np.var(influence, ddof=1)) / len(draws)
            pulls.append(2.0 * across.mean(axis=0))
        variance += float(np.var(pulls[0] - pulls[1], ddof=1)) / len(self.half)
        error = float(np.sqrt(variance)) / self.half.shape[1]
        return Comparison(self.distance(first), self.distance(second), error)

    def moments(self, draws: Float[np.ndarray, "J D"]) -> tuple[float, float]:
        """Root mean square errors of mean and standard deviation, both in deviations of the reference."""
        mean = (draws.mean(axis=0) - self.mean) / self.deviation
        deviation = draws.std(axis=0, ddof=1) / self.deviation - 1.0
        return float(np.sqrt(np.mean(mean**2))), float(np.sqrt(np.mean(deviation**2)))

    def _scaled(self, draws: Float[np.ndarray, "J D"]) -> Float[np.ndarray, "J D"]:
        return (draws - self.mean) / self.deviation


class Line(NamedTuple):
    """A straight line through points, by least squares."""

    slope: float
    standard_error: float
    """Of the slope, from the scatter about the line; NaN through two points."""
    constant: float


def fit_line(horizontal: Float[np.ndarray, " P"], vertical: Float[np.ndarray, " P"]) -> Line:
    """The line through at least two points.

    >>> fit_line(np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0, 5.0])).slope.__round__(6)
    2.0
    """
    found = linregress(horizontal, vertical)
    error = float(found.stderr) if len(horizontal) > 2 else float("nan")
    return Line(float(found.slope), error, float(found.intercept))


def power_law(sizes: Int[np.ndarray, " P"] | Float[np.ndarray, " P"], values: Float[np.ndarray, " P"]) -> Line:
    """The exponent of values ∝ sizes^slope.

    >>> sizes = np.array([4, 8, 16])
    >>> power_law(sizes, 5.0 * sizes**-3.0).slope.__round__(6)
    -3.0
    """
    return fit_line(np.log(np.asarray(sizes, dtype=float)), np.log(values))
