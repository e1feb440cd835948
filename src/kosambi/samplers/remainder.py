r"""What Laplace's approximation leaves of the potential, row by row, so that a step costs two products and no more.

In the frame of the mode, w = ŵ + A v with A Aᵀ = H⁻¹ and H = I + Σ_n h_n ψ_nψ_nᵀ, let δ_n = ψ_nᵀA v be the change of
the latent value of row n. Since AᵀHA = I, |A v|² = |v|² − Σ_n h_n δ_n², and

    V = V̂ + ĝᵀv + ½|v|² + Σ_n [c_n(f̂_n + δ_n) − c_n(f̂_n) − c'_n(f̂_n) δ_n − ½ h_n δ_n²],   ĝ = Aᵀ∇V(ŵ) ≈ 0.

The matrix of ψ_nᵀA is made once. Then V and its gradient take the two products that give δ and collect the slopes,
where `Frame` takes two more with A; only the coordinates that are watched for convergence still need one.

The brackets are of third order in δ, so that an error of δ hardly moves them: products in float32, everything else in
float64, leave V right to a small part of a nat, which is looked at before it is relied on
(`kosambi.samplers.normal_frames`). The acceptance of a proposal
is computed with the same V at both ends and the same gradients in both directions, so that the draws are exact for it.

The brackets are functions of one number for each row. Where a cost is an integral over f they come from a table
(`kosambi.samplers.row_tables`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from jaxtyping import Float

from kosambi._core.precision import Module
from kosambi._core.types import Array, Key
from kosambi.likelihoods import AbstractLikelihood
from kosambi.likelihoods.quadrature import Rule
from kosambi.samplers.row_jumps import RowJumps, jumped
from kosambi.samplers.row_tables import RowTable, interpolated
from kosambi.target.data_terms import largest_slope


class Rows(NamedTuple):
    """Everything that belongs to a row, (blocks, rows of a block)."""

    psi: Float[Array, "B R L"]
    """ψ_nᵀA, in the precision of the products."""
    y: Float[Array, "B R"]
    centre: Float[Array, "B R"]
    """f̂, the latent values at the mode."""
    weights: Float[Array, "B R"] | None
    deviation: Float[Array, "B R"] | None
    cost: Float[Array, "B R"]
    slope: Float[Array, "B R"]
    curvature: Float[Array, "B R"]
    """c, c' and h at the mode, with weights."""


class RemainderFrame(Module):
    """V around a mode as `kosambi.target.modes.Frame` has it, from the remainder of each row; one latent function."""

    likelihood: AbstractLikelihood | None
    """None where rows come from a table."""
    rule: Rule | None
    rows: tuple[Rows | RowTable, ...]
    mode: Float[Array, " K"]
    root: Float[Array, "K K"]
    spread: Float[Array, "K K"]
    """The root in the precision of the products."""
    pull: Float[Array, " K"]
    lowest: Float[Array, ""]
    """V at the mode, in float64, in which V is summed up."""
    products: str = eqx.field(static=True, default="highest")
    """Digits of products in float32: all of them, or by "default" those that a device multiplies fastest."""
    jumps: RowJumps | None = None
    """Of rows whose remainders are far from small, if there are any; for costs that are not convex."""

    @property
    def is_single(self) -> bool:
        """Whether products are in float32."""
        return bool(self.spread.dtype == np.float32)

    @property
    def is_tabulated(self) -> bool:
        """Whether the costs of rows come from a table."""
        return self.likelihood is None

    def whitened(self, v: Float[Array, "J K"]) -> Float[Array, "J K"]:
        """w = ŵ + A v, in float64; of NumPy arrays without anything compiled."""
        return self.mode + v @ self.root.T

    def watched(self, v: Float[Array, "J K"]) -> Float[Array, "J K"]:
        """w to the precision of the products, for what a run looks at; traceable."""
        return self.mode + self._product(v.astype(self.spread.dtype), self.spread.T).astype(v.dtype)

    def inverse(self, w: Float[Array, "J K"]) -> Float[Array, "J K"]:
        """v = A⁻¹(w − ŵ), traceable."""
        return jsl.solve_triangular(self.root, (w - self.mode).T, lower=False).T

    def potential(self, v: Float[Array, "J K"]) -> Float[Array, " J"]:
        """The potential V at w = ŵ + A v, traceable."""
        return self.value_and_gradient(v)[1]

    def value_and_gradient(self, v: Float[Array, "J K"]) -> tuple[Array, Array, Array]:
        """Whitened coordinates (to the precision of the products), V, and its gradient in v; traceable.

        Where coordinates are not asked for, a compiler leaves them out.
        """
        narrow = v.astype(self.spread.dtype)
        value, gradient = jnp.zeros(v.shape[0], self.lowest.dtype), jnp.zeros_like(v)

        def add(sums: tuple[Array, Array], rows: Any) -> tuple[tuple[Array, Array], None]:
            return jax.tree.map(jnp.add, sums, self._of(rows, narrow)), None

        for group in self.rows:
            (value, gradient), _ = jax.lax.scan(add, (value, gradient), group)
        quadratic = v @ self.pull + 0.5 * jnp.sum(jnp.square(v), axis=1)
        value = self.lowest + quadratic.astype(value.dtype) + value
        return self.watched(v), value, self.pull + v + gradient

    def jumped(self, key: Key, v: Float[Array, "J K"]) -> Float[Array, "J K"]:
        """Particles after jumps of the rows that have them; traceable."""
        assert self.jumps is not None
        (rows,) = self.rows
        dtype = self.spread.dtype
        change = self._product(v.astype(dtype), rows.psi.reshape(-1, rows.psi.shape[2]).T)
        # Costs, too, in the precision of the products: half the time, and their sum is right to a thousandth of a nat.
        narrow = jax.tree.map(lambda a: a.astype(dtype) if jnp.issubdtype(a.dtype, jnp.floating) else a, self)

        def of_block(block: tuple[Any, Array]) -> Array:
            return jnp.sum(narrow._remainders(*block)[0], axis=1, dtype=v.dtype)

        def remainder(change: Array) -> Array:
            blocks = jnp.swapaxes(change.reshape(len(change), *rows.psi.shape[:2]), 0, 1)
            # One after the other: blocks of tables differ in how many terms they take.
            return jnp.sum(jax.lax.map(of_block, (narrow.rows[0], blocks)), axis=0)

        return jumped(key, self.jumps._replace(effect=narrow.jumps.effect), v, change, remainder)

    def _of(self, rows: Rows | RowTable, v: Float[Array, "J L"]) -> tuple[Float[Array, " J"], Float[Array, "J L"]]:
        """The sum of the remainders of a block of rows, and its gradient."""
        wide = self.mode.dtype
        value, left = self._remainders(rows, self._product(v, rows.psi.T))
        # What is left of a slope, cut where its products with ψ would overflow.
        limit = largest_slope(rows.psi.dtype)
        left = jnp.clip(left, -limit, limit)
        gradient = self._product(left.astype(rows.psi.dtype), rows.psi).astype(wide)
        return jnp.sum(value, axis=1, dtype=self.lowest.dtype), gradient

    def _product(self, left: Array, right: Array) -> Array:
        """With all digits of its factors, unless fewer were asked for."""
        return jnp.matmul(left, right, precision=self.products)

    def _remainders(
        self, rows: Rows | RowTable, change: Float[Array, "J R"]
    ) -> tuple[Float[Array, "J R"], Float[Array, "J R"]]:
        """Those of a block of rows, and their slopes."""
        if isinstance(rows, RowTable):
            # In the precision of the products, too: errors of many rows, each a ten-millionth, do not add up to much.
            return interpolated(rows.width, rows.coefficients, rows.degree, change.astype(rows.psi.dtype))
        assert self.likelihood is not None
        change = change.astype(self.mode.dtype)
        cost, slope = costs_and_slopes(self.likelihood, self.rule, rows, rows.centre + change)
        value = cost - rows.cost - change * (rows.slope + 0.5 * rows.curvature * change)
        return value, slope - rows.slope - rows.curvature * change


def costs_and_slopes(
    likelihood: AbstractLikelihood, rule: Rule | None, rows: Any, f: Float[Array, "J R"]
) -> tuple[Float[Array, "J R"], Float[Array, "J R"]]:
    """Costs and slopes, with weights, of whatever has `y`, `weights` and `deviation` of rows."""
    if rule is None:
        cost, slope = likelihood.raw_cost(rows.y, f), likelihood.raw_derivative(rows.y, f)
    else:
        cost = likelihood.raw_expected_cost(rows.y, f, rows.deviation, rule)
        slope = likelihood.raw_expected_derivative(rows.y, f, rows.deviation, rule)
    limit = largest_slope(slope.dtype)
    slope = jnp.clip(slope, -limit, limit)
    if rows.weights is None:
        return cost, slope
    # An observation of weight zero is absent, also where its cost is infinite.
    return jnp.where(rows.weights > 0, rows.weights * cost, 0.0), rows.weights * slope
