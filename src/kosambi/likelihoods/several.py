r"""Likelihoods of several latent functions: classes without an order, and noise that varies with the input.

f has a last axis of C latent values. Under a normal law the C values are independent with one common deviation, as they
are when all latent functions share a basis.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._types import Array, ArrayLike, Key
from kosambi.errors import InputError, as_count
from kosambi.likelihoods._base import AbstractLikelihood, as_observations, check_values
from kosambi.likelihoods._cost import integrate, tiny
from kosambi.likelihoods._quadrature import REACH, Rule, cubature
from kosambi.likelihoods.continuous import LOG_2PI, normal_distribution

# The outer integral of `expected_log_sum_exp`: a step at which it is exact to 1e-12, and where its integrand ends.
_STEP, _REACH = 0.35, 40.0
# Nodes over the logarithm of the noise, for a density.
_NOISE_NODES = 816


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
        p = expected_log_sum_exp(mean, deviation, rule, step=0.5, low=-30.0)[1]
        return p / jnp.sum(p, axis=-1, keepdims=True)

    def raw_moments(self, mean: Array, deviation: Array, rule: Rule) -> tuple[Array, Array]:
        """p and p(1 − p) of each class."""
        p = self.raw_probabilities(mean, deviation, rule)
        return p, p * (1.0 - p)


def expected_log_sum_exp(
    mean: Array, deviation: Array, rule: Rule, step: float = _STEP, low: float = -_REACH
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

    grid = jnp.arange(low, _REACH, step, dtype=centred.dtype)
    shape = jnp.broadcast_shapes(centred.shape, sd.shape)
    start = (jnp.zeros(shape[:-1], dtype=centred.dtype), jnp.zeros(shape, dtype=centred.dtype))
    (value, gradient), _ = jax.lax.scan(add, start, grid)
    return top[..., 0] + value, gradient


def _precision(log_noise: Array) -> Array:
    """e^{−2·log_noise}, kept finite so that an error of exactly zero costs nothing and not ∞·0."""
    half = 0.5 * float(np.log(np.finfo(log_noise.dtype).max)) - 1.0
    return jnp.exp(-2.0 * jnp.maximum(log_noise, -half))


class HeteroscedasticGaussian(AbstractLikelihood):
    """y = f_0 + e^{f_1} ε: two latent functions, the mean and the logarithm of the noise. Not convex jointly.

    >>> import kosambi as ko
    >>> ko.likelihoods.HeteroscedasticGaussian().observation_variance([[0.0, 1.0]]).round(6)
    array([7.389056])
    """

    @property
    def num_latents(self) -> int:
        """The mean, and the logarithm of the noise."""
        return 2

    @property
    def is_convex(self) -> bool:
        """No, not in both together."""
        return False

    def check(self, y: ArrayLike) -> Float[Array, " N"]:
        """Finite numbers."""
        return as_observations("HeteroscedasticGaussian", y)

    def raw_cost(self, y: Array, f: Array) -> Array:
        """(y − f_0)² e^{−2f_1}/2 + f_1 + ½ log 2π."""
        return 0.5 * jnp.square(y - f[..., 0]) * _precision(f[..., 1]) + f[..., 1] + 0.5 * LOG_2PI

    def raw_derivative(self, y: Array, f: Array) -> Array:
        """(−e w, 1 − e² w) with w = e^{−2f_1}."""
        error, weight = y - f[..., 0], _precision(f[..., 1])
        return jnp.stack([-error * weight, 1.0 - jnp.square(error) * weight], axis=-1)

    def raw_second_derivative(self, y: Array, f: Array) -> Array:
        """[[w, 2ew], [2ew, 2e²w]], indefinite."""
        error, weight = y - f[..., 0], _precision(f[..., 1])
        weight = jnp.broadcast_to(weight, error.shape)
        cross = 2.0 * error * weight
        rows = [jnp.stack([weight, cross], axis=-1), jnp.stack([cross, error * cross], axis=-1)]
        return jnp.stack(rows, axis=-2)

    def raw_curvature(self, y: Array, f: Array) -> Array:
        """The Fisher information diag(w, 2)."""
        weight = jnp.broadcast_to(_precision(f[..., 1]), jnp.broadcast_shapes(jnp.shape(y), f.shape[:-1]))
        zero, two = jnp.zeros_like(weight), jnp.full_like(weight, 2.0)
        return jnp.stack([jnp.stack([weight, zero], axis=-1), jnp.stack([zero, two], axis=-1)], axis=-2)

    def raw_rough_latent(self, y: Array) -> Array:
        """y, and half of its deviation as noise."""
        return jnp.stack([y, jnp.broadcast_to(jnp.log(0.5 * jnp.std(y) + tiny(y)), jnp.shape(y))], axis=-1)

    def raw_mean(self, f: Array) -> Array:
        """f_0."""
        return f[..., 0]

    def raw_variance(self, f: Array) -> Array:
        """e^{2f_1}."""
        return jnp.exp(2.0 * f[..., 1])

    def raw_draw(self, key: Key, f: Array) -> Array:
        """f_0 + e^{f_1} ε."""
        return f[..., 0] + jnp.exp(f[..., 1]) * jax.random.normal(key, f.shape[:-1])

    def raw_expected_cost(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """Normal and log-normal moments: closed form."""
        del rule
        variance = jnp.square(deviation)
        weight = _precision(mean[..., 1] - variance)
        return 0.5 * (jnp.square(y - mean[..., 0]) + variance) * weight + mean[..., 1] + 0.5 * LOG_2PI

    def raw_expected_derivative(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """Its gradient."""
        del rule
        variance, error = jnp.square(deviation), y - mean[..., 0]
        weight = _precision(mean[..., 1] - variance)
        return jnp.stack([-error * weight, 1.0 - (jnp.square(error) + variance) * weight], axis=-1)

    def raw_expected_curvature(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """E of the Fisher information: w at a log noise lowered by the variance."""
        lowered = jnp.stack([mean[..., 0], mean[..., 1] - jnp.square(deviation)], axis=-1)
        return self.raw_curvature(y, lowered)

    def raw_log_predictive(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """A normal density with the variances added, averaged over f_1 by quadrature.

        Between 8.5 deviations below its mean and 8.5 above that or above the logarithm of the error, whichever is
        larger: an error far out asks for a noise as large.
        """
        del rule
        shape = jnp.broadcast_shapes(jnp.shape(y), mean.shape[:-1], jnp.shape(deviation))
        error, centre, sd = (jnp.broadcast_to(v, shape) for v in (y - mean[..., 0], mean[..., 1], deviation))
        safe = jnp.where(sd > 0, sd, 1.0)
        wanted = jnp.log(jnp.maximum(jnp.abs(error), tiny(error)))
        low, high = centre - REACH * safe, jnp.maximum(centre, wanted) + REACH * safe
        step = (high - low) / (_NOISE_NODES - 1)

        def log_density(log_noise: Array, extra: Array) -> Array:
            variance = jnp.exp(2.0 * log_noise) + jnp.square(extra)
            return -0.5 * (jnp.square(error) / variance + jnp.log(variance) + LOG_2PI)

        def add(total: Array, i: Array) -> tuple[Array, None]:
            t = low + i * step
            return jnp.logaddexp(total, log_density(t, sd) - 0.5 * jnp.square((t - centre) / safe)), None

        total, _ = jax.lax.scan(add, jnp.full(shape, -jnp.inf), jnp.arange(_NOISE_NODES, dtype=error.dtype))
        spread = total + jnp.log(step) - jnp.log(safe) - 0.5 * LOG_2PI
        return jnp.where(sd > 0, spread, log_density(centre, jnp.zeros_like(sd)))

    def raw_moments(self, mean: Array, deviation: Array, rule: Rule) -> tuple[Array, Array]:
        """The mean, and the variance of f_0 and of a log-normal noise added."""
        del rule
        variance = jnp.square(deviation)
        return mean[..., 0], variance + jnp.exp(2.0 * (mean[..., 1] + variance))

    def distribution_width(self, y: np.ndarray) -> np.ndarray:
        """e^{2f_1} + σ² vanishes at an imaginary part of π/2."""
        return np.full(np.shape(y), np.pi / 6.0)

    def predictive_distribution(self, y: np.ndarray, mean: np.ndarray, deviation: np.ndarray, rule: Rule) -> np.ndarray:
        """Φ with the variances added, averaged over the noise."""
        total = np.zeros(np.broadcast_shapes(np.shape(y), mean.shape[:-1], np.shape(deviation)))
        for node, weight in zip(rule.nodes, rule.weights, strict=True):
            sd = np.hypot(np.exp(mean[..., 1] + deviation * node), deviation)
            total += weight * normal_distribution((y - mean[..., 0]) / sd)
        return total
