r"""Observations with an unknown shift (paper, section 6 and appendix "Likelihood functions").

y = f + shift·b + noise·ε,   b ~ Bernoulli(probability),   ε ~ N(0, 1)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from kosambi._core.checks import as_number, as_positive, is_traced
from kosambi._core.precision import with_fields
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.errors import InputError
from kosambi.likelihoods.families import AbstractLocation
from kosambi.likelihoods.normal import LOG_2PI, normal_cdf
from kosambi.likelihoods.quadrature import Rule


class ShiftMixture(AbstractLocation):
    """Each observation is shifted by `shift` with `probability`, and it is not known which. Not convex in f.

    Arguments:
        shift: s, in the units of y.
        probability: P(b = 1), between 0 and 1.
        noise: the standard deviation σ, in the units of y.

    >>> import kosambi as ko
    >>> ko.likelihoods.ShiftMixture(shift=4.0, probability=0.25, noise=1.0).observation_mean([1.0])
    array([2.])
    """

    supports: ClassVar[Mapping[str, str]] = {"shift": "real", "probability": "unit"}
    in_units_of_y: ClassVar[tuple[str, ...]] = ("shift", "noise")

    shift: Array
    probability: Array
    noise: Array

    def __init__(self, shift: ArrayLike, probability: ArrayLike = 0.5, noise: ArrayLike = 1.0) -> None:
        self.shift = as_number("ShiftMixture(shift=...)", shift)
        self.probability = as_positive("ShiftMixture(probability=...)", probability)
        if not is_traced(self.probability) and not self.probability < 1:
            raise InputError(
                f"`ShiftMixture(probability=...)` must lie between 0 and 1. Got {probability!r}. "
                "At 0 or 1 use `Gaussian`, with y shifted."
            )
        self.noise = as_positive("ShiftMixture(noise=...)", noise)

    @property
    def is_convex(self) -> bool:
        return False

    def curvature_range(self, y: np.ndarray) -> tuple[Array | float, Array | float] | None:
        """c'' = 1/σ² − p(1−p)s²/σ⁴ with p = P(b = 1 | y, f), anywhere between 0 and 1."""
        highest = float(1.0 / self.noise**2)
        return highest - 0.25 * float(self.shift) ** 2 * highest**2, highest

    @property
    def strip(self) -> float:
        """The two densities cancel where their logarithms differ by iπ: πσ²/|s| from the real line."""
        shift = abs(float(self.shift))
        return float(np.pi * self.noise**2 / shift) if shift > 0 else np.inf

    def _shifted_share(self, y: Array, f: Array) -> Array:
        """P(b = 1 | y, f)."""
        error = y - f
        log_odds = jnp.log(self.probability) - jnp.log1p(-self.probability)
        return jax.nn.sigmoid(log_odds + self.shift * (error - 0.5 * self.shift) / jnp.square(self.noise))

    def raw_cost(self, y: Array, f: Array) -> Array:
        """−log(p N(y; f + s, σ²) + (1 − p) N(y; f, σ²))."""
        plain = jnp.log1p(-self.probability) - 0.5 * jnp.square((y - f) / self.noise)
        shifted = jnp.log(self.probability) - 0.5 * jnp.square((y - f - self.shift) / self.noise)
        return jnp.log(self.noise) + 0.5 * LOG_2PI - jnp.logaddexp(plain, shifted)

    def raw_derivative(self, y: Array, f: Array) -> Array:
        """(f + s·P(b = 1 | y, f) − y)/σ²."""
        return (f + self.shift * self._shifted_share(y, f) - y) / jnp.square(self.noise)

    def raw_second_derivative(self, y: Array, f: Array) -> Array:
        """1/σ² − s² P(b = 1)P(b = 0)/σ⁴."""
        share, variance = self._shifted_share(y, f), jnp.square(self.noise)
        return 1.0 / variance - jnp.square(self.shift / variance) * share * (1.0 - share)

    def raw_curvature(self, y: Array, f: Array) -> Array:
        """That of either component, 1/σ²."""
        return jnp.broadcast_to(1.0 / jnp.square(self.noise), jnp.broadcast_shapes(jnp.shape(y), jnp.shape(f)))

    def raw_rough_latent(self, y: Array) -> Array:
        return y - self.shift * self.probability

    def raw_mean(self, f: Array) -> Array:
        return f + self.shift * self.probability

    def raw_variance(self, f: Array) -> Array:
        """σ² + s²p(1 − p)."""
        variance = jnp.square(self.noise) + jnp.square(self.shift) * self.probability * (1.0 - self.probability)
        return jnp.broadcast_to(variance, jnp.shape(f))

    def raw_draw(self, key: Key, f: Array) -> Array:
        key_shift, key_noise = jax.random.split(key)
        shifted = jax.random.bernoulli(key_shift, self.probability, jnp.shape(f))
        return f + self.shift * shifted + self.noise * jax.random.normal(key_noise, jnp.shape(f))

    def raw_log_predictive(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """Two normal densities with the variances added."""
        del rule
        variance = jnp.square(self.noise) + jnp.square(deviation)

        def normal(error: Array) -> Array:
            return -0.5 * (jnp.square(error) / variance + jnp.log(variance) + LOG_2PI)

        plain = jnp.log1p(-self.probability) + normal(y - mean)
        return jnp.logaddexp(plain, jnp.log(self.probability) + normal(y - mean - self.shift))

    def cdf(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return self._cdf(y, f, np.asarray(self.noise))

    def predictive_cdf(self, y: np.ndarray, mean: np.ndarray, deviation: np.ndarray, rule: Rule) -> np.ndarray:
        """Two normal cdfs with the variances added."""
        del rule
        return self._cdf(y, mean, np.hypot(self.noise, deviation))

    def _cdf(self, y: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
        plain, shifted = (normal_cdf((y - mean - by) / deviation) for by in (0.0, self.shift))
        return (1.0 - self.probability) * plain + self.probability * shifted

    def started_from(self, y: np.ndarray, share: float, deviation: float) -> ShiftMixture:
        del y
        # The shift and its probability are what the user knows of the mixture; they are refined, not guessed.
        return with_fields(self, noise=np.asarray(share * deviation))
