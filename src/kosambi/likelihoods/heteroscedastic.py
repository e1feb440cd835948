"""A likelihood of two latent functions: a mean, and noise that varies with the input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_number, as_positive
from kosambi._core.precision import with_fields
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.likelihoods.base import AbstractLikelihood
from kosambi.likelihoods.normal import LOG_2PI, normal_cdf
from kosambi.likelihoods.quadrature import REACH, Rule, tiny
from kosambi.likelihoods.specification import Rescaled

# Nodes over the logarithm of the noise, for a density.
_NOISE_NODES = 816


def _precision(log_noise: Array) -> Array:
    """e^{−2·log_noise}, kept finite so that an error of exactly zero costs nothing and not ∞·0."""
    half = 0.5 * float(np.log(np.finfo(log_noise.dtype).max)) - 1.0
    return jnp.exp(-2.0 * jnp.maximum(log_noise, -half))


def _squared(error: Array) -> Array:
    """error², kept finite likewise, since the precision far out is exactly zero."""
    return jnp.minimum(jnp.square(error), float(np.finfo(error.dtype).max))


class HeteroscedasticGaussian(AbstractLikelihood):
    """y = location + scale (f_0 + e^{f_1} ε): two latent functions, the mean and the logarithm of the noise.

    Not convex jointly. Both functions have one prior, so the first should be about as large as a logarithm: give
    observations in other units a location and a scale.

    Arguments:
        location: a number, which is not learned.
        scale: a positive number, which is not learned.

    >>> import kosambi as ko
    >>> ko.likelihoods.HeteroscedasticGaussian().observation_variance([[0.0, 1.0]]).round(6)
    array([7.389056])
    """

    short_name: ClassVar[str | None] = "heteroscedastic"
    supports: ClassVar[Mapping[str, str]] = {"location": "fixed", "scale": "fixed"}

    location: Float[Array, ""]
    scale: Float[Array, ""]

    def __init__(self, location: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> None:
        self.location = as_number("HeteroscedasticGaussian(location=...)", location)
        self.scale = as_positive("HeteroscedasticGaussian(scale=...)", scale)

    def _standardised(self, y: Array) -> Array:
        return (y - self.location) / self.scale

    @property
    def num_latents(self) -> int:
        return 2

    @property
    def is_convex(self) -> bool:
        return False

    @property
    def strip(self) -> float:
        """Expectations are closed forms."""
        return np.inf

    def raw_cost(self, y: Array, f: Array) -> Array:
        """(z − f_0)² e^{−2f_1}/2 + f_1 + log scale + ½ log 2π with z = (y − location)/scale."""
        error = self._standardised(y) - f[..., 0]
        return 0.5 * _squared(error) * _precision(f[..., 1]) + f[..., 1] + jnp.log(self.scale) + 0.5 * LOG_2PI

    def raw_derivative(self, y: Array, f: Array) -> Array:
        """(−e w, 1 − e² w) with w = e^{−2f_1}."""
        error, weight = self._standardised(y) - f[..., 0], _precision(f[..., 1])
        return jnp.stack([-error * weight, 1.0 - _squared(error) * weight], axis=-1)

    def raw_second_derivative(self, y: Array, f: Array) -> Array:
        """[[w, 2ew], [2ew, 2e²w]], indefinite."""
        error, weight = self._standardised(y) - f[..., 0], _precision(f[..., 1])
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
        """z, and half of its standard deviation as noise."""
        y = self._standardised(y)
        return jnp.stack([y, jnp.broadcast_to(jnp.log(0.5 * jnp.std(y) + tiny(y)), jnp.shape(y))], axis=-1)

    def raw_mean(self, f: Array) -> Array:
        return self.location + self.scale * f[..., 0]

    def raw_variance(self, f: Array) -> Array:
        return jnp.square(self.scale) * jnp.exp(2.0 * f[..., 1])

    def raw_draw(self, key: Key, f: Array) -> Array:
        noise = jnp.exp(f[..., 1]) * jax.random.normal(key, f.shape[:-1])
        return self.location + self.scale * (f[..., 0] + noise)

    def raw_expected_cost(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        del rule
        return self.raw_expected_cost_of_each(y, mean, jnp.asarray(deviation)[..., None] * jnp.ones(2, mean.dtype))

    def raw_expected_cost_of_each(self, y: Array, mean: Array, deviation: Array) -> Array:
        """Normal and log-normal moments: closed form."""
        variance = jnp.square(deviation)
        weight = _precision(mean[..., 1] - variance[..., 1])
        error = self._standardised(y) - mean[..., 0]
        squared = 0.5 * (jnp.square(error) + variance[..., 0]) * weight
        return squared + mean[..., 1] + jnp.log(self.scale) + 0.5 * LOG_2PI

    def raw_expected_derivative(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        del rule
        variance, error = jnp.square(deviation), self._standardised(y) - mean[..., 0]
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
        error, centre, sd = (
            jnp.broadcast_to(v, shape) for v in (self._standardised(y) - mean[..., 0], mean[..., 1], deviation)
        )
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
        return jnp.where(sd > 0, spread, log_density(centre, jnp.zeros_like(sd))) - jnp.log(self.scale)

    def raw_moments(self, mean: Array, deviation: Array, rule: Rule) -> tuple[Array, Array]:
        """The mean, and the variance of f_0 and of a log-normal noise added."""
        del rule
        variance = jnp.square(deviation)
        total = variance + jnp.exp(2.0 * (mean[..., 1] + variance))
        return self.location + self.scale * mean[..., 0], jnp.square(self.scale) * total

    def cdf_width(self, y: np.ndarray) -> np.ndarray:
        """e^{2f_1} + σ² vanishes at an imaginary part of π/2."""
        return np.full(np.shape(y), np.pi / 6.0)

    def predictive_cdf(self, y: np.ndarray, mean: np.ndarray, deviation: np.ndarray, rule: Rule) -> np.ndarray:
        """Φ with the variances added, averaged over the noise."""
        z = (y - self.location) / self.scale
        total = np.zeros(np.broadcast_shapes(np.shape(y), mean.shape[:-1], np.shape(deviation)))
        for node, weight in zip(rule.nodes, rule.weights, strict=True):
            sd = np.hypot(np.exp(mean[..., 1] + deviation * node), deviation)
            total += weight * normal_cdf((z - mean[..., 0]) / sd)
        return total

    def in_units(self, location: float, scale: float) -> Rescaled | None:
        # The second function is a logarithm without a unit, so the first stays without one too.
        moved = np.asarray(location + scale * self.location)
        return Rescaled(with_fields(self, location=moved, scale=np.asarray(self.scale * scale)), 0.0, 1.0)
