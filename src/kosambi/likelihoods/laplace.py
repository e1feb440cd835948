r"""Laplace noise: absolute errors, so that f is the median of y.

c = |y − f|/b + log 2b
"""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erf, log_ndtr

from kosambi._core.checks import as_positive
from kosambi._core.precision import with_fields
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.likelihoods.families import AbstractLocation
from kosambi.likelihoods.marginals import Marginal
from kosambi.likelihoods.normal import normal_density
from kosambi.likelihoods.quadrature import Rule, tiny


class Laplace(AbstractLocation):
    """y = f + ε with density exp(−|ε|/scale)/(2·scale): the median of y is f.

    Arguments:
        scale: b, the mean absolute deviation, in the units of y.

    >>> import kosambi as ko
    >>> ko.likelihoods.Laplace(scale=2.0).expected_cost([1.0], [1.0], [0.5]).round(6)
    array([1.585766])
    """

    short_name: ClassVar[str | None] = "laplace"
    in_units_of_y: ClassVar[tuple[str, ...]] = ("scale",)

    scale: Array

    def __init__(self, scale: ArrayLike = 1.0) -> None:
        self.scale = as_positive("Laplace(scale=...)", scale)

    @classmethod
    def standard(cls) -> Laplace:
        return cls(0.3)

    @property
    def is_convex(self) -> bool:
        return True

    @property
    def lipschitz(self) -> float | None:
        return float(1.0 / self.scale)

    @property
    def strip(self) -> float:
        """Expectations are closed forms."""
        return np.inf

    def raw_cost(self, y: Array, f: Array) -> Array:
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

    @property
    def blur(self) -> Array | float:
        """Half the scale: the cost has a kink at y."""
        return 0.5 * self.scale

    def raw_variance(self, f: Array) -> Array:
        return jnp.broadcast_to(2.0 * jnp.square(self.scale), jnp.shape(f))

    def raw_draw(self, key: Key, f: Array) -> Array:
        return f + self.scale * jax.random.laplace(key, jnp.shape(f))

    def cdf(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """Exponential on either side of f."""
        z = (y - f) / self.scale
        tail = 0.5 * np.exp(-np.abs(z))
        return np.where(z < 0, tail, 1.0 - tail)

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
            return jnp.where(a > 0, _log_upper_tail(jnp.maximum(a, 0.0)) - 0.5 * jnp.square(z), near)

        return jnp.logaddexp(side(z), side(-z)) - jnp.log(2.0 * b)

    def has_closed_marginal(self, is_plain: bool) -> bool:
        del is_plain
        return True

    def raw_closed_marginal(self, y: Array, weights: Array | None, mean: Array, deviation: Array) -> Marginal:
        """Counting w times is to have the scale b/w, up to a constant."""
        count = jnp.ones_like(y) if weights is None else weights
        scale = self.scale / jnp.where(count > 0, count, 1.0)
        # A kink has no curvature without some width.
        width = jnp.maximum(deviation, 1e-4 * scale)
        found = super(Laplace, with_fields(self, scale=scale)).raw_closed_marginal(y, None, mean, width)
        constant = count * jnp.log(2.0 * self.scale) - jnp.log(2.0 * scale)
        cost, *others = (jnp.where(count > 0, part, 0.0) for part in found)
        return Marginal(jnp.where(count > 0, cost + constant, 0.0), *others)

    def predictive_cdf(self, y: np.ndarray, mean: np.ndarray, deviation: np.ndarray, rule: Rule) -> np.ndarray:
        """Φ(t/σ) with the two tilted tails added and taken away."""
        del rule
        from scipy.special import log_ndtr, ndtr

        t, b = y - mean, np.asarray(self.scale)
        sd = np.maximum(deviation, 1e-9 * b)
        tilt = sd / b
        below = np.exp(np.minimum(0.5 * tilt**2 + t / b + log_ndtr(-t / sd - tilt), 0.0))
        above = np.exp(np.minimum(0.5 * tilt**2 - t / b + log_ndtr(t / sd - tilt), 0.0))
        return np.clip(ndtr(t / sd) + 0.5 * (below - above), 0.0, 1.0)

    def started_from(self, y: np.ndarray, share: float, deviation: float) -> Laplace:
        del y
        return with_fields(self, scale=np.asarray(0.7 * share * deviation))


def _log_upper_tail(a: Array) -> Array:
    """a²/2 + log Φ(−a), without the cancellation of its two terms for a large a."""
    far = jnp.maximum(a, 10.0)
    inverse = 1.0 / jnp.square(far)
    series = 1.0 - inverse * (1.0 - inverse * (3.0 - inverse * (15.0 - inverse * (105.0 - 945.0 * inverse))))
    tail = jnp.log(series) - jnp.log(far) - 0.5 * jnp.log(2.0 * jnp.pi)
    near = jnp.minimum(a, 10.0)
    return jnp.where(a > 10.0, tail, 0.5 * jnp.square(near) + log_ndtr(-near))
