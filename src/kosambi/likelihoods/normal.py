"""The standard normal distribution: density and cdf, and uniform numbers spaced by it."""

from __future__ import annotations

import functools

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.types import Array

LOG_2PI = float(np.log(2 * np.pi))
# Equal steps, which see far into both tails.
_NODES = np.linspace(-6.5, 6.5, 105)


def normal_density(z: Array) -> Array:
    """φ(z); traceable."""
    return jnp.exp(-0.5 * jnp.square(z) - 0.5 * LOG_2PI)


def normal_cdf(z: np.ndarray) -> np.ndarray:
    """Φ(z), with NumPy."""
    from scipy.special import ndtr  # here, because SciPy doubles what `import kosambi` adds to `import jax`

    return np.asarray(ndtr(z))


@functools.cache
def uniform_nodes() -> tuple[Float[np.ndarray, " K"], Float[np.ndarray, " K"]]:
    """Numbers between 0 and 1 with weights, for the expectation of a smooth function of a uniform variable.

    They are Φ(ξ) at equal steps of ξ.
    """
    weights = np.exp(-0.5 * _NODES**2) / np.sum(np.exp(-0.5 * _NODES**2))
    return normal_cdf(_NODES), weights
