r"""Rounds of site updates on an accelerator: all stays there but the sites, which come in, and q, which comes out.

The same as `kosambi.target.sites` does on the host, row by row of blocks: what the rows before each row say gives the
coordinates ŵ and H, what all others say gives q. Matrices with a row for every observation and a column for every
coordinate, which the host moves to and fro in each round, are never made. R_{𝒩𝒩} and R_{𝒩x} of all rows, which do not
depend on the sites, are computed once, in float64. Systems are solved by Cholesky factors, which some that the host can
still solve do not have: q is then not finite, and the host goes on.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from jaxtyping import Float, Int

from kosambi._core.precision import compiled
from kosambi._core.threads import platform
from kosambi._core.types import Array
from kosambi.basis.local import systems_of, weights_of
from kosambi.priors import AbstractPrior

USUAL_BYTES = 2**34
"""Memory of an accelerator that does not say how much it has."""
# Numbers of the features of all neighbours of one block.
_BLOCK = 2**26


class DeviceRows(NamedTuple):
    """All rows."""

    psi: Float[Array, "N M"]
    mean: Float[Array, " N"]
    left: Float[Array, " N"]
    """Prior variance that the coordinates do not explain."""
    is_needed: Float[Array, " N"]
    """Zero for rows that have no use for neighbours."""


class DeviceSystems(NamedTuple):
    """Rows in blocks with their neighbours: the rows before them, or all others."""

    row: Int[Array, "B R"]
    is_row: Float[Array, "B R"]
    """Zero for a row that only fills its block up."""
    near: Int[Array, "B R m"]
    is_there: Float[Array, "B R m"]
    """Zero in an empty place."""
    gram: Float[Array, "B R m m"]
    toward: Float[Array, "B R m"]


def has_room(num_rows: int, num_places: int, num_coordinates: int) -> bool:
    """Whether there is an accelerator, and all systems fit its memory."""
    if platform() == "cpu" or not num_places:
        return False
    # Systems, indices and which places are taken, of the rows before and of all others; the features.
    numbers = num_rows * (2 * num_places * (num_places + 3) + num_coordinates)
    known = jax.local_devices()[0].memory_stats() or {}
    return 8 * numbers <= known.get("bytes_limit", USUAL_BYTES) / 2


def systems_on_device(
    prior: AbstractPrior, x: Float[Array, "N D"], psi: Float[Array, "N M"], index: Int[np.ndarray, "N m"]
) -> DeviceSystems:
    """The systems of all rows, with the neighbours in `index`, −1 in empty places."""
    number, places = index.shape
    size = max(1, min(number, _BLOCK // (places * (psi.shape[1] + places))))
    blocks = math.ceil(number / size)
    size = math.ceil(number / blocks)
    place = np.arange(blocks * size).reshape(blocks, size)
    row = np.minimum(place, number - 1)
    near = index[row]
    with jax.enable_x64(True):
        row, is_row, near, is_there = map(jnp.asarray, (row, 1.0 * (place < number), near, 1.0 * (near >= 0)))
        near = jnp.maximum(near, 0)
        gram, toward = _all_systems(prior, x, psi, row, near)
    return DeviceSystems(row, is_row, near, is_there, gram, toward)


@compiled
def marginals_on_device(
    rows: DeviceRows,
    earlier: DeviceSystems,
    others: DeviceSystems,
    precision: Float[Array, " N"],
    location: Float[Array, " N"],
) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
    """Mean and variance of q at every row, given all sites."""
    num_coordinates = rows.psi.shape[1]

    def gathered(sums: tuple[Array, Array], block: DeviceSystems) -> tuple[tuple[Array, Array], None]:
        given, psi, variance = _given(rows, block, precision, location)
        own = precision[block.row] * block.is_row
        strength = own / (1.0 + own * variance)
        scaled = psi * strength[:, None]
        curvature, aim = sums
        return (curvature + scaled.T @ psi, aim + scaled.T @ (location[block.row] - given)), None

    begun = jnp.eye(num_coordinates, dtype=precision.dtype), jnp.zeros(num_coordinates, precision.dtype)
    (curvature, aim), _ = jax.lax.scan(gathered, begun, earlier)
    factor = jnp.linalg.cholesky(curvature)
    mode = jsl.cho_solve((factor, True), aim)

    def predicted(block: DeviceSystems) -> tuple[Array, Array]:
        given, psi, variance = _given(rows, block, precision, location)
        given = given + psi @ mode
        spread = jnp.sum(jnp.square(jsl.solve_triangular(factor, psi.T, lower=True)), axis=0)
        own = precision[block.row]
        gain = variance * own / (1.0 + variance * own)
        mean = given + gain * (location[block.row] - given)
        return mean, (1.0 - gain) * variance + jnp.square(1.0 - gain) * spread

    mean, variance = jax.lax.map(predicted, others)
    number = len(precision)
    return mean.reshape(-1)[:number], variance.reshape(-1)[:number]


@compiled
def _all_systems(
    prior: AbstractPrior, x: Array, psi: Array, row: Int[Array, "B R"], near: Int[Array, "B R m"]
) -> tuple[Float[Array, "B R m m"], Float[Array, "B R m"]]:
    return jax.lax.map(lambda each: systems_of(prior, x[each[1]], psi[each[1]], x[each[0]], psi[each[0]]), (row, near))


def _given(
    rows: DeviceRows, block: DeviceSystems, precision: Array, location: Array
) -> tuple[Float[Array, " R"], Float[Array, "R M"], Float[Array, " R"]]:
    """b, ψ̌ and D of one block."""
    own = precision[block.near] * block.is_there * rows.is_needed[block.row][:, None]
    weights, removed = weights_of(block.gram, block.toward, jnp.sqrt(own))
    features = rows.psi[block.near].astype(weights.dtype)
    psi = rows.psi[block.row].astype(weights.dtype) - jnp.einsum("tk,tkm->tm", weights, features)
    error = (location - rows.mean)[block.near]
    offset = rows.mean[block.row] + jnp.einsum("tk,tk->t", weights, error)
    return offset, psi, jnp.maximum(rows.left[block.row] - removed, 0.0)
