r"""Stationary kernels: functions of the scaled distance between two inputs.

With s = Σ_d ((x_d − z_d)/ℓ_d)² (one lengthscale ℓ for all columns, or one a column: ARD) and t = √s:

| kernel              | k / variance                              | spectral law of the frequencies ω      |
|---------------------|-------------------------------------------|----------------------------------------|
| SquaredExponential  | exp(−s/2)                                 | N(0, ℓ⁻²)                              |
| Matern12            | exp(−t)                                   | Student t, 1 degree of freedom, over ℓ |
| Matern32            | (1 + √3 t) exp(−√3 t)                     | Student t, 3, over ℓ                   |
| Matern52            | (1 + √5 t + 5s/3) exp(−√5 t)              | Student t, 5, over ℓ                   |
| RationalQuadratic   | (1 + s/(2α))^(−α)                         | N(0, τ ℓ⁻²), τ ~ Gamma(α, mean 1)      |
| Periodic            | exp(−2 Σ_d sin²(π(x_d−z_d)/p_d)/ℓ_d²)     | 2π/p times a Skellam integer           |
"""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.errors import as_positive
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.kernels.base import AbstractScalable
from kosambi.kernels.columns import as_active_dims, check_selected, min_columns, select, squared_distance

# Natural logarithm of the smallest probability of a far frequency that is drawn on purpose: 1e-10.
_FARTHEST = 23.0


class AbstractStationary(AbstractScalable):
    """A kernel of x − z alone, with a spectral law that random Fourier features are drawn from.

    Arguments:
        lengthscale: over which distance the function changes, in the units of x; a number, or one a column.
        variance: k(x, x), the prior variance where the kernel is used as a covariance, in squared units of f.
        active_dims: numbers of the columns that the kernel looks at; all when None.
    """

    lengthscale: Array
    variance: Array
    active_dims: tuple[int, ...] | None = eqx.field(static=True)

    def __init__(self, lengthscale: ArrayLike = 1.0, variance: ArrayLike = 1.0, *, active_dims: Any = None) -> None:
        name = type(self).__name__
        self.lengthscale = as_positive(f"{name}(lengthscale=...)", lengthscale, max_ndim=1)
        self.variance = as_positive(f"{name}(variance=...)", variance)
        self.active_dims = as_active_dims(name, active_dims)

    def check_columns(self, num_columns: int) -> None:
        """Refuse inputs whose columns do not match the lengthscales or `active_dims`."""
        check_selected(type(self).__name__, self.active_dims, {"lengthscale": self.lengthscale}, num_columns)

    @property
    def min_columns(self) -> int:
        """The smallest number of input columns that fits the parameters."""
        return min_columns(self.active_dims, self.lengthscale)

    def pointwise(self, x: Float[Array, "N D"]) -> Float[Array, " N"]:
        """The variance, N times."""
        return jnp.broadcast_to(self.variance, (x.shape[0],))

    @abc.abstractmethod
    def sample_frequencies(self, key: Key, num_frequencies: int, num_columns: int) -> Float[Array, "R A"]:
        """Frequencies ω from the spectral law, so that k(x, z) = variance · E cos ω·(x − z).

        `num_columns` counts the columns that the kernel looks at; frequencies are in radians a unit of x.
        """

    def spread_frequencies(
        self, generator: np.random.Generator, num_frequencies: int, num_columns: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Frequencies with weights, so that k(x, z) = variance · E weight cos ω·(x − z), many of them far out; NumPy.

        Far out lies little of the variance, but most of what is left of it between points that are near. Without a
        better way the frequencies are plain ones, with weights one.
        """
        key = jax.random.key(int(generator.integers(2**31)))
        return np.asarray(self.sample_frequencies(key, num_frequencies, num_columns)), np.ones(num_frequencies)


class AbstractRadial(AbstractStationary):
    """A stationary kernel of the scaled distance."""

    def spread_frequencies(
        self, generator: np.random.Generator, num_frequencies: int, num_columns: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Random directions, with norms of which half are spread over the logarithm of what lies beyond them."""
        found = self.tail_frequencies(generator, num_frequencies, num_columns, 0.0)
        return super().spread_frequencies(generator, num_frequencies, num_columns) if found is None else found

    def tail_frequencies(
        self, generator: np.random.Generator, num_frequencies: int, num_columns: int, radius: float
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """The same, given that the norm of ℓω exceeds `radius`; None where `spectral_tail` is not known."""
        beyond, weights = spread_probabilities(generator, num_frequencies)
        norms = self.spectral_tail(beyond, radius, num_columns)
        if norms is None:
            return None
        directions = generator.normal(size=(num_frequencies, num_columns))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        return norms[:, None] * directions / np.asarray(self.lengthscale), weights

    @property
    def spectral_reach(self) -> float | None:
        """Scaled frequency beyond which next to nothing of the spectral law lies; None without a density."""
        return None

    @property
    def reach(self) -> float:
        """The lengthscales over which values are correlated, for periods of spectra on a grid."""
        return 20.0

    def spectral_density(self, s: np.ndarray, num_columns: int) -> np.ndarray:
        """The density of scaled frequencies ℓω at squared norm s > 0, in `num_columns` dimensions; with NumPy."""
        raise NotImplementedError(f"{type(self).__name__} has no spectral density in closed form.")

    def spectral_tail(self, uniforms: np.ndarray, radius: float, num_columns: int) -> np.ndarray | None:
        """Norms of scaled frequencies given that they exceed `radius`, from uniform numbers; None if unknown."""
        del uniforms, radius, num_columns
        return None

    @abc.abstractmethod
    def correlation(self, s: Float[Array, "..."]) -> Float[Array, "..."]:
        """k / variance as a function of the squared scaled distance s."""

    @abc.abstractmethod
    def spectral_scales(self, key: Key, num_frequencies: int) -> Float[Array, " R"]:
        """Random factors that turn standard normal frequencies into the kernel's, for lengthscale one."""

    def pairwise(self, x: Float[Array, "N D"], z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        """Variance · correlation(s)."""
        x, z = select(x, self.active_dims), select(z, self.active_dims)
        if z.shape[0] > 0:
            # A common shift changes no distance; without it, scaling would round away digits of far-off inputs.
            centre = jax.lax.stop_gradient(jnp.mean(z, axis=0))
            x, z = x - centre, z - centre
        return self.variance * self.correlation(squared_distance(x / self.lengthscale, z / self.lengthscale))

    def sample_frequencies(self, key: Key, num_frequencies: int, num_columns: int) -> Float[Array, "R A"]:
        """Normal directions over the lengthscales, times `spectral_scales`."""
        key_normal, key_scale = jax.random.split(key)
        normal = jax.random.normal(key_normal, (num_frequencies, num_columns))
        return self.spectral_scales(key_scale, num_frequencies)[:, None] * normal / self.lengthscale


def spread_probabilities(generator: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities s of lying farther out, half uniform and half log-uniform from 1e-10 to 1, and weights at most two.

    Both halves are stratified. The weight is one over the density ½ + ½/(23 s) of s.
    """
    plain = count - count // 2
    uniform = (np.arange(plain) + generator.uniform(size=plain)) / plain
    logarithm = -_FARTHEST * (np.arange(count - plain) + generator.uniform(size=count - plain)) / max(1, count - plain)
    s = np.concatenate([uniform, np.exp(logarithm)])
    return s, 1.0 / (
        plain / count + (1.0 - plain / count) * np.where(s > np.exp(-_FARTHEST), 1.0 / (_FARTHEST * s), 0.0)
    )
