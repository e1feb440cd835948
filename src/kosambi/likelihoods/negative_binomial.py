r"""Counts that vary more than a Poisson distribution: mean μ = e^f, variance μ + αμ².

c = (y + 1/α) log(1 + αe^f) − y log(αe^f) + constant
"""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from kosambi._core.checks import as_positive
from kosambi._core.precision import with_fields
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.likelihoods.families import AbstractCounts, exponential_moments
from kosambi.likelihoods.quadrature import Rule


class NegativeBinomial(AbstractCounts):
    """Counts with mean μ = e^f and variance μ + dispersion·μ²: overdispersed against Poisson.

    Arguments:
        dispersion: α > 0; Poisson is the limit of a small one.

    >>> import kosambi as ko
    >>> ko.likelihoods.NegativeBinomial(dispersion=0.5).observation_variance([0.0])
    array([1.5])
    """

    short_name: ClassVar[str | None] = "negative_binomial"

    dispersion: Array

    def __init__(self, dispersion: ArrayLike = 1.0) -> None:
        self.dispersion = as_positive("NegativeBinomial(dispersion=...)", dispersion)

    @classmethod
    def standard(cls) -> NegativeBinomial:
        return cls(dispersion=0.5)

    @property
    def is_convex(self) -> bool:
        return True

    @property
    def strip(self) -> float:
        """log(1 + αe^f) is singular at f + log α = ±iπ."""
        return float(np.pi)

    def curvature_range(self, y: np.ndarray) -> tuple[Array | float, Array | float] | None:
        """(y + 1/α) times the logistic density, which is at most 1/4."""
        return 0.0, 0.25 * (np.asarray(y) + 1.0 / float(self.dispersion))

    def raw_cost(self, y: Array, f: Array) -> Array:
        inverse, log_odds = 1.0 / self.dispersion, f + jnp.log(self.dispersion)
        constant = gammaln(inverse) + gammaln(y + 1.0) - gammaln(y + inverse)
        # Split by sign so that large arguments cancel before they are multiplied.
        tail = jnp.log1p(jnp.exp(-jnp.abs(log_odds)))
        return constant + inverse * jnp.maximum(log_odds, 0.0) + y * jnp.maximum(-log_odds, 0.0) + (y + inverse) * tail

    def raw_derivative(self, y: Array, f: Array) -> Array:
        """(y + 1/α) sigmoid(f + log α) − y."""
        share = jax.nn.sigmoid(f + jnp.log(self.dispersion))
        return share / self.dispersion - y * (1.0 - share)

    def raw_second_derivative(self, y: Array, f: Array) -> Array:
        """(y + 1/α) times the logistic density."""
        share = jax.nn.sigmoid(f + jnp.log(self.dispersion))
        return (y + 1.0 / self.dispersion) * share * (1.0 - share)

    def raw_rough_latent(self, y: Array) -> Array:
        """log y, a little above it so that zero has one."""
        return jnp.log(y + 0.5)

    def raw_mean(self, f: Array) -> Array:
        return jnp.exp(f)

    def raw_variance(self, f: Array) -> Array:
        return jnp.exp(f) * (1.0 + self.dispersion * jnp.exp(f))

    def raw_draw(self, key: Key, f: Array) -> Array:
        """A Poisson count at a gamma rate."""
        key_rate, key_count = jax.random.split(key)
        inverse = 1.0 / self.dispersion
        rate = jnp.exp(f) * jax.random.gamma(key_rate, inverse, jnp.shape(f)) / inverse
        return jax.random.poisson(key_count, rate).astype(f.dtype)

    def raw_moments(self, mean: Array, deviation: Array, rule: Rule) -> tuple[Array, Array]:
        """Log-normal moments of the mean e^f."""
        del rule
        return exponential_moments(mean, deviation, 1.0, self.dispersion)

    def cdf_width(self, y: np.ndarray) -> np.ndarray:
        """The relative standard deviation of the count, or half a unit."""
        return np.minimum(0.5, np.sqrt(self.dispersion + 1.0 / (np.maximum(y, 0.0) + 1.0)))

    def thresholds(self, y: np.ndarray, t: np.ndarray) -> tuple[np.ndarray | None, np.ndarray] | None:
        """There are no more than y counts with the probability that a beta variable lies below 1/(1 + αe^f)."""
        from scipy.special import betaincinv

        share = betaincinv(1.0 / self.dispersion, np.maximum(np.floor(y), 0.0) + 1.0, t)
        with np.errstate(divide="ignore"):
            value = np.log1p(-share) - np.log(share) - np.log(self.dispersion)
        return None, np.where(np.asarray(y) < 0, -np.inf, value)

    def cdf(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """A regularised incomplete beta function."""
        from scipy.special import betainc

        share = 1.0 / (1.0 + self.dispersion * np.exp(f))
        value = betainc(1.0 / self.dispersion, np.maximum(np.floor(y), 0.0) + 1.0, share)
        return np.where(np.asarray(y) < 0, 0.0, value)

    def started_from(self, y: np.ndarray, share: float, deviation: float) -> NegativeBinomial:
        del y
        return with_fields(self, dispersion=np.asarray((share * deviation) ** 2))
