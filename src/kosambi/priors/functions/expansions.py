"""Finite sums that random functions are made of: J functions with mean zero, evaluated together.

F_j(x) = Σ_i c_ji b_i(x), so that one call evaluates all of them with matrix products. What the b are depends on the
prior: kernels at support points, products of finite features, or waves.
"""

from __future__ import annotations

import abc

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from kosambi._core.linalg import by_rows
from kosambi._core.precision import Module
from kosambi._core.types import Array
from kosambi.kernels import AbstractFinite, AbstractKernel

# Numbers of one block of features: enough for all cores, and little enough to stay in their caches.
_ELEMENTS_AT_ONCE = 2**20


class AbstractExpansion(Module):
    """J functions with mean zero, each a finite sum."""

    @property
    @abc.abstractmethod
    def num_draws(self) -> int:
        """J, the number of functions."""

    @abc.abstractmethod
    def evaluate(self, x: Float[Array, "N D"]) -> Float[Array, "J N"]:
        """The J functions at the rows of `x`, traceable."""

    @abc.abstractmethod
    def select(self, indices: Int[np.ndarray, " L"]) -> AbstractExpansion:
        """Some of the functions, by number."""


class KernelExpansion(AbstractExpansion):
    """F_j = Σ_i c_ji k(·, s_i), with the same points for all j."""

    kernel: AbstractKernel
    points: Float[Array, "S D"]
    coefficients: Float[Array, "J S"]

    @property
    def num_draws(self) -> int:
        return int(self.coefficients.shape[0])

    def evaluate(self, x: Float[Array, "N D"]) -> Float[Array, "J N"]:
        """k(x, s) cᵀ, in blocks of rows."""
        rows = by_rows(
            lambda block: self.kernel.pairwise(block, self.points) @ self.coefficients.T,
            x,
            self.points.shape[0],
            _ELEMENTS_AT_ONCE,
        )
        return rows.T

    def select(self, indices: Int[np.ndarray, " L"]) -> KernelExpansion:
        """Rows of the coefficients."""
        return KernelExpansion(self.kernel, self.points, self.coefficients[indices])


class FiniteExpansion(AbstractExpansion):
    """F_j = Σ_p c_jp a_p(·), a the features of a product of finite-rank kernels; exact."""

    factors: tuple[AbstractFinite, ...]
    coefficients: Float[Array, "J P"]

    @property
    def num_draws(self) -> int:
        return int(self.coefficients.shape[0])

    def evaluate(self, x: Float[Array, "N D"]) -> Float[Array, "J N"]:
        """c a(x)ᵀ."""
        num_features = self.coefficients.shape[1]
        rows = by_rows(lambda block: product_features(self.factors, block) @ self.coefficients.T, x, 2 * num_features)
        return rows.T

    def select(self, indices: Int[np.ndarray, " L"]) -> FiniteExpansion:
        """Rows of the coefficients."""
        return FiniteExpansion(self.factors, self.coefficients[indices])


class FourierExpansion(AbstractExpansion):
    """F_j = Σ_p a_p(·) Σ_r (c_jpr cos ω_gr·x + s_jpr sin ω_gr·x).

    There are G lists of frequencies, and consecutive draws share one: list g serves draws gB to (g+1)B − 1 with
    B = ⌈J/G⌉. With G = J each draw has its own, with G = 1 all share them.
    """

    factors: tuple[AbstractFinite, ...]
    frequencies: Float[Array, "G R D"]
    cosine: Float[Array, "J P R"]
    sine: Float[Array, "J P R"]
    window: Float[Array, " D"] | None = None
    """Inputs farther apart than this in a column have a wrong covariance, since waves on a grid repeat."""

    @property
    def num_draws(self) -> int:
        return int(self.cosine.shape[0])

    def within(self, window: Float[Array, " D"]) -> FourierExpansion:
        """The same, good for inputs that are no farther apart than `window`."""
        return FourierExpansion(self.factors, self.frequencies, self.cosine, self.sine, window)

    @property
    def _draws_per_list(self) -> int:
        return -(-self.num_draws // self.frequencies.shape[0])

    def evaluate(self, x: Float[Array, "N D"]) -> Float[Array, "J N"]:
        """All draws at once when they share frequencies, otherwise a few lists at a time."""
        lists, num_frequencies = self.frequencies.shape[:2]
        width = max(num_frequencies, self._draws_per_list * self.cosine.shape[1])
        if lists == 1:
            return by_rows(
                lambda rows: self._rows(rows, self.frequencies[0], self.cosine, self.sine), x, width, _ELEMENTS_AT_ONCE
            ).T

        def one(part: tuple[Array, Array, Array]) -> Float[Array, "B N"]:
            return by_rows(lambda rows: self._rows(rows, *part), x, width, _ELEMENTS_AT_ONCE).T

        missing = lists * self._draws_per_list - self.num_draws
        cosine, sine = (
            jnp.pad(c, ((0, missing), (0, 0), (0, 0))).reshape(lists, -1, *c.shape[1:])
            for c in (self.cosine, self.sine)
        )
        at_once = int(np.clip(_ELEMENTS_AT_ONCE // max(1, x.shape[0] * num_frequencies), 1, lists))
        values = jax.lax.map(one, (self.frequencies, cosine, sine), batch_size=at_once)
        return values.reshape(-1, x.shape[0])[: self.num_draws]

    def _rows(self, x: Array, frequencies: Array, cosine: Array, sine: Array) -> Float[Array, "N B"]:
        angle = x @ frequencies.T
        draws, features, _ = cosine.shape
        # As one product of matrices, whatever the number of finite features.
        waves = jnp.concatenate([jnp.cos(angle), jnp.sin(angle)], axis=1)
        both = jnp.concatenate([cosine, sine], axis=2).reshape(draws * features, -1)
        values = (waves @ both.T).reshape(x.shape[0], draws, features)
        return (
            values[:, :, 0] if not self.factors else jnp.einsum("njp,np->nj", values, product_features(self.factors, x))
        )

    def select(self, indices: Int[np.ndarray, " L"]) -> FourierExpansion:
        """The draws chosen, each with its list of frequencies."""
        shared = self.frequencies.shape[0] == 1
        frequencies = self.frequencies if shared else self.frequencies[indices // self._draws_per_list]
        return FourierExpansion(self.factors, frequencies, self.cosine[indices], self.sine[indices], self.window)


def product_features(factors: tuple[AbstractFinite, ...], x: Float[Array, "N D"]) -> Float[Array, "N P"]:
    """The features of a product of finite-rank kernels: all products of one feature from each."""
    features = jnp.ones((x.shape[0], 1))
    for factor in factors:
        columns = factor.finite_features(x)
        features = (features[:, :, None] * columns[:, None, :]).reshape(x.shape[0], -1)
    return features
