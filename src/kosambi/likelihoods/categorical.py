r"""Classes without an order: a softmax of C latent functions.

P(y = c) = e^{f_c} / Σ_d e^{f_d},   c(y, f) = log Σ_d e^{f_d} − f_y

f has a last axis of C latent values. Where f is normal, the C values are independent with one standard deviation, as
they are when all latent functions share a basis.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_count
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.errors import InputError
from kosambi.likelihoods.base import AbstractLikelihood
from kosambi.likelihoods.quadrature import IS_WIDE, Rule
from kosambi.likelihoods.softmax import expected_log_sum_exp, expected_softmax
from kosambi.likelihoods.specification import as_labels

# Numbers of nodes for densities: few, so that little is compiled.
_FEW_COUNTS = (68, 272, 1088, 8704)


class Categorical(AbstractLikelihood):
    """Classes 0, …, C−1 with P(y = c) = softmax(f)_c, one latent function per class.

    Arguments:
        num_classes: C, at least 2.

    >>> import kosambi as ko
    >>> ko.likelihoods.Categorical(num_classes=3).cost([0.0], [[1.0, 1.0, 1.0]]).round(6)
    array([1.098612])
    """

    num_classes: int = eqx.field(static=True)

    def __init__(self, num_classes: int) -> None:
        self.num_classes = as_count("Categorical(num_classes=...)", num_classes)
        if self.num_classes < 2:
            raise InputError("`Categorical(num_classes=...)` must be at least 2. Got 1. One class needs no model.")

    @property
    def is_convex(self) -> bool:
        return True

    @property
    def num_latents(self) -> int:
        return self.num_classes

    @property
    def num_labels(self) -> int | None:
        return self.num_classes

    @property
    def lipschitz(self) -> float | None:
        """√2, for the Euclidean norm over the C latent values."""
        return float(np.sqrt(2.0))

    @property
    def curvature_bound(self) -> float | None:
        """The largest eigenvalue of diag(p) − ppᵀ is at most 1/2."""
        return 0.5

    def curvature_range(self, y: np.ndarray) -> tuple[Array | float, Array | float] | None:
        """The trace of diag(p) − ppᵀ, which is 1 − |p|²."""
        return 0.0, 1.0 - 1.0 / self.num_classes

    @property
    def strip(self) -> float:
        """Where the inner integrals of `softmax` cease to be bounded: their integrand is exp(−e^t)."""
        return float(0.5 * np.pi)

    def check(self, y: ArrayLike) -> Float[Array, " N"]:
        last = self.num_classes - 1
        remedy = f"Number the classes from 0 to {last}, for example with `np.unique(y, return_inverse=True)[1]`."
        return as_labels("Categorical", y, self.num_classes, remedy)

    def _one_hot(self, y: Array, f: Array) -> Array:
        return jax.nn.one_hot(jnp.asarray(y).astype(int), self.num_classes, dtype=f.dtype)

    def raw_cost(self, y: Array, f: Array) -> Array:
        return jax.scipy.special.logsumexp(f, axis=-1) - jnp.sum(f * self._one_hot(y, f), axis=-1)

    def raw_derivative(self, y: Array, f: Array) -> Array:
        return jax.nn.softmax(f, axis=-1) - self._one_hot(y, f)

    def raw_second_derivative(self, y: Array, f: Array) -> Array:
        p = jax.nn.softmax(f, axis=-1)
        return p[..., :, None] * jnp.eye(self.num_classes, dtype=f.dtype) - p[..., :, None] * p[..., None, :]

    def raw_rough_latent(self, y: Array) -> Array:
        """Two for the class that was seen."""
        return 2.0 * jax.nn.one_hot(jnp.asarray(y).astype(int), self.num_classes, dtype=jnp.result_type(float))

    def raw_mean(self, f: Array) -> Array:
        """The class probabilities, (..., C)."""
        return jax.nn.softmax(f, axis=-1)

    def raw_variance(self, f: Array) -> Array:
        """p(1 − p) of each class, (..., C)."""
        p = jax.nn.softmax(f, axis=-1)
        return p * (1.0 - p)

    def raw_draw(self, key: Key, f: Array) -> Array:
        return jax.random.categorical(key, f, axis=-1).astype(f.dtype)

    def raw_expected_cost(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """E log Σ_c e^{f_c} − E f_y."""
        if rule.nodes.ndim == 2:
            return super().raw_expected_cost(y, mean, deviation, rule)
        value, _ = expected_log_sum_exp(mean, deviation, rule)
        return value - jnp.sum(mean * self._one_hot(y, mean), axis=-1)

    def raw_expected_derivative(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """E softmax(f) − one-hot(y)."""
        if rule.nodes.ndim == 2:
            return super().raw_expected_derivative(y, mean, deviation, rule)
        _, softmax = expected_log_sum_exp(mean, deviation, rule)
        return softmax - self._one_hot(y, mean)

    def raw_expected_curvature(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """The Hessian at the mean: positive, and near enough for a preconditioner."""
        return self.raw_curvature(y, mean)

    def raw_log_predictive(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """log E softmax(f)_y."""
        return jnp.log(jnp.sum(self.raw_probabilities(mean, deviation, rule) * self._one_hot(y, mean), axis=-1))

    def summary_rules(self, deviation: np.ndarray) -> np.ndarray:
        # Nodes cost little here and compiling much, so only every second of the wide rules is used.
        numbers = super().summary_rules(deviation)
        return np.where(numbers <= IS_WIDE, IS_WIDE, numbers + (numbers - IS_WIDE) % 2)

    def density_nodes(self, deviation: np.ndarray) -> np.ndarray:
        return np.asarray(_FEW_COUNTS)[np.searchsorted(_FEW_COUNTS, super().density_nodes(deviation))]

    def raw_probabilities(self, mean: Array, deviation: Array, rule: Rule) -> Array:
        """E softmax(f), to about 1e-6."""
        return expected_softmax(mean, deviation, rule)

    def raw_moments(self, mean: Array, deviation: Array, rule: Rule) -> tuple[Array, Array]:
        p = self.raw_probabilities(mean, deviation, rule)
        return p, p * (1.0 - p)
