"""Importance weights: Pareto-smoothed (Vehtari et al. 2024), and draws taken again by weight."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from kosambi._core.precision import compiled
from kosambi._core.types import Key

FEWEST_FOR_TAIL = 25
"""Fewer draws have no tail of weights to judge."""
LARGEST_PARETO_K = 0.7
"""Above it importance weights cannot be trusted."""


def smoothed_weights(log_weights: Float[np.ndarray, " J"]) -> tuple[Float[np.ndarray, " J"], float]:
    """Pareto-smoothed weights with sum one, and k̂ (BlackJAX): −inf for equal weights, NaN for fewer than 25.

    >>> import numpy as np, kosambi as ko
    >>> ko.posterior.smoothed_weights(np.zeros(4))
    (array([0.25, 0.25, 0.25, 0.25]), -inf)
    """
    # A draw whose weight is not a number has none.
    log_weights = np.where(np.isfinite(log_weights), log_weights, -np.inf)
    if not np.any(np.isfinite(log_weights)):
        return np.full(len(log_weights), 1.0 / len(log_weights)), np.nan
    if np.ptp(log_weights) < 1e-12:
        return np.full(len(log_weights), 1.0 / len(log_weights)), -np.inf
    with jax.enable_x64(True):
        smoothed, pareto_k = _psis()(log_weights)
    weights = np.exp(np.asarray(smoothed))
    weights = weights / np.sum(weights)
    if len(weights) < FEWEST_FOR_TAIL:
        return weights, np.nan
    # One weight beside which all others vanish leaves no tail to fit.
    return weights, float(pareto_k) if np.isfinite(pareto_k) else np.inf


@functools.cache
def _psis() -> Callable[..., Any]:
    # Imported here because BlackJAX takes as long to import as the rest, and once, so that it compiles once a shape.
    from blackjax.diagnostics import psis_weights

    return compiled(psis_weights)


def systematic(key: Key, weights: Float[np.ndarray, " J"]) -> Int[np.ndarray, " J"]:
    """J numbers of draws, each as often as J times its weight, rounded up or down (BlackJAX).

    >>> import jax, numpy as np, kosambi as ko
    >>> ko.posterior.systematic(jax.random.key(0), np.array([0.5, 0.25, 0.25, 0.0]))
    array([0, 0, 1, 2])
    """
    from blackjax.smc import resampling

    with jax.enable_x64(True):
        return np.asarray(resampling.systematic(key, jnp.asarray(weights), len(weights)), dtype=np.int64)
