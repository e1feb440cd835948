r"""Kernels of the scaled distance: the squared exponential, and Matérn of half-integer smoothness.

Half-integer Matérn correlations as functions of the squared distance, differentiable at zero distance.

With t = √s: g₀ = e^{−t}, g₁ = (1+t) e^{−t}, g₂ = (1+t+t²/3) e^{−t}. They form a chain under d/ds,

    g₂' = −g₁/6,   g₁' = −g₀/2,   g₀' = −e^{−t}/(2t),

so no division by t happens before the last one, where the function itself has a kink: its slope at s = 0 is set to 0.
Plain autodiff through √s would give NaN at coinciding points, and zero second derivatives with the usual guard.
"""

from __future__ import annotations

import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.types import Array, Key
from kosambi.kernels.stationary import AbstractRadial


def _below_infinity(s: Float[Array, "..."]) -> Float[Array, "..."]:
    """s, or a huge number where it is infinite: a polynomial in it times e^{−√s} is then 0 and not ∞ · 0."""
    return jnp.minimum(s, 1e-3 * np.finfo(s.dtype).max)


@jax.custom_jvp
def matern12(s: Float[Array, "..."]) -> Float[Array, "..."]:
    """g₀(s) = e^{−√s}."""
    return jnp.exp(-jnp.sqrt(s))


@jax.custom_jvp
def matern32(s: Float[Array, "..."]) -> Float[Array, "..."]:
    """g₁(s) = (1 + √s) e^{−√s}."""
    s = _below_infinity(s)
    t = jnp.sqrt(s)
    return (1.0 + t) * jnp.exp(-t)


@jax.custom_jvp
def matern52(s: Float[Array, "..."]) -> Float[Array, "..."]:
    """g₂(s) = (1 + √s + s/3) e^{−√s}."""
    s = _below_infinity(s)
    t = jnp.sqrt(s)
    return (1.0 + t + s / 3.0) * jnp.exp(-t)


@matern12.defjvp
def _matern12_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (s,), (s_dot,) = primals, tangents
    value = matern12(s)
    # Rounding leaves coinciding points at a tiny distance, where 1/t would blow up the rounding of s_dot.
    apart = s > jnp.square(1e3 * np.finfo(s.dtype).eps)
    t = jnp.sqrt(jnp.where(apart, s, 1.0))
    return value, jnp.where(apart, -0.5 * value / t, 0.0) * s_dot


@matern32.defjvp
def _matern32_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (s,), (s_dot,) = primals, tangents
    return matern32(s), -0.5 * matern12(s) * s_dot


@matern52.defjvp
def _matern52_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (s,), (s_dot,) = primals, tangents
    return matern52(s), -matern32(s) / 6.0 * s_dot


class SquaredExponential(AbstractRadial):
    """variance · exp(−s/2): very smooth functions.

    >>> import kosambi as ko
    >>> ko.kernels.SquaredExponential(lengthscale=0.5, variance=2.0)([[0.0]], [[0.0], [0.5]]).round(4)
    array([[2.    , 1.2131]])
    """

    @property
    def spectral_reach(self) -> float | None:
        """In standard deviations."""
        return 6.5

    def spectral_density(self, s: np.ndarray, num_columns: int) -> np.ndarray:
        """Standard normal."""
        return np.exp(-0.5 * s) / (2.0 * np.pi) ** (0.5 * num_columns)

    def spectral_tail(self, uniforms: np.ndarray, radius: float, num_columns: int) -> np.ndarray | None:
        """The squared norm has a χ² distribution."""
        from scipy.special import chdtrc, chdtri  # here, because SciPy doubles what `import kosambi` takes

        return np.sqrt(chdtri(num_columns, uniforms * chdtrc(num_columns, radius**2)))

    def correlation(self, s: Float[Array, "..."]) -> Float[Array, "..."]:
        """exp(−s/2)."""
        return jnp.exp(-0.5 * s)

    def spectral_scales(self, key: Key, num_frequencies: int) -> Float[Array, " R"]:
        """Ones: the spectral density is normal."""
        del key
        return jnp.ones(num_frequencies)


class AbstractMatern(AbstractRadial):
    """A Matérn kernel; its spectral density is Student's t with twice the smoothness as degrees of freedom."""

    degrees_of_freedom: ClassVar[int]

    @property
    def spectral_reach(self) -> float | None:
        """Where 1e-4 of the spectral density is left, and more for the roughest, which has more of it there."""
        return {1: 30.0, 3: 30.0, 5: 14.0}[self.degrees_of_freedom]

    def spectral_density(self, s: np.ndarray, num_columns: int) -> np.ndarray:
        """Student t."""
        nu = float(self.degrees_of_freedom)
        constant = math.lgamma(0.5 * (nu + num_columns)) - math.lgamma(0.5 * nu)
        constant -= 0.5 * num_columns * math.log(nu * math.pi)
        return np.exp(constant - 0.5 * (nu + num_columns) * np.log1p(s / nu))

    def spectral_tail(self, uniforms: np.ndarray, radius: float, num_columns: int) -> np.ndarray | None:
        """ν/(ν + squared norm) has a beta distribution."""
        from scipy.special import betainc, betaincinv

        nu, shapes = self.degrees_of_freedom, (0.5 * self.degrees_of_freedom, 0.5 * num_columns)
        share = betaincinv(*shapes, uniforms * betainc(*shapes, nu / (nu + radius**2)))
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
