r"""Counts: Poisson with a squared or an exponential link, and the negative binomial.

    Poisson, "exp":    c = e^f − y f + log y!
    Poisson, "square": c = f² − 2y log|f| + log y!        (paper, appendix "Likelihood functions")
    NegativeBinomial:  mean μ = e^f, variance μ + αμ²

The squared link does not change when f changes sign, so a posterior has (at least) two modes. At f = 0 with y > 0 its
cost is infinite and its slope, of either sign, is cut to a huge finite number.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import digamma, gammaln
from jaxtyping import Float

from kosambi._core.errors import InputError, as_positive
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.likelihoods.base import AbstractLikelihood, as_observations, check_values
from kosambi.likelihoods.cost import tiny
from kosambi.likelihoods.positive import exponential_moments
from kosambi.likelihoods.predictive import squared_rate_log_predictive
from kosambi.likelihoods.quadrature import Rule

# Above this ratio μ²/σ² the mean of log f² is taken from its asymptotic series, below it from a Poisson mixture.
_ASYMPTOTIC = 120.0
_MIXTURE_TERMS = 160
_SERIES = [float(np.prod(np.arange(1.0, 2 * k, 2.0))) / k for k in range(1, 12)]


class AbstractCounts(AbstractLikelihood):
    """Observations that are counts: 0, 1, 2 and so on."""

    @property
    def is_discrete(self) -> bool:
        """Counts."""
        return True

    @property
    def lowest(self) -> float:
        """Zero."""
        return 0.0

    def check(self, y: ArrayLike) -> Float[Array, " N"]:
        """Counts."""
        name, array = type(self).__name__, as_observations(type(self).__name__, y)
        whole = (array >= 0) & (array == np.round(array))
        remedy = "Round them if they are counts; use `Gamma` or `Gaussian` if they are not."
        return check_values(name, array, whole, "to be counts 0, 1, 2, ...", remedy)


class Poisson(AbstractCounts):
    """Counts with rate f² (`link="square"`, the paper's) or e^f (`link="exp"`).

    Arguments:
        link: "exp" (convex) or "square" (two signs of f give the same rate).

    >>> import kosambi as ko
    >>> ko.likelihoods.Poisson(link="square").derivative([2.4, 2.3], [4.1, -9.3]).round(6)
    array([  7.029268, -18.105376])
    """

    link: str = eqx.field(static=True)

    def __init__(self, link: str = "exp") -> None:
        if link not in ("exp", "square"):
            raise InputError(f'`Poisson(link=...)` must be "exp" or "square". Got {link!r}.')
        self.link = link

    @property
    def is_convex(self) -> bool:
        """Only with the exponential link."""
        return self.link == "exp"

    @property
    def is_even(self) -> bool:
        """With the squared link."""
        return self.link == "square"

    def has_pole(self, y: np.ndarray) -> np.ndarray:
        """A rate of zero cannot give a count above zero; with the squared link f = 0 is one."""
        return (np.asarray(y) > 0) & (self.link == "square")

    def raw_cost(self, y: Array, f: Array) -> Array:
        """rate − y log rate + log y!."""
        if self.link == "exp":
            return jnp.exp(f) - y * f + gammaln(y + 1.0)
        log = jnp.log(jnp.maximum(jnp.abs(f), tiny(f)))
        log = jnp.where(jnp.abs(f) > 0, log, -jnp.inf)
        return jnp.square(f) - jnp.where(y > 0, 2.0 * y * log, 0.0) + gammaln(y + 1.0)

    def raw_derivative(self, y: Array, f: Array) -> Array:
        """e^f − y, or 2f − 2y/f."""
        if self.link == "exp":
            return jnp.exp(f) - y
        return 2.0 * f - 2.0 * y / self._away_from_zero(f)

    def raw_second_derivative(self, y: Array, f: Array) -> Array:
        """e^f, or 2 + 2y/f²."""
        if self.link == "exp":
            return jnp.broadcast_to(jnp.exp(f), jnp.broadcast_shapes(jnp.shape(y), jnp.shape(f)))
        return 2.0 + 2.0 * y / jnp.square(jnp.maximum(jnp.abs(f), tiny(f)))

    def raw_curvature(self, y: Array, f: Array) -> Array:
        """The Fisher information, e^f or 4."""
        if self.link == "exp":
            return self.raw_second_derivative(y, f)
        return jnp.full(jnp.broadcast_shapes(jnp.shape(y), jnp.shape(f)), 4.0)

    @staticmethod
    def _away_from_zero(f: Array) -> Array:
        limit = tiny(f)
        return jnp.where(jnp.abs(f) < limit, jnp.where(f < 0, -limit, limit), f)

    def raw_rough_latent(self, y: Array) -> Array:
        """The rate of a count, a little above it so that zero has one."""
        return jnp.log(y + 0.5) if self.link == "exp" else jnp.sqrt(y + 0.25)

    def raw_mean(self, f: Array) -> Array:
        """The rate."""
        return jnp.exp(f) if self.link == "exp" else jnp.square(f)

    def raw_variance(self, f: Array) -> Array:
        """The rate."""
        return self.raw_mean(f)

    def raw_draw(self, key: Key, f: Array) -> Array:
        """Counts at the rate."""
        return jax.random.poisson(key, self.raw_mean(f)).astype(f.dtype)

    def raw_moments(self, mean: Array, deviation: Array, rule: Rule) -> tuple[Array, Array]:
        """Moments of a log-normal or a squared normal rate."""
        del rule
        if self.link == "exp":
            return exponential_moments(mean, deviation, 1.0, 0.0)
        variance = jnp.square(deviation)
        first = jnp.square(mean) + variance
        return first, first + 2.0 * variance * (variance + 2.0 * jnp.square(mean))

    def raw_log_predictive(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """Around the mode; with the squared link on either side of zero."""
        if self.link == "exp":
            return super().raw_log_predictive(y, mean, deviation, rule)
        return squared_rate_log_predictive(y, mean, deviation)

    def distribution_width(self, y: np.ndarray) -> np.ndarray:
        """The relative deviation of the count, or half a unit."""
        if self.link == "square":
            return np.full(np.shape(y), 0.5)
        return np.minimum(0.5, (np.maximum(y, 0.0) + 1.0) ** -0.5)

    def thresholds(self, y: np.ndarray, t: np.ndarray) -> tuple[np.ndarray | None, np.ndarray] | None:
        """A rate has no more than y counts with the probability that a gamma variable of shape y + 1 exceeds it."""
        from scipy.special import gammaincinv

        rate = np.where(np.asarray(y) < 0, 0.0, gammaincinv(np.maximum(np.floor(y), 0.0) + 1.0, t))
        with np.errstate(divide="ignore"):
            return (None, np.log(rate)) if self.link == "exp" else (-np.sqrt(rate), np.sqrt(rate))

    def distribution(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """A regularised incomplete gamma function of the rate."""
        from scipy.special import pdtr

        rate = np.exp(f) if self.link == "exp" else np.square(f)
        return np.where(np.asarray(y) < 0, 0.0, pdtr(np.maximum(np.floor(y), 0.0), rate))

    def raw_expected_cost(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """E rate − y E log rate, both in closed form."""
        del rule
        if self.link == "exp":
            return jnp.exp(mean + 0.5 * jnp.square(deviation)) - y * mean + gammaln(y + 1.0)
        rate = jnp.square(mean) + jnp.square(deviation)
        return rate - jnp.where(y > 0, y * expected_log_square(mean, deviation), 0.0) + gammaln(y + 1.0)

    def raw_expected_derivative(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """The derivative of the closed form."""
        if self.link == "exp":
            return jnp.exp(mean + 0.5 * jnp.square(deviation)) - y
        mean = jnp.broadcast_to(mean, jnp.broadcast_shapes(jnp.shape(y), jnp.shape(mean), jnp.shape(deviation)))
        expected = lambda m: self.raw_expected_cost(y, m, deviation, rule)
        return jax.jvp(expected, (mean,), (jnp.ones_like(mean),))[1]

    def raw_expected_curvature(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """E e^f, or 4."""
        if self.link == "square":
            return self.raw_curvature(y, mean)
        return jnp.exp(mean + 0.5 * jnp.square(deviation)) + jnp.zeros(jnp.shape(y))


def expected_log_square(mean: Array, deviation: Array) -> Array:
    r"""E log f² for f ~ N(mean, deviation²): f²/σ² is a Poisson mixture of χ² variables with 1 + 2j degrees of freedom.

    log 2σ² + Σ_j Poisson(j; μ²/2σ²) ψ(½ + j), and for μ²/σ² ≥ 120 the series log μ² − Σ_k (2k−1)!!/k (σ/μ)^{2k}.
    """
    # The guards keep both branches finite where the other one is taken, so that derivatives are finite too.
    ratio = jnp.square(mean) / jnp.square(jnp.maximum(deviation, tiny(mean)))
    far = ratio >= _ASYMPTOTIC
    half = 0.5 * jnp.where(far, 1.0, ratio)

    def add(state: tuple[Array, Array], j: Array) -> tuple[tuple[Array, Array], None]:
        weight, total = state
        return (weight * half / (j + 1.0), total + weight * digamma(0.5 + j)), None

    start = (jnp.exp(-half), jnp.zeros_like(half))
    (_, mixed), _ = jax.lax.scan(add, start, jnp.arange(_MIXTURE_TERMS, dtype=half.dtype))
    near_value = jnp.log(2.0) + 2.0 * jnp.log(jnp.maximum(deviation, tiny(mean))) + mixed
    safe_mean = jnp.where(far, mean, 1.0)
    small = jnp.where(far, jnp.square(deviation / safe_mean), 0.0)
    series = jnp.zeros_like(small)
    for coefficient in reversed(_SERIES):
        series = small * (coefficient + series)
    return jnp.where(far, 2.0 * jnp.log(jnp.abs(safe_mean)) - series, near_value)


class NegativeBinomial(AbstractCounts):
    """Counts with mean μ = e^f and variance μ + dispersion·μ²: overdispersed against Poisson.

    Arguments:
        dispersion: α > 0; Poisson is the limit of a small one.

    >>> import kosambi as ko
    >>> ko.likelihoods.NegativeBinomial(dispersion=0.5).observation_variance([0.0])
    array([1.5])
    """

    dispersion: Array

    def __init__(self, dispersion: ArrayLike = 1.0) -> None:
        self.dispersion = as_positive("NegativeBinomial(dispersion=...)", dispersion)

    @property
    def is_convex(self) -> bool:
        """Yes."""
        return True

    @property
    def strip(self) -> float:
        """log(1 + αe^f) is singular at f + log α = ±iπ."""
        return float(np.pi)

    def curvature_range(self, y: np.ndarray) -> tuple[Array | float, Array | float] | None:
        """(y + 1/α) times the logistic density, which is at most 1/4."""
        return 0.0, 0.25 * (np.asarray(y) + 1.0 / float(self.dispersion))

    def raw_cost(self, y: Array, f: Array) -> Array:
        """(y + 1/α) log(1 + αμ) − y log αμ, and the constant of the density."""
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

    def raw_curvature(self, y: Array, f: Array) -> Array:
        """The second derivative, which is positive."""
        return self.raw_second_derivative(y, f)

    def raw_rough_latent(self, y: Array) -> Array:
        """log y, a little above it so that zero has one."""
        return jnp.log(y + 0.5)

    def raw_mean(self, f: Array) -> Array:
        """e^f."""
        return jnp.exp(f)

    def raw_variance(self, f: Array) -> Array:
        """μ + αμ²."""
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

    def distribution_width(self, y: np.ndarray) -> np.ndarray:
        """The relative deviation of the count."""
        return np.minimum(0.5, np.sqrt(self.dispersion + 1.0 / (np.maximum(y, 0.0) + 1.0)))

    def thresholds(self, y: np.ndarray, t: np.ndarray) -> tuple[np.ndarray | None, np.ndarray] | None:
        """There are no more than y counts with the probability that a beta variable lies below 1/(1 + αe^f)."""
        from scipy.special import betaincinv

        share = betaincinv(1.0 / self.dispersion, np.maximum(np.floor(y), 0.0) + 1.0, t)
        with np.errstate(divide="ignore"):
            value = np.log1p(-share) - np.log(share) - np.log(self.dispersion)
        return None, np.where(np.asarray(y) < 0, -np.inf, value)

    def distribution(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """A regularised incomplete beta function."""
        from scipy.special import betainc

        share = 1.0 / (1.0 + self.dispersion * np.exp(f))
        value = betainc(1.0 / self.dispersion, np.maximum(np.floor(y), 0.0) + 1.0, share)
        return np.where(np.asarray(y) < 0, 0.0, value)
