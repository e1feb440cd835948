r"""Rounds of site updates on an accelerator: all stays there but the sites, which come in, and q, which comes out.

The same as `kosambi.target.sites` does on the host, row by row of blocks: what the rows before each row say gives the
coordinates ŵ and H, what all others say gives q. Matrices with a row for every observation and a column for every
coordinate, which the host moves to and fro in each round, are never made. R_{𝒩𝒩} and R_{𝒩x} of all rows, which do not
depend on the sites, are computed once, in float64. Systems are solved by Cholesky factors, which some that the host can
still solve do not have: q is then not finite, and the host goes on.

With a mesh each device has the systems of some blocks. What they add up for H is added on the host, an M×M matrix from
each.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Float, Int

from kosambi._core.meshes import ALL, on_devices, put
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


def has_room(num_rows: int, num_places: int, num_coordinates: int, mesh: Mesh | None = None) -> bool:
    """Whether there is an accelerator, or a mesh of them, and all systems fit its memory."""
    device = jax.local_devices()[0] if mesh is None else mesh.devices.flat[0]
    if (platform() if mesh is None else device.platform) == "cpu" or not num_places:
        return False
    # Systems, indices and which places are taken, of the rows before and of all others; the features.
    parts = 1 if mesh is None else mesh.size
    numbers = num_rows * (2 * num_places * (num_places + 3) / parts + num_coordinates)
    known = device.memory_stats() or {}
    return 8 * numbers <= known.get("bytes_limit", USUAL_BYTES) / 2


def systems_on_device(
    prior: AbstractPrior,
    x: Float[Array, "N D"],
    psi: Float[Array, "N M"],
    index: Int[np.ndarray, "N m"],
    mesh: Mesh | None = None,
) -> DeviceSystems:
    """The systems of all rows, with the neighbours in `index`, −1 in empty places."""
    number, places = index.shape
    size = max(1, min(number, _BLOCK // (places * (psi.shape[1] + places))))
    blocks = math.ceil(number / size)
    if mesh is not None:
        blocks = mesh.size * math.ceil(blocks / mesh.size)
    size = math.ceil(number / blocks)
    place = np.arange(blocks * size).reshape(blocks, size)
    row = np.minimum(place, number - 1)
    near = index[row]
    known = row, 1.0 * (place < number), np.maximum(near, 0), 1.0 * (near >= 0)
    with jax.enable_x64(True):
        if mesh is None:
            row, is_row, near, is_there = map(jnp.asarray, known)
            gram, toward = _all_systems((prior, x, psi), row, near)
        else:
            row, is_row, near, is_there = (put(each, mesh, ALL) for each in known)
            gram, toward = on_devices(mesh, _raw_systems, (prior, x, psi), (row, near))
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
    whole = rows, precision, location
    curvature, aim = _gathered(whole, *earlier)
    factor = jnp.linalg.cholesky(curvature[0] + jnp.eye(len(aim[0]), dtype=precision.dtype))
    mode = jsl.cho_solve((factor, True), aim[0])
    mean, variance = _predicted((*whole, mode, factor), *others)
    number = len(precision)
    return mean.reshape(-1)[:number], variance.reshape(-1)[:number]


def marginals_on_mesh(
    mesh: Mesh,
    rows: DeviceRows,
    earlier: DeviceSystems,
    others: DeviceSystems,
    precision: Float[np.ndarray, " N"],
    location: Float[np.ndarray, " N"],
) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
    """The same with the blocks on several devices."""
    from scipy.linalg import cho_solve, cholesky  # here, because it doubles what `import kosambi` adds to `import jax`

    with jax.enable_x64(True):
        whole = rows, jnp.asarray(precision), jnp.asarray(location)
        curvature, aim = (np.asarray(each).sum(axis=0) for each in on_devices(mesh, _gathered, whole, tuple(earlier)))
        if not np.all(np.isfinite(curvature)):
            return np.full(len(precision), np.nan), np.full(len(precision), np.nan)
        factor = cholesky(curvature + np.eye(len(aim)), lower=True, check_finite=False)
        mode = cho_solve((factor, True), aim, check_finite=False)
        mean, variance = on_devices(mesh, _predicted, (*whole, mode, factor), tuple(others))
        number = len(precision)
        return np.asarray(mean).reshape(-1)[:number], np.asarray(variance).reshape(-1)[:number]


def _gathered(
    whole: tuple[DeviceRows, Array, Array], *systems: Array
) -> tuple[Float[Array, "1 M M"], Float[Array, "1 M"]]:
    """Σ_n strength_n ψ̌_nψ̌_nᵀ and what ŵ solves for it, of the rows of all blocks."""
    rows, precision, location = whole
    size = rows.psi.shape[1]

    def add(sums: tuple[Array, Array], block: DeviceSystems) -> tuple[tuple[Array, Array], None]:
        given, psi, variance = _given(rows, block, precision, location)
        own = precision[block.row] * block.is_row
        strength = own / (1.0 + own * variance)
        scaled = psi * strength[:, None]
        curvature, aim = sums
        return (curvature + scaled.T @ psi, aim + scaled.T @ (location[block.row] - given)), None

    begun = jnp.zeros((size, size), precision.dtype), jnp.zeros(size, precision.dtype)
    (curvature, aim), _ = jax.lax.scan(add, begun, DeviceSystems(*systems))
    return curvature[None], aim[None]


def _predicted(
    whole: tuple[DeviceRows, Array, Array, Array, Array], *systems: Array
) -> tuple[Float[Array, "B R"], Float[Array, "B R"]]:
    """Mean and variance of q at the rows of all blocks."""
    rows, precision, location, mode, factor = whole

    def of_block(block: DeviceSystems) -> tuple[Array, Array]:
        given, psi, variance = _given(rows, block, precision, location)
        given = given + psi @ mode
        spread = jnp.sum(jnp.square(jsl.solve_triangular(factor, psi.T, lower=True)), axis=0)
        own = precision[block.row]
        gain = variance * own / (1.0 + variance * own)
        mean = given + gain * (location[block.row] - given)
        return mean, (1.0 - gain) * variance + jnp.square(1.0 - gain) * spread

    return jax.lax.map(of_block, DeviceSystems(*systems))


def _raw_systems(
    whole: tuple[AbstractPrior, Array, Array], row: Int[Array, "B R"], near: Int[Array, "B R m"]
) -> tuple[Float[Array, "B R m m"], Float[Array, "B R m"]]:
    prior, x, psi = whole
    return jax.lax.map(lambda each: systems_of(prior, x[each[1]], psi[each[1]], x[each[0]], psi[each[0]]), (row, near))


_all_systems = compiled(_raw_systems)


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
