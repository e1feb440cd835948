r"""A sum over all rows from a sample of them, right to second order at the mode: for data that are not in memory.

With D̂, ĝ and Ĥ the value, slope and curvature of the sum over all rows at ŵ, and D_s the same sum over a sample whose
rows count as often as all rows do together,

    D(w) ≈ D_s(w) + a + bᵀ(w − ŵ) + ½ (w − ŵ)ᵀB(w − ŵ),   a = D̂ − D_s(ŵ),  b = ĝ − ∇D_s(ŵ),  B = Ĥ − ∇²D_s(ŵ).

Only what is beyond second order comes from the sample: the sum over rows of remainders c_n(f̂ + δ) − c_n − c'_n δ −
½ c''_n δ², each of third order in δ. With n rows in the sample the error is about 1/√n of that sum, which itself
vanishes as rows become many. It is measured after sampling, on the draws, by one pass over all rows.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.types import Array
from kosambi.target.data_terms import AbstractDataTerm, FactorisedTerm


class CorrectedTerm(AbstractDataTerm):
    """The data term of a sample, with the value, slope and curvature of all rows at one place."""

    rows: FactorisedTerm
    """That of the sample."""
    centre: Float[Array, " K"]
    """ŵ, flattened."""
    constant: Array
    slope: Float[Array, " K"]
    spread: Float[Array, "K K"]
    """a, b and B."""
    lowest: Array
    """V(ŵ), of all rows."""
    factor: Float[Array, "K K"]
    """The Cholesky factor of I + Ĥ, or of a positive curvature in its place."""

    def value(self, w: Array) -> Float[Array, " J"]:
        """Of J particles."""
        return self.rows.value(w) + self._added(w)[0]

    def gradient(self, w: Array) -> Array:
        """Shaped like w."""
        return self.rows.gradient(w) + self._added(w)[1]

    def value_and_gradient(self, w: Array) -> tuple[Float[Array, " J"], Array]:
        """Both."""
        value, gradient = self.rows.value_and_gradient(w)
        more, slope = self._added(w)
        return value + more, gradient + slope

    def curvature(self, w: Array) -> Float[Array, "K K"]:
        """That of the sample, corrected; at ŵ that of all rows."""
        return self.rows.curvature(w) + self.spread

    def search_curvature(self, w: Array) -> Float[Array, "K K"]:
        """Likewise."""
        return self.rows.search_curvature(w) + self.spread

    def hessian(self, w: Array) -> Float[Array, "K K"]:
        """Likewise."""
        return self.rows.hessian(w) + self.spread

    def quadrature_error(self, w: Array) -> Float[Array, " J"]:
        """That of the sample, which counts as often as all rows."""
        return self.rows.quadrature_error(w)

    def compose(self, matrix: Float[Array, "M L"]) -> AbstractDataTerm:
        """Not there: a place among the coordinates need not be one of fewer."""
        raise NotImplementedError("A term that is right at one place has no form in other coordinates.")

    def _added(self, w: Array) -> tuple[Float[Array, " J"], Array]:
        apart = w.reshape(w.shape[0], -1) - self.centre
        pushed = apart @ self.spread
        value = self.constant + apart @ self.slope + 0.5 * jnp.sum(apart * pushed, axis=1)
        return value, (self.slope + pushed).reshape(w.shape)


def corrected(
    rows: FactorisedTerm,
    centre: Float[np.ndarray, " K"],
    here: tuple[float, Float[np.ndarray, " K"], Float[np.ndarray, "K K"]],
    whole: tuple[float, Float[np.ndarray, " K"], Float[np.ndarray, "K K"]],
    factor: Float[np.ndarray, "K K"],
) -> CorrectedTerm:
    """The term of a sample, corrected.

    Arguments:
        rows: that of the sample.
        centre: ŵ.
        here: value, slope and second derivatives of the sample's term at ŵ, without the prior.
        whole: those of all rows.
        factor: Cholesky factor of the curvature of V at ŵ.
    """
    value, slope, spread = np.asarray(whole[0] - here[0]), whole[1] - here[1], whole[2] - here[2]
    lowest = whole[0] + 0.5 * float(centre @ centre)
    return CorrectedTerm(rows, centre, value, slope, spread, np.asarray(lowest), factor)
