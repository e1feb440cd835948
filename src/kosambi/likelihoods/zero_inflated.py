r"""Counts with more zeros than a Poisson distribution has: some are zero whatever the rate is.

    P(y = 0) = p + (1 − p) e^{−μ},   P(y = k) = (1 − p) Poisson(k; μ),   μ = e^f

c = μ − y f + log y! − log(1 − p) for y > 0, which is convex in f; for y = 0 it is −log(p + (1 − p) e^{−μ}), which rises
from 0 to −log p and is therefore not. A density that is a mixture has a predictive density and a cdf that are mixtures
with the same weights, so both follow from those of `Poisson`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from kosambi._core.checks import as_positive, is_traced
from kosambi._core.precision import with_fields
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.errors import InputError
from kosambi.likelihoods.families import AbstractCounts, exponential_moments
from kosambi.likelihoods.poisson import Poisson
from kosambi.likelihoods.quadrature import Rule

_POISSON = Poisson(link="exp")
# The share of zeros that a search begins with is kept away from 0 and 1.
_LEAST_SHARE, _LARGEST_SHARE = 0.05, 0.9


class ZeroInflatedPoisson(AbstractCounts):
    """Counts that are zero with `probability`, and otherwise have a Poisson distribution of rate e^f. Not convex in f.

    Arguments:
        probability: p, between 0 and 1, the probability of a zero that has nothing to do with the rate.

    >>> import kosambi as ko
    >>> ko.likelihoods.ZeroInflatedPoisson(probability=0.25).observation_mean([0.0])
    array([0.75])
    """

    short_name: ClassVar[str | None] = "zero_inflated_poisson"
    supports: ClassVar[Mapping[str, str]] = {"probability": "unit"}

    probability: Array

    def __init__(self, probability: ArrayLike = 0.3) -> None:
        self.probability = as_positive("ZeroInflatedPoisson(probability=...)", probability)
        if not is_traced(self.probability) and not self.probability < 1:
            raise InputError(
                f"`ZeroInflatedPoisson(probability=...)` must lie between 0 and 1. Got {probability!r}. "
                "At 0 use `Poisson`."
            )

    @property
    def is_convex(self) -> bool:
        return False

    @property
    def strip(self) -> float:
        """p + (1 − p) exp(−e^f) vanishes where e^f is log((1 − p)/p) plus an odd multiple of iπ."""
        log_odds = float(np.log1p(-self.probability) - np.log(self.probability))
        return float(min(0.5 * np.pi, np.arctan2(np.pi, log_odds)))

    def _share(self, rate: Array) -> Array:
        """The probability that an observed zero is one of the Poisson distribution."""
        return jax.nn.sigmoid(jnp.log1p(-self.probability) - jnp.log(self.probability) - rate)

    def raw_cost(self, y: Array, f: Array) -> Array:
        log_some = jnp.log1p(-self.probability)
        zero = -jnp.logaddexp(jnp.log(self.probability), log_some - jnp.exp(f))
        return jnp.where(y > 0, _POISSON.raw_cost(y, f) - log_some, zero)

    def raw_derivative(self, y: Array, f: Array) -> Array:
        """μ − y, or μ times the probability that the zero is one of the Poisson distribution."""
        rate = jnp.exp(f)
        return jnp.where(y > 0, rate - y, _product(rate, self._share(rate)))

    def raw_second_derivative(self, y: Array, f: Array) -> Array:
        """μ, or μr(1 − μ(1 − r)) with the probability r that the zero is one of the Poisson distribution."""
        rate = jnp.exp(f)
        share = self._share(rate)
        zero = _product(rate, share) - _product(rate, _product(rate, share)) * (1.0 - share)
        return jnp.where(y > 0, rate, zero)

    def raw_rough_latent(self, y: Array) -> Array:
        return _POISSON.raw_rough_latent(y)

    def raw_mean(self, f: Array) -> Array:
        return (1.0 - self.probability) * jnp.exp(f)

    def raw_variance(self, f: Array) -> Array:
        """(1 − p) μ (1 + pμ)."""
        return self.raw_mean(f) * (1.0 + self.probability * jnp.exp(f))

    def raw_draw(self, key: Key, f: Array) -> Array:
        key_zero, key_count = jax.random.split(key)
        is_zero = jax.random.bernoulli(key_zero, self.probability, jnp.shape(f))
        return jnp.where(is_zero, 0.0, _POISSON.raw_draw(key_count, f))

    def raw_moments(self, mean: Array, deviation: Array, rule: Rule) -> tuple[Array, Array]:
        """Log-normal moments of the mean m = (1 − p)μ, as the variance given f is m + p/(1 − p) m²."""
        del rule
        odds = self.probability / (1.0 - self.probability)
        return exponential_moments(mean + jnp.log1p(-self.probability), deviation, 1.0, odds)

    def raw_log_predictive(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        counted = jnp.log1p(-self.probability) + _POISSON.raw_log_predictive(y, mean, deviation, rule)
        return jnp.where(y > 0, counted, jnp.logaddexp(jnp.log(self.probability), counted))

    def cdf(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return self._mixed(y, _POISSON.cdf(y, f))

    def mixture_cdf(self, y: np.ndarray, means: np.ndarray, deviation: np.ndarray) -> np.ndarray:
        return self._mixed(y, _POISSON.mixture_cdf(y, means, deviation))

    def _mixed(self, y: np.ndarray, counted: np.ndarray) -> np.ndarray:
        return np.where(np.asarray(y) < 0, 0.0, self.probability + (1.0 - self.probability) * counted)

    def started_from(self, y: np.ndarray, share: float, deviation: float) -> ZeroInflatedPoisson:
        """Half of the zeros; noise as a share of the standard deviation is what the rate explains."""
        del share, deviation
        found = np.clip(0.5 * np.mean(np.asarray(y) == 0), _LEAST_SHARE, _LARGEST_SHARE)
        return with_fields(self, probability=np.asarray(found))


def _product(rate: Array, share: Array) -> Array:
    """rate·share, zero where the share is, also where the rate is infinite."""
    return jnp.where(share > 0, rate, 0.0) * share
