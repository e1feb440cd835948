"""The periodic kernel: functions that repeat."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_positive
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.kernels.stationary import AbstractStationary, check_selected, min_columns, select, squared_distance


class Periodic(AbstractStationary):
    """variance · exp(−2 Σ_d sin²(π(x_d − z_d)/p_d)/ℓ_d²): functions that repeat with period p.

    Arguments:
        lengthscale: smoothness within a period, without a unit.
        period: p, in the units of x; a number, or one per column.

    >>> import kosambi as ko
    >>> ko.kernels.Periodic(period=2.0)([[0.0]], [[1.0], [2.0]]).round(4)
    array([[0.1353, 1.    ]])
    """

    period: Array

    def __init__(
        self,
        lengthscale: ArrayLike = 1.0,
        variance: ArrayLike = 1.0,
        period: ArrayLike = 1.0,
        *,
        active_dims: Any = None,
    ) -> None:
        super().__init__(lengthscale, variance, active_dims=active_dims)
        self.period = as_positive("Periodic(period=...)", period, max_ndim=1)

    def check_columns(self, num_columns: int) -> None:
        """Refuse inputs whose columns do not match the lengthscales, periods or `active_dims`."""
        per_column = {"lengthscale": self.lengthscale, "period": self.period}
        check_selected("Periodic", self.active_dims, per_column, num_columns)

    @property
    def min_columns(self) -> int:
        """The smallest number of input columns that fits the parameters."""
        return min_columns(self.active_dims, self.lengthscale, self.period)

    def pairwise(self, x: Float[Array, "N D"], z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        """A squared exponential on the unit circle: 4 sin²(a/2) is the squared distance of two points there."""
        return self.variance * jnp.exp(-0.5 * squared_distance(self._on_circles(x), self._on_circles(z)))

    def _on_circles(self, x: Float[Array, "N D"]) -> Float[Array, "N B"]:
        angle = 2.0 * jnp.pi * select(x, self.active_dims) / self.period
        return jnp.concatenate([jnp.cos(angle) / self.lengthscale, jnp.sin(angle) / self.lengthscale], axis=1)

    def sample_frequencies(self, key: Key, num_frequencies: int, num_columns: int) -> Float[Array, "R A"]:
        """Harmonics n of 2π/p with probability exp(−a) I_n(a), a = ℓ⁻²: the difference of two Poisson counts."""
        key_plus, key_minus, key_normal = jax.random.split(key, 3)
        shape = (num_frequencies, num_columns)
        rate = jnp.broadcast_to(0.5 / jnp.square(self.lengthscale), shape)
        # Beyond a rate of 1e5 Poisson counts are as good as normal, and JAX draws them in single precision.
        counted = jnp.minimum(rate, 1e5)
        harmonic = jax.random.poisson(key_plus, counted, shape) - jax.random.poisson(key_minus, counted, shape)
        rounded = jnp.round(jnp.sqrt(2.0 * rate) * jax.random.normal(key_normal, shape))
        return 2.0 * jnp.pi * jnp.where(rate > 1e5, rounded, harmonic) / self.period

    def spread_frequencies(
        self, generator: np.random.Generator, num_frequencies: int, num_columns: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Harmonics, half of them as likely as all others."""
        omega, weights = np.empty((num_frequencies, num_columns)), np.ones(num_frequencies)
        for column in range(num_columns):
            frequencies, shares = self.harmonics(column)
            proposed = 0.5 * shares + 0.5 / len(shares)
            chosen = generator.choice(len(shares), size=num_frequencies, p=proposed)
            omega[:, column], weights = frequencies[chosen], weights * shares[chosen] / proposed[chosen]
        return omega, weights

    def harmonics(self, column: int) -> tuple[np.ndarray, np.ndarray]:
        """All frequencies ω = 2πn/p of one of its columns that matter, of both signs, and their shares; with NumPy."""
        from scipy.special import ive

        lengthscale, period = (
            np.atleast_1d(v)[-1 if np.size(v) == 1 else column] for v in (self.lengthscale, self.period)
        )
        rate = 1.0 / lengthscale**2
        last = int(12.0 + 9.0 * np.sqrt(rate))
        numbers = np.arange(-last, last + 1)
        shares = ive(numbers, rate)
        return 2.0 * np.pi * numbers / period, shares / shares.sum()
