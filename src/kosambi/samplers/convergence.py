r"""Convergence of many short chains, from their draws: nested R̂, effective sample sizes, Monte Carlo error.

    R̂² = 1 + B/W

Chains come in superchains that share a start. B is the variance of the superchains' means, W the mean variance inside
a superchain. While the start still matters, superchains differ more than their size explains. The usual R̂ asks each
single chain to be long; this one needs many chains, long enough to forget their start (Margossian et al. 2024, "Nested
R̂"). Each superchain is cut into halves that count as two, so that a drift which all of them share is seen as well.

Effective sample sizes are those of Vehtari et al. (2021): of ranks mapped to normal scores for the bulk, of indicators
of the 5 % and 95 % quantiles for the tails.

A sampler asks the same inside its compiled loop, where draws are not kept, from running sums (`Moments`). For J
particles and Q quantities (whitened coordinates and the potential) there are sums over each superchain in short windows
of time, O(Q) numbers each, and sums over each particle, O(JQ), of every other step. When all windows are full,
neighbours are merged and a window becomes twice as long. Nested R̂ leaves out the oldest quarter of the windows and cuts
the rest into halves. The autocorrelation time comes from the spread of the particles' own means, since there are many.

There B is the variance between superchains less what the Monte Carlo error of their means adds to it, which is known
from how the means of a superchain's own particles differ (the variance component of a one-way analysis of variance):

    B = Var(means of superchains) − s²/G,   s² the variance of the means of particles that share a start,

G particles in each. With hundreds of coordinates the largest R̂ would otherwise be that of the error, not of the start.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from kosambi._core.checks import as_count, as_float_array, check_finite
from kosambi._core.types import Array, ArrayLike
from kosambi.errors import InputError

R_HAT_LIMIT = 1.01
"""A run has converged when no coordinate has a nested R̂ above this: the start explains less than 2 % of a variance."""


def nested_r_hat(draws: ArrayLike, num_superchains: int) -> Float[Array, "..."]:
    """Nested R̂ of draws (chains, steps, ...), one number for each entry of the remaining axes.

    Chain j belongs to superchain j mod `num_superchains`, and the chains of a superchain share their start.

    >>> import numpy as np
    >>> draws = np.random.default_rng(0).normal(size=(64, 50, 2))
    >>> bool(nested_r_hat(draws, 8).max() < 1.02)
    True
    >>> draws[::8, :, 1] += 0.5                     # one superchain has not forgotten where it began
    >>> bool(nested_r_hat(draws, 8)[1] > 1.01)
    True
    """
    draws = _as_draws(draws)
    num_superchains = as_count("num_superchains", num_superchains, at_most=draws.shape[0], limit_name="one per chain")
    if num_superchains < 2 or draws.shape[0] % num_superchains:
        raise InputError(
            f"`num_superchains` must divide the {draws.shape[0]} chains and be at least 2. Got {num_superchains}."
        )
    half = draws.shape[1] // 2
    size = draws.shape[0] // num_superchains
    grouped = draws[:, draws.shape[1] - 2 * half :].reshape(size, num_superchains, 2, half, *draws.shape[2:])
    if size * half < 2:
        raise InputError("Nested R̂ needs two chains per superchain or four steps. Give more draws.")
    means = grouped.mean(axis=(0, 3)).reshape(2 * num_superchains, *draws.shape[2:])
    within = grouped.var(axis=(0, 3)).mean(axis=(0, 1)) * (size * half / (size * half - 1))
    between = means.var(axis=0, ddof=1)
    return from_variances(between, within)


def from_variances(between: ArrayLike, within: ArrayLike) -> Array:
    """R̂ = √(1 + B/W), of NumPy arrays or traced ones.

    Infinite where superchains differ and nothing moves inside them, 1 where nothing differs at all.
    """
    xp: Any = jnp if isinstance(within, jax.Array) else np
    moving = within > 0
    still = xp.where(between > 0, xp.inf, 1.0)
    return xp.where(moving, xp.sqrt(1.0 + between / xp.where(moving, within, 1.0)), still)


def effective_sample_size(draws: ArrayLike, kind: str = "bulk") -> Float[Array, "..."]:
    """How many independent draws those of shape (chains, steps, ...) are worth, for "bulk", "tail" or the "mean".

    >>> import numpy as np
    >>> independent = np.random.default_rng(0).normal(size=(8, 500))
    >>> bool(3000 < effective_sample_size(independent) < 5000)
    True
    """
    draws = _as_draws(draws)
    if draws.shape[1] < 4:
        raise InputError(f"`draws` needs at least 4 steps per chain. Got {draws.shape[1]}.")
    if kind == "mean":
        return _chain_ess(_split(draws))
    if kind == "bulk":
        return _chain_ess(_split(_normal_scores(draws)))
    if kind == "tail":
        quantiles = np.quantile(draws, (0.05, 0.95), axis=(0, 1))
        low, high = (_chain_ess(_split((draws <= q).astype(float))) for q in quantiles)
        return np.asarray(np.minimum(low, high))
    raise InputError(f'`kind` must be "bulk", "tail" or "mean". Got {kind!r}.')


def mcse(draws: ArrayLike) -> Float[Array, "..."]:
    """The Monte Carlo standard error of the mean of draws (chains, steps, ...).

    >>> import numpy as np
    >>> bool(abs(mcse(np.random.default_rng(0).normal(size=(8, 500))) - 4000**-0.5) < 0.002)
    True
    """
    array = _as_draws(draws)
    return np.asarray(array.std(axis=(0, 1), ddof=1) / np.sqrt(effective_sample_size(array, "mean")))


def _as_draws(draws: ArrayLike) -> Array:
    array = as_float_array("draws", draws)
    if array.ndim < 2 or 0 in array.shape:
        raise InputError(f"`draws` must have shape (chains, steps, ...). Got shape {array.shape}.")
    check_finite("draws", array)
    return array


def _split(draws: Array) -> Array:
    """Halves of chains as chains."""
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, draws.shape[1] - half :]])


def _normal_scores(draws: Array) -> Array:
    import scipy.special
    import scipy.stats

    flat = draws.reshape(-1, *draws.shape[2:])
    ranks = scipy.stats.rankdata(flat, axis=0)
    return scipy.special.ndtri((ranks - 0.375) / (flat.shape[0] + 0.25)).reshape(draws.shape)


def _chain_ess(draws: Array) -> Array:
    """BlackJAX's, by Geyer's monotone pairs; all draws count where nothing varies."""
    from blackjax.diagnostics import effective_sample_size as by_autocorrelation

    varying = draws.std(axis=(0, 1)) > 0
    with jax.enable_x64(True):
        # It leaves out axes of length one.
        found = np.reshape(np.asarray(by_autocorrelation(jnp.asarray(draws))), draws.shape[2:])
    return np.asarray(np.where(varying, found, float(draws.shape[0] * draws.shape[1])))


NUM_WINDOWS = 48
FIRST_WINDOW = 4
EVERY = 2
"""Steps for each that is looked at: to know where all particles are takes a third of the time of a step."""
MIN_WINDOWS = 4
MIN_LENGTH = 6.0
"""A run is at least this many autocorrelation times long before it may stop."""


class Moments(NamedTuple):
    """Sums since the sampling phase began. Particle j is in superchain j mod G."""

    centre: Float[Array, " Q"]
    """Subtracted from every draw, so that no digits are lost."""
    low: Float[Array, " Q"]
    high: Float[Array, " Q"]
    """Where the tails begin: the 5 % and 95 % quantiles of the particles when the phase began."""
    sums: Float[Array, "W G Q"]
    squares: Float[Array, "W G Q"]
    particle_sums: Float[Array, "J Q"]
    particle_low: Float[Array, "J Q"]
    particle_high: Float[Array, "J Q"]
    accepted: Float[Array, " J"]
    """Sums of acceptance probabilities, of every step."""
    filled: Int[Array, ""]
    """Windows that are complete."""
    window: Int[Array, ""]
    """Steps in a window."""
    steps: Int[Array, ""]
    """All of them; one in `EVERY` is in the sums."""


def empty(draws: Float[Array, "J Q"], num_superchains: int) -> Moments:
    """Nothing yet; tails and centre from the particles as they are now, in NumPy, which compiles nothing."""
    num_particles, size = draws.shape
    zero = np.zeros((NUM_WINDOWS, num_superchains, size), dtype=draws.dtype)
    # A start may have an infinite potential.
    finite = np.where(np.isfinite(draws), draws, 0.0)
    low, high = np.quantile(finite, (0.05, 0.95), axis=0).astype(draws.dtype)
    each, nobody, count = np.zeros_like(draws), np.zeros(num_particles, dtype=draws.dtype), np.asarray(0)
    centre, window = finite.mean(axis=0), np.asarray(FIRST_WINDOW)
    return Moments(centre, low, high, zero, zero, each, each, each, nobody, count, window, count)


def add(moments: Moments, draws: Float[Array, "J Q"], accepted: Float[Array, " J"]) -> Moments:
    """All particles after `EVERY` more steps, into the window being filled, with the sum of their acceptances."""
    centred = draws - moments.centre
    groups = centred.reshape(-1, moments.sums.shape[1], draws.shape[1])
    here = moments.filled
    return moments._replace(
        sums=moments.sums.at[here].add(jnp.sum(groups, axis=0)),
        squares=moments.squares.at[here].add(jnp.sum(jnp.square(groups), axis=0)),
        particle_sums=moments.particle_sums + centred,
        particle_low=moments.particle_low + (draws <= moments.low),
        particle_high=moments.particle_high + (draws >= moments.high),
        accepted=moments.accepted + accepted,
        steps=moments.steps + EVERY,
    )


def close_window(moments: Moments) -> Moments:
    """The window is full: go to the next, merging neighbours when there is none."""
    filled = moments.filled + 1

    def merge(array: Array) -> Array:
        pairs = array.reshape(NUM_WINDOWS // 2, 2, *array.shape[1:]).sum(axis=1)
        return jnp.concatenate([pairs, jnp.zeros_like(pairs)])

    def merged(moments: Moments) -> Moments:
        return moments._replace(
            sums=merge(moments.sums),
            squares=merge(moments.squares),
            filled=jnp.asarray(NUM_WINDOWS // 2),
            window=2 * moments.window,
        )

    return jax.lax.cond(filled == NUM_WINDOWS, merged, lambda m: m._replace(filled=filled), moments)


def r_hat(moments: Moments) -> Float[Array, " Q"]:
    """Nested R̂ over halves of superchains, without the oldest quarter of the windows; infinite when too short."""
    half = (moments.filled - moments.filled // 4) // 2
    window = jnp.arange(NUM_WINDOWS)
    start = moments.filled - 2 * half
    masks = jnp.stack(
        [(window >= start) & (window < start + half), (window >= start + half) & (window < moments.filled)]
    )
    num_superchains, dtype = moments.sums.shape[1], moments.sums.dtype
    size = moments.particle_sums.shape[0] // num_superchains
    length = half * moments.window // EVERY
    count = length * size
    safe = jnp.maximum(count, 2).astype(dtype)
    mask = masks.astype(dtype)
    sums = jnp.einsum("hw,wgq->hgq", mask, moments.sums).reshape(2 * num_superchains, -1)
    squares = jnp.einsum("hw,wgq->hgq", mask, moments.squares).reshape(2 * num_superchains, -1)
    means = sums / safe
    within = jnp.mean((squares - sums * means) / (safe - 1.0), axis=0)
    # The error of a mean of that length, from the particles' means over all steps.
    seen = jnp.maximum(moments.steps // EVERY, 1).astype(dtype)
    error = _spread_within(moments) * seen / (jnp.maximum(length, 1).astype(dtype) * size)
    between = jnp.maximum(jnp.var(means, axis=0, ddof=1) - error, 0.0)
    # Particles that never move are not converged, wherever they are.
    known = (moments.filled >= MIN_WINDOWS) & (count >= 2) & (within > 0)
    return jnp.where(known, from_variances(between, within), jnp.inf)


def _spread_within(moments: Moments) -> Float[Array, " Q"]:
    """The variance of the means of particles that share a start; zero where each has its own."""
    num_superchains = moments.sums.shape[1]
    num_particles, number = moments.particle_sums.shape
    size = num_particles // num_superchains
    if size < 2:
        return jnp.zeros(number, moments.sums.dtype)
    seen = jnp.maximum(moments.steps // EVERY, 1).astype(moments.sums.dtype)
    means = (moments.particle_sums / seen).reshape(size, num_superchains, number)
    return jnp.mean(jnp.var(means, axis=0, ddof=1), axis=0)


def autocorrelation_times(moments: Moments) -> Float[Array, "3 Q"]:
    """Steps that one independent draw costs, for the mean and for the lower and upper tail; `EVERY` at least."""
    dtype = moments.sums.dtype
    steps = jnp.maximum(moments.steps, 1).astype(dtype)
    seen = jnp.maximum(moments.steps // EVERY, 1).astype(dtype)
    num_particles = moments.particle_sums.shape[0]
    total = seen * num_particles
    mean = jnp.sum(moments.sums, axis=(0, 1)) / total
    variance = jnp.sum(moments.squares, axis=(0, 1)) / total - jnp.square(mean)

    def time(particle_sums: Array, variance: Array) -> Array:
        spread = jnp.var(particle_sums / seen, axis=0, ddof=1)
        return jnp.where(variance > 0, steps * spread / jnp.where(variance > 0, variance, 1.0), steps)

    shares = [jnp.sum(tail, axis=0) / total for tail in (moments.particle_low, moments.particle_high)]
    return jnp.stack(
        [
            time(moments.particle_sums, variance),
            time(moments.particle_low, shares[0] * (1.0 - shares[0])),
            time(moments.particle_high, shares[1] * (1.0 - shares[1])),
        ]
    )


def has_converged(moments: Moments, r_hats: Float[Array, " Q"], times: Float[Array, "3 Q"]) -> Array:
    """R̂ within its limit everywhere, over at least `MIN_LENGTH` autocorrelation times of means and tails."""
    limit = r_hat_limit(moments.particle_sums.shape[0], moments.sums.shape[1])
    return (jnp.max(r_hats) <= limit) & (moments.steps >= MIN_LENGTH * jnp.max(times))


def r_hat_limit(num_particles: int, num_superchains: int) -> float:
    """1.01, and closer to one with many particles.

    What is left of the start must not exceed the Monte Carlo error of the particles' mean: B/W is at most half of G/J.
    """
    return min(R_HAT_LIMIT, (1.0 + 0.5 * num_superchains / num_particles) ** 0.5)
