"""Frames of remainders: around the mode, or with the mean curvature at particles; checked before they are relied on."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from kosambi._core.linalg import all_blas_threads, host_blocks, is_for_host
from kosambi._core.precision import lift, with_fields
from kosambi.likelihoods import AbstractLikelihood
from kosambi.likelihoods.quadrature import Rule
from kosambi.samplers.base import AnyFrame
from kosambi.samplers.precisions import DOUBLE, Precision
from kosambi.samplers.remainder import RemainderFrame, Rows
from kosambi.samplers.row_jumps import RowJumps, row_jumps
from kosambi.samplers.row_tables import MANY_ROWS, RowTable, is_long, tabulated, total, widths
from kosambi.target import Target
from kosambi.target.data_terms import FactorisedTerm
from kosambi.target.host_newton import HostPotential, RowCosts, inverse_root
from kosambi.target.marginal_term import MarginalTerm
from kosambi.target.modes import Modes
from kosambi.target.newton import SHARES
from kosambi.target.row_blocks import values_at_once

LARGEST_ERROR = 0.01
"""Nats by which V may be off where it is compared with its definition."""
# Draws of Laplace's approximation at which it is, and how wide they are spread.
_LOOKS, _WIDTH = 6, 1.2
# Latent values that are held at once: what fits a core's cache; fewer where degrees of polynomials may differ by much.
_VALUES, _VALUES_QUADRATURE, _VALUES_LONG = 2**18, 2**17, 2**14
# Values of rows whose jumps are prepared that are computed at once.
_AT_ONCE = 2**13
# What is zero for a row that fills a block up.
_COUNTING = ("weights", "cost", "slope", "curvature", "coefficients", "degree")
# How many times as large ψ may be beside an accelerator where particles are in float32: V of a plain frame would be
# right to a part of its own size there, V of this one to a part of what Laplace's approximation leaves.
_MORE_FOR_SINGLE = 2**8
# Numbers from which a product is worth several threads, and rows of a block of it.
_MUCH, _ROWS = 2**33, 2**15


def remainder_frame(
    target: Target,
    modes: Modes,
    size: int,
    num_chains: int,
    use_tables: bool = True,
    curvature: Float[np.ndarray, " N"] | None = None,
    precision: Precision = DOUBLE,
) -> RemainderFrame | None:
    """V around the most probable mode; None where it is no sum over rows of one latent function, or not precise.

    Arguments:
        target: the potential.
        modes: its modes.
        size: coordinates, those that are added behind the target's included.
        num_chains: how many chains move at once.
        use_tables: whether rows may come from a table.
        curvature: h of the normal approximation where it is not that of the mode; never negative.
        precision: of the particles; in float32 there is a frame of float32 or none.
    """
    term = target.term
    if not isinstance(term, FactorisedTerm | MarginalTerm):
        return None
    if not is_for_host(term.psi.size if precision.is_double else term.psi.size // _MORE_FOR_SINGLE):
        return None
    if term.likelihood.num_latents != 1 or term.likelihood.num_rows is not None:
        # Its own numbers for each row are in no block.
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        around = _Around(term, modes, curvature)
        v = _WIDTH * np.random.default_rng(0).normal(size=(_LOOKS, len(around.mode)))
        right = np.array([around.potential.value(each) for each in around.mode + v @ around.root.T])
        right -= around.lowest + v @ around.pull + 0.5 * np.sum(np.square(v), axis=1)
        for dtype in (np.float32, np.float64) if precision.is_double else (np.float32,):
            psi = _product(np.asarray(term.psi), around.root, dtype)
            change = (v.astype(dtype) @ psi.T).astype(np.float64)
            known = _curvatures(around.rows, term.likelihood.is_convex) if curvature is None else (curvature,)
            for own in known:
                if not _is_right(np.sum(around.remainders(own, change), axis=1), right):
                    continue
                tables = around.tables(psi, own, change, right) if use_tables else None
                jumps = None if term.likelihood.is_convex else around.jumps(psi, own, size)
                if tables is not None:
                    order, groups = tables
                    jumps = None if jumps is None else jumps._replace(effect=jumps.effect[:, order])
                    return around.frame(None, None, groups, size, num_chains, jumps, precision.products)
                if isinstance(term, FactorisedTerm):
                    rows = around.costs(psi, own)
                    settings = (size, num_chains, jumps, precision.products)
                    return around.frame(term.likelihood, term.rule, (rows,), *settings)
    return None


def lifted(frame: AnyFrame, precision: Precision) -> AnyFrame:
    """A frame on the device, in the precision of the particles; V of a sum over rows stays in float64.

    With particles in float64 products that are in float32 stay so.
    """
    if precision.is_double:
        return lift(frame)
    narrow = lift(frame, precision.dtype)
    return with_fields(narrow, lowest=lift(frame.lowest)) if isinstance(frame, RemainderFrame) else narrow


def mean_curvatures(target: Target, w: Float[np.ndarray, "J K"]) -> Float[np.ndarray, " N"]:
    """The second derivative of every row's cost, averaged over particles and cut at zero; for one latent function.

    I + Σ_n h_n ψ_nψ_nᵀ with these is the Fisher information of the posterior as the particles have it, whose inverse
    suits steps of a Langevin diffusion best (Titsias 2023); at the mode a cost that is not convex is steeper, or
    flatter, than it is where most particles are.
    """
    term = target.term
    assert isinstance(term, FactorisedTerm | MarginalTerm)
    potential = HostPotential(term)
    total = np.zeros(len(potential.offset))
    for each in w:
        total += potential.rows(each).second
    return np.maximum(total / len(w), 0.0)


def _is_right(found: Float[np.ndarray, " L"], right: Float[np.ndarray, " L"]) -> bool:
    error = np.abs(found - right)
    known = error[~np.isnan(error)]
    return bool(len(known) and np.max(known) <= LARGEST_ERROR)


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

    def __init__(
        self, term: FactorisedTerm | MarginalTerm, modes: Modes, curvature: Float[np.ndarray, " N"] | None
    ) -> None:
        self.term, self.potential = term, HostPotential(term)
        self.positions = np.asarray(modes.positions)
        self.mode, self.root = self.positions[0], np.asarray(modes.roots[0])
        if curvature is not None:
            self.root = inverse_root(self.potential.normal_factor(curvature))
        self.lowest = float(modes.potentials[0])
        self.centre, self.rows = self.potential.latent(self.mode), self.potential.rows(self.mode)
        self.pull = self.root.T @ self.potential.gradient(self.mode, self.rows)

    def remainders(self, curvature: np.ndarray, change: Float[np.ndarray, "L N"]) -> Float[np.ndarray, "L N"]:
        """The brackets for given changes of the latent values."""
        quadratic = change * (self.rows.slope + 0.5 * curvature * change)
        costs = np.stack([self.potential.costs(self.centre + each).cost for each in change])
        return costs - self.rows.cost - quadratic

    def jumps(self, psi: np.ndarray, curvature: np.ndarray, size: int) -> RowJumps | None:
        """Those of rows that need them, where rows are few enough to be of one group."""
        if len(psi) > MANY_ROWS:
            return None

        def remainders(rows: np.ndarray, change: np.ndarray) -> np.ndarray:
            # Always as many at a time, so that one program serves all numbers of rows.
            found, at = np.empty(len(rows)), self.rows
            for first in range(0, len(rows), _AT_ONCE):
                part = slice(first, first + _AT_ONCE)
                own, moved = (np.resize(each[part], _AT_ONCE) for each in (rows, change))
                quadratic = moved * (at.slope[own] + 0.5 * curvature[own] * moved)
                left = self.potential.at(own).costs(self.centre[own] + moved).cost - at.cost[own] - quadratic
                found[part] = left[: len(found[part])]
            return found

        return row_jumps(psi, self.pull, self.rows.slope, curvature, remainders, size)

    def tables(
        self, psi: np.ndarray, curvature: np.ndarray, change: np.ndarray, right: np.ndarray
    ) -> tuple[Int[np.ndarray, " N"], tuple[RowTable, ...]] | None:
        """The order of rows, and tables whose sums are `right` for `change`; None where no polynomials will do."""
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
        return np.concatenate([group.rows for group in groups]), tuple(
            RowTable(psi[group.rows], width[group.rows].astype(psi.dtype), group.coefficients, group.degree)
            for group in groups
        )

    def costs(self, psi: np.ndarray, curvature: np.ndarray) -> Rows:
        """What the brackets are computed from."""
        term, rows = self.term, self.rows
        return Rows(psi, term.y, self.centre, term.weights, term.deviation, rows.cost, rows.slope, curvature)

    def frame(
        self,
        likelihood: AbstractLikelihood | None,
        rule: Rule | None,
        rows: tuple[Rows | RowTable, ...],
        size: int,
        num_chains: int,
        jumps: RowJumps | None,
        products: str,
    ) -> RemainderFrame:
        """Rows in blocks, and coordinates up to `size` that no row depends on."""
        more, dtype = size - len(self.mode), rows[0].psi.dtype

        def blocks(group: Rows | RowTable) -> int:
            values = _VALUES if rule is None else _VALUES_QUADRATURE
            values = _VALUES_LONG if isinstance(group, RowTable) and is_long(group) else values
            values = values_at_once(values, is_quadrature=rule is not None or isinstance(group, RowTable))
            return math.ceil(len(group.psi) * num_chains / values)

        below = np.pad(self.root, ((0, more), (0, more)))
        last = np.arange(len(self.root), size)
        below[last, last] = 1.0
        placed = tuple(_in_blocks(group, blocks(group), more) for group in rows)
        if jumps is not None:
            # Rows that fill blocks up do not move.
            number = int(np.prod(placed[0].psi.shape[:2])) - jumps.effect.shape[1]
            jumps = jumps._replace(effect=np.pad(jumps.effect, ((0, 0), (0, number))))
        return RemainderFrame(
            likelihood,
            rule,
            placed,
            np.pad(self.mode, (0, more)),
            below,
            below.astype(dtype),
            np.pad(self.pull, (0, more)),
            np.asarray(self.lowest),
            products,
            jumps,
        )


def _in_blocks(rows: Rows | RowTable, blocks: int, more: int) -> Rows | RowTable:
    """Rows in so many blocks of equal height, with `more` coordinates that they do not depend on.

    Rows that are missing are like the first one, and count for nothing.
    """
    num_rows = len(rows.psi)
    height = math.ceil(num_rows / blocks)
    missing = blocks * height - num_rows
    if missing and isinstance(rows, Rows) and rows.weights is None:
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
