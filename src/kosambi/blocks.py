"""Row blocks: matrices that are wide are made a few rows at a time, so that memory stays bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
from jaxtyping import Float

from kosambi._types import Array

# Elements of the widest intermediate matrix: 2**24 float64 numbers are 128 MiB.
MAX_ELEMENTS = 2**24


def by_rows(
    function: Callable[[Array], Array],
    x: Float[Array, "N D"],
    elements_per_row: int,
    max_elements: int | None = None,
) -> Array:
    """`function(x)` for a function that treats rows independently, over blocks of rows when N is large.

    Arguments:
        function: maps (B, D) to (B, ...), row by row.
        x: the rows.
        elements_per_row: how many numbers `function` holds at once for each row.
        max_elements: the most numbers to hold at once; `MAX_ELEMENTS` when None.
    """
    num_rows = x.shape[0]
    size = max(1, (max_elements or MAX_ELEMENTS) // max(1, elements_per_row))
    if num_rows <= size:
        return function(x)
    full = num_rows // size
    head = jax.lax.map(function, x[: full * size].reshape(full, size, x.shape[1]))
    head = head.reshape(full * size, *head.shape[2:])
    if full * size == num_rows:
        return head
    return jnp.concatenate([head, function(x[full * size :])])


def host_blocks(num_rows: int, size: int) -> Iterator[slice]:
    """Slices of `size` rows that cover all of them, for a loop on the host.

    The last one is moved back to full length, so that all have the shape that was compiled.
    """
    size = max(1, min(size, num_rows))
    for start in range(0, num_rows, size):
        first = min(start, num_rows - size)
        yield slice(first, first + size)
