r"""Real observations with costs that grow linearly: the Laplace likelihood and the Huber loss.

With e = y − f:

| likelihood | cost, up to its constant             | sup of the slope | second derivative |
|------------|--------------------------------------|------------------|-------------------|
| Laplace    | abs(e)/b                             | 1/b              | 0                 |
| Huber      | quadratic to δ scales, linear beyond | δ/s              | 1/s² or 0         |
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erf, log_ndtr, ndtr
from jaxtyping import Float

from kosambi._core.errors import as_positive
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.likelihoods.base import AbstractLikelihood, as_observations
from kosambi.likelihoods.continuous import LOG_2PI, location_variance
from kosambi.likelihoods.cost import tiny
from kosambi.likelihoods.predictive import log_upper_tail
from kosambi.likelihoods.quadrature import Rule


def normal_density(z: Array) -> Array:
    """The standard normal density."""
    return jnp.exp(-0.5 * jnp.square(z) - 0.5 * LOG_2PI)


class Laplace(AbstractLikelihood):
    """y = f + ε with density exp(−|ε|/scale)/(2·scale): the median of y is f.

    Arguments:
        scale: b, the mean absolute deviation, in the units of y.

    >>> import kosambi as ko
    >>> ko.likelihoods.Laplace(scale=2.0).expected_cost([1.0], [1.0], [0.5]).round(6)
    array([1.585766])
    """

    scale: Array

    def __init__(self, scale: ArrayLike = 1.0) -> None:
        self.scale = as_positive("Laplace(scale=...)", scale)

    @property
    def is_convex(self) -> bool:
        """Yes."""
        return True

    @property
    def lipschitz(self) -> float | None:
        """1/b."""
        return float(1.0 / self.scale)

    def check(self, y: ArrayLike) -> Float[Array, " N"]:
        """Finite numbers."""
        return as_observations("Laplace", y)

    def raw_cost(self, y: Array, f: Array) -> Array:
        """|y − f|/b + log 2b."""
        return jnp.abs(y - f) / self.scale + jnp.log(2.0 * self.scale)

    def raw_derivative(self, y: Array, f: Array) -> Array:
        """sign(f − y)/b; zero at the kink."""
        return jnp.sign(f - y) / self.scale

    def raw_second_derivative(self, y: Array, f: Array) -> Array:
        """Zero off the kink."""
        return jnp.zeros(jnp.broadcast_shapes(jnp.shape(y), jnp.shape(f)))

    def raw_curvature(self, y: Array, f: Array) -> Array:
        """The Fisher information 1/b²."""
        return jnp.broadcast_to(1.0 / jnp.square(self.scale), jnp.broadcast_shapes(jnp.shape(y), jnp.shape(f)))

    def raw_rough_latent(self, y: Array) -> Array:
        """y."""
        return y

    @property
    def blur(self) -> Array | float:
        """Half the scale: the cost has a kink at y."""
        return 0.5 * self.scale

    def raw_mean(self, f: Array) -> Array:
        """f."""
        return f

    def raw_variance(self, f: Array) -> Array:
        """2b²."""
        return jnp.broadcast_to(2.0 * jnp.square(self.scale), jnp.shape(f))

    def raw_draw(self, key: Key, f: Array) -> Array:
        """f plus Laplace noise."""
        return f + self.scale * jax.random.laplace(key, jnp.shape(f))

    def raw_expected_cost(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """The mean of a folded normal variable over b."""
        del rule
        error, sd = y - mean, jnp.maximum(deviation, tiny(mean))
        z = error / sd
        folded = 2.0 * sd * normal_density(z) + error * erf(z / jnp.sqrt(2.0))
        return folded / self.scale + jnp.log(2.0 * self.scale)

    def raw_expected_derivative(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """(1 − 2P(f < y))/b."""
        del rule
        return erf((mean - y) / jnp.maximum(deviation, tiny(mean)) / jnp.sqrt(2.0)) / self.scale

    def raw_log_predictive(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """Two tails of a normal variable, each tilted by an exponential."""
        del rule
        sd, b = jnp.maximum(deviation, tiny(mean)), self.scale
        z, tilt = (y - mean) / sd, sd / b

        def side(z: Array) -> Array:
            # zτ + τ²/2 + log Φ(−z − τ), as −z²/2 + ... where its terms would cancel.
            a = z + tilt
            near = z * tilt + 0.5 * jnp.square(tilt) + log_ndtr(-jnp.minimum(a, 0.0))
            return jnp.where(a > 0, log_upper_tail(jnp.maximum(a, 0.0)) - 0.5 * jnp.square(z), near)

        return jnp.logaddexp(side(z), side(-z)) - jnp.log(2.0 * b)

    def raw_moments(self, mean: Array, deviation: Array, rule: Rule) -> tuple[Array, Array]:
        """The mean, and the variances added."""
        del rule
        return mean, location_variance(self, mean, deviation)

    def distribution(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """Exponential on either side of f."""
        z = (y - f) / self.scale
        tail = 0.5 * np.exp(-np.abs(z))
        return np.where(z < 0, tail, 1.0 - tail)

    def predictive_distribution(self, y: np.ndarray, mean: np.ndarray, deviation: np.ndarray, rule: Rule) -> np.ndarray:
        """Φ(t/σ) with the two tilted tails added and taken away."""
        del rule
        from scipy.special import log_ndtr, ndtr

        t, b = y - mean, np.asarray(self.scale)
        sd = np.maximum(deviation, 1e-9 * b)
        tilt = sd / b
        below = np.exp(np.minimum(0.5 * tilt**2 + t / b + log_ndtr(-t / sd - tilt), 0.0))
        above = np.exp(np.minimum(0.5 * tilt**2 - t / b + log_ndtr(t / sd - tilt), 0.0))
        return np.clip(ndtr(t / sd) + 0.5 * (below - above), 0.0, 1.0)


class Huber(AbstractLikelihood):
    """A loss for generalised Bayes: quadratic within `threshold` scales of y and linear beyond. No density.

    Arguments:
        scale: s, in the units of y.
        threshold: δ, where the loss turns linear, in scales.

    >>> import kosambi as ko
    >>> ko.likelihoods.Huber(scale=1.0, threshold=1.5).cost([0.0, 0.0], [1.0, 3.0])
    array([0.5  , 3.375])
    """

    scale: Array
    threshold: Array

    def __init__(self, scale: ArrayLike = 1.0, threshold: ArrayLike = 1.345) -> None:
        self.scale = as_positive("Huber(scale=...)", scale)
        self.threshold = as_positive("Huber(threshold=...)", threshold)

    @property
    def is_convex(self) -> bool:
        """Yes."""
        return True

    @property
    def is_density(self) -> bool:
        """No: it is a loss."""
        return False

    @property
    def lipschitz(self) -> float | None:
        """δ/s."""
        return float(self.threshold / self.scale)

    @property
    def curvature_bound(self) -> float | None:
        """1/s²."""
        return float(1.0 / self.scale**2)

    def check(self, y: ArrayLike) -> Float[Array, " N"]:
        """Finite numbers."""
        return as_observations("Huber", y)

    def raw_cost(self, y: Array, f: Array) -> Array:
        """t²/2 within the threshold, δ|t| − δ²/2 beyond, with t = (y − f)/s."""
        t = jnp.abs(y - f) / self.scale
        inside = jnp.minimum(t, self.threshold)
        return inside * (t - 0.5 * inside)

    def raw_derivative(self, y: Array, f: Array) -> Array:
        """t cut to ±δ, over s."""
        return jnp.clip((f - y) / self.scale, -self.threshold, self.threshold) / self.scale

    def raw_second_derivative(self, y: Array, f: Array) -> Array:
        """1/s² inside, zero outside."""
        inside = jnp.abs(y - f) <= self.threshold * self.scale
        return jnp.where(inside, 1.0 / jnp.square(self.scale), 0.0)

    def raw_expected_cost(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """Moments of a normal t over the three pieces."""
        del rule
        m, v, low, high = self._pieces(y, mean, deviation)
        inside = ndtr(high) - ndtr(low)
        first = normal_density(low) - normal_density(high)
        second = inside + low * normal_density(low) - high * normal_density(high)
        square = jnp.square(m) * inside + 2.0 * m * v * first + jnp.square(v) * second
        above, below = ndtr(-high), ndtr(low)
        outside = m * (above - below) + v * (normal_density(high) + normal_density(low))
        return 0.5 * square + self.threshold * outside - 0.5 * jnp.square(self.threshold) * (above + below)

    def raw_expected_derivative(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """Minus E of t cut to ±δ, over s."""
        del rule
        m, v, low, high = self._pieces(y, mean, deviation)
        inside = m * (ndtr(high) - ndtr(low)) + v * (normal_density(low) - normal_density(high))
        return -(inside + self.threshold * (ndtr(-high) - ndtr(low))) / self.scale

    def raw_expected_curvature(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """The probability of the quadratic piece, over s²."""
        del rule
        _, _, low, high = self._pieces(y, mean, deviation)
        return (ndtr(high) - ndtr(low)) / jnp.square(self.scale)

    def _pieces(self, y: Array, mean: Array, deviation: Array) -> tuple[Array, Array, Array, Array]:
        m, v = (y - mean) / self.scale, jnp.maximum(deviation / self.scale, tiny(mean))
        # Cut far beyond any probability, so that low·φ(low) is 0 and not ∞·0.
        low, high = ((bound - m) / v for bound in (-self.threshold, self.threshold))
        return m, v, jnp.clip(low, -1e3, 1e3), jnp.clip(high, -1e3, 1e3)
