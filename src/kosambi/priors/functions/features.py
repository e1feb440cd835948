r"""Random features: draws from N(0, k) as finite sums, for kernels built from stationary and finite-rank ones.

A stationary kernel is k(x, z) = σ² E cos ω·(x−z) over its spectral density, so with R frequencies

    F(x) = σ/√R Σ_r (a_r cos ω_r·x + b_r sin ω_r·x),   a, b ~ N(0, 1).

Sums of kernels add independent draws; products of stationary kernels add their frequencies; finite-rank factors
(`Linear`, `Constant`) multiply in exactly.

**Error.** Each draw has frequencies of its own by default. Then F(x) is exactly normal at every single x and the
covariance of two values is exactly k; only joint moments of order four and more are off, by O(1/R): for a stationary
kernel with correlation ρ, E F(x)²F(z)² exceeds its normal value by σ⁴(1 + ρ(2δ) − 2ρ(δ)²)/R at lag δ = x − z. That is
small against σ⁴, but not against the variance of a combination of values that nearly cancels: combinations with a
variance below about σ²/R, such as high finite differences of a smooth draw, have the right variance and heavy tails.
With frequencies shared by all draws the draws are exactly jointly normal, but with a covariance k̂ that is off by
`shared_covariance_error`, of order σ²/√(2R), and more draws do not help.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.types import Array, Key
from kosambi.kernels import AbstractFinite, AbstractKernel, AbstractStationary, Product, Sum
from kosambi.priors.functions.expansions import AbstractExpansion, FiniteExpansion, FourierExpansion, product_features


class Term(NamedTuple):
    """One product of stationary and finite-rank kernels."""

    stationary: tuple[AbstractStationary, ...]
    finite: tuple[AbstractFinite, ...]


def expand(kernel: AbstractKernel) -> tuple[Term, ...] | None:
    """`kernel` as a sum of products of stationary and finite-rank kernels, or None where it is not one."""
    if isinstance(kernel, AbstractStationary):
        return (Term((kernel,), ()),)
    if isinstance(kernel, AbstractFinite):
        return (Term((), (kernel,)),)
    if not isinstance(kernel, Sum | Product):
        return None
    parts: list[tuple[Term, ...]] = []
    for part in kernel.kernels:
        terms = expand(part)
        if terms is None:
            return None
        parts.append(terms)
    if isinstance(kernel, Sum):
        return tuple(itertools.chain.from_iterable(parts))
    return tuple(
        Term(tuple(k for term in chosen for k in term.stationary), tuple(k for term in chosen for k in term.finite))
        for chosen in itertools.product(*parts)
    )


def draw_expansions(
    key: Key, terms: tuple[Term, ...], num_draws: int, num_features: int, num_columns: int, shared: bool
) -> tuple[AbstractExpansion, ...]:
    """J draws with mean zero from each term, to be added up."""
    keys = jax.random.split(key, len(terms))
    return tuple(
        _draw_term(term_key, term, num_draws, num_features, num_columns, shared)
        for term_key, term in zip(keys, terms, strict=True)
    )


def _draw_term(
    key: Key, term: Term, num_draws: int, num_features: int, num_columns: int, shared: bool
) -> AbstractExpansion:
    key_frequency, key_cosine, key_sine = jax.random.split(key, 3)
    num_finite = jax.eval_shape(lambda x: product_features(term.finite, x), jnp.zeros((1, num_columns))).shape[1]
    if not term.stationary:
        return FiniteExpansion(term.finite, jax.random.normal(key_cosine, (num_draws, num_finite)))

    lists = 1 if shared else num_draws
    frequencies = jnp.zeros((lists * num_features, num_columns))
    variance = jnp.ones(())
    for kernel_key, kernel in zip(jax.random.split(key_frequency, len(term.stationary)), term.stationary, strict=True):
        columns = np.arange(num_columns) if kernel.active_dims is None else np.asarray(kernel.active_dims)
        drawn = kernel.sample_frequencies(kernel_key, lists * num_features, len(columns))
        frequencies = frequencies.at[:, columns].add(drawn)
        variance = variance * kernel.variance
    amplitude = jnp.sqrt(variance / num_features)
    shape = (num_draws, num_finite, num_features)
    return FourierExpansion(
        term.finite,
        frequencies.reshape(lists, num_features, num_columns),
        amplitude * jax.random.normal(key_cosine, shape),
        amplitude * jax.random.normal(key_sine, shape),
    )


def shared_covariance_error(
    terms: tuple[Term, ...], x: Float[Array, "N D"], z: Float[Array, "M D"], num_features: int
) -> Float[Array, "N M"]:
    r"""Standard deviation of k̂(x, z) around k(x, z) when all draws share `num_features` frequencies.

    For one stationary kernel σ² √(((1 + ρ(2δ))/2 − ρ(δ)²)/R): zero at δ = 0 and σ²/√(2R) far away.
    """
    total = jnp.zeros((x.shape[0], z.shape[0]))
    for term in terms:
        if not term.stationary:
            continue
        variance, at_lag, at_double_lag = jnp.ones(()), jnp.ones_like(total), jnp.ones_like(total)
        for kernel in term.stationary:
            variance = variance * kernel.variance
            at_lag = at_lag * kernel.pairwise(x, z)
            at_double_lag = at_double_lag * kernel.pairwise(2.0 * x, 2.0 * z)
        scale = product_features(term.finite, x) @ product_features(term.finite, z).T
        # Var cos ω·δ = (1 + ρ(2δ))/2 − ρ(δ)², written with covariances; rounding can leave a tiny negative number.
        spread = 0.5 * variance * (variance + at_double_lag) - at_lag**2
        total = total + scale**2 * jnp.maximum(spread, 0.0) / num_features
    return jnp.sqrt(total)
