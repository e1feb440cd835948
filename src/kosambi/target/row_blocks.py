"""Sums over rows, a block of rows at a time, so that no more than a bounded number of latent values exists at once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from kosambi._core.types import Array

# An accelerator is not idle only with more to do at a time: 2**26 float64 numbers are half a gigabyte.
ACCELERATOR_FACTOR = 2**6
# Bytes of its memory for each latent value held at once. Costs and slopes of one block take some arrays of float64
# beside each other; one block where they fit saves copies of rows, and gives products their whole length.
_BYTES_PER_VALUE = 2**7


def values_at_once(on_cpu: int, is_quadrature: bool = False) -> int:
    """Latent values to hold at once on the device that there is, for so many on a CPU.

    Arguments:
        on_cpu: what fits a core's cache, or a bound of memory.
        is_quadrature: whether a value takes many more numbers while its cost is computed.
    """
    if jax.default_backend() == "cpu":
        return on_cpu
    values = on_cpu * ACCELERATOR_FACTOR
    return values if is_quadrature else max(values, _device_memory() // _BYTES_PER_VALUE)


@functools.cache
def _device_memory() -> int:
    """Bytes that JAX may take of the first device's memory; zero where it does not say."""
    return int((jax.devices()[0].memory_stats() or {}).get("bytes_limit", 0))


def sum_over_rows(
    function: Callable[[tuple[Array | None, ...]], Any],
    rows: tuple[Array | None, ...],
    values_per_row: int,
    most_values: int,
    start: Any,
    is_quadrature: bool = True,
) -> Any:
    """The sum of `function` over blocks of rows; traceable.

    Arguments:
        function: of arrays like `rows`, with fewer rows.
        rows: arrays with one entry for each of N rows, the first of them present; None stays None.
        values_per_row: latent values that a row has.
        most_values: latent values of one block on a CPU.
        start: zeros of the shape of the sum.
        is_quadrature: whether a value takes many more numbers while `function` is computed.
    """
    most_values = values_at_once(most_values, is_quadrature)
    assert rows[0] is not None
    num_rows, size = rows[0].shape[0], max(1, most_values // max(1, values_per_row))
    if num_rows <= size:
        return function(rows)
    full = num_rows // size

    def split(array: Array | None) -> Array | None:
        return None if array is None else array[: full * size].reshape(full, size, *array.shape[1:])

    def add(total: Any, pieces: tuple[Array | None, ...]) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, function(pieces)), None

    total, _ = jax.lax.scan(add, start, tuple(split(array) for array in rows))
    if full * size == num_rows:
        return total
    rest = tuple(None if array is None else array[full * size :] for array in rows)
    return jax.tree.map(jnp.add, total, function(rest))


def map_over_rows(
    function: Callable[[tuple[Array | None, ...]], Any], rows: tuple[Array | None, ...], size: int = 2048
) -> Any:
    """`function` of all rows, which has one entry for each, a block of `size` rows at a time; traceable.

    A function that makes many values of each row leaves a core's cache otherwise, and takes four times as long.

    Arguments:
        function: of arrays like `rows`, with fewer rows; a tree of arrays with as many entries.
        rows: arrays with one entry for each of N rows, the first of them present; None stays None.
        size: rows of a block on a CPU.
    """
    if jax.default_backend() != "cpu":
        size *= ACCELERATOR_FACTOR
    assert rows[0] is not None
    num_rows = rows[0].shape[0]
    if num_rows <= size:
        return function(rows)
    blocks = -(-num_rows // size)

    def split(array: Array | None) -> Array | None:
        if array is None:
            return None
        # Filled up with copies of the last row, so that the function is compiled once.
        filled = jnp.concatenate([array, jnp.broadcast_to(array[-1:], (blocks * size - num_rows, *array.shape[1:]))])
        return filled.reshape(blocks, size, *array.shape[1:])

    found = jax.lax.map(function, tuple(split(array) for array in rows))
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[:num_rows], found)
