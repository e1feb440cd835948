r"""Student-t noise: outliers are expected, and pull little.

c = (ν+1)/2 · log(1 + e²/(νs²)) + constant,   e = y − f

Not convex: the slope is largest at |e| = s√ν and falls to zero beyond.
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
from kosambi.likelihoods.families import AbstractLocation
from kosambi.likelihoods.marginals import Marginal
from kosambi.likelihoods.normal import NODES
from kosambi.likelihoods.quadrature import Rule, integrate

# Normal densities that its marginal is made of: six digits from three degrees of freedom on, four with one.
_MIXED = 64


class StudentT(AbstractLocation):
    """y = f + scale·t with t Student of `degrees_of_freedom`: outliers are expected. Not convex in f.

    Arguments:
        degrees_of_freedom: ν; the smaller, the heavier the tails.
        scale: s, in the units of y.

    >>> import kosambi as ko
    >>> ko.likelihoods.StudentT(degrees_of_freedom=3.0, scale=1.0).derivative([2.4, 2.3], [4.1, -9.3]).round(6)
    array([ 1.154499, -0.337307])
    """

    short_name: ClassVar[str | None] = "student_t"
    in_units_of_y: ClassVar[tuple[str, ...]] = ("scale",)

    degrees_of_freedom: Array
    scale: Array

    def __init__(self, degrees_of_freedom: ArrayLike = 4.0, scale: ArrayLike = 1.0) -> None:
        self.degrees_of_freedom = as_positive("StudentT(degrees_of_freedom=...)", degrees_of_freedom)
        self.scale = as_positive("StudentT(scale=...)", scale)

    @classmethod
    def standard(cls) -> StudentT:
        return cls(degrees_of_freedom=4.0, scale=0.3)

    @property
    def is_convex(self) -> bool:
        return False

    @property
    def lipschitz(self) -> float | None:
        """(ν+1)/(2s√ν)."""
        nu = float(self.degrees_of_freedom)
        return float((nu + 1) / (2 * float(self.scale) * np.sqrt(nu)))

    def curvature_range(self, y: np.ndarray) -> tuple[Array | float, Array | float] | None:
        """c'' = (ν+1)/(νs²) · (1−t²)/(1+t²)² with t = (y−f)/(s√ν): largest at t = 0, smallest at t² = 3."""
        highest = float((self.degrees_of_freedom + 1) / (self.degrees_of_freedom * self.scale**2))
        return -highest / 8.0, highest

    @property
    def strip(self) -> float:
        """The logarithm is singular at e = ±i s√ν."""
        return float(self.scale * np.sqrt(self.degrees_of_freedom))

    def raw_cost(self, y: Array, f: Array) -> Array:
        nu, s = self.degrees_of_freedom, self.scale
        constant = gammaln(0.5 * nu) - gammaln(0.5 * (nu + 1.0)) + 0.5 * jnp.log(nu * jnp.pi) + jnp.log(s)
        return constant + 0.5 * (nu + 1.0) * jnp.log1p(jnp.square((y - f) / s) / nu)

    def raw_derivative(self, y: Array, f: Array) -> Array:
        """−(ν+1) e/(νs² + e²)."""
        error = y - f
        return -(self.degrees_of_freedom + 1.0) * error / (self._floor + jnp.square(error))

    def raw_second_derivative(self, y: Array, f: Array) -> Array:
        """(ν+1)(νs² − e²)/(νs² + e²)²."""
        square = jnp.square(y - f)
        ratio = 1.0 / (self._floor + square)
        return (self.degrees_of_freedom + 1.0) * ((self._floor - square) * ratio) * ratio

    def raw_curvature(self, y: Array, f: Array) -> Array:
        """The Fisher information (ν+1)/((ν+3)s²)."""
        nu = self.degrees_of_freedom
        shape = jnp.broadcast_shapes(jnp.shape(y), jnp.shape(f))
        return jnp.broadcast_to((nu + 1.0) / ((nu + 3.0) * jnp.square(self.scale)), shape)

    def raw_search_curvature(self, y: Array, f: Array) -> Array:
        """The weights (ν+1)/(νs² + (y−f)²) of iterated least squares, whose parabola lies above the cost.

        Far out the Fisher information takes the cost for far steeper than it is, and a search would crawl.
        """
        nu = self.degrees_of_freedom
        return (nu + 1.0) / (nu * jnp.square(self.scale) + jnp.square(y - f))

    def raw_expected_search_curvature(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """The mean of those weights: the mean of parabolas above the cost lies above its mean."""
        return integrate(lambda f: self.raw_search_curvature(y, f), mean, deviation, rule)

    @property
    def _floor(self) -> Array:
        return self.degrees_of_freedom * jnp.square(self.scale)

    def raw_mean(self, f: Array) -> Array:
        """f, where ν > 1; otherwise there is none."""
        return jnp.where(self.degrees_of_freedom > 1.0, f, jnp.nan)

    def raw_variance(self, f: Array) -> Array:
        """s²ν/(ν−2), infinite for ν ≤ 2."""
        nu = self.degrees_of_freedom
        variance = jnp.square(self.scale) * nu / jnp.where(nu > 2.0, nu - 2.0, 1.0)
        return jnp.broadcast_to(jnp.where(nu > 2.0, variance, jnp.inf), jnp.shape(f))

    def raw_draw(self, key: Key, f: Array) -> Array:
        return f + self.scale * jax.random.t(key, self.degrees_of_freedom, jnp.shape(f))

    def cdf(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        from scipy.special import stdtr

        return stdtr(self.degrees_of_freedom, (y - f) / self.scale)

    def thresholds(self, y: np.ndarray, t: np.ndarray) -> tuple[np.ndarray | None, np.ndarray] | None:
        """y less a quantile of the noise."""
        from scipy.special import stdtrit

        return None, y - self.scale * stdtrit(self.degrees_of_freedom, t)

    def raw_log_predictive(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """An integral over the precision of a normal variable, as smooth for a wide as for a narrow deviation."""
        del rule
        return student_log_predictive(y - mean, deviation, self.degrees_of_freedom, self.scale)

    def has_closed_marginal(self, is_plain: bool) -> bool:
        # An observation that counts for little has a density of λ whose lower end is too far out for the nodes below.
        return is_plain

    def raw_closed_marginal(self, y: Array, weights: Array | None, mean: Array, deviation: Array) -> Marginal:
        r"""A mixture of normal densities: (1 + e²/νs²)^{−a} = ∫ λ^{a−1} e^{−λ(1 + e²/νs²)} dλ/Γ(a), a = weight·(ν+1)/2.

        Each has the precision q = 2λ/(νs² + 2λσ²) in μ, so that ∂ = −e·E q, ∂² = E q − e² Var q, and E q is that of a
        parabola above the cost.
        """
        nu, count = self.degrees_of_freedom, jnp.ones_like(y) if weights is None else weights
        a = 0.5 * (nu + 1.0) * jnp.where(count > 0, count, 1.0)
        constant = gammaln(0.5 * nu) - gammaln(0.5 * (nu + 1.0)) + 0.5 * jnp.log(nu * jnp.pi) + jnp.log(self.scale)
        error, floor, double = y - mean, self._floor, 2.0 * jnp.square(deviation)
        # The logarithm of λ between the ends of a gamma density, farther down for errors far out.
        high = jnp.log(a) + jnp.log1p(46.0 / a + jnp.sqrt(92.0 / a))
        low = jnp.log(a) - jnp.log1p(jnp.square(error) / floor) - 32.0 / a - jnp.sqrt(64.0 / a)
        step = (high - low) / (_MIXED - 1)
        each = low + step * jnp.reshape(jnp.arange(_MIXED, dtype=error.dtype), (-1, *(1 for _ in error.shape)))
        rate = jnp.exp(each)
        spread = floor + rate * double
        logs = a * each - rate - 0.5 * jnp.log(spread / floor) - rate * jnp.square(error) / spread
        total = jax.scipy.special.logsumexp(logs, axis=0)
        tilted, precision = jnp.exp(logs - total), 2.0 * rate / spread
        mean_precision = jnp.sum(tilted * precision, axis=0)
        variance = jnp.sum(tilted * jnp.square(precision - mean_precision), axis=0)
        cost = count * constant + gammaln(a) - total - jnp.log(step)
        second = mean_precision - jnp.square(error) * variance
        parts = (cost, -error * mean_precision, second, mean_precision)
        return Marginal(*(jnp.where(count > 0, part, 0.0) for part in parts))

    def started_from(self, y: np.ndarray, share: float, deviation: float) -> StudentT:
        del deviation
        # Quartiles, since outliers inflate a standard deviation; zero if more than half of y is one value.
        width = float(np.subtract(*np.quantile(y, [0.75, 0.25]))) / 1.35 or float(np.std(y))
        scale, freedom = np.asarray(0.7 * share * width), np.asarray(4.0)
        return with_fields(self, scale=scale, degrees_of_freedom=freedom)


def student_log_predictive(error: Array, deviation: Array, nu: Array, scale: Array) -> Array:
    r"""log density of scale·t_ν + N(0, deviation²) at `error`: t as a normal variable with a random precision.

    With λ = e^t ~ Gamma(ν/2, ν/2) the density is E N(error; 0, deviation² + scale²/λ), an integral over t whose
    integrand is as smooth for a wide as for a narrow deviation. It lies between the t at which the density of λ, on
    either side, has fallen by e^{−40}, and farther down for errors far out.
    """
    shape = jnp.broadcast_shapes(jnp.shape(error), jnp.shape(deviation))
    square = jnp.broadcast_to(jnp.square(error), shape)
    above, below = 92.0 / nu, 92.0 / (nu + 1.0)
    high = jnp.log(1.0 + above + jnp.sqrt(2.0 * above))
    far = jnp.log(jnp.maximum(square / ((nu + 1.0) * jnp.square(scale)), 1.0))
    low = -far - below - jnp.sqrt(2.0 * below)
    step = (high - low) / (NODES - 1)

    def add(total: Array, i: Array) -> tuple[Array, None]:
        t = low + i * step
        variance = jnp.square(deviation) + jnp.square(scale) * jnp.exp(-t)
        log_normal = -0.5 * (jnp.log(2.0 * jnp.pi * variance) + square / variance)
        return jnp.logaddexp(total, 0.5 * nu * (t - jnp.exp(t)) + log_normal), None

    total, _ = jax.lax.scan(add, jnp.full(shape, -jnp.inf), jnp.arange(NODES, dtype=square.dtype))
    return total + jnp.log(step) + 0.5 * nu * jnp.log(0.5 * nu) - gammaln(0.5 * nu)
