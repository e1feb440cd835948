"""Averages over the components of a mixture, compiled, in blocks of inputs: moments, probabilities, log density.

A prediction is a mixture of K normal distributions of f with one standard deviation per input; an observation's noise
is integrated for each component, in closed form or by quadrature, and the K results are averaged.
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
