r"""What Laplace's approximation leaves of the potential, row by row, so that a step costs two products and no more.

In the frame of the mode, w = ŵ + A v with A Aᵀ = H⁻¹ and H = I + Σ_n h_n ψ_nψ_nᵀ, let δ_n = ψ_nᵀA v be the change of
the latent value of row n. Since AᵀHA = I, |A v|² = |v|² − Σ_n h_n δ_n², and

    V = V̂ + ĝᵀv + ½|v|² + Σ_n [c_n(f̂_n + δ_n) − c_n(f̂_n) − c'_n(f̂_n) δ_n − ½ h_n δ_n²],   ĝ = Aᵀ∇V(ŵ) ≈ 0.

The matrix of ψ_nᵀA is made once. Then V and its gradient take the two products that give δ and collect the slopes,
where `Frame` takes two more with A; only the coordinates that are watched for convergence still need one.

The brackets are of third order in δ, so that an error of δ hardly moves them: products in float32, everything else in
float64, leave V right to a small part of a nat, which is looked at before it is relied on. The acceptance of a proposal
is computed with the same V at both ends and the same gradients in both directions, so that the draws are exact for it.
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
from kosambi.target import Target
from kosambi.target.data_terms import FactorisedTerm, largest_slope
from kosambi.target.host_newton import HostPotential, RowCosts
from kosambi.target.modes import Modes
from kosambi.target.newton import SHARES
from kosambi.target.row_blocks import ACCELERATOR_FACTOR

LARGEST_ERROR = 0.01
"""Nats by which V may be off where it is compared with its definition."""
# Draws of Laplace's approximation at which it is, and how wide they are spread.
_LOOKS, _WIDTH = 6, 1.2
# Latent values that are held at once: what fits a core's cache.
_VALUES, _VALUES_QUADRATURE = 2**18, 2**17
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

    likelihood: AbstractLikelihood
    rule: Rule | None
    rows: _Rows
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
        return bool(self.rows.psi.dtype == np.float32)

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
        start = jnp.zeros(v.shape[0], v.dtype), jnp.zeros_like(v)
        if self.rows.y.shape[0] == 1:
            value, gradient = self._of(jax.tree.map(lambda leaf: leaf[0], self.rows), narrow)
        else:
            (value, gradient), _ = jax.lax.scan(
                lambda total, rows: (jax.tree.map(jnp.add, total, self._of(rows, narrow)), None), start, self.rows
            )
        value = self.lowest + v @ self.pull + 0.5 * jnp.sum(jnp.square(v), axis=1) + value
        return w, value, self.pull + v + gradient

    def _of(self, rows: _Rows, v: Float[Array, "J L"]) -> tuple[Float[Array, " J"], Float[Array, "J L"]]:
        """The remainders of a block of rows and their gradient."""
        wide = rows.y.dtype
        change = _product_of(v, rows.psi.T).astype(wide)
        cost, slope = _costs(self.likelihood, self.rule, rows, rows.centre + change)
        value = jnp.sum(cost - rows.cost - change * (rows.slope + 0.5 * rows.curvature * change), axis=1)
        # What is left of a slope, cut where its products with ψ would overflow.
        limit = largest_slope(rows.psi.dtype)
        left = jnp.clip(slope - rows.slope - rows.curvature * change, -limit, limit)
        return value, _product_of(left.astype(rows.psi.dtype), rows.psi).astype(wide)


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


def remainder_frame(target: Target, modes: Modes, size: int, num_chains: int) -> RemainderFrame | None:
    """V around the most probable mode; None where it is no sum over rows of one latent function, or not precise.

    Arguments:
        target: the potential.
        modes: its modes.
        size: coordinates, those that are added behind the target's included.
        num_chains: how many chains move at once.
    """
    term = target.term
    if not isinstance(term, FactorisedTerm) or term.likelihood.num_latents != 1 or not is_for_host(term.psi.size):
        return None
    if term.likelihood.num_rows is not None:
        # Its own numbers for each row are in no block.
        return None
    potential, mode, root = HostPotential(term), np.asarray(modes.positions[0]), np.asarray(modes.roots[0])
    with np.errstate(over="ignore", invalid="ignore"):
        at_mode = potential.rows(mode)
        pull = root.T @ potential.gradient(mode, at_mode)
        v = _WIDTH * np.random.default_rng(0).normal(size=(_LOOKS, len(mode)))
        right = np.array([potential.value(each) for each in mode + v @ root.T])
        for dtype in (np.float32, np.float64):
            psi = _product(np.asarray(term.psi), root, dtype)
            change = (v.astype(dtype) @ psi.T).astype(np.float64)
            for curvature in _curvatures(at_mode, term.likelihood.is_convex):
                found = _remainders(potential, mode, at_mode, curvature, change)
                found += float(modes.potentials[0]) + v @ pull + 0.5 * np.sum(np.square(v), axis=1)
                if np.nanmax(np.abs(found - right)) <= LARGEST_ERROR:
                    return _frame(potential, modes, at_mode, curvature, psi, pull, size, num_chains)
    return None


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


def _remainders(
    potential: HostPotential, mode: np.ndarray, at_mode: RowCosts, curvature: np.ndarray, change: np.ndarray
) -> Float[np.ndarray, " L"]:
    """The sum of the brackets for given changes of the latent values."""
    f = potential.latent(mode)
    quadratic = change * (at_mode.slope + 0.5 * curvature * change)
    costs = np.stack([potential.costs(f + each).cost for each in change])
    return np.sum(costs - at_mode.cost - quadratic, axis=1)


def _frame(
    potential: HostPotential,
    modes: Modes,
    at_mode: RowCosts,
    curvature: np.ndarray,
    psi: np.ndarray,
    pull: np.ndarray,
    size: int,
    num_chains: int,
) -> RemainderFrame:
    term = potential.term
    mode, root = np.asarray(modes.positions[0]), np.asarray(modes.roots[0])
    more, (num_rows, _) = size - len(mode), psi.shape
    values = _VALUES if term.rule is None else _VALUES_QUADRATURE
    values *= 1 if jax.default_backend() == "cpu" else ACCELERATOR_FACTOR
    blocks = math.ceil(num_rows * num_chains / values)
    height = math.ceil(num_rows / blocks)
    missing = blocks * height - num_rows

    def placed(array: Any, is_zero: bool = False) -> Any:
        """In blocks of equal height: rows that are missing are like the first one, and count for nothing."""
        if array is None:
            return None
        array = np.asarray(array)
        if missing:
            extra = np.zeros_like(array[:1]) if is_zero else array[:1]
            array = np.concatenate([array, np.repeat(extra, missing, axis=0)])
        return array.reshape(blocks, height, *array.shape[1:])

    wide = np.pad(psi, ((0, 0), (0, more))) if more else psi
    weights = term.weights if term.weights is not None or not missing else np.ones(num_rows)
    rows = _Rows(
        placed(wide),
        placed(term.y),
        placed(potential.latent(mode)),
        placed(weights, is_zero=True),
        placed(term.deviation),
        placed(at_mode.cost, is_zero=True),
        placed(at_mode.slope, is_zero=True),
        placed(curvature, is_zero=True),
    )
    below = np.pad(root, ((0, more), (0, more)))
    last = np.arange(len(root), size)
    below[last, last] = 1.0
    return RemainderFrame(
        term.likelihood,
        term.rule,
        rows,
        np.pad(mode, (0, more)),
        below,
        below.astype(psi.dtype),
        np.pad(pull, (0, more)),
        np.asarray(modes.potentials[0]),
    )
