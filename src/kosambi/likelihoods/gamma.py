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

from kosambi._core.checks import as_positive
from kosambi._core.precision import with_fields
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.likelihoods.base import AbstractLikelihood
from kosambi.likelihoods.families import exponential_moments
from kosambi.likelihoods.quadrature import Rule
from kosambi.likelihoods.specification import as_observations, check_values


class Gamma(AbstractLikelihood):
    """Positive numbers with mean e^f and coefficient of variation 1/√shape.

    Arguments:
        shape: a > 0, without a unit.

    >>> import kosambi as ko
    >>> ko.likelihoods.Gamma(shape=4.0).observation_variance([0.0])
    array([0.25])
    """

    short_name: ClassVar[str | None] = "gamma"

    shape: Array

    def __init__(self, shape: ArrayLike = 1.0) -> None:
        self.shape = as_positive("Gamma(shape=...)", shape)

    @classmethod
    def standard(cls) -> Gamma:
        return cls(shape=2.0)

    @property
    def is_convex(self) -> bool:
        return True

    def check(self, y: ArrayLike) -> Float[Array, " N"]:
        array = as_observations(type(self).__name__, y)
        remedy = "Drop zeros, or use a likelihood for counts or real numbers."
        return check_values(type(self).__name__, array, np.asarray(array) > 0, "to be positive", remedy)

    @property
    def strip(self) -> float:
        """Expectations are closed forms."""
        return np.inf

    def raw_cost(self, y: Array, f: Array) -> Array:
        a = self.shape
        return a * (f + y * jnp.exp(-f)) + gammaln(a) - a * jnp.log(a) - (a - 1.0) * jnp.log(y)

    def raw_derivative(self, y: Array, f: Array) -> Array:
        return self.shape * (1.0 - y * jnp.exp(-f))

    def raw_second_derivative(self, y: Array, f: Array) -> Array:
        return self.shape * y * jnp.exp(-f)

    @property
    def lowest(self) -> float:
        return 0.0

    def raw_rough_latent(self, y: Array) -> Array:
        return jnp.log(y)

    def raw_mean(self, f: Array) -> Array:
        return jnp.exp(f)

    def raw_moments(self, mean: Array, deviation: Array, rule: Rule) -> tuple[Array, Array]:
        """Log-normal moments of the mean e^f, whose square is 1/a of the variance."""
        del rule
        return exponential_moments(mean, deviation, 0.0, 1.0 / self.shape)

    def cdf_width(self, y: np.ndarray) -> np.ndarray:
        """The relative standard deviation 1/√a, or half a unit."""
        return np.full(np.shape(y), min(0.5, float(self.shape) ** -0.5))

    def thresholds(self, y: np.ndarray, t: np.ndarray) -> tuple[np.ndarray | None, np.ndarray] | None:
        """y lies above a e^f times a gamma variable for all f up to this."""
        from scipy.special import gammaincinv

        with np.errstate(divide="ignore"):
            return None, np.log(self.shape * np.maximum(y, 0.0)) - np.log(
                np.maximum(gammaincinv(self.shape, t), 1e-300)
            )

    def cdf(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """A regularised incomplete gamma function."""
        from scipy.special import gammainc

        return gammainc(self.shape, self.shape * np.maximum(y, 0.0) * np.exp(-f))

    def raw_variance(self, f: Array) -> Array:
        return jnp.exp(2.0 * f) / self.shape

    def raw_draw(self, key: Key, f: Array) -> Array:
        return jnp.exp(f) * jax.random.gamma(key, self.shape, jnp.shape(f)) / self.shape

    def raw_expected_cost(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """The cost at the mean with y scaled by E e^{−deviation·ξ}, in closed form."""
        del rule
        a = self.shape
        grown = jnp.exp(0.5 * jnp.square(deviation) - mean)
        return a * (mean + y * grown) + gammaln(a) - a * jnp.log(a) - (a - 1.0) * jnp.log(y)

    def raw_expected_derivative(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        del rule
        return self.shape * (1.0 - y * jnp.exp(0.5 * jnp.square(deviation) - mean))

    def raw_expected_curvature(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """a y E e^{−f}."""
        del rule
        return self.shape * y * jnp.exp(0.5 * jnp.square(deviation) - mean)

    def started_from(self, y: np.ndarray, share: float, deviation: float) -> Gamma:
        del y
        # The logarithm of a gamma variable has a variance of about 1/shape.
        return with_fields(self, shape=np.asarray((share * deviation) ** -2.0))


class Exponential(Gamma):
    """Positive numbers, exponentially distributed with mean e^f: waiting times.

    >>> import kosambi as ko
    >>> ko.likelihoods.Exponential().log_density([2.0], [0.0])
    array([-2.])
    """

    short_name: ClassVar[str | None] = "exponential"
    supports: ClassVar[Mapping[str, str]] = {"shape": "fixed"}

    def __init__(self) -> None:
        super().__init__(1.0)

    @classmethod
    def standard(cls) -> Exponential:
        return cls()

    def started_from(self, y: np.ndarray, share: float, deviation: float) -> Exponential:
        del y, share, deviation
        return self
