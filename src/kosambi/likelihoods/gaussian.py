r"""Gaussian noise, for which everything has a closed form.

c = (y − f)²/(2σ²) + log σ + ½ log 2π
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from kosambi._core.checks import as_positive
from kosambi._core.precision import with_fields
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.likelihoods.families import AbstractLocation
from kosambi.likelihoods.normal import LOG_2PI, normal_cdf
from kosambi.likelihoods.quadrature import Rule


class Gaussian(AbstractLocation):
    """y = f + ε, ε ~ N(0, noise²).

    Arguments:
        noise: the standard deviation, in the units of y; a number, or one for each of the N observations.

    >>> import kosambi as ko
    >>> ko.likelihoods.Gaussian(noise=0.5).log_density([1.0], [0.5]).round(6)
    array([-0.725791])
    """

    short_name: ClassVar[str | None] = "gaussian"
    in_units_of_y: ClassVar[tuple[str, ...]] = ("noise",)

    noise: Array

    def __init__(self, noise: ArrayLike = 1.0) -> None:
        self.noise = as_positive("Gaussian(noise=...)", noise, max_ndim=1)

    @classmethod
    def standard(cls) -> Gaussian:
        return cls(0.3)

    @property
    def supports(self) -> Mapping[str, str]:  # type: ignore[override]
        """One noise for each observation is a measurement that came with the data, and is not learned."""
        return {"noise": "fixed"} if np.ndim(self.noise) == 1 else {}

    @property
    def num_rows(self) -> int | None:
        return int(self.noise.shape[0]) if np.ndim(self.noise) == 1 else None

    def at_rows(self, rows: Any) -> Gaussian:
        return self if self.num_rows is None else Gaussian(np.asarray(self.noise)[rows])

    @property
    def is_convex(self) -> bool:
        return True

    @property
    def curvature_bound(self) -> float | None:
        """1/σ², at the smallest noise."""
        return float(1.0 / np.min(self.noise) ** 2)

    @property
    def strip(self) -> float:
        """Expectations are closed forms."""
        return np.inf

    def raw_cost(self, y: Array, f: Array) -> Array:
        return 0.5 * jnp.square((y - f) / self.noise) + jnp.log(self.noise) + 0.5 * LOG_2PI

    def raw_derivative(self, y: Array, f: Array) -> Array:
        return (f - y) / jnp.square(self.noise)

    def raw_second_derivative(self, y: Array, f: Array) -> Array:
        return jnp.broadcast_to(1.0 / jnp.square(self.noise), jnp.broadcast_shapes(jnp.shape(y), jnp.shape(f)))

    def raw_variance(self, f: Array) -> Array:
        return jnp.broadcast_to(jnp.square(self.noise), jnp.shape(f))

    def raw_draw(self, key: Key, f: Array) -> Array:
        return f + self.noise * jax.random.normal(key, jnp.shape(f))

    def cdf(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return normal_cdf((y - f) / self.noise)

    def raw_expected_cost(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """The cost at the mean, plus deviation²/(2σ²)."""
        del rule
        return self.raw_cost(y, mean) + 0.5 * jnp.square(deviation / self.noise)

    def raw_expected_derivative(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        del deviation, rule
        return self.raw_derivative(y, mean)

    def raw_log_predictive(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """The normal density with the variances added."""
        del rule
        variance = jnp.square(self.noise) + jnp.square(deviation)
        return -0.5 * (jnp.square(y - mean) / variance + jnp.log(variance) + LOG_2PI)

    def predictive_cdf(self, y: np.ndarray, mean: np.ndarray, deviation: np.ndarray, rule: Rule) -> np.ndarray:
        """The normal cdf with the variances added."""
        del rule
        return normal_cdf((y - mean) / np.hypot(self.noise, deviation))

    def started_from(self, y: np.ndarray, share: float, deviation: float) -> Gaussian:
        del y
        return self if self.num_rows is not None else with_fields(self, noise=np.asarray(share * deviation))
