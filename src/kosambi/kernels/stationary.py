r"""Stationary kernels: functions of the scaled distance between two inputs.

With s = Σ_d ((x_d − z_d)/ℓ_d)² (one lengthscale ℓ for all columns, or one per column: ARD) and t = √s:

| kernel              | k / variance                              | distribution of the frequencies ω      |
|---------------------|-------------------------------------------|----------------------------------------|
| SquaredExponential  | exp(−s/2)                                 | N(0, ℓ⁻²)                              |
| Matern12            | exp(−t)                                   | Student t, 1 degree of freedom, over ℓ |
| Matern32            | (1 + √3 t) exp(−√3 t)                     | Student t, 3, over ℓ                   |
| Matern52            | (1 + √5 t + 5s/3) exp(−√5 t)              | Student t, 5, over ℓ                   |
| RationalQuadratic   | (1 + s/(2α))^(−α)                         | N(0, τ ℓ⁻²), τ ~ Gamma(α, mean 1)      |
| Periodic            | exp(−2 Σ_d sin²(π(x_d−z_d)/p_d)/ℓ_d²)     | 2π/p times a Skellam integer           |

Squared distances are summed from coordinate differences, without an N×M×D array, so that no digits are lost to
|a|² + |b|² − 2ab when inputs sit far from the origin, and equal points are at distance zero (or one rounding of a
coordinate, where the compiler fuses a scaling into the subtraction). Their derivative is two matrix products.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_positive
from kosambi._core.long_tables import column_groups
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.errors import InputError
from kosambi.kernels.base import AbstractCombination, AbstractKernel, AbstractScalable


def as_active_dims(name: str, active_dims: object) -> tuple[int, ...] | None:
    """Checked column numbers, or None for all columns."""
    if active_dims is None:
        return None
    active_dims = active_dims.tolist() if isinstance(active_dims, np.ndarray) else active_dims
    given: list[Any] = list(active_dims) if isinstance(active_dims, Iterable) else [active_dims]
    whole = all(isinstance(d, int | np.integer) and not isinstance(d, bool) and d >= 0 for d in given)
    if not given or not whole or len(set(given)) != len(given):
        raise InputError(
            f"`{name}(active_dims=...)` must list different column numbers, each 0 or more. Got {active_dims!r}. "
            "For the first and third column write active_dims=[0, 2]."
        )
    return tuple(int(d) for d in given)


def check_selected(name: str, active_dims: tuple[int, ...] | None, per_column: dict[str, Any], columns: int) -> None:
    """Check `active_dims` and each parameter that has one entry per column against the number of input columns."""
    if active_dims is not None and max(active_dims) >= columns:
        raise InputError(
            f"`{name}` uses column {max(active_dims)}, but the inputs have {columns} columns, numbered from 0. "
            "Change `active_dims`, or pass inputs with more columns."
        )
    selected = columns if active_dims is None else len(active_dims)
    for parameter, value in per_column.items():
        # Leaves of a pytree may be placeholders without a shape, as `jax.tree.map` makes them.
        if getattr(value, "ndim", 0) == 1 and value.shape[0] not in (1, selected):
            raise InputError(
                f"`{name}` has {value.shape[0]} entries in `{parameter}` for {selected} input columns. "
                "Give one entry per column, or a single number for all."
            )


def min_columns(active_dims: tuple[int, ...] | None, *per_column: Any) -> int:
    """The smallest number of input columns that has the active ones and fits the parameters."""
    if active_dims is not None:
        return max(active_dims) + 1
    return max(value.size for value in per_column)


def select(x: Float[Array, "N D"], active_dims: tuple[int, ...] | None) -> Float[Array, "N A"]:
    """The columns that a kernel looks at."""
    return x if active_dims is None else x[:, np.asarray(active_dims)]


# Columns summed in one fused pass over the N×M matrix; more columns take several passes.
COLUMNS_PER_PASS = 16


@jax.custom_jvp
def squared_distance(x: Float[Array, "N D"], z: Float[Array, "M D"]) -> Float[Array, "N M"]:
    """Σ_d (x_nd − z_md)²."""
    num_columns = x.shape[1]
    if num_columns <= COLUMNS_PER_PASS:
        return _sum_of_squares(x.T, z.T)
    passes = -(-num_columns // COLUMNS_PER_PASS)
    padding = ((0, 0), (0, passes * COLUMNS_PER_PASS - num_columns))
    x_passes = jnp.pad(x, padding).T.reshape(passes, COLUMNS_PER_PASS, -1)
    z_passes = jnp.pad(z, padding).T.reshape(passes, COLUMNS_PER_PASS, -1)

    def add(total: Array, columns: tuple[Array, Array]) -> tuple[Array, None]:
        return total + _sum_of_squares(*columns), None

    start = jnp.zeros((x.shape[0], z.shape[0]), dtype=jnp.result_type(x, z))
    return jax.lax.scan(add, start, (x_passes, z_passes))[0]


def _sum_of_squares(x_columns: Float[Array, "C N"], z_columns: Float[Array, "C M"]) -> Float[Array, "N M"]:
    total = jnp.square(x_columns[0][:, None] - z_columns[0][None, :])
    for x_column, z_column in zip(x_columns[1:], z_columns[1:], strict=True):
        total = total + jnp.square(x_column[:, None] - z_column[None, :])
    return total


@squared_distance.defjvp
def _squared_distance_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    x, z = primals
    x_dot, z_dot = tangents
    # Centred first: the derivative does not change, and the products below lose no digits to a common offset.
    centre = jax.lax.stop_gradient(jnp.mean(z, axis=0))
    x_c, z_c = x - centre, z - centre
    own = jnp.sum(x_c * x_dot, axis=1)[:, None] + jnp.sum(z_c * z_dot, axis=1)[None, :]
    return squared_distance(x, z), 2.0 * (own - x_c @ z_dot.T - x_dot @ z_c.T)


# Natural logarithm of the smallest probability of a far frequency that is drawn on purpose: 1e-10.
_FARTHEST = 23.0


class AbstractStationary(AbstractScalable):
    """A kernel of x − z alone, with a spectral density that random Fourier features are drawn from.

    Arguments:
        lengthscale: over which distance the function changes, in the units of x; a number, or one per column.
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
        """Frequencies ω from the spectral density, so that k(x, z) = variance · E cos ω·(x − z).

        `num_columns` counts the columns that the kernel looks at; frequencies are in radians per unit of x.
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
        """Scaled frequency beyond which next to nothing of the spectral density lies; None without a closed form."""
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
        """variance · correlation(s)."""
        x, z = select(x, self.active_dims), select(z, self.active_dims)
        if z.shape[0] > 0:
            # A common shift changes no distance; without it, scaling would round away digits of far-off inputs. Not by
            # the mean, which a single row at 1e20 moves so far that all others lose theirs: by the number nearest to
            # zero between the smallest and the largest.
            centre = jax.lax.stop_gradient(jnp.clip(0.0, jnp.min(z, axis=0), jnp.max(z, axis=0)))
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


def column_scales(kernel: AbstractKernel, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, " D"]:
    """Units of the columns in which distances matter: the shortest lengthscale of each, or its standard deviation."""
    scales = np.full(x.shape[1], np.inf)
    parts = [kernel]
    while parts:
        part = parts.pop()
        if isinstance(part, AbstractCombination):
            parts.extend(part.kernels)
        elif isinstance(part, AbstractStationary):
            own = np.arange(x.shape[1]) if part.active_dims is None else np.asarray(part.active_dims)
            scales[own] = np.minimum(scales[own], np.broadcast_to(np.asarray(part.lengthscale), own.shape))
    for group in column_groups(x.shape[1]):
        if not np.all(np.isfinite(scales[group])):
            spread = np.std(x[:, group], axis=0)
            scales[group] = np.where(np.isfinite(scales[group]), scales[group], np.where(spread > 0, spread, 1.0))
    return scales
