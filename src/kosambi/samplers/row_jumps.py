r"""Jumps of single rows, for costs that are not convex: from a latent value near an observation to one far from it.

An outlier of Student's distribution can be followed or ignored, and a small step never leads from the one to the other.
In the frame of a normal approximation (`kosambi.samplers.remainder`) let g_n = ψ_nᵀA, ℓ_n = |g_n| and s = g_nᵀv/ℓ_n, so
that the latent value of row n is f̂_n + ℓ_n s. Along s, with all that is orthogonal to it left where it is,

    p(s) ∝ exp(−½s² − r_n(ℓ_n s) − Σ_{m≠n} r_m(δ_m + (s − s₀) g_mᵀg_n/ℓ_n) − ĝᵀg_n s/ℓ_n),

with r the remainders of the rows. The other rows are all but normal, so the first two terms, q_n(s), which belong to
the row alone and are known on a grid once and for all, are nearly all there is: s' is drawn from q_n, the other rows
follow as the normal approximation has it, and Metropolis' rule corrects for the rest. A jump costs N costs for each
particle, where a step of MALA takes 4NM operations. Which rows are worth it, q_n tells: those that are least like a
normal one.

q_n is the normal distribution that all other rows lead to, of width 1/√(1 − h_nℓ_n²), times the row's own likelihood.
Its grid has bins of about equal probability, fine near either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from kosambi._core.types import Array, Key

EVERY = 8
"""On average one step in so many is followed by a jump of each of the chosen rows."""
LEAST, LITTLE = 0.1, 0.02
"""Nats between q_n and a standard normal distribution above which a row makes jumps worth while, and above which
further rows jump as well."""
# Chosen rows: at most, at least, and how many coordinates there are for each, so that jumps take as long as steps.
_MOST, _FEWEST, _COORDINATES = 48, 8, 12
# Bins in which q_n is drawn from; where rows are compared; and where the bins are found, with how many repetitions.
_BINS, _COARSE, _FINE, _REPEATS = 256, 96, 1024, 2
# How far the grid reaches, in widths of what the other rows say, and the widest.
_REACH, _WIDEST = 8.0, 1e3
# The part of a grid's probability that is spread evenly over its bins, so that none is too wide.
_EVEN = 0.1

Remainders = Callable[[Int[np.ndarray, " n"], Float[np.ndarray, " n"]], Float[np.ndarray, " n"]]
"""r of given rows for given changes of their latent values."""


class RowJumps(NamedTuple):
    """What jumps of R rows need."""

    direction: Float[Array, "R K"]
    """g_n/ℓ_n."""
    effect: Float[Array, "R N"]
    """By how much a unit along it changes every latent value: g_mᵀg_n/ℓ_n."""
    pull: Float[Array, " R"]
    """ĝᵀg_n/ℓ_n."""
    edges: Float[Array, "R E"]
    """Of bins with equal shares of the distribution that s' is drawn from."""
    number: Int[Array, ""]
    """How many of the rows jump, the first ones; one program serves any number."""


def row_jumps(
    psi: Float[np.ndarray, "N K"],
    pull: Float[np.ndarray, " K"],
    slope: Float[np.ndarray, " N"],
    curvature: Float[np.ndarray, " N"],
    remainders: Remainders,
    size: int,
) -> RowJumps:
    """Jumps of the rows that are least like normal ones; of none where no row differs by `LEAST` nats.

    Arguments:
        psi: ψA.
        pull: ĝ.
        slope: c' of every row at the mode.
        curvature: h.
        remainders: r of some rows.
        size: coordinates, those that are added behind K included.
    """
    length = np.sqrt(np.einsum("nk,nk->n", psi, psi, dtype=np.float64))
    left = np.maximum(1.0 - curvature * np.square(length), _WIDEST**-2.0)
    reach = np.minimum(np.abs(slope * length) / left + _REACH / np.sqrt(left), _REACH * _WIDEST)
    every = np.arange(len(psi))
    share, normal = _shares(*_grid(reach, _COARSE), every, length, remainders)
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = np.sum(np.where(share > 0, share * np.log(share / np.maximum(normal, 1e-300)), 0.0), axis=0)
    apart = np.where(np.isfinite(apart) & (length > 0), apart, -np.inf)
    number = min(len(psi), max(_FEWEST, min(_MOST, size // _COORDINATES)))
    chosen = np.argsort(-apart, kind="stable")[:number]
    jumping = int(np.sum(apart[chosen] > LITTLE)) if apart[chosen[0]] > LEAST else 0
    edges, widths = _grid(reach[chosen], _FINE if jumping else _BINS)
    for last in range(_REPEATS + 1 if jumping else 0):
        share, _ = _shares(edges, widths, chosen, length, remainders)
        edges = _equal(edges, share, _FINE if last < _REPEATS else _BINS)
        widths = np.diff(edges, axis=0)
    direction = psi[chosen].astype(np.float64) / np.where(length[chosen] > 0, length[chosen], 1.0)[:, None]
    return RowJumps(
        np.pad(direction, ((0, 0), (0, size - psi.shape[1]))),
        direction @ psi.T.astype(np.float64),
        direction @ pull,
        np.ascontiguousarray(edges.T),
        np.asarray(jumping),
    )


def _grid(reach: Float[np.ndarray, " n"], bins: int) -> tuple[np.ndarray, np.ndarray]:
    """Edges from −reach to reach, (bins + 1, n), the finer the nearer to zero; and widths."""
    edges = np.sinh(np.linspace(-1.0, 1.0, bins + 1)[:, None] * np.arcsinh(reach))
    return edges, np.diff(edges, axis=0)


def _shares(
    edges: Float[np.ndarray, "E n"],
    widths: Float[np.ndarray, "B n"],
    rows: Int[np.ndarray, " n"],
    length: Float[np.ndarray, " N"],
    remainders: Remainders,
) -> tuple[Float[np.ndarray, "B n"], Float[np.ndarray, "B n"]]:
    """Probabilities of bins under q_n, and under a standard normal distribution."""
    middle = 0.5 * (edges[1:] + edges[:-1])
    change = middle * length[rows]
    left = remainders(np.tile(rows, len(middle)), change.reshape(-1)).reshape(change.shape)
    found, normal = (
        np.exp(each - np.max(each, axis=0)) * widths
        for each in (np.where(np.isfinite(left), -0.5 * np.square(middle) - left, -np.inf), -0.5 * np.square(middle))
    )
    return found / np.sum(found, axis=0), normal / np.sum(normal, axis=0)


def _equal(edges: Float[np.ndarray, "E n"], share: Float[np.ndarray, "B n"], bins: int) -> Float[np.ndarray, "F n"]:
    """Edges of bins of equal probability, part of which is spread evenly over the old bins."""
    share = (1.0 - _EVEN) * share + _EVEN / len(share)
    below = np.concatenate([np.zeros((1, share.shape[1])), np.cumsum(share, axis=0)])
    wanted = np.linspace(0.0, 1.0, bins + 1)
    found = [np.interp(wanted, one / one[-1], edge) for one, edge in zip(below.T, edges.T, strict=True)]
    return np.stack(found, axis=1)


def jumped(
    key: Key,
    jumps: RowJumps,
    v: Float[Array, "J K"],
    change: Float[Array, "J N"],
    remainder: Callable[[Array], Float[Array, " J"]],
) -> Float[Array, "J K"]:
    """Particles after one jump of each chosen row, or none where it is refused; traceable.

    Arguments:
        key: for all jumps.
        jumps: the rows.
        v: particles.
        change: δ of all rows.
        remainder: Σ_m r_m(δ_m).
    """
    uniform = jax.random.uniform(key, (jumps.pull.shape[0], 2, v.shape[0]), v.dtype)

    def one(row: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        (v, change, total), (place, luck) = carry, uniform[row]
        direction, effect, edges = jumps.direction[row], jumps.effect[row], jumps.edges[row]
        before = v @ direction
        log_width = jnp.log(jnp.diff(edges))
        to = jnp.floor(place * _BINS).astype(jnp.int32)
        after = edges[to] + (place * _BINS - to) * (edges[to + 1] - edges[to])
        at = jnp.sum(before[:, None] >= edges, axis=1) - 1
        # From outside of the grid there is no way back.
        back = jnp.where((at >= 0) & (at < _BINS), -log_width[jnp.clip(at, 0, _BINS - 1)], -jnp.inf)
        moved = change + (after - before).astype(change.dtype)[:, None] * effect
        further = remainder(moved)
        log_ratio = total - further + (before - after) * (0.5 * (before + after) + jumps.pull[row])
        # A comparison with what is not a number is false.
        accept = jnp.log(luck) < log_ratio + back + log_width[to]
        v = v + jnp.where(accept, after - before, 0.0)[:, None] * direction
        return v, jnp.where(accept[:, None], moved, change), jnp.where(accept, further, total)

    return jax.lax.fori_loop(0, jumps.number, one, (v, change, remainder(change)))[0]
