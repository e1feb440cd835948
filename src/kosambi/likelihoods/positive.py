r"""Positive observations with mean e^f: gamma, and exponential as its special case.

c = a (f + y e^{−f}) + log Γ(a) − a log a − (a − 1) log y
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Float

from kosambi._core.errors import as_positive
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.likelihoods.base import AbstractLikelihood, as_observations, check_values
from kosambi.likelihoods.quadrature import Rule


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


class Gamma(AbstractLikelihood):
    """Positive numbers with mean e^f and coefficient of variation 1/√shape.

    Arguments:
        shape: a > 0, without a unit.

    >>> import kosambi as ko
    >>> ko.likelihoods.Gamma(shape=4.0).observation_variance([0.0])
    array([0.25])
    """

    shape: Array

    def __init__(self, shape: ArrayLike = 1.0) -> None:
        self.shape = as_positive("Gamma(shape=...)", shape)

    @property
    def is_convex(self) -> bool:
        """Yes."""
        return True

    def check(self, y: ArrayLike) -> Float[Array, " N"]:
        """Positive numbers."""
        array = as_observations(type(self).__name__, y)
        remedy = "Drop zeros, or use a likelihood for counts or real numbers."
        return check_values(type(self).__name__, array, np.asarray(array) > 0, "to be positive", remedy)

    def raw_cost(self, y: Array, f: Array) -> Array:
        """a (f + y e^{−f}), and the constant of the density."""
        a = self.shape
        return a * (f + y * jnp.exp(-f)) + gammaln(a) - a * jnp.log(a) - (a - 1.0) * jnp.log(y)

    def raw_derivative(self, y: Array, f: Array) -> Array:
        """a (1 − y e^{−f})."""
        return self.shape * (1.0 - y * jnp.exp(-f))

    def raw_second_derivative(self, y: Array, f: Array) -> Array:
        """a y e^{−f}."""
        return self.shape * y * jnp.exp(-f)

    def raw_curvature(self, y: Array, f: Array) -> Array:
        """The second derivative, which is positive."""
        return self.raw_second_derivative(y, f)

    @property
    def lowest(self) -> float:
        """Zero."""
        return 0.0

    def raw_rough_latent(self, y: Array) -> Array:
        """log y."""
        return jnp.log(y)

    def raw_mean(self, f: Array) -> Array:
        """e^f."""
        return jnp.exp(f)

    def raw_moments(self, mean: Array, deviation: Array, rule: Rule) -> tuple[Array, Array]:
        """Log-normal moments of the mean e^f, whose square is 1/a of the variance."""
        del rule
        return exponential_moments(mean, deviation, 0.0, 1.0 / self.shape)

    def distribution_width(self, y: np.ndarray) -> np.ndarray:
        """The relative deviation 1/√a."""
        return np.full(np.shape(y), min(0.5, float(self.shape) ** -0.5))

    def thresholds(self, y: np.ndarray, t: np.ndarray) -> tuple[np.ndarray | None, np.ndarray] | None:
        """y lies above a e^f times a gamma variable for all f up to this."""
        from scipy.special import gammaincinv

        with np.errstate(divide="ignore"):
            return None, np.log(self.shape * np.maximum(y, 0.0)) - np.log(
                np.maximum(gammaincinv(self.shape, t), 1e-300)
            )

    def distribution(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """A regularised incomplete gamma function."""
        from scipy.special import gammainc

        return gammainc(self.shape, self.shape * np.maximum(y, 0.0) * np.exp(-f))

    def raw_variance(self, f: Array) -> Array:
        """e^{2f}/a."""
        return jnp.exp(2.0 * f) / self.shape

    def raw_draw(self, key: Key, f: Array) -> Array:
        """Gamma variables of that mean."""
        return jnp.exp(f) * jax.random.gamma(key, self.shape, jnp.shape(f)) / self.shape

    def raw_expected_cost(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """The cost at the mean with y scaled by E e^{−deviation·ξ}, in closed form."""
        del rule
        a = self.shape
        grown = jnp.exp(0.5 * jnp.square(deviation) - mean)
        return a * (mean + y * grown) + gammaln(a) - a * jnp.log(a) - (a - 1.0) * jnp.log(y)

    def raw_expected_derivative(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """Its derivative."""
        del rule
        return self.shape * (1.0 - y * jnp.exp(0.5 * jnp.square(deviation) - mean))

    def raw_expected_curvature(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """a y E e^{−f}."""
        del rule
        return self.shape * y * jnp.exp(0.5 * jnp.square(deviation) - mean)


class Exponential(Gamma):
    """Positive numbers, exponentially distributed with mean e^f: waiting times.

    >>> import kosambi as ko
    >>> ko.likelihoods.Exponential().log_density([2.0], [0.0])
    array([-2.])
    """

    supports: ClassVar[Mapping[str, str]] = {"shape": "fixed"}

    def __init__(self) -> None:
        super().__init__(1.0)
