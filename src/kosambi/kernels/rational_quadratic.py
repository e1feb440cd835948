"""The rational quadratic kernel: squared exponentials of many lengthscales."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_positive
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.kernels.stationary import AbstractRadial, spread_probabilities


class RationalQuadratic(AbstractRadial):
    """variance · (1 + s/(2α))^(−α): a mixture of squared exponentials over lengthscales.

    Arguments:
        alpha: how narrow the mixture is; the squared exponential is the limit of a large `alpha`.

    >>> import kosambi as ko
    >>> ko.kernels.RationalQuadratic(alpha=2.0)([[0.0]], [[1.0]]).round(4)
    array([[0.64]])
    """

    alpha: Array

    def __init__(
        self,
        lengthscale: ArrayLike = 1.0,
        variance: ArrayLike = 1.0,
        alpha: ArrayLike = 1.0,
        *,
        active_dims: Any = None,
    ) -> None:
        super().__init__(lengthscale, variance, active_dims=active_dims)
        self.alpha = as_positive("RationalQuadratic(alpha=...)", alpha)

    def correlation(self, s: Float[Array, "..."]) -> Float[Array, "..."]:
        """(1 + s/(2α))^(−α), through log1p so that a large α loses no digits."""
        return jnp.exp(-self.alpha * jnp.log1p(0.5 * s / self.alpha))

    def spectral_scales(self, key: Key, num_frequencies: int) -> Float[Array, " R"]:
        """√τ with τ ~ Gamma(α) of mean one."""
        return jnp.sqrt(jax.random.gamma(key, self.alpha, (num_frequencies,)) / self.alpha)

    @property
    def spectral_reach(self) -> float | None:
        """The density falls as exp(−√(2α) |ω|), or as a normal one for a large α."""
        # Below α = 1 the kernel falls so slowly that no period of a grid is long enough.
        return max(10.0, 35.0 / math.sqrt(2.0 * float(self.alpha))) if self.alpha >= 1 else None

    @property
    def reach(self) -> float:
        """Where the correlation has fallen to 1e-6."""
        return max(20.0, math.sqrt(2.0 * float(self.alpha)) * 10.0 ** (3.0 / float(self.alpha)))

    def spread_frequencies(
        self, generator: np.random.Generator, num_frequencies: int, num_columns: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """√τ times normal vectors, both with large norms more often than by chance."""
        from scipy.special import chdtri, gammainccinv

        of_scale, weights = spread_probabilities(generator, num_frequencies)
        of_norm, more = spread_probabilities(generator, num_frequencies)
        # Both come in order, and must not depend on each other.
        order = generator.permutation(num_frequencies)
        of_norm, more = of_norm[order], more[order]
        alpha = float(self.alpha)
        norms = np.sqrt(chdtri(num_columns, of_norm) * gammainccinv(alpha, of_scale) / alpha)
        directions = generator.normal(size=(num_frequencies, num_columns))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        return norms[:, None] * directions / np.asarray(self.lengthscale), weights * more

    def spectral_density(self, s: np.ndarray, num_columns: int) -> np.ndarray:
        """∫ N(ω; 0, τ) Gamma(τ) dτ, a Bessel function."""
        from scipy.special import kve

        alpha = float(self.alpha)
        order, argument = alpha - 0.5 * num_columns, np.sqrt(2.0 * alpha * s)
        constant = math.log(2.0) + alpha * math.log(alpha) - math.lgamma(alpha)
        constant -= 0.5 * num_columns * math.log(2.0 * math.pi)
        power = 0.5 * order * np.log(s / (2.0 * alpha))
        return np.exp(constant + power + np.log(kve(order, argument)) - argument)
