"""Summaries of a mixture: averages over its components, and quantiles and regions from its cdf, at many inputs.

A prediction is a mixture of K normal distributions of f with one standard deviation per input; an observation's noise
is integrated for each component, in closed form or by quadrature, and the K results are averaged: moments,
probabilities, log density, compiled and in blocks of inputs. Quantiles come from the cdf by SciPy's elementwise root
finding.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from kosambi._core.linalg import host_blocks
from kosambi._core.precision import at_rest, compiled, public
from kosambi._core.types import Array
from kosambi.likelihoods import AbstractLikelihood
from kosambi.likelihoods.quadrature import Rule, numbered_rule, trapezoidal

# F(y, i): the cdf of point i at y, for arrays of both.
Cdf = Callable[[np.ndarray, np.ndarray], np.ndarray]
_DOUBLINGS = 200
# Cells into which the counts of one point are put.
_MOST_CELLS = 2048
# Components times inputs of one block.
_VALUES_AT_ONCE = 2**20


@public
def moments(likelihood: AbstractLikelihood, means: Array, deviation: Array) -> tuple[Array, Array]:
    """Mean and variance of an observation under the mixture: (N,) each, or (N, C) for classes."""
    numbers = likelihood.summary_rules(deviation)
    first, second = _by_rule(_moments, numbered_rule, numbers, likelihood, means, deviation)
    return first, second


@public
def probabilities(likelihood: AbstractLikelihood, means: Array, deviation: Array) -> Float[Array, "N L"]:
    """P(y = k) under the mixture."""
    numbers = likelihood.summary_rules(deviation)
    (table,) = _by_rule(_probabilities, numbered_rule, numbers, likelihood, means, deviation)
    return table / np.sum(table, axis=1, keepdims=True)


@public
def log_density(likelihood: AbstractLikelihood, y: Array, means: Array, deviation: Array) -> Float[Array, " N"]:
    """log p(y) under the mixture."""
    if not likelihood.is_density:
        raise likelihood.no_density("a predictive density")
    counts = likelihood.density_nodes(deviation)
    (values,) = _by_rule(_log_density, trapezoidal, counts, likelihood, means, deviation, y)
    return values


def _by_rule(
    function: Any,
    rule_of: Callable[[int], Rule],
    numbers: Int[np.ndarray, " N"],
    likelihood: AbstractLikelihood,
    means: Array,
    deviation: Array,
    *others: Array,
) -> tuple[Array, ...]:
    """`function(rule, likelihood, means, deviation, *others)` with the rule that each input needs by itself."""
    present = np.unique(numbers)
    if present.size <= 1:
        rule = rule_of(int(present[0]) if present.size else 1)
        return _by_blocks(functools.partial(function, rule), likelihood, means, deviation, *others)
    results: list[Array] = []
    for number in present:
        chosen = np.flatnonzero(numbers == number)
        # Filled up to a power of two, so that few shapes are compiled.
        filled = np.resize(chosen, 2 ** max(5, int(np.ceil(np.log2(len(chosen))))))
        arrays = (means[:, filled], deviation[filled], *(v[filled] for v in others))
        rule = rule_of(int(number))
        values = _by_blocks(functools.partial(function, rule), likelihood.at_rows(filled), *arrays)
        results = results or [np.empty((deviation.shape[0], *value.shape[1:])) for value in values]
        for result, value in zip(results, values, strict=True):
            result[chosen] = value[: len(chosen)]
    return tuple(results)


def _by_blocks(
    function: Any, likelihood: AbstractLikelihood, means: Array, deviation: Array, *others: Array
) -> tuple[Array, ...]:
    """`function(likelihood, means, deviation, *others)` over blocks of inputs, put together along their axis."""
    num_points = deviation.shape[0]
    size = max(1, _VALUES_AT_ONCE // int(np.prod([means.shape[0], *means.shape[2:]])))
    if num_points <= size:
        return at_rest(function(likelihood, means, deviation, *others))
    results: list[Array] = []
    for part in host_blocks(num_points, size):
        arrays = (means[:, part], deviation[part], *(v[part] for v in others))
        block = at_rest(function(likelihood.at_rows(part), *arrays))
        results = results or [np.empty((num_points, *value.shape[1:])) for value in block]
        for result, value in zip(results, block, strict=True):
            result[part] = value
    return tuple(results)


@compiled
def _moments(rule: Rule, likelihood: AbstractLikelihood, means: Array, deviation: Array) -> tuple[Array, Array]:
    first, second = likelihood.raw_moments(means, deviation, rule)
    second = jnp.broadcast_to(second, first.shape)
    centre = jnp.mean(first, axis=0)
    return centre, jnp.mean(second, axis=0) + jnp.mean(jnp.square(first - centre), axis=0)


@compiled
def _probabilities(rule: Rule, likelihood: AbstractLikelihood, means: Array, deviation: Array) -> tuple[Array]:
    return (jnp.mean(likelihood.raw_probabilities(means, deviation, rule), axis=0),)


@compiled
def _log_density(rule: Rule, likelihood: AbstractLikelihood, means: Array, deviation: Array, y: Array) -> tuple[Array]:
    values = likelihood.raw_log_predictive(y, means, deviation, rule)
    top = jnp.max(values, axis=0)
    safe = jnp.where(jnp.isfinite(top), top, 0.0)
    return (safe + jnp.log(jnp.mean(jnp.exp(values - safe), axis=0)),)


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
