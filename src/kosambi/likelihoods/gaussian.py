r"""Gaussian noise, for which everything has a closed form.

c = (y − f)²/(2σ²) + log σ + ½ log 2π
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from kosambi._core.checks import as_positive
from kosambi._core.precision import with_fields
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.errors import InputError
from kosambi.likelihoods.families import AbstractLocation
from kosambi.likelihoods.normal import LOG_2PI, normal_cdf
from kosambi.likelihoods.quadrature import Rule


class Gaussian(AbstractLocation):
    """y = f + ε, ε ~ N(0, noise²).

    Arguments:
        noise: the standard deviation, in the units of y; a number, one for each of the N observations, which is known
            and not learned, or, with `groups`, one for each group of them, which is learned.
        groups: (N,), the number of the group, from 0, that each observation belongs to, such as that of its output.

    >>> import kosambi as ko
    >>> ko.likelihoods.Gaussian(noise=0.5).log_density([1.0], [0.5]).round(6)
    array([-0.725791])
    >>> ko.likelihoods.Gaussian(noise=[0.5, 0.1], groups=[0, 1, 1]).row_noise
    array([0.5, 0.1, 0.1])
    """

    short_name: ClassVar[str | None] = "gaussian"
    in_units_of_y: ClassVar[tuple[str, ...]] = ("noise",)

    noise: Array
    groups: Int[Array, " N"] | None = None

    def __init__(self, noise: ArrayLike = 1.0, groups: Any = None) -> None:
        self.noise = as_positive("Gaussian(noise=...)", noise, max_ndim=1)
        self.groups = None if groups is None else _as_groups(groups, self.noise)

    @property
    def row_noise(self) -> Array:
        """The noise of each observation, (N,), or one number for all."""
        return self.noise if self.groups is None else self.noise[self.groups]

    @classmethod
    def standard(cls) -> Gaussian:
        return cls(0.3)

    @property
    def supports(self) -> Mapping[str, str]:  # type: ignore[override]
        """One noise for each observation is a measurement that came with the data, and is not learned."""
        return {"noise": "fixed"} if np.ndim(self.noise) == 1 and self.groups is None else {}

    @property
    def num_rows(self) -> int | None:
        if self.groups is not None:
            return int(self.groups.shape[0])
        return int(self.noise.shape[0]) if np.ndim(self.noise) == 1 else None

    def at_rows(self, rows: Any) -> Gaussian:
        if self.groups is not None:
            return with_fields(self, groups=np.asarray(self.groups)[rows])
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
        return 0.5 * jnp.square((y - f) / self.row_noise) + jnp.log(self.row_noise) + 0.5 * LOG_2PI

    def raw_derivative(self, y: Array, f: Array) -> Array:
        return (f - y) / jnp.square(self.row_noise)

    def raw_second_derivative(self, y: Array, f: Array) -> Array:
        return jnp.broadcast_to(1.0 / jnp.square(self.row_noise), jnp.broadcast_shapes(jnp.shape(y), jnp.shape(f)))

    def raw_variance(self, f: Array) -> Array:
        return jnp.broadcast_to(jnp.square(self.row_noise), jnp.shape(f))

    def raw_draw(self, key: Key, f: Array) -> Array:
        return f + self.row_noise * jax.random.normal(key, jnp.shape(f))

    def cdf(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return normal_cdf((y - f) / self.row_noise)

    def raw_expected_cost(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """The cost at the mean, plus deviation²/(2σ²)."""
        del rule
        return self.raw_cost(y, mean) + 0.5 * jnp.square(deviation / self.row_noise)

    def raw_expected_derivative(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        del deviation, rule
        return self.raw_derivative(y, mean)

    def raw_log_predictive(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """The normal density with the variances added."""
        del rule
        variance = jnp.square(self.row_noise) + jnp.square(deviation)
        return -0.5 * (jnp.square(y - mean) / variance + jnp.log(variance) + LOG_2PI)

    def predictive_cdf(self, y: np.ndarray, mean: np.ndarray, deviation: np.ndarray, rule: Rule) -> np.ndarray:
        """The normal cdf with the variances added."""
        del rule
        return normal_cdf((y - mean) / np.hypot(self.row_noise, deviation))

    def started_from(self, y: np.ndarray, share: float, deviation: float) -> Gaussian:
        del y
        if self.num_rows is not None and self.groups is None:
            return self
        return with_fields(self, noise=np.full(np.shape(self.noise), share * deviation))


def _as_groups(groups: Any, noise: Array) -> Int[Array, " N"]:
    array = np.asarray(groups)
    is_whole = array.ndim == 1 and array.size > 0 and array.dtype.kind in "iu"
    if noise.ndim != 1 or not is_whole or array.min() < 0 or array.max() >= noise.shape[0]:
        raise InputError(
            "`Gaussian(groups=...)` must be whole numbers of shape (N,), each the place of its noise among "
            f"`noise`. Got shape {array.shape} of type {array.dtype} for noise of shape {noise.shape}. Numbers begin "
            "with 0."
        )
    return np.ascontiguousarray(array, dtype=np.int64)
