r"""Averages over components, compiled, in blocks of inputs.

The law of f at new inputs, given the particles: a mixture of normal laws with one deviation an input.

Given the coordinates, f(x) ~ N(m(x) + ψ(x)ᵀw, σ²(x)) with the residual variance σ² of the basis. Over J particles that
is a mixture of J components; when the law of w is known, N(μ, RRᵀ), it is the one normal law with mean m + ψᵀμ and
variance σ² + |Rᵀψ|².
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from kosambi._core.linalg import host_blocks
from kosambi._core.precision import at_rest, compiled, lift, public
from kosambi._core.types import Array
from kosambi.basis import AbstractBasis
from kosambi.likelihoods import AbstractLikelihood, Gaussian
from kosambi.likelihoods.quadrature import Rule, numbered_rule, rule_number, trapezoidal
from kosambi.priors.functions.draws import evaluate_mean
from kosambi.samplers import Particles
from kosambi.target import Target

# Components times inputs of one block of averages, and of one block of the inputs themselves.
_VALUES_AT_ONCE = 2**20
_LATENT_VALUES_AT_ONCE = 2**22


def likelihood_at(likelihood: AbstractLikelihood, points: Any) -> AbstractLikelihood:
    """The likelihood at some of the inputs, where it holds one noise for each."""
    if isinstance(likelihood, Gaussian) and likelihood.noise.ndim == 1:
        return Gaussian(np.asarray(likelihood.noise)[points])
    return likelihood


@public
def moments(likelihood: AbstractLikelihood, means: Array, deviation: Array) -> tuple[Array, Array]:
    """Mean and variance of an observation under the mixture: (N,) each, or (N, C) for classes."""
    numbers = rule_number(likelihood.strip, deviation)
    first, second = _by_rule(_moments, numbered_rule, numbers, likelihood, means, deviation)
    return first, second


@public
def probabilities(likelihood: AbstractLikelihood, means: Array, deviation: Array) -> Float[Array, "N L"]:
    """P(y = k) under the mixture."""
    numbers = rule_number(likelihood.strip, deviation)
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
        values = _by_blocks(functools.partial(function, rule), likelihood_at(likelihood, filled), *arrays)
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
        block = at_rest(function(likelihood_at(likelihood, part), *arrays))
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


class Latent(NamedTuple):
    """K components at N inputs, all with weight 1/K."""

    means: Float[Array, "K N *C"]
    deviation: Float[Array, " N"]
    prior_variance: Float[Array, " N"]


def latent_distribution(target: Target, particles: Particles, x: Float[Array, "N D"]) -> Latent:
    """The components at the rows of `x`, in blocks of rows."""
    known, basis = particles.distribution, target.basis
    w = np.asarray(particles.whitened) if known is None else np.asarray(known.mean)[None]
    latents = target.likelihood.num_latents
    rows = w if w.ndim == 2 else np.moveaxis(w, 2, 1).reshape(-1, w.shape[1])
    num_rows, size = x.shape[0], rows.shape[0]
    means, deviation, prior = np.empty((size, num_rows)), np.empty(num_rows), np.empty(num_rows)
    arguments = lift((basis, rows, None if known is None else known.root))
    for part in host_blocks(num_rows, _LATENT_VALUES_AT_ONCE // max(size, basis.size)):
        means[:, part], deviation[part], prior[part] = _block(*arguments, x[part])
    means += np.asarray(evaluate_mean(basis.prior.mean, x)) if num_rows else 0.0
    if latents > 1:
        means = np.ascontiguousarray(np.moveaxis(means.reshape(size // latents, latents, num_rows), 1, 2))
    return Latent(means, deviation, prior)


@compiled
def _block(basis: AbstractBasis, w: Array, root: Array | None, x: Array) -> tuple[Array, Array, Array]:
    psi = basis.whitened_weights(x)
    variance = jnp.maximum(basis.residual(x), 0.0)
    if root is not None:
        variance = variance + jnp.sum(jnp.square(psi @ root), axis=1)
    return w @ psi.T, jnp.sqrt(variance), basis.prior.pointwise(x)
