r"""The data's part of the potential with neighbours: f is known up to a normal residual, which is integrated out.

    D(w) = Σ_n −log E_ξ exp(−weight_n c(y_n, b_n + ψ_nᵀw + √D_n ξ))

so that each observation's own likelihood is exact. What ψ, b and D are is the matter of `kosambi.target.neighbors`; how
the integral is taken that of `kosambi.likelihoods.marginals`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.types import Array
from kosambi.likelihoods import AbstractLikelihood
from kosambi.likelihoods.marginals import Marginal, Site
from kosambi.likelihoods.quadrature import Rule, trapezoidal
from kosambi.target.data_terms import AbstractDataTerm, largest_slope
from kosambi.target.row_blocks import sum_over_rows

# Latent values of one block: with all nodes of each they fit a core's cache.
MAX_LATENT_VALUES = 2**14


class MarginalTerm(AbstractDataTerm):
    """A cost that is a sum over data, each with its residual integrated out; for one latent function."""

    likelihood: AbstractLikelihood
    psi: Float[Array, "N M"]
    y: Float[Array, " N"]
    offset: Float[Array, " N"]
    """b."""
    weights: Float[Array, " N"] | None
    deviation: Float[Array, " N"]
    """√D."""
    precision: Float[Array, " N"]
    """W of each observation's own site, which the nodes follow."""
    location: Float[Array, " N"]
    """t of that site."""
    rule: Rule | None
    """None where the integral has a closed form."""

    def marginal(self, f: Float[Array, "... N"]) -> Marginal:
        """The cost of every row with b + ψᵀw = f, and its derivatives; traceable."""
        if self.rule is None:
            return self.likelihood.raw_closed_marginal(self.y, self.weights, f, self.deviation)
        site = Site(self.precision, self.location)
        return self.likelihood.raw_marginal(self.y, self.weights, f, self.deviation, site, self.rule)

    def value(self, w: Array) -> Float[Array, " J"]:
        """D(w_j), in blocks of rows."""
        start = jnp.zeros(w.shape[0], w.dtype)
        return self._over_blocks(lambda part: jnp.sum(part.marginal(part._latent(w)).cost, axis=1), w, start)

    def gradient(self, w: Array) -> Array:
        """Σ_n (tilted E c'_n) ψ_n, in blocks of rows."""
        return self._over_blocks(lambda part: part._slopes(part.marginal(part._latent(w))), w, jnp.zeros_like(w))

    def value_and_gradient(self, w: Array) -> tuple[Float[Array, " J"], Array]:
        """Both from the same nodes."""

        def both(part: MarginalTerm) -> tuple[Array, Array]:
            found = part.marginal(part._latent(w))
            return jnp.sum(found.cost, axis=1), part._slopes(found)

        return self._over_blocks(both, w, (jnp.zeros(w.shape[0], w.dtype), jnp.zeros_like(w)))

    def curvature(self, w: Array) -> Float[Array, "K K"]:
        """Σ_n h_n ψ_nψ_nᵀ with h_n ≥ 0."""
        return self._spread(w, lambda found: found.positive)

    def hessian(self, w: Array) -> Float[Array, "K K"]:
        """Σ_n (tilted E c''_n − Var c'_n) ψ_nψ_nᵀ."""
        return self._spread(w, lambda found: found.second)

    def quadrature_error(self, w: Array) -> Float[Array, " J"]:
        """Twice the difference to a rule with half the step, summed over data without cancellation."""
        start = jnp.zeros(w.shape[0], w.dtype)
        if self.rule is None:
            return start
        finer = trapezoidal(2 * self.rule.nodes.shape[0] - 1)

        def error(part: MarginalTerm) -> Array:
            f, site = part._latent(w), Site(part.precision, part.location)
            other = part.likelihood.raw_marginal(part.y, part.weights, f, part.deviation, site, finer)
            return 2.0 * jnp.sum(jnp.abs(part.marginal(f).cost - other.cost), axis=1)

        return self._over_blocks(error, w, start)

    def compose(self, matrix: Float[Array, "M L"]) -> AbstractDataTerm:
        """ψ·matrix in place of ψ."""
        return self.at_rows((self.psi @ matrix, *self.rows()[1:]))

    def _latent(self, w: Array) -> Array:
        return self.offset + w @ self.psi.T

    def _slopes(self, found: Marginal) -> Array:
        limit = largest_slope(found.slope.dtype)
        return jnp.clip(found.slope, -limit, limit) @ self.psi

    def _spread(self, w: Float[Array, " M"], chosen: Callable[[Marginal], Array]) -> Float[Array, "K K"]:
        def spread(part: MarginalTerm) -> Array:
            h = chosen(part.marginal(part._latent(w[None])))[0]
            return (part.psi * jnp.minimum(h, largest_slope(h.dtype))[:, None]).T @ part.psi

        return self._over_blocks(spread, w[None], jnp.zeros((w.shape[0], w.shape[0]), w.dtype))

    def rows(self) -> tuple[Any, ...]:
        """Everything that has an entry for each row, features first."""
        return self.psi, self.y, self.offset, self.weights, self.deviation, self.precision, self.location

    def at_rows(self, rows: tuple[Any, ...]) -> MarginalTerm:
        """The term of other rows, given as `rows` has them."""
        psi, y, offset, weights, deviation, precision, location = rows
        return MarginalTerm(self.likelihood, psi, y, offset, weights, deviation, precision, location, self.rule)

    def _over_blocks(self, function: Callable[[MarginalTerm], Any], w: Array, start: Any) -> Any:
        return sum_over_rows(
            lambda pieces: function(self.at_rows(pieces)), self.rows(), w.shape[0], MAX_LATENT_VALUES, start
        )


def marginal_term(
    likelihood: AbstractLikelihood,
    psi: Float[np.ndarray, "N M"],
    y: Float[np.ndarray, " N"],
    offset: Float[np.ndarray, " N"],
    weights: Float[np.ndarray, " N"] | None,
    deviation: Float[np.ndarray, " N"],
    site: Site,
    num_nodes: int | None,
) -> MarginalTerm:
    """The term, with a closed form where there is one, and otherwise with as many nodes as are needed."""
    is_closed = num_nodes is None and likelihood.has_closed_marginal(weights is None)
    rule = None if is_closed else likelihood.marginal_rule(deviation, site, num_nodes)
    return MarginalTerm(likelihood, psi, y, offset, weights, deviation, *site, rule)
