r"""The normal distribution: density, cdf, and log ∫ exp(−c(f)) N(f; μ, σ²) df wherever its mass lies.

For a cost that is convex in f the integrand exp(−q), q(f) = c(f) + (f − μ)²/2σ², is log-concave with q'' ≥ 1/σ².
Bisection finds its mode, which lies between μ and μ − σ²c'(μ), and then the two ends where it has fallen by e^{−36}, at
most 8.5 σ away. The trapezoidal rule between them resolves a likelihood however narrow or far off it is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.types import Array

LOG_2PI = float(np.log(2 * np.pi))
DROP = 36.0
"""How far the logarithm of an integrand falls from its mode to the ends of the rule."""
NODES = 256
"""Nodes of integrals that are written out for one likelihood."""
_BISECTIONS = 45
# Below this ratio σ/|μ| an integral over f is the value at the mean.
_NARROWEST = 1e-12
# Equal steps, which see far into both tails.
_STEPS = np.linspace(-6.5, 6.5, 105)


def normal_density(z: Array) -> Array:
    """The standard normal density φ(z); traceable."""
    return jnp.exp(-0.5 * jnp.square(z) - 0.5 * LOG_2PI)


def normal_cdf(z: np.ndarray) -> np.ndarray:
    """The standard normal cdf Φ(z), with NumPy."""
    from scipy.special import ndtr  # here, because SciPy doubles what `import kosambi` adds to `import jax`

    return np.asarray(ndtr(z))


@functools.cache
def uniform_nodes() -> tuple[Float[np.ndarray, " K"], Float[np.ndarray, " K"]]:
    """Numbers between 0 and 1 with weights, for the expectation of a smooth function of a uniform variable.

    They are Φ(ξ) at equal steps of ξ.
    """
    weights = np.exp(-0.5 * _STEPS**2) / np.sum(np.exp(-0.5 * _STEPS**2))
    return normal_cdf(_STEPS), weights


def log_concave_integral(
    cost: Callable[[Array], Array], slope: Callable[[Array], Array], mean: Array, deviation: Array, num_nodes: int
) -> Array:
    """log E exp(−cost(f)) for f ~ N(mean, deviation²), elementwise over arrays of one shape; traceable."""
    # A deviation of the last digits of f is none: all nodes would be one number.
    is_wide = deviation > _NARROWEST * jnp.abs(mean)
    safe = jnp.where(is_wide, deviation, 1.0)
    precision = 1.0 / jnp.square(safe)

    def objective(f: Array) -> Array:
        return cost(f) + 0.5 * precision * jnp.square(f - mean)

    pull = -jnp.square(safe) * slope(mean)
    # A slope that overflows says nothing about the distance; exponential costs do, and bisection halves quickly.
    pull = jnp.clip(jnp.nan_to_num(pull, posinf=1e30, neginf=-1e30), -1e4 * safe - 1e3, 1e4 * safe + 1e3)
    low, high = jnp.minimum(mean, mean + pull), jnp.maximum(mean, mean + pull)
    mode = bisect(lambda f: slope(f) + precision * (f - mean) > 0, low, high)
    floor = objective(mode) + DROP
    reach = jnp.sqrt(2.0 * DROP) * safe
    left = -bisect(lambda f: objective(-f) > floor, -mode, -mode + reach)
    right = bisect(lambda f: objective(f) > floor, mode, mode + reach)
    step = (right - left) / (num_nodes - 1)

    def add(total: Array, i: Array) -> tuple[Array, None]:
        return total + jnp.exp(floor - DROP - objective(left + i * step)), None

    total, _ = jax.lax.scan(add, jnp.zeros_like(mode), jnp.arange(num_nodes, dtype=mode.dtype))
    log_scale = jnp.log(step) - 0.5 * jnp.log(2.0 * jnp.pi) - jnp.log(safe)
    return jnp.where(is_wide, jnp.log(total) + log_scale - (floor - DROP), -cost(mean))


def bisect(is_beyond: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """Where a condition that is false at `low` and true beyond some point turns true; elementwise, traceable."""

    def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        middle = 0.5 * (ends[0] + ends[1])
        beyond = is_beyond(middle)
        return jnp.where(beyond, ends[0], middle), jnp.where(beyond, middle, ends[1])

    low, high = jax.lax.fori_loop(0, _BISECTIONS, halve, (low, high))
    return 0.5 * (low + high)
