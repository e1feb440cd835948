"""Quantiles and highest-density regions of many points from their cdf, by SciPy's elementwise root finding."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

# F(y, i): the cdf of point i at y, for arrays of both.
Cdf = Callable[[np.ndarray, np.ndarray], np.ndarray]
_DOUBLINGS = 200
# Cells into which the counts of one point are put.
_MOST_CELLS = 2048


def continuous_quantile(
    cdf: Cdf, q: float, centre: np.ndarray, scale: np.ndarray, lowest: float
) -> Float[np.ndarray, " N"]:
    """y with F(y) = q at N points; the search begins at `centre` with steps of `scale`, and ends at `lowest`."""
    from scipy.optimize import elementwise  # here, because it takes longer to import than the rest
    from scipy.special import ndtri

    points = np.arange(centre.shape[0])
    # Where it would lie under a normal distribution, give or take.
    guess = np.maximum(centre + float(ndtri(q)) * scale, lowest)
    low = _widened(lambda y, i: cdf(y, i) > q, np.maximum(guess - 0.7 * scale, lowest), -scale, lowest)
    high = _widened(lambda y, i: cdf(y, i) < q, guess + 0.7 * scale, scale, lowest)
    found = elementwise.find_root(
        lambda y, i: cdf(y, i.astype(np.intp)) - q,
        (low, high),
        args=(points,),
        tolerances={"xrtol": 1e-9, "xatol": 1e-300, "fatol": 1e-10},
    )
    # Where F jumps over q at the end of its support there is no sign change, and the end is the quantile.
    return np.where(found.success, found.x, low)


def _widened(
    is_short: Callable[[np.ndarray, np.ndarray], np.ndarray], start: np.ndarray, step: np.ndarray, lowest: float
) -> Float[np.ndarray, " N"]:
    """Ends of a bracket, moved by doubled steps while they are too short."""
    end, active = start.copy(), np.arange(start.shape[0])
    for power in range(_DOUBLINGS):
        active = active[is_short(end[active], active) & ((end[active] > lowest) | (step[active] > 0))]
        if active.size == 0:
            break
        end[active] = np.maximum(end[active] + 2.0**power * step[active], lowest)
    return end


def count_quantile(cdf: Cdf, q: float, centre: np.ndarray) -> Float[np.ndarray, " N"]:
    """The smallest whole number y ≥ 0 with F(y) ≥ q at N points, by doubling and halving."""
    points = np.arange(centre.shape[0])
    high, low = np.maximum(1.0, np.ceil(centre)), np.full(centre.shape, -1.0)
    for _ in range(_DOUBLINGS):
        is_short = cdf(high, points) < q
        if not is_short.any():
            break
        low, high = np.where(is_short, high, low), np.where(is_short, 2.0 * high, high)
    # Beyond 2⁵³ there are no whole numbers between neighbours.
    while (active := points[high - low > np.maximum(1.0, 1e-15 * high)]).size:
        middle = np.floor(0.5 * (low[active] + high[active]))
        enough = cdf(middle, active) >= q
        high[active], low[active] = np.where(enough, middle, high[active]), np.where(enough, low[active], middle)
    return high


def highest_density(
    cdf: Cdf, coverage: float, low: np.ndarray, high: np.ndarray, num_cells: int
) -> list[Float[np.ndarray, "R 2"]]:
    """The smallest set of cells of a grid from `low` to `high` with the mass `coverage`, as intervals, at N points."""
    points = np.arange(low.shape[0])
    shares = np.linspace(0.0, 1.0, num_cells + 1)
    edges = low[:, None] + shares * (high - low)[:, None]
    below = np.stack([cdf(edges[:, k], points) for k in range(num_cells + 1)], axis=1)
    masses = np.diff(below, axis=1)
    regions = []
    for n in points:
        order = np.argsort(-masses[n], kind="stable")
        enough = int(np.searchsorted(np.cumsum(masses[n][order]), coverage)) + 1
        chosen = np.zeros(num_cells + 2, dtype=bool)
        chosen[1 + order[:enough]] = True
        turns = np.flatnonzero(np.diff(chosen))
        regions.append(np.stack([edges[n][turns[0::2]], edges[n][turns[1::2]]], axis=1))
    return regions


def highest_probability(probabilities: Float[np.ndarray, "N L"], coverage: float) -> list[np.ndarray]:
    """The fewest labels with probability `coverage` together, in increasing order, at N points."""
    chosen = []
    for row in probabilities:
        order = np.argsort(-row, kind="stable")
        enough = int(np.searchsorted(np.cumsum(row[order]), coverage * (1.0 - 1e-12))) + 1
        chosen.append(np.sort(order[:enough]))
    return chosen


def likeliest_counts(
    cdf: Cdf, coverage: float, low: Float[np.ndarray, " N"], high: Float[np.ndarray, " N"]
) -> list[np.ndarray]:
    """The fewest counts with probability `coverage` together, between `low` and `high`, at N points.

    In cells of several counts where there are very many.
    """
    chosen = []
    for point, (first, last) in enumerate(zip(low, high, strict=True)):
        width = max(1, int(np.ceil((last - first + 1) / _MOST_CELLS)))
        ends = np.arange(first - 1.0, last + width, width)
        masses = np.diff(cdf(ends, np.full(len(ends), point)))
        (cells,) = highest_probability(masses[None], coverage)
        chosen.append((ends[cells][:, None] + 1.0 + np.arange(width)).ravel())
    return chosen
