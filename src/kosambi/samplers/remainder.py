r"""What Laplace's approximation leaves of the potential, row by row, so that a step costs two products and no more.

In the frame of the mode, w = ŵ + A v with A Aᵀ = H⁻¹ and H = I + Σ_n h_n ψ_nψ_nᵀ, let δ_n = ψ_nᵀA v be the change of
the latent value of row n. Since AᵀHA = I, |A v|² = |v|² − Σ_n h_n δ_n², and

    V = V̂ + ĝᵀv + ½|v|² + Σ_n [c_n(f̂_n + δ_n) − c_n(f̂_n) − c'_n(f̂_n) δ_n − ½ h_n δ_n²],   ĝ = Aᵀ∇V(ŵ) ≈ 0.

The matrix of ψ_nᵀA is made once. Then V and its gradient take the two products that give δ and collect the slopes,
where `Frame` takes two more with A; only the coordinates that are watched for convergence still need one.

The brackets are of third order in δ, so that an error of δ hardly moves them: products in float32, everything else in
float64, leave V right to a small part of a nat, which is looked at before it is relied on. The acceptance of a proposal
is computed with the same V at both ends and the same gradients in both directions, so that the draws are exact for it.

The brackets are functions of one number for each row. Where a cost is an integral over f they come from a table
(`kosambi.samplers.row_tables`).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from jaxtyping import Float

from kosambi._core.linalg import all_blas_threads, host_blocks, is_for_host
from kosambi._core.precision import Module
from kosambi._core.types import Array
from kosambi.likelihoods import AbstractLikelihood
from kosambi.likelihoods.quadrature import Rule
from kosambi.samplers.row_tables import RowTable, interpolated, tabulated, total, widths
from kosambi.target import Target
from kosambi.target.data_terms import FactorisedTerm, largest_slope
from kosambi.target.host_newton import HostPotential, RowCosts
from kosambi.target.marginal_term import MarginalTerm
from kosambi.target.modes import Modes
from kosambi.target.newton import SHARES
from kosambi.target.row_blocks import ACCELERATOR_FACTOR

LARGEST_ERROR = 0.01
"""Nats by which V may be off where it is compared with its definition."""
# Draws of Laplace's approximation at which it is, and how wide they are spread.
_LOOKS, _WIDTH = 6, 1.2
# Latent values that are held at once: what fits a core's cache.
_VALUES, _VALUES_QUADRATURE = 2**18, 2**17
# What is zero for a row that fills a block up.
_COUNTING = ("weights", "cost", "slope", "curvature", "coefficients")
# Numbers from which a product is worth several threads, and rows of a block of it.
_MUCH, _ROWS = 2**33, 2**15


class _Rows(NamedTuple):
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
    rows: tuple[_Rows | RowTable, ...]
    mode: Float[Array, " K"]
    root: Float[Array, "K K"]
    spread: Float[Array, "K K"]
    """The root in the precision of the products."""
    pull: Float[Array, " K"]
    lowest: Float[Array, ""]
    """V at the mode."""

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

    def inverse(self, w: Float[Array, "J K"]) -> Float[Array, "J K"]:
        """v = A⁻¹(w − ŵ), traceable."""
        return jsl.solve_triangular(self.root, (w - self.mode).T, lower=False).T

    def potential(self, v: Float[Array, "J K"]) -> Float[Array, " J"]:
        """The potential V at w = ŵ + A v, traceable."""
        return self.value_and_gradient(v)[1]

    def value_and_gradient(self, v: Float[Array, "J K"]) -> tuple[Array, Array, Array]:
        """Whitened coordinates (to the precision of the products), V, and its gradient in v; traceable."""
        narrow = v.astype(self.spread.dtype)
        w = self.mode + _product_of(narrow, self.spread.T).astype(v.dtype)
        value, gradient = jnp.zeros(v.shape[0], v.dtype), jnp.zeros_like(v)

        def add(sums: tuple[Array, Array], rows: Any) -> tuple[tuple[Array, Array], None]:
            return jax.tree.map(jnp.add, sums, self._of(rows, narrow)), None

        for group in self.rows:
            (value, gradient), _ = jax.lax.scan(add, (value, gradient), group)
        value = self.lowest + v @ self.pull + 0.5 * jnp.sum(jnp.square(v), axis=1) + value
        return w, value, self.pull + v + gradient

    def _of(self, rows: _Rows | RowTable, v: Float[Array, "J L"]) -> tuple[Float[Array, " J"], Float[Array, "J L"]]:
        """The remainders of a block of rows and their gradient."""
        wide = self.mode.dtype
        change = _product_of(v, rows.psi.T)
        if isinstance(rows, RowTable):
            # In the precision of the products, too: errors of many rows, each a ten-millionth, do not add up to much.
            value, left = interpolated(rows.width, rows.coefficients, change)
        else:
            assert self.likelihood is not None
            change = change.astype(wide)
            cost, slope = _costs(self.likelihood, self.rule, rows, rows.centre + change)
            value = cost - rows.cost - change * (rows.slope + 0.5 * rows.curvature * change)
            left = slope - rows.slope - rows.curvature * change
        # What is left of a slope, cut where its products with ψ would overflow.
        limit = largest_slope(rows.psi.dtype)
        left = jnp.clip(left, -limit, limit)
        return jnp.sum(value, axis=1, dtype=wide), _product_of(left.astype(rows.psi.dtype), rows.psi).astype(wide)


def _product_of(left: Array, right: Array) -> Array:
    """In the precision of its factors, also on accelerators that would take fewer digits of float32."""
    return jnp.matmul(left, right, precision="highest")


def _costs(
    likelihood: AbstractLikelihood, rule: Rule | None, rows: _Rows, f: Float[Array, "J R"]
) -> tuple[Float[Array, "J R"], Float[Array, "J R"]]:
    """Costs and slopes, with weights."""
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


def remainder_frame(
    target: Target, modes: Modes, size: int, num_chains: int, use_tables: bool = True
) -> RemainderFrame | None:
    """V around the most probable mode; None where it is no sum over rows of one latent function, or not precise.

    Arguments:
        target: the potential.
        modes: its modes.
        size: coordinates, those that are added behind the target's included.
        num_chains: how many chains move at once.
        use_tables: whether rows may come from a table.
    """
    term = target.term
    if not isinstance(term, FactorisedTerm | MarginalTerm) or not is_for_host(term.psi.size):
        return None
    if term.likelihood.num_latents != 1 or term.likelihood.num_rows is not None:
        # Its own numbers for each row are in no block.
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        around = _Around(term, modes)
        v = _WIDTH * np.random.default_rng(0).normal(size=(_LOOKS, len(around.mode)))
        right = np.array([around.potential.value(each) for each in around.mode + v @ around.root.T])
        right -= around.lowest + v @ around.pull + 0.5 * np.sum(np.square(v), axis=1)
        for dtype in (np.float32, np.float64):
            psi = _product(np.asarray(term.psi), around.root, dtype)
            change = (v.astype(dtype) @ psi.T).astype(np.float64)
            for curvature in _curvatures(around.rows, term.likelihood.is_convex):
                if not _is_right(around.remainders(curvature, change), right):
                    continue
                tables = around.tables(psi, curvature, change, right) if use_tables else None
                if tables is not None:
                    return around.frame(None, None, tables, size, num_chains)
                if isinstance(term, FactorisedTerm):
                    rows = around.costs(psi, curvature)
                    return around.frame(term.likelihood, term.rule, (rows,), size, num_chains)
    return None


def _is_right(found: Float[np.ndarray, " L"], right: Float[np.ndarray, " L"]) -> bool:
    return bool(np.nanmax(np.abs(found - right)) <= LARGEST_ERROR)


def _curvatures(rows: RowCosts, is_convex: bool) -> tuple[np.ndarray, ...]:
    """Those that the search for the mode may have ended with."""
    if is_convex:
        return (rows.curvature,)
    mixed = (rows.second + share * (rows.search_curvature - rows.second) for share in SHARES)
    return (*mixed, rows.search_curvature)


def _product(psi: Float[np.ndarray, "N M"], root: Float[np.ndarray, "M M"], dtype: Any) -> Float[np.ndarray, "N M"]:
    """ψA, block by block, so that no second matrix of this size is held in float64."""
    made = np.empty(psi.shape, dtype)
    narrow = root.astype(dtype)
    if psi.size * root.shape[1] <= _MUCH:
        for part in host_blocks(len(psi), _ROWS):
            made[part] = psi[part] @ root
        return made
    with all_blas_threads():
        for part in host_blocks(len(psi), _ROWS):
            np.matmul(psi[part].astype(dtype), narrow, out=made[part])
    return made


class _Around:
    """A sum over rows and what is known of it at its most probable mode; makes frames."""

    def __init__(self, term: FactorisedTerm | MarginalTerm, modes: Modes) -> None:
        self.term, self.potential = term, HostPotential(term)
        self.positions = np.asarray(modes.positions)
        self.mode, self.root = self.positions[0], np.asarray(modes.roots[0])
        self.lowest = float(modes.potentials[0])
        self.centre, self.rows = self.potential.latent(self.mode), self.potential.rows(self.mode)
        self.pull = self.root.T @ self.potential.gradient(self.mode, self.rows)

    def remainders(self, curvature: np.ndarray, change: Float[np.ndarray, "L N"]) -> Float[np.ndarray, " L"]:
        """The sum of the brackets for given changes of the latent values."""
        quadratic = change * (self.rows.slope + 0.5 * curvature * change)
        costs = np.stack([self.potential.costs(self.centre + each).cost for each in change])
        return np.sum(costs - self.rows.cost - quadratic, axis=1)

    def tables(
        self, psi: np.ndarray, curvature: np.ndarray, change: np.ndarray, right: np.ndarray
    ) -> tuple[RowTable, ...] | None:
        """Tables whose sums are `right` for `change`; None where no polynomials will do."""
        if isinstance(self.term, FactorisedTerm) and self.term.rule is None:
            # A cost that is no integral takes as little as its polynomial.
            return None
        width = widths(psi, np.asarray(self.term.psi), self.positions)
        groups = tabulated(self.potential, self.centre, self.rows, curvature, width)
        if groups is None:
            return None
        # As they are used, in the precision of the products.
        groups = [group._replace(coefficients=group.coefficients.astype(psi.dtype)) for group in groups]
        if not _is_right(total(groups, width, change), right):
            return None
        tables = (RowTable(psi[group.rows], width[group.rows], group.coefficients) for group in groups)
        return tuple(RowTable(*(each.astype(psi.dtype) for each in table)) for table in tables)

    def costs(self, psi: np.ndarray, curvature: np.ndarray) -> _Rows:
        """What the brackets are computed from."""
        term, rows = self.term, self.rows
        return _Rows(psi, term.y, self.centre, term.weights, term.deviation, rows.cost, rows.slope, curvature)

    def frame(
        self,
        likelihood: AbstractLikelihood | None,
        rule: Rule | None,
        rows: tuple[_Rows | RowTable, ...],
        size: int,
        num_chains: int,
    ) -> RemainderFrame:
        """Rows in blocks, and coordinates up to `size` that no row depends on."""
        more, dtype = size - len(self.mode), rows[0].psi.dtype
        values = _VALUES if rule is None else _VALUES_QUADRATURE
        values *= 1 if jax.default_backend() == "cpu" else ACCELERATOR_FACTOR
        below = np.pad(self.root, ((0, more), (0, more)))
        last = np.arange(len(self.root), size)
        below[last, last] = 1.0
        return RemainderFrame(
            likelihood,
            rule,
            tuple(_in_blocks(group, math.ceil(len(group.psi) * num_chains / values), more) for group in rows),
            np.pad(self.mode, (0, more)),
            below,
            below.astype(dtype),
            np.pad(self.pull, (0, more)),
            np.asarray(self.lowest),
        )


def _in_blocks(rows: _Rows | RowTable, blocks: int, more: int) -> _Rows | RowTable:
    """Rows in so many blocks of equal height, with `more` coordinates that they do not depend on.

    Rows that are missing are like the first one, and count for nothing.
    """
    num_rows = len(rows.psi)
    height = math.ceil(num_rows / blocks)
    missing = blocks * height - num_rows
    if missing and isinstance(rows, _Rows) and rows.weights is None:
        rows = rows._replace(weights=np.ones(num_rows))

    def placed(name: str, array: Any) -> Any:
        if array is None:
            return None
        is_table = name == "coefficients"
        array = np.asarray(array).T if is_table else np.asarray(array)
        if missing:
            extra = np.zeros_like(array[:1]) if name in _COUNTING else array[:1]
            array = np.concatenate([array, np.repeat(extra, missing, axis=0)])
        array = array.reshape(blocks, height, *array.shape[1:])
        return np.ascontiguousarray(np.swapaxes(array, 1, 2)) if is_table else array

    rows = rows._replace(psi=np.pad(rows.psi, ((0, 0), (0, more)))) if more else rows
    return type(rows)(*(placed(name, array) for name, array in rows._asdict().items()))
