"""Real observations y = f + noise, where the distribution of the noise does not depend on f."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from kosambi._core.precision import with_fields
from kosambi._core.types import Array
from kosambi.likelihoods.base import AbstractLikelihood
from kosambi.likelihoods.quadrature import Rule
from kosambi.likelihoods.specification import Rescaled


class AbstractLocation(AbstractLikelihood):
    """y = f + noise: f is in the units of y, and variances add up."""

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
