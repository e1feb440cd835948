r"""Tables of what Laplace's approximation leaves of each row's cost, so that a step does not integrate anything.

The cost of a row is a function of one number, the change δ of its latent value. With

    r(δ) = c(f̂ + δ) − c(f̂) − c'(f̂) δ − ½ h δ² ≈ Σ_k a_k T_k(δ/Δ),   |δ| ≤ Δ,

the polynomial of Chebyshev that agrees with it at as many nodes as it has coefficients, a step takes a few
multiplications for each row and particle where c is an integral over f with dozens of nodes. Beyond Δ, where next to no
particle comes, r goes on along a straight line. How far V is from its definition is looked at before a table is relied
on, at draws of Laplace's approximation, and once more at the particles that come out.

A few rows may need polynomials of a far higher degree than all others. Rows are sorted by their degrees, and a block of
them takes as many terms as its own rows need, a number that nothing is compiled for.

A loop with tables knows nothing of the likelihood, so that what is compiled for it serves all of them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from numpy.polynomial.chebyshev import chebinterpolate, chebval

from kosambi._core.types import Array
from kosambi.target.host_newton import HostPotential, RowCosts

DEGREES = (12, 24, 48, 96, 192)
"""Of polynomials, the first that suits a row; multiples of the first one."""
FURTHER_DEGREES = (384, 768, 1536)
"""Those that a few of many rows may have besides, such as observations far out in a heavy tail."""
REACH = 7.0
"""Δ in standard deviations of δ under Laplace's approximation, around every mode that is known."""
# Nats by which all polynomials together may be off, if their errors are as good as random.
_ERROR = 2e-3
# The degree up to which the recurrence is written out: faster, but the longer to compile.
_UNROLLED = 24
# Rows above which each degree has its own program, and the part of them that one degree has at least: what is fewer
# shares one. Below, shapes depend on little but the number of rows, so that little is compiled again.
MANY_ROWS, _SMALLEST_GROUP = 2**14, 0.02
# Terms of a pass of a longer one.
_PASS = 4
# Rows, at least, that costs are computed of at once, for the same reason.
_FEWEST = 1024


class RowTable(NamedTuple):
    """r of every row, (blocks, rows of a block)."""

    psi: Float[Array, "B R L"]
    """ψ_nᵀA, in the precision of the products."""
    width: Float[Array, "B R"]
    """Δ."""
    coefficients: Float[Array, "B K R"]
    """a, zero above the degree."""
    degree: Int[Array, "B R"]


def is_long(table: RowTable) -> bool:
    """Whether blocks should be small: the fewer rows they have, the fewer terms most of them take."""
    return table.coefficients.shape[-2] > _UNROLLED + 1


def interpolated(
    width: Float[Array, " R"], coefficients: Float[Array, "K R"], degree: Int[Array, " R"], change: Float[Array, "J R"]
) -> tuple[Float[Array, "J R"], Float[Array, "J R"]]:
    """r(δ) and its derivative by Clenshaw's recurrence; traceable."""
    t = jnp.clip(change / width, -1.0, 1.0)
    twice = 2.0 * t
    # b of the polynomial and d, its derivative in t, two terms back each.
    zero = jnp.zeros_like(t)
    state = zero, zero, zero, zero

    def further(state: tuple[Array, Array, Array, Array], terms: Array) -> tuple[Array, Array, Array, Array]:
        for a in terms[::-1]:
            b, b_before, d, d_before = state
            state = a + twice * b - b_before, b, 2.0 * b + twice * d - d_before, d
        return state

    if len(coefficients) <= _UNROLLED + 1:
        state = further(state, coefficients[1:])
    else:
        # From the highest degree of these rows down, some terms at a time: each pass over t is written out.
        step = _PASS
        number = jnp.max(degree) // step

        def some(i: Array, state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
            first = 1 + step * (number - 1 - i)
            return further(state, jax.lax.dynamic_slice_in_dim(coefficients, first, step))

        state = jax.lax.fori_loop(0, number, some, state)
    b, b_before, d, d_before = state
    value, slope = coefficients[0] + t * b - b_before, (b + t * d - d_before) / width
    return value + slope * (change - t * width), slope


def widths(
    psi: Float[np.ndarray, "N L"], features: Float[np.ndarray, "N M"], modes: Float[np.ndarray, "B M"]
) -> Float[np.ndarray, " N"]:
    """Δ of every row, from ψA, and from ψ where there are several modes."""
    own = REACH * np.sqrt(np.einsum("nl,nl->n", psi, psi, dtype=np.float64))
    farthest = np.zeros_like(own)
    for other in modes[1:]:
        farthest = np.maximum(farthest, np.abs(features @ (other - modes[0])))
    # A row that no coordinate moves has a table all the same.
    return np.maximum(own + farthest, 1e-30)


class Group(NamedTuple):
    """Rows whose polynomials have as many coefficients."""

    rows: Int[np.ndarray, " n"]
    coefficients: Float[np.ndarray, "K n"]
    degree: Int[np.ndarray, " n"]


def tabulated(
    potential: HostPotential,
    centre: Float[np.ndarray, " N"],
    at_mode: RowCosts,
    curvature: Float[np.ndarray, " N"],
    width: Float[np.ndarray, " N"],
) -> list[Group] | None:
    """Coefficients of every row, of the lowest degree that suits it; None where there is none.

    One group, sorted by degree; of many rows one for each degree that many have, and one for all others.
    """
    usual: list[Group] = []
    rare: list[Group] = []
    left, number = np.arange(len(width)), len(width)
    limit = _ERROR / np.sqrt(max(number, 1))
    degrees = DEGREES if number <= MANY_ROWS else DEGREES + FURTHER_DEGREES
    for degree in degrees:
        found = _coefficients(potential, centre, at_mode, curvature, width, degree, left)
        # How fast the coefficients fall says how large those are that are left out.
        left_out = np.max(np.abs(found[-3:]), axis=0)
        # A few rows may be off by more than each of many, if all of them together are not.
        is_good = (left_out <= limit) | (np.sum(left_out) <= _ERROR)
        if (degree == degrees[-1] or not np.all(np.isfinite(found))) and not np.all(is_good):
            return None
        if is_good.any():
            is_rare = number <= MANY_ROWS or np.sum(is_good) < _SMALLEST_GROUP * number
            group = Group(left[is_good], found[:, is_good], np.full(np.sum(is_good), degree))
            (rare if is_rare else usual).append(group)
        left = left[~is_good]
        if not len(left):
            break
    return usual + ([_joined(rare, DEGREES[-1] if number <= MANY_ROWS else 0)] if rare else [])


def _joined(groups: list[Group], least: int) -> Group:
    """All as one; beyond the degrees that are written out with room for one of `least`, so that shapes agree."""
    highest = int(groups[-1].degree[0])
    size = 1 + (highest if highest <= _UNROLLED else max(highest, least))
    filled = (np.pad(group.coefficients, ((0, size - len(group.coefficients)), (0, 0))) for group in groups)
    rows, degree = (np.concatenate([getattr(group, name) for group in groups]) for name in ("rows", "degree"))
    return Group(rows, np.concatenate([*filled], axis=1), degree)


def total(groups: list[Group], width: Float[np.ndarray, " N"], change: Float[np.ndarray, "L N"]) -> np.ndarray:
    """Σ_n r_n(δ_n) within Δ, with NumPy, for each row of `change`."""
    at = np.clip(change / width, -1.0, 1.0)
    return sum(
        (np.sum(chebval(at[:, group.rows], group.coefficients, tensor=False), axis=1) for group in groups),
        np.zeros(len(change)),
    )


def _coefficients(
    potential: HostPotential,
    centre: np.ndarray,
    at_mode: RowCosts,
    curvature: np.ndarray,
    width: np.ndarray,
    degree: int,
    rows: Int[np.ndarray, " n"],
) -> Float[np.ndarray, "K n"]:
    """Those of some rows."""
    number = len(rows)
    if number < len(width):
        # Filled up to a power of two, so that few lengths are compiled for.
        rows = np.resize(rows, min(len(width), max(_FEWEST, 2 ** math.ceil(math.log2(number)))))
        potential = potential.at(rows)
    centre, curvature, width = centre[rows], curvature[rows], width[rows]
    cost, slope = at_mode.cost[rows], at_mode.slope[rows]

    def left_over(nodes: np.ndarray) -> np.ndarray:
        values = np.empty((len(nodes), number))
        for place, t in enumerate(nodes):
            change = t * width
            quadratic = cost + change * (slope + 0.5 * curvature * change)
            values[place] = (potential.costs(centre + change).cost - quadratic)[:number]
        return values

    return chebinterpolate(left_over, degree)
