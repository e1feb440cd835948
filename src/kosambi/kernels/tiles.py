"""Gram matrices of concrete inputs, made of square tiles: one compiled program serves every number of rows.

A fit asks for k(x, x), k(Z, Z) and k(Z, x), and the next one for others. Compiled for its shape, each takes longer to
compile than to compute, and stays in memory. So inputs are filled up with copies of their first row to whole tiles, and
what belongs to the copies is left out. Large matrices are computed as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from kosambi._core.checks import is_traced
from kosambi._core.linalg import host_blocks
from kosambi._core.precision import compiled
from kosambi._core.types import Array

if TYPE_CHECKING:
    from kosambi.kernels.base import AbstractKernel

SIDE = 256
"""Rows and columns of a tile."""
MOST_ROWS = 2**13
"""Inputs on either side up to which a matrix is made of tiles."""
_MOST_AT_ONCE = 2**16


def gram(kernel: AbstractKernel, x: Float[Array, "N D"], z: Float[Array, "M D"]) -> Float[Array, "N M"]:
    """k(x, z) for checked inputs; under a trace, and where there are many rows, in one piece."""
    if _in_one_piece(kernel, x, z):
        return _pairwise(kernel, x, z)
    found = np.empty((len(x), len(z)))
    columns = _tiles(z)
    for start, rows in _tiles(x):
        for first, others in columns:
            height, width = min(SIDE, len(x) - start), min(SIDE, len(z) - first)
            tile = np.asarray(_pairwise(kernel, rows, others))
            found[start : start + height, first : first + width] = tile[:height, :width]
    return found


def diagonal(kernel: AbstractKernel, x: Float[Array, "N D"]) -> Float[Array, " N"]:
    """k(x_n, x_n) for checked inputs, likewise; of very many rows in blocks, without a copy of them all."""
    if len(x) > _MOST_AT_ONCE and not is_traced((kernel, x)):
        found = np.empty(len(x))
        for part in host_blocks(len(x), _MOST_AT_ONCE):
            found[part] = _pointwise(kernel, x[part])
        return found
    if _in_one_piece(kernel, x, x):
        return _pointwise(kernel, x)
    return np.concatenate([np.asarray(_pointwise(kernel, rows)) for _, rows in _tiles(x)])[: len(x)]


def _in_one_piece(kernel: AbstractKernel, x: Array, z: Array) -> bool:
    is_sized = 0 < len(x) <= MOST_ROWS and 0 < len(z) <= MOST_ROWS
    return not is_sized or is_traced((kernel, x, z))


def _tiles(x: Float[Array, "N D"]) -> list[tuple[int, Float[np.ndarray, "S D"]]]:
    """Where each tile begins, and its rows."""
    x = np.asarray(x)
    filled = np.concatenate([x, np.repeat(x[:1], -len(x) % SIDE, axis=0)])
    return [(start, filled[start : start + SIDE]) for start in range(0, len(x), SIDE)]


@compiled
def _pairwise(kernel: AbstractKernel, x: Array, z: Array) -> Array:
    return kernel.pairwise(x, z)


@compiled
def _pointwise(kernel: AbstractKernel, x: Array) -> Array:
    return kernel.pointwise(x)
