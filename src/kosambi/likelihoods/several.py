r"""A likelihood of several latent functions: classes without an order.

f has a last axis of C latent values. Under a normal law the C values are independent with one common deviation, as they
are when all latent functions share a basis.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.errors import InputError, as_count
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.likelihoods.base import AbstractLikelihood, as_observations, check_values
from kosambi.likelihoods.cost import integrate, tiny
from kosambi.likelihoods.quadrature import Rule, cubature, largest_deviation

# The outer integral of `expected_log_sum_exp`: a step at which it is exact to 1e-12, and where its integrand ends.
_STEP, _REACH = 0.35, 40.0


class Categorical(AbstractLikelihood):
    """Classes 0, …, C−1 with P(y = c) = softmax(f)_c, one latent function a class.

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
        """Yes."""
        return True

    @property
    def num_latents(self) -> int:
        """One a class."""
        return self.num_classes

    @property
    def is_discrete(self) -> bool:
        """Labels."""
        return True

    @property
    def num_labels(self) -> int | None:
        """C."""
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
        """Of the inner integrals of `expected_log_sum_exp`."""
        return float(0.5 * np.pi)

    def check(self, y: ArrayLike) -> Float[Array, " N"]:
        """Class numbers."""
        array = as_observations("Categorical", y)
        last = self.num_classes - 1
        allowed = (array >= 0) & (array <= last) & (array == np.round(array))
        remedy = f"Number the classes from 0 to {last}, for example with `np.unique(y, return_inverse=True)[1]`."
        return check_values("Categorical", array, allowed, f"in {{0, ..., {last}}}", remedy)

    def _one_hot(self, y: Array, f: Array) -> Array:
        return jax.nn.one_hot(jnp.asarray(y).astype(int), self.num_classes, dtype=f.dtype)

    def raw_cost(self, y: Array, f: Array) -> Array:
        """log Σ_c e^{f_c} − f_y."""
        return jax.scipy.special.logsumexp(f, axis=-1) - jnp.sum(f * self._one_hot(y, f), axis=-1)

    def raw_derivative(self, y: Array, f: Array) -> Array:
        """softmax(f) − one-hot(y)."""
        return jax.nn.softmax(f, axis=-1) - self._one_hot(y, f)

    def raw_second_derivative(self, y: Array, f: Array) -> Array:
        """diag(p) − ppᵀ."""
        p = jax.nn.softmax(f, axis=-1)
        return p[..., :, None] * jnp.eye(self.num_classes, dtype=f.dtype) - p[..., :, None] * p[..., None, :]

    def raw_curvature(self, y: Array, f: Array) -> Array:
        """The Hessian, which is positive semi-definite."""
        return self.raw_second_derivative(y, f)

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
        """Class numbers."""
        return jax.random.categorical(key, f, axis=-1).astype(f.dtype)

    @property
    def evidence_rule(self) -> Rule:
        """The cubature with 2C points ±√C along the axes, exact to third order."""
        return cubature(self.num_classes)

    def raw_expected_cost(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """E log Σ_c e^{f_c} − E f_y."""
        if rule.nodes.ndim == 2:
            return integrate(lambda f: self.raw_cost(y, f), mean, jnp.asarray(deviation)[..., None], rule)
        value, _ = expected_log_sum_exp(mean, deviation, rule)
        return value - jnp.sum(mean * self._one_hot(y, mean), axis=-1)

    def raw_expected_derivative(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """E softmax(f) − one-hot(y)."""
        if rule.nodes.ndim == 2:
            return integrate(lambda f: self.raw_derivative(y, f), mean, jnp.asarray(deviation)[..., None], rule)
        _, softmax = expected_log_sum_exp(mean, deviation, rule)
        return softmax - self._one_hot(y, mean)

    def raw_expected_curvature(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """The Hessian at the mean: positive, and near enough for a preconditioner."""
        return self.raw_curvature(y, mean)

    def raw_log_predictive(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """log E softmax(f)_y."""
        return jnp.log(jnp.sum(self.raw_probabilities(mean, deviation, rule) * self._one_hot(y, mean), axis=-1))

    def raw_probabilities(self, mean: Array, deviation: Array, rule: Rule) -> Array:
        """E softmax(f), to about nine digits."""
        # Above this the largest of the C values is certain to have ended the integrand; e^{−21} is the ninth digit.
        high = 5.0 + 6.0 * largest_deviation(rule, self.strip)
        p = expected_log_sum_exp(mean, deviation, rule, step=0.5, low=-21.0, high=high)[1]
        return p / jnp.sum(p, axis=-1, keepdims=True)

    def raw_moments(self, mean: Array, deviation: Array, rule: Rule) -> tuple[Array, Array]:
        """p and p(1 − p) of each class."""
        p = self.raw_probabilities(mean, deviation, rule)
        return p, p * (1.0 - p)


def expected_log_sum_exp(
    mean: Array, deviation: Array, rule: Rule, step: float = _STEP, low: float = -_REACH, high: float = _REACH
) -> tuple[Array, Array]:
    r"""E log Σ_c e^{f_c} and its gradient E softmax(f), for independent f_c ~ N(mean_c, deviation²).

    Frullani's integral log S = ∫ (exp(−e^s) − exp(−S e^s)) ds turns the C-dimensional expectation into products of
    one-dimensional ones: with L(t) = E exp(−e^{t + σξ}),

        E log Σ_c e^{f_c} = ∫ (exp(−e^s) − Π_c L(s + mean_c)) ds.
    """
    top = jnp.max(mean, axis=-1, keepdims=True)
    centred, sd = mean - top, jnp.asarray(deviation)[..., None]

    def add(totals: tuple[Array, Array], s: Array) -> tuple[tuple[Array, Array], None]:
        survival = lambda t: jnp.exp(-jnp.exp(jnp.minimum(t, 50.0)))
        slope = lambda t: jnp.exp(t - jnp.exp(jnp.minimum(t, 50.0)))
        value = jnp.maximum(integrate(survival, s + centred, sd, rule), tiny(mean))
        drop = integrate(slope, s + centred, sd, rule)
        product = jnp.prod(value, axis=-1)
        gained = jnp.exp(-jnp.exp(s)) - product
        return (totals[0] + step * gained, totals[1] + step * drop / value * product[..., None]), None

    grid = jnp.arange(low, high, step, dtype=centred.dtype)
    shape = jnp.broadcast_shapes(centred.shape, sd.shape)
    start = (jnp.zeros(shape[:-1], dtype=centred.dtype), jnp.zeros(shape, dtype=centred.dtype))
    (value, gradient), _ = jax.lax.scan(add, start, grid)
    return top[..., 0] + value, gradient
