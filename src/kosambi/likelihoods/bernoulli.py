r"""Two classes, labels 0 and 1.

"logit":  P(y = 1) = sigmoid(f),  c = log(1 + e^f) − y f
"probit": P(y = 1) = Φ(f),        c = −log Φ((2y − 1) f)
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr, ndtr
from jaxtyping import Float

from kosambi._core.types import Array, ArrayLike, Key
from kosambi.errors import InputError
from kosambi.likelihoods.base import AbstractLikelihood
from kosambi.likelihoods.marginals import Marginal
from kosambi.likelihoods.quadrature import ONE_BY_ONE, Rule, integrate, is_little
from kosambi.likelihoods.specification import as_observations, check_values


class Bernoulli(AbstractLikelihood):
    """Labels 0 and 1 with P(y = 1) = sigmoid(f) or Φ(f).

    Arguments:
        link: "logit" or "probit".

    >>> import kosambi as ko
    >>> ko.likelihoods.Bernoulli().derivative([0.0, 1.0], [0.1, 0.9]).round(6)
    array([ 0.524979, -0.28905 ])
    """

    link: str = eqx.field(static=True)

    def __init__(self, link: str = "logit") -> None:
        if link not in ("logit", "probit"):
            raise InputError(f'`Bernoulli(link=...)` must be "logit" or "probit". Got {link!r}.')
        self.link = link

    @property
    def is_convex(self) -> bool:
        return True

    @property
    def lipschitz(self) -> float | None:
        """1 for logit; the probit cost grows like f²/2."""
        return 1.0 if self.link == "logit" else None

    @property
    def curvature_bound(self) -> float | None:
        """1/4 for logit, 1 for probit."""
        return 0.25 if self.link == "logit" else 1.0

    @property
    def strip(self) -> float:
        """1 + e^f vanishes at ±iπ; the zeros of Φ nearest to the real line are 2.8 away."""
        return float(np.pi) if self.link == "logit" else 2.8

    @property
    def num_labels(self) -> int | None:
        return 2

    @property
    def is_binary(self) -> bool:
        return True

    def check(self, y: ArrayLike) -> Float[Array, " N"]:
        array = as_observations("Bernoulli", y)
        remedy = "Map the labels to 0 and 1, or use `Categorical`."
        return check_values("Bernoulli", array, (array == 0) | (array == 1), "in {0, 1}", remedy)

    def raw_cost(self, y: Array, f: Array) -> Array:
        if self.link == "logit":
            return jnp.maximum(f, 0.0) - y * f + jnp.log1p(jnp.exp(-jnp.abs(f)))
        return -(y * log_ndtr(f) + (1.0 - y) * log_ndtr(-f))

    def raw_derivative(self, y: Array, f: Array) -> Array:
        """sigmoid(f) − y, or minus the inverse Mills ratio."""
        if self.link == "logit":
            # As a tanh, which XLA evaluates in three quarters of the time of its sigmoid.
            return 0.5 * jnp.tanh(0.5 * f) + (0.5 - y)
        return (1.0 - y) * _inverse_mills(-f) - y * _inverse_mills(f)

    def raw_second_derivative(self, y: Array, f: Array) -> Array:
        """sigmoid(f) sigmoid(−f), or m(m + s f) with the inverse Mills ratio m at s f, s = 2y − 1."""
        if self.link == "logit":
            half = 0.5 / jnp.cosh(0.5 * jnp.minimum(jnp.abs(f), 1400.0))
            return jnp.broadcast_to(jnp.square(half), jnp.broadcast_shapes(jnp.shape(y), jnp.shape(f)))
        return (1.0 - y) * _mills_slope(-f) + y * _mills_slope(f)

    def raw_rough_latent(self, y: Array) -> Array:
        """As far from zero as a few observations can say."""
        return (2.0 if self.link == "logit" else 1.0) * (2.0 * y - 1.0)

    def raw_mean(self, f: Array) -> Array:
        return jax.nn.sigmoid(f) if self.link == "logit" else ndtr(f)

    def raw_variance(self, f: Array) -> Array:
        return self.raw_mean(f) * self.raw_mean(-f)

    def raw_draw(self, key: Key, f: Array) -> Array:
        return jax.random.bernoulli(key, self.raw_mean(f)).astype(f.dtype)

    def raw_expected_derivative(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """E sigmoid(f) − y, with one exponential for all nodes: sigmoid(μ + σξ) = 1/(1 + e^{−μ} e^{−σξ})."""
        # Written out, because that is the fastest; but not where it would be for nothing, or differentiated further.
        in_full = not is_little(mean, deviation, rule) and rule.evaluation != ONE_BY_ONE
        if self.link != "logit" or not in_full:
            return super().raw_expected_derivative(y, mean, deviation, rule)
        # Both exponents are cut at 0.45 of the largest, so that no product overflows or becomes ∞·0.
        limit = 0.45 * float(np.log(np.finfo(jnp.result_type(mean, float)).max))
        decay = jnp.exp(jnp.clip(-mean, -limit, limit))
        total = jnp.zeros(jnp.broadcast_shapes(jnp.shape(y), jnp.shape(mean), jnp.shape(deviation)))
        for i in range(rule.nodes.shape[0]):
            shift = jnp.exp(jnp.clip(-deviation * rule.nodes[i], -limit, limit))
            total = total + rule.weights[i] / (1.0 + decay * shift)
        return total - y

    def raw_log_predictive(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """log Φ(±μ/√(1 + σ²)) for probit; quadrature for logit."""
        if self.link == "logit":
            return super().raw_log_predictive(y, mean, deviation, rule)
        return -self.raw_cost(y, mean / jnp.sqrt(1.0 + jnp.square(deviation)))

    def has_closed_marginal(self, is_plain: bool) -> bool:
        """For probit."""
        return is_plain and self.link == "probit"

    def raw_closed_marginal(self, y: Array, weights: Array | None, mean: Array, deviation: Array) -> Marginal:
        """The cost at μ/√(1 + σ²)."""
        del weights
        root = jnp.sqrt(1.0 + jnp.square(deviation))
        second = self.raw_second_derivative(y, mean / root) / jnp.square(root)
        return Marginal(self.raw_cost(y, mean / root), self.raw_derivative(y, mean / root) / root, second, second)

    def raw_probabilities(self, mean: Array, deviation: Array, rule: Rule) -> Array:
        """P(y = 0) and P(y = 1), each with all its digits."""
        if self.link == "probit":
            scaled = mean / jnp.sqrt(1.0 + jnp.square(deviation))
            return jnp.stack([ndtr(-scaled), ndtr(scaled)], axis=-1)
        both = (integrate(share, mean, deviation, rule) for share in (lambda f: jax.nn.sigmoid(-f), jax.nn.sigmoid))
        return jnp.stack(list(both), axis=-1)

    def raw_moments(self, mean: Array, deviation: Array, rule: Rule) -> tuple[Array, Array]:
        p = self.raw_probabilities(mean, deviation, rule)
        return p[..., 1], p[..., 0] * p[..., 1]


def _inverse_mills(z: Array) -> Array:
    """φ(z)/Φ(z)."""
    log_density = -0.5 * jnp.square(z) - 0.5 * jnp.log(2.0 * jnp.pi)
    # Far out the two logarithms nearly cancel; there the ratio is −z + 1/(−z) − 2/(−z)³ + 10/(−z)⁵ − …
    tail = jnp.where(z < -30.0, -z, 30.0)
    series = tail + (1.0 - (2.0 - (10.0 - 74.0 / tail**2) / tail**2) / tail**2) / tail
    return jnp.where(z < -30.0, series, jnp.exp(log_density - log_ndtr(jnp.maximum(z, -30.0))))


def _mills_slope(z: Array) -> Array:
    """m(m + z) for m = φ(z)/Φ(z), between 0 and 1."""
    m = _inverse_mills(z)
    tail = jnp.where(z < -30.0, -z, 30.0)
    return jnp.where(
        z < -30.0, 1.0 - (1.0 - (6.0 - 50.0 / tail**2) / tail**2) / tail**2, jnp.clip(m * (m + z), 0.0, 1.0)
    )
