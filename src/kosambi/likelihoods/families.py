"""What families of likelihoods share: real observations with noise added to f, and counts."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.precision import with_fields
from kosambi._core.types import Array, ArrayLike
from kosambi.likelihoods.base import AbstractLikelihood
from kosambi.likelihoods.quadrature import Rule
from kosambi.likelihoods.specification import Rescaled, as_observations, check_values


class AbstractLocation(AbstractLikelihood):
    """y = f + noise whose distribution does not depend on f: f is in the units of y, and variances add up."""

    in_units_of_y: ClassVar[tuple[str, ...]]
    """The parameters that are in the units of y."""

    def raw_rough_latent(self, y: Array) -> Array:
        return y

    def raw_mean(self, f: Array) -> Array:
        return f

    def raw_moments(self, mean: Array, deviation: Array, rule: Rule) -> tuple[Array, Array]:
        """The mean, and the variances added; NaN and infinity where they do not exist."""
        del rule
        shape = jnp.broadcast_shapes(jnp.shape(mean), jnp.shape(deviation))
        return self.raw_mean(mean), self.raw_variance(jnp.broadcast_to(mean, shape)) + jnp.square(deviation)

    def in_units(self, location: float, scale: float) -> Rescaled | None:
        scaled = {name: np.asarray(getattr(self, name) * scale) for name in self.in_units_of_y}
        return Rescaled(with_fields(self, **scaled), location, scale)


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
