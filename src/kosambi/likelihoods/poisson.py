r"""Counts with a Poisson distribution, whose rate is e^f or f².

    "exp":    c = e^f − y f + log y!
    "square": c = f² − 2y log|f| + log y!        (paper, appendix "Likelihood functions")

The squared link does not change when f changes sign, so a posterior has (at least) two modes. At f = 0 with y > 0 its
cost is infinite and its slope, of either sign, is cut to a huge finite number.
"""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import digamma, gammaln

from kosambi._core.types import Array, Key
from kosambi.errors import InputError
from kosambi.likelihoods.families import AbstractCounts, exponential_moments
from kosambi.likelihoods.normal import DROP, NODES, bisect
from kosambi.likelihoods.quadrature import Rule, tiny

# Above this ratio μ²/σ² the mean of log f² is taken from its asymptotic series, below it from a Poisson mixture.
_ASYMPTOTIC = 120.0
_MIXTURE_TERMS = 160
# Below this ratio σ/|μ| a predictive density is that at the mean.
_NARROWEST = 1e-8
_SERIES = [float(np.prod(np.arange(1.0, 2 * k, 2.0))) / k for k in range(1, 12)]


class Poisson(AbstractCounts):
    """Counts with rate f² (`link="square"`, the paper's) or e^f (`link="exp"`).

    Arguments:
        link: "exp" (convex) or "square" (two signs of f give the same rate).

    >>> import kosambi as ko
    >>> ko.likelihoods.Poisson(link="square").derivative([2.4, 2.3], [4.1, -9.3]).round(6)
    array([  7.029268, -18.105376])
    """

    short_name: ClassVar[str | None] = "poisson"

    link: str = eqx.field(static=True)

    def __init__(self, link: str = "exp") -> None:
        if link not in ("exp", "square"):
            raise InputError(f'`Poisson(link=...)` must be "exp" or "square". Got {link!r}.')
        self.link = link

    @property
    def is_convex(self) -> bool:
        return self.link == "exp"

    @property
    def is_even(self) -> bool:
        return self.link == "square"

    def has_pole(self, y: np.ndarray) -> np.ndarray:
        """A rate of zero cannot give a count above zero; with the squared link f = 0 is one."""
        return (np.asarray(y) > 0) & (self.link == "square")

    @property
    def strip(self) -> float:
        """Expectations are closed forms."""
        return np.inf

    def raw_cost(self, y: Array, f: Array) -> Array:
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
            return super().raw_curvature(y, f)
        return jnp.full(jnp.broadcast_shapes(jnp.shape(y), jnp.shape(f)), 4.0)

    @staticmethod
    def _away_from_zero(f: Array) -> Array:
        limit = tiny(f)
        return jnp.where(jnp.abs(f) < limit, jnp.where(f < 0, -limit, limit), f)

    def raw_rough_latent(self, y: Array) -> Array:
        """The rate of a count, a little above it so that zero has one."""
        return jnp.log(y + 0.5) if self.link == "exp" else jnp.sqrt(y + 0.25)

    def raw_mean(self, f: Array) -> Array:
        return jnp.exp(f) if self.link == "exp" else jnp.square(f)

    def raw_variance(self, f: Array) -> Array:
        return self.raw_mean(f)

    def raw_draw(self, key: Key, f: Array) -> Array:
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

    def cdf_width(self, y: np.ndarray) -> np.ndarray:
        """The relative standard deviation of the count, or half a unit."""
        if self.link == "square":
            return np.full(np.shape(y), 0.5)
        return np.minimum(0.5, (np.maximum(y, 0.0) + 1.0) ** -0.5)

    def thresholds(self, y: np.ndarray, t: np.ndarray) -> tuple[np.ndarray | None, np.ndarray] | None:
        """A rate has no more than y counts with the probability that a gamma variable of shape y + 1 exceeds it."""
        from scipy.special import gammaincinv

        rate = np.where(np.asarray(y) < 0, 0.0, gammaincinv(np.maximum(np.floor(y), 0.0) + 1.0, t))
        with np.errstate(divide="ignore"):
            return (None, np.log(rate)) if self.link == "exp" else (-np.sqrt(rate), np.sqrt(rate))

    def cdf(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
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


def squared_rate_log_predictive(y: Array, mean: Array, deviation: Array) -> Array:
    r"""log E Poisson(y; f²) for f ~ N(mean, deviation²), y a count.

    e^{−f²} times the normal density is a normal density again, of mean m = μ/(1 + 2σ²) and variance v = σ²/(1 + 2σ²).
    What is left is its moment of order 2y: an integral over f > 0 and one over f < 0, each of a log-concave function
    whose mode is known.
    """
    shape = jnp.broadcast_shapes(jnp.shape(y), jnp.shape(mean), jnp.shape(deviation))
    y, mean, deviation = (jnp.broadcast_to(v, shape) for v in (y, mean, deviation))
    shrink = 1.0 / (1.0 + 2.0 * jnp.square(deviation))
    outside = 0.5 * jnp.log(shrink) - jnp.square(mean) * shrink - gammaln(y + 1.0)
    # A deviation of the last digits of f is none: the nodes of the integral would fall on few numbers.
    is_wide = deviation > _NARROWEST * jnp.abs(mean)
    count, sd = jnp.maximum(y, 1.0), jnp.sqrt(shrink) * jnp.where(is_wide, deviation, 1.0)

    def half(centre: Array) -> Array:
        root = jnp.sqrt(jnp.square(centre) + 8.0 * count * jnp.square(sd))
        mode = jnp.where(
            centre > 0, 0.5 * (centre + root), 4.0 * count * jnp.square(sd) / (root - jnp.minimum(centre, 0.0))
        )

        def objective(f: Array) -> Array:
            return 0.5 * jnp.square((f - centre) / sd) - 2.0 * count * jnp.log(f)

        floor = objective(mode) + DROP
        left = -bisect(lambda f: objective(-f) > floor, -mode, jnp.zeros_like(mode))
        right = bisect(lambda f: objective(f) > floor, mode, mode + jnp.sqrt(2.0 * DROP) * sd)
        step = (right - left) / (NODES - 1)

        def add(total: Array, i: Array) -> tuple[Array, None]:
            return total + jnp.exp(floor - DROP - objective(left + i * step)), None

        total, _ = jax.lax.scan(add, jnp.zeros_like(mode), jnp.arange(NODES, dtype=mode.dtype))
        return jnp.log(total * step / sd) - 0.5 * jnp.log(2.0 * jnp.pi) - (floor - DROP)

    moment = jnp.logaddexp(half(mean * shrink), half(-mean * shrink))
    at_mean = 2.0 * y * jnp.log(jnp.maximum(jnp.abs(mean), 1e-300)) - jnp.square(mean)
    plain = jnp.where(y > 0, at_mean, -jnp.square(mean)) - gammaln(y + 1.0)
    return jnp.where(is_wide, outside + jnp.where(y > 0, moment, 0.0), plain)
