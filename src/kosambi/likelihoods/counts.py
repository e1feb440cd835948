"""What likelihoods of counts share: their check, and moments of a log-normal mean."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.types import Array, ArrayLike
from kosambi.likelihoods.base import AbstractLikelihood
from kosambi.likelihoods.checks import as_observations, check_values


class AbstractCounts(AbstractLikelihood):
    """Observations that are counts: 0, 1, 2 and so on."""

    @property
    def is_discrete(self) -> bool:
        return True

    @property
    def lowest(self) -> float:
        return 0.0

    def check(self, y: ArrayLike) -> Float[Array, " N"]:
        name, array = type(self).__name__, as_observations(type(self).__name__, y)
        whole = (array >= 0) & (array == np.round(array))
        remedy = "Round them if they are counts; use `Gamma` or `Gaussian` if they are not."
        return check_values(name, array, whole, "to be counts 0, 1, 2, ...", remedy)


def exponential_moments(
    mean: Array, deviation: Array, linear: Array | float, square: Array | float
) -> tuple[Array, Array]:
    """E y and Var y where E[y | f] = μ = e^f, Var[y | f] = linear·μ + square·μ² and f ~ N(mean, deviation²)."""
    variance = jnp.square(deviation)
    first = jnp.exp(mean + 0.5 * variance)
    second = jnp.square(first) * jnp.exp(variance)
    # A factor of zero is left out, because it would turn a moment that overflows into NaN.
    noise = jnp.where(jnp.asarray(linear) > 0, linear * first, 0.0) + jnp.where(
        jnp.asarray(square) > 0, square * second, 0.0
    )
    return first, noise + jnp.where(variance > 0, jnp.square(first) * jnp.expm1(variance), 0.0)
