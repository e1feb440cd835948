r"""Ordered classes 0, 1, …, K.

P(y ≤ k) = sigmoid(b_k − f) for increasing cut points b_0 < b_1 < … < b_{K−1}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_float_array, is_traced
from kosambi._core.precision import with_fields
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.errors import InputError
from kosambi.likelihoods.base import AbstractLikelihood
from kosambi.likelihoods.quadrature import Rule, integrate
from kosambi.likelihoods.specification import as_labels


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
        return True

    @property
    def num_labels(self) -> int | None:
        return self.num_classes

    @property
    def num_classes(self) -> int:
        """How many classes there are, one more than cut points."""
        return int(self.cut_points.shape[0]) + 1

    @property
    def lipschitz(self) -> float | None:
        return 1.0

    @property
    def curvature_bound(self) -> float | None:
        """The second derivative is two logistic densities, each at most 1/4."""
        return 0.5

    @property
    def strip(self) -> float:
        """That of the sigmoid."""
        return float(np.pi)

    def check(self, y: ArrayLike) -> Float[Array, " N"]:
        remedy = f"Number the classes from 0 to {self.num_classes - 1} in order, or give other `cut_points`."
        return as_labels("Ordinal", y, self.num_classes, remedy)

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
        low, high = self._edges(y)
        return _logistic_density(f - high) + _logistic_density(low - f)

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
        return integrate(lambda f: self.probabilities(f), mean, deviation, rule)

    def raw_moments(self, mean: Array, deviation: Array, rule: Rule) -> tuple[Array, Array]:
        """Those of the class number."""
        p = self.raw_probabilities(mean, deviation, rule)
        labels = jnp.arange(self.num_classes, dtype=p.dtype)
        first = p @ labels
        return first, jnp.sum(p * jnp.square(labels - first[..., None]), axis=-1)

    def started_from(self, y: np.ndarray, share: float, deviation: float) -> Ordinal:
        del share, deviation
        counts = np.bincount(np.asarray(y, dtype=int), minlength=self.num_classes) + 0.5
        below = np.cumsum(counts)[:-1] / counts.sum()
        # Wider than the logits of the shares, because the latent function moves too.
        return with_fields(self, cut_points=1.5 * (np.log(below) - np.log1p(-below)))
