r"""Real observations: Gaussian and Student t noise.

With e = y − f:

| likelihood | cost, up to its constant     | sup of the slope | second derivative |
|------------|------------------------------|------------------|-------------------|
| Gaussian   | e²/(2σ²)                     | none             | 1/σ²              |
| StudentT   | (ν+1)/2 · log(1 + e²/(νs²))  | (ν+1)/(2s√ν)     | of either sign    |
"""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Float

from kosambi._core.errors import as_positive
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.likelihoods.base import AbstractLikelihood, as_observations
from kosambi.likelihoods.cost import integrate
from kosambi.likelihoods.predictive import student_log_predictive
from kosambi.likelihoods.quadrature import Rule

LOG_2PI = float(np.log(2 * np.pi))


def location_variance(likelihood: AbstractLikelihood, mean: Array, deviation: Array) -> Array:
    """Var(y) for y = f + noise with f ~ N(mean, deviation²)."""
    shape = jnp.broadcast_shapes(jnp.shape(mean), jnp.shape(deviation))
    return likelihood.raw_variance(jnp.broadcast_to(mean, shape)) + jnp.square(deviation)


def normal_distribution(z: np.ndarray) -> np.ndarray:
    """Φ(z), with NumPy."""
    from scipy.special import ndtr  # here, because SciPy doubles what `import kosambi` adds to `import jax`

    return np.asarray(ndtr(z))


class Gaussian(AbstractLikelihood):
    """y = f + ε, ε ~ N(0, noise²).

    Arguments:
        noise: the standard deviation, in the units of y; a number, or one for each of the N data.

    >>> import kosambi as ko
    >>> ko.likelihoods.Gaussian(noise=0.5).log_density([1.0], [0.5]).round(6)
    array([-0.725791])
    """

    noise: Array

    def __init__(self, noise: ArrayLike = 1.0) -> None:
        self.noise = as_positive("Gaussian(noise=...)", noise, max_ndim=1)

    @property
    def supports(self) -> Mapping[str, str]:  # type: ignore[override]
        """One noise for each observation is a measurement that came with the data, and is not learned."""
        return {"noise": "fixed"} if np.ndim(self.noise) == 1 else {}

    @property
    def is_convex(self) -> bool:
        """Yes."""
        return True

    @property
    def curvature_bound(self) -> float | None:
        """1/σ², at the smallest noise."""
        return float(1.0 / np.min(self.noise) ** 2)

    def check(self, y: ArrayLike) -> Float[Array, " N"]:
        """Finite numbers."""
        return as_observations("Gaussian", y)

    def raw_cost(self, y: Array, f: Array) -> Array:
        """(y − f)²/(2σ²) + log σ + ½ log 2π."""
        return 0.5 * jnp.square((y - f) / self.noise) + jnp.log(self.noise) + 0.5 * LOG_2PI

    def raw_derivative(self, y: Array, f: Array) -> Array:
        """(f − y)/σ²."""
        return (f - y) / jnp.square(self.noise)

    def raw_second_derivative(self, y: Array, f: Array) -> Array:
        """1/σ²."""
        return jnp.broadcast_to(1.0 / jnp.square(self.noise), jnp.broadcast_shapes(jnp.shape(y), jnp.shape(f)))

    def raw_rough_latent(self, y: Array) -> Array:
        """y."""
        return y

    def raw_mean(self, f: Array) -> Array:
        """f."""
        return f

    def raw_variance(self, f: Array) -> Array:
        """σ²."""
        return jnp.broadcast_to(jnp.square(self.noise), jnp.shape(f))

    def raw_draw(self, key: Key, f: Array) -> Array:
        """f + σξ."""
        return f + self.noise * jax.random.normal(key, jnp.shape(f))

    def raw_expected_cost(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """The cost at the mean, plus deviation²/(2σ²)."""
        del rule
        return self.raw_cost(y, mean) + 0.5 * jnp.square(deviation / self.noise)

    def raw_expected_derivative(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """That of the cost at the mean."""
        del deviation, rule
        return self.raw_derivative(y, mean)

    def raw_log_predictive(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """The normal density with the variances added."""
        del rule
        variance = jnp.square(self.noise) + jnp.square(deviation)
        return -0.5 * (jnp.square(y - mean) / variance + jnp.log(variance) + LOG_2PI)

    def raw_moments(self, mean: Array, deviation: Array, rule: Rule) -> tuple[Array, Array]:
        """The mean, and the variances added."""
        del rule
        return mean, location_variance(self, mean, deviation)

    def distribution(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """Φ((y − f)/σ)."""
        return normal_distribution((y - f) / self.noise)

    def predictive_distribution(self, y: np.ndarray, mean: np.ndarray, deviation: np.ndarray, rule: Rule) -> np.ndarray:
        """Φ with the variances added."""
        del rule
        return normal_distribution((y - mean) / np.hypot(self.noise, deviation))


class StudentT(AbstractLikelihood):
    """y = f + scale·t with t Student of `degrees_of_freedom`: outliers are expected. Not convex in f.

    Arguments:
        degrees_of_freedom: ν; the smaller, the heavier the tails.
        scale: s, in the units of y.

    >>> import kosambi as ko
    >>> ko.likelihoods.StudentT(degrees_of_freedom=3.0, scale=1.0).derivative([2.4, 2.3], [4.1, -9.3]).round(6)
    array([ 1.154499, -0.337307])
    """

    degrees_of_freedom: Array
    scale: Array

    def __init__(self, degrees_of_freedom: ArrayLike = 4.0, scale: ArrayLike = 1.0) -> None:
        self.degrees_of_freedom = as_positive("StudentT(degrees_of_freedom=...)", degrees_of_freedom)
        self.scale = as_positive("StudentT(scale=...)", scale)

    @property
    def is_convex(self) -> bool:
        """No."""
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

    def check(self, y: ArrayLike) -> Float[Array, " N"]:
        """Finite numbers."""
        return as_observations("StudentT", y)

    def raw_cost(self, y: Array, f: Array) -> Array:
        """(ν+1)/2 · log(1 + e²/(νs²)), and the constant of the density."""
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

    def raw_rough_latent(self, y: Array) -> Array:
        """y."""
        return y

    def raw_mean(self, f: Array) -> Array:
        """f, where ν > 1; otherwise there is none."""
        return jnp.where(self.degrees_of_freedom > 1.0, f, jnp.nan)

    def raw_variance(self, f: Array) -> Array:
        """s²ν/(ν−2), infinite for ν ≤ 2."""
        nu = self.degrees_of_freedom
        variance = jnp.square(self.scale) * nu / jnp.where(nu > 2.0, nu - 2.0, 1.0)
        return jnp.broadcast_to(jnp.where(nu > 2.0, variance, jnp.inf), jnp.shape(f))

    def raw_draw(self, key: Key, f: Array) -> Array:
        """f + s·t."""
        return f + self.scale * jax.random.t(key, self.degrees_of_freedom, jnp.shape(f))

    def raw_log_predictive(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """An integral over the precision of a normal variable."""
        del rule
        return student_log_predictive(y - mean, deviation, self.degrees_of_freedom, self.scale)

    def raw_moments(self, mean: Array, deviation: Array, rule: Rule) -> tuple[Array, Array]:
        """The mean, and the variances added; NaN and infinity where they do not exist."""
        del rule
        return self.raw_mean(mean), location_variance(self, mean, deviation)

    def distribution(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """That of Student t."""
        from scipy.special import stdtr

        return stdtr(self.degrees_of_freedom, (y - f) / self.scale)

    def thresholds(self, y: np.ndarray, t: np.ndarray) -> tuple[np.ndarray | None, np.ndarray] | None:
        """y less a quantile of the noise."""
        from scipy.special import stdtrit

        return None, y - self.scale * stdtrit(self.degrees_of_freedom, t)
