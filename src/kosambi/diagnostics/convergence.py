r"""Convergence of many short chains, from their draws: nested R̂, effective sample sizes, Monte Carlo error.

    R̂² = 1 + B/W

Chains come in superchains that share a start. B is the variance of the superchains' means, W the mean variance inside
a superchain. While the start still matters, superchains differ more than their size explains. The usual R̂ asks each
single chain to be long; this one needs many chains, long enough to forget their start (Margossian et al. 2024, "Nested
R̂"). Each superchain is cut into halves that count as two, so that a drift which all of them share is seen as well.

Effective sample sizes are those of Vehtari et al. (2021): of ranks mapped to normal scores for the bulk, of indicators
of the 5 % and 95 % quantiles for the tails.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._types import Array, ArrayLike
from kosambi.errors import InputError, as_count, as_float_array, check_finite

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
    num_superchains = as_count("num_superchains", num_superchains, at_most=draws.shape[0], limit_name="one a chain")
    if num_superchains < 2 or draws.shape[0] % num_superchains:
        raise InputError(
            f"`num_superchains` must divide the {draws.shape[0]} chains and be at least 2. Got {num_superchains}."
        )
    half = draws.shape[1] // 2
    size = draws.shape[0] // num_superchains
    grouped = draws[:, draws.shape[1] - 2 * half :].reshape(size, num_superchains, 2, half, *draws.shape[2:])
    if size * half < 2:
        raise InputError("Nested R̂ needs two chains a superchain or four steps. Give more draws.")
    means = grouped.mean(axis=(0, 3))
    within = grouped.var(axis=(0, 3)).mean(axis=(0, 1)) * (size * half / (size * half - 1))
    return from_variances(means.reshape(2 * num_superchains, *draws.shape[2:]).var(axis=0, ddof=1), within)


def from_variances(between: ArrayLike, within: ArrayLike) -> Array:
    """√(1 + B/W); infinite where superchains differ and nothing moves inside them, 1 where nothing differs at all."""
    between, within = np.asarray(between), np.asarray(within)
    moving = within > 0
    ratio = np.divide(between, within, out=np.where(between > 0, np.inf, 0.0), where=moving)
    return np.asarray(np.sqrt(1.0 + ratio))


def effective_sample_size(draws: ArrayLike, kind: str = "bulk") -> Float[Array, "..."]:
    """How many independent draws those of shape (chains, steps, ...) are worth, for "bulk", "tail" or the "mean".

    >>> import numpy as np
    >>> independent = np.random.default_rng(0).normal(size=(8, 500))
    >>> bool(3000 < effective_sample_size(independent) < 5000)
    True
    """
    draws = _as_draws(draws)
    if draws.shape[1] < 4:
        raise InputError(f"`draws` needs at least 4 steps a chain. Got {draws.shape[1]}.")
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
