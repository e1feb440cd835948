r"""Two classes (Bernoulli) and ordered classes (Ordinal).

Bernoulli, "logit":  c = log(1 + e^f) − y f
Bernoulli, "probit": c = −log Φ((2y − 1) f)
Ordinal:             P(y ≤ k) = sigmoid(b_k − f) for increasing cut points b_0 < b_1 < …
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr, ndtr
from jaxtyping import Float

from kosambi._core.errors import InputError, as_float_array, is_traced
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.likelihoods.base import AbstractLikelihood, as_observations, check_values
from kosambi.likelihoods.cost import integrate, is_little
from kosambi.likelihoods.quadrature import EVIDENCE_NODES, Rule


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
        """Yes."""
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
    def is_discrete(self) -> bool:
        """Labels."""
        return True

    @property
    def num_labels(self) -> int | None:
        """Two."""
        return 2

    def check(self, y: ArrayLike) -> Float[Array, " N"]:
        """Labels 0 and 1."""
        array = as_observations("Bernoulli", y)
        remedy = "Map the labels to 0 and 1, or use `Categorical`."
        return check_values("Bernoulli", array, (array == 0) | (array == 1), "in {0, 1}", remedy)

    def raw_cost(self, y: Array, f: Array) -> Array:
        """−log P(y | f)."""
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

    def raw_curvature(self, y: Array, f: Array) -> Array:
        """The second derivative, which is positive."""
        return self.raw_second_derivative(y, f)

    def raw_rough_latent(self, y: Array) -> Array:
        """As far from zero as a few data can say."""
        return (2.0 if self.link == "logit" else 1.0) * (2.0 * y - 1.0)

    def raw_mean(self, f: Array) -> Array:
        """P(y = 1)."""
        return jax.nn.sigmoid(f) if self.link == "logit" else ndtr(f)

    def raw_variance(self, f: Array) -> Array:
        """p(1 − p)."""
        return self.raw_mean(f) * self.raw_mean(-f)

    def raw_draw(self, key: Key, f: Array) -> Array:
        """Labels."""
        return jax.random.bernoulli(key, self.raw_mean(f)).astype(f.dtype)

    def raw_expected_derivative(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """E sigmoid(f) − y, with one exponential for all nodes: sigmoid(μ + σξ) = 1/(1 + e^{−μ} e^{−σξ})."""
        # Written out, because that is the fastest; but not where it would be for nothing, or differentiated further.
        in_full = not is_little(mean, deviation, rule) and rule.nodes.shape[0] != EVIDENCE_NODES
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

    def raw_probabilities(self, mean: Array, deviation: Array, rule: Rule) -> Array:
        """P(y = 0) and P(y = 1), each with all its digits."""
        if self.link == "probit":
            scaled = mean / jnp.sqrt(1.0 + jnp.square(deviation))
            return jnp.stack([ndtr(-scaled), ndtr(scaled)], axis=-1)
        return jnp.stack([integrate(lambda f, s=s: jax.nn.sigmoid(s * f), mean, deviation, rule) for s in (-1, 1)], -1)

    def raw_moments(self, mean: Array, deviation: Array, rule: Rule) -> tuple[Array, Array]:
        """p and p(1 − p)."""
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


def _logistic_density(z: Array) -> Array:
    return jax.nn.sigmoid(z) * jax.nn.sigmoid(-z)


class Ordinal(AbstractLikelihood):
    """Ordered classes 0, 1, …, K with P(y ≤ k) = sigmoid(b_k − f): the larger f, the higher the class.

    Arguments:
        cut_points: b_0 < b_1 < … < b_{K−1}, in the units of f; K cut points make K + 1 classes.

    >>> import kosambi as ko
    >>> ko.likelihoods.Ordinal(cut_points=[-1.0, 1.0]).observation_mean([0.0])
    array([1.])
    """

    supports: ClassVar[Mapping[str, str]] = {"cut_points": "increasing"}

    cut_points: Array

    def __init__(self, cut_points: ArrayLike) -> None:
        array = as_float_array("Ordinal(cut_points=...)", cut_points)
        if array.ndim != 1 or array.shape[0] == 0:
            raise InputError(f"`Ordinal(cut_points=...)` must be a list of numbers. Got shape {array.shape}.")
        if not is_traced(array) and not (np.all(np.isfinite(array)) and np.all(np.diff(array) > 0)):
            raise InputError(f"`Ordinal(cut_points=...)` must be finite and increasing. Got {cut_points}. Sort them.")
        self.cut_points = array

    @property
    def is_convex(self) -> bool:
        """Yes."""
        return True

    @property
    def is_discrete(self) -> bool:
        """Labels."""
        return True

    @property
    def num_labels(self) -> int | None:
        """K + 1."""
        return self.num_classes

    @property
    def num_classes(self) -> int:
        """K + 1."""
        return int(self.cut_points.shape[0]) + 1

    @property
    def lipschitz(self) -> float | None:
        """1."""
        return 1.0

    @property
    def curvature_bound(self) -> float | None:
        """Two logistic densities: 1/2."""
        return 0.5

    @property
    def strip(self) -> float:
        """That of the sigmoid."""
        return float(np.pi)

    def check(self, y: ArrayLike) -> Float[Array, " N"]:
        """Class numbers."""
        array = as_observations("Ordinal", y)
        last = self.num_classes - 1
        allowed = (array >= 0) & (array <= last) & (array == np.round(array))
        remedy = f"Number the classes from 0 to {last} in order, or give other `cut_points`."
        return check_values("Ordinal", array, allowed, f"in {{0, ..., {last}}}", remedy)

    def _edges(self, y: Array) -> tuple[Array, Array]:
        padded = jnp.concatenate([jnp.array([-jnp.inf]), self.cut_points, jnp.array([jnp.inf])])
        label = jnp.asarray(y).astype(int)
        return padded[label], padded[label + 1]

    def raw_cost(self, y: Array, f: Array) -> Array:
        """sigmoid(b) − sigmoid(a) = sigmoid(b) sigmoid(−a) (1 − e^{a−b}), so three logarithms without cancellation."""
        low, high = self._edges(y)
        return jax.nn.softplus(f - high) + jax.nn.softplus(low - f) - jnp.log(-jnp.expm1(low - high))

    def raw_derivative(self, y: Array, f: Array) -> Array:
        """sigmoid(f − b) − sigmoid(a − f)."""
        low, high = self._edges(y)
        return jax.nn.sigmoid(f - high) - jax.nn.sigmoid(low - f)

    def raw_second_derivative(self, y: Array, f: Array) -> Array:
        """Two logistic densities."""
        low, high = self._edges(y)
        return _logistic_density(f - high) + _logistic_density(low - f)

    def raw_curvature(self, y: Array, f: Array) -> Array:
        """The second derivative, which is positive."""
        return self.raw_second_derivative(y, f)

    def probabilities(self, f: Array) -> Array:
        """P(y = k | f), (..., K + 1), traceable."""
        below = jax.nn.sigmoid(self.cut_points - f[..., None])
        edges = [jnp.zeros_like(below[..., :1]), below, jnp.ones_like(below[..., :1])]
        return jnp.diff(jnp.concatenate(edges, axis=-1), axis=-1)

    def raw_rough_latent(self, y: Array) -> Array:
        """The middle of the class, or one beyond the last cut point."""
        low, high = self._edges(y)
        low, high = jnp.where(jnp.isinf(low), high - 2.0, low), jnp.where(jnp.isinf(high), low + 2.0, high)
        return 0.5 * (low + high)

    def raw_mean(self, f: Array) -> Array:
        """The mean class number."""
        return jnp.sum(jax.nn.sigmoid(f[..., None] - self.cut_points), axis=-1)

    def raw_variance(self, f: Array) -> Array:
        """The variance of the class number."""
        labels = jnp.arange(self.num_classes, dtype=f.dtype)
        centred = labels - self.raw_mean(f)[..., None]
        return jnp.sum(jnp.square(centred) * self.probabilities(f), axis=-1)

    def raw_draw(self, key: Key, f: Array) -> Array:
        """The class of f plus logistic noise."""
        noisy = f + jax.random.logistic(key, jnp.shape(f))
        return jnp.sum(noisy[..., None] > self.cut_points, axis=-1).astype(f.dtype)

    def raw_probabilities(self, mean: Array, deviation: Array, rule: Rule) -> Array:
        """E of the probabilities given f."""
        return integrate(lambda f: self.probabilities(f), mean, deviation, rule)

    def raw_moments(self, mean: Array, deviation: Array, rule: Rule) -> tuple[Array, Array]:
        """Those of the class number."""
        p = self.raw_probabilities(mean, deviation, rule)
        labels = jnp.arange(self.num_classes, dtype=p.dtype)
        first = p @ labels
        return first, jnp.sum(p * jnp.square(labels - first[..., None]), axis=-1)
