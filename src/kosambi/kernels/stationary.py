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
import math
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._types import Array, ArrayLike, Key
from kosambi.errors import as_positive
from kosambi.kernels._base import AbstractKernel
from kosambi.kernels._columns import as_active_dims, check_selected, min_columns, select
from kosambi.kernels._distance import squared_distance
from kosambi.kernels._matern import matern12, matern32, matern52


class AbstractStationary(AbstractKernel):
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


class AbstractRadial(AbstractStationary):
    """A stationary kernel of the scaled distance."""

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


class SquaredExponential(AbstractRadial):
    """variance · exp(−s/2): very smooth functions.

    >>> import kosambi as ko
    >>> ko.kernels.SquaredExponential(lengthscale=0.5, variance=2.0)([[0.0]], [[0.0], [0.5]]).round(4)
    array([[2.    , 1.2131]])
    """

    @property
    def spectral_reach(self) -> float | None:
        """Standard deviations."""
        return 6.5

    def spectral_density(self, s: np.ndarray, num_columns: int) -> np.ndarray:
        """Standard normal."""
        return np.exp(-0.5 * s) / (2.0 * np.pi) ** (0.5 * num_columns)

    def spectral_tail(self, uniforms: np.ndarray, radius: float, num_columns: int) -> np.ndarray | None:
        """The squared norm has a χ² law."""
        from scipy.special import chdtrc, chdtri  # here, because SciPy doubles what `import kosambi` takes

        return np.sqrt(chdtri(num_columns, uniforms * chdtrc(num_columns, radius**2)))

    def correlation(self, s: Float[Array, "..."]) -> Float[Array, "..."]:
        """exp(−s/2)."""
        return jnp.exp(-0.5 * s)

    def spectral_scales(self, key: Key, num_frequencies: int) -> Float[Array, " R"]:
        """Ones: the spectral law is normal."""
        del key
        return jnp.ones(num_frequencies)


class AbstractMatern(AbstractRadial):
    """A Matérn kernel; its spectral law is Student t with twice the smoothness as degrees of freedom."""

    degrees_of_freedom: ClassVar[int]

    @property
    def spectral_reach(self) -> float | None:
        """Where 1e-5 of the spectral law is left, and more for the rougher kernels, which have more of it there."""
        return {1: 40.0, 3: 40.0, 5: 20.0}[self.degrees_of_freedom]

    def spectral_density(self, s: np.ndarray, num_columns: int) -> np.ndarray:
        """Student t."""
        nu = float(self.degrees_of_freedom)
        constant = math.lgamma(0.5 * (nu + num_columns)) - math.lgamma(0.5 * nu)
        constant -= 0.5 * num_columns * math.log(nu * math.pi)
        return np.exp(constant - 0.5 * (nu + num_columns) * np.log1p(s / nu))

    def spectral_tail(self, uniforms: np.ndarray, radius: float, num_columns: int) -> np.ndarray | None:
        """ν/(ν + squared norm) has a beta law."""
        from scipy.special import betainc, betaincinv

        nu, law = self.degrees_of_freedom, (0.5 * self.degrees_of_freedom, 0.5 * num_columns)
        share = betaincinv(*law, uniforms * betainc(*law, nu / (nu + radius**2)))
        return np.sqrt(nu * (1.0 - share) / share)

    def spectral_scales(self, key: Key, num_frequencies: int) -> Float[Array, " R"]:
        """√(ν / χ²_ν), which makes normal vectors Student t."""
        normal = jax.random.normal(key, (num_frequencies, self.degrees_of_freedom))
        return jnp.sqrt(self.degrees_of_freedom / jnp.sum(jnp.square(normal), axis=1))


class Matern12(AbstractMatern):
    """variance · exp(−t): continuous functions without a derivative.

    >>> import kosambi as ko
    >>> ko.kernels.Matern12()([[0.0]], [[1.0]]).round(4)
    array([[0.3679]])
    """

    degrees_of_freedom = 1

    def correlation(self, s: Float[Array, "..."]) -> Float[Array, "..."]:
        """exp(−t)."""
        return matern12(s)


class Matern32(AbstractMatern):
    """variance · (1 + √3 t) exp(−√3 t): functions with one derivative.

    >>> import kosambi as ko
    >>> ko.kernels.Matern32()([[0.0]], [[1.0]]).round(4)
    array([[0.4834]])
    """

    degrees_of_freedom = 3

    def correlation(self, s: Float[Array, "..."]) -> Float[Array, "..."]:
        """(1 + √3 t) exp(−√3 t)."""
        return matern32(3.0 * s)


class Matern52(AbstractMatern):
    """variance · (1 + √5 t + 5s/3) exp(−√5 t): functions with two derivatives.

    >>> import kosambi as ko
    >>> kernel = ko.kernels.Matern52(lengthscale=[0.3, 1.0], variance=2.0)
    >>> kernel([[0.0, 0.0]], [[0.3, 0.0], [0.0, 1.0]]).round(4)
    array([[1.048, 1.048]])
    """

    degrees_of_freedom = 5

    def correlation(self, s: Float[Array, "..."]) -> Float[Array, "..."]:
        """(1 + √5 t + 5s/3) exp(−√5 t)."""
        return matern52(5.0 * s)


class RationalQuadratic(AbstractRadial):
    """variance · (1 + s/(2α))^(−α): a mixture of squared exponentials over lengthscales.

    Arguments:
        alpha: how narrow the mixture is; the squared exponential is the limit of a large `alpha`.

    >>> import kosambi as ko
    >>> ko.kernels.RationalQuadratic(alpha=2.0)([[0.0]], [[1.0]]).round(4)
    array([[0.64]])
    """

    alpha: Array

    def __init__(
        self,
        lengthscale: ArrayLike = 1.0,
        variance: ArrayLike = 1.0,
        alpha: ArrayLike = 1.0,
        *,
        active_dims: Any = None,
    ) -> None:
        super().__init__(lengthscale, variance, active_dims=active_dims)
        self.alpha = as_positive("RationalQuadratic(alpha=...)", alpha)

    def correlation(self, s: Float[Array, "..."]) -> Float[Array, "..."]:
        """(1 + s/(2α))^(−α), through log1p so that a large α loses no digits."""
        return jnp.exp(-self.alpha * jnp.log1p(0.5 * s / self.alpha))

    def spectral_scales(self, key: Key, num_frequencies: int) -> Float[Array, " R"]:
        """√τ with τ ~ Gamma(α) of mean one."""
        return jnp.sqrt(jax.random.gamma(key, self.alpha, (num_frequencies,)) / self.alpha)

    @property
    def spectral_reach(self) -> float | None:
        """The density falls as exp(−√(2α) |ω|), or as a normal one for a large α."""
        # Below α = 1 the kernel falls so slowly that no period of a grid is long enough.
        return max(10.0, 35.0 / math.sqrt(2.0 * float(self.alpha))) if self.alpha >= 1 else None

    @property
    def reach(self) -> float:
        """Where the correlation has fallen to 1e-6."""
        return max(20.0, math.sqrt(2.0 * float(self.alpha)) * 10.0 ** (3.0 / float(self.alpha)))

    def spectral_density(self, s: np.ndarray, num_columns: int) -> np.ndarray:
        """∫ N(ω; 0, τ) Gamma(τ) dτ, a Bessel function."""
        from scipy.special import kve

        alpha = float(self.alpha)
        order, argument = alpha - 0.5 * num_columns, np.sqrt(2.0 * alpha * s)
        constant = math.log(2.0) + alpha * math.log(alpha) - math.lgamma(alpha)
        constant -= 0.5 * num_columns * math.log(2.0 * math.pi)
        power = 0.5 * order * np.log(s / (2.0 * alpha))
        return np.exp(constant + power + np.log(kve(order, argument)) - argument)


class Periodic(AbstractStationary):
    """variance · exp(−2 Σ_d sin²(π(x_d − z_d)/p_d)/ℓ_d²): functions that repeat with period p.

    Arguments:
        lengthscale: smoothness within a period, without a unit.
        period: p, in the units of x; a number, or one a column.

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
