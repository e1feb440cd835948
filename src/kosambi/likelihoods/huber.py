r"""The Huber loss, for generalised Bayes: quadratic near y, linear beyond; no density of y.

c = t²/2 for |t| ≤ δ,   δ|t| − δ²/2 beyond,   t = (y − f)/s
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr
from jaxtyping import Float

from kosambi._core.checks import as_positive
from kosambi._core.types import Array, ArrayLike
from kosambi.likelihoods.base import AbstractLikelihood
from kosambi.likelihoods.marginals import Site
from kosambi.likelihoods.normal import normal_density
from kosambi.likelihoods.quadrature import Rule, tiny

_NODES = 204


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
        return True

    @property
    def is_density(self) -> bool:
        return False

    @property
    def lipschitz(self) -> float | None:
        return float(self.threshold / self.scale)

    @property
    def curvature_bound(self) -> float | None:
        return float(1.0 / self.scale**2)

    @property
    def strip(self) -> float:
        """Expectations are closed forms."""
        return np.inf

    def raw_cost(self, y: Array, f: Array) -> Array:
        t = jnp.abs(y - f) / self.scale
        inside = jnp.minimum(t, self.threshold)
        return inside * (t - 0.5 * inside)

    def raw_derivative(self, y: Array, f: Array) -> Array:
        """t cut to ±δ, over s."""
        return jnp.clip((f - y) / self.scale, -self.threshold, self.threshold) / self.scale

    def raw_second_derivative(self, y: Array, f: Array) -> Array:
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

    def marginal_rule(
        self, deviation: Float[np.ndarray, " N"], site: Site | None, num_nodes: int | None = None
    ) -> Rule:
        """Many nodes, since the second derivative jumps."""
        return super().marginal_rule(deviation, site, _NODES if num_nodes is None else num_nodes)

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
