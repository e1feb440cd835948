"""Long tables of rows without copies of them: which rows differ, sums by column, tables that nobody may change.

A table of a million rows is small beside what a fit makes of it, but not where each stage has a copy of its own. So
what looks at all rows does so a block of rows, or some columns, at a time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int, UInt

ROWS = 2**14
"""Rows of a block."""
_COLUMNS = 8


def frozen(array: np.ndarray) -> np.ndarray:
    """The array, which from now on nobody may write to: public calls keep it as it is, without a copy.

    >>> from kosambi._core.checks import as_float_array
    >>> x = frozen(np.ones((2, 2)))
    >>> as_float_array("x", x) is x
    True
    """
    own: object = array
    while isinstance(own, np.ndarray):
        own.setflags(write=False)
        own = own.base
    return array


def row_blocks(num_rows: int, size: int = ROWS) -> Iterator[slice]:
    """Slices of `size` rows, the last one with what is left.

    >>> [(part.start, part.stop) for part in row_blocks(5, 2)]
    [(0, 2), (2, 4), (4, 5)]
    """
    return (slice(start, min(start + size, num_rows)) for start in range(0, num_rows, size))


def column_groups(num_columns: int) -> Iterator[slice]:
    """Slices of some columns, two at least unless there is one only, so that sums down them have the same digits.

    >>> [part.stop - part.start for part in column_groups(17)]
    [8, 9]
    """
    ends = [*range(_COLUMNS, num_columns - 1, _COLUMNS), num_columns]
    return (slice(start, end) for start, end in zip([0, *ends], ends, strict=False))


def row_hashes(x: Float[np.ndarray, "N D"]) -> UInt[np.ndarray, " N"]:
    """A number for each row that follows from its values and looks random.

    >>> first, second = row_hashes(np.array([[0.0], [-0.0]]))
    >>> bool(first == second)
    True
    """
    mixed = np.full(len(x), 0x9E3779B97F4A7C15, dtype=np.uint64)
    for column in np.asarray(x).T:
        # Zero of either sign is one number, with one pattern of bits.
        bits = (np.asarray(column, dtype=np.float64) + 0.0).view(np.uint64)
        # The finaliser of splitmix64, after each column.
        mixed = (mixed ^ bits) + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed = mixed ^ (mixed >> np.uint64(31))
    return mixed


def distinct_rows(x: Float[np.ndarray, "N D"]) -> tuple[Int[np.ndarray, " M"], Int[np.ndarray, " M"]]:
    """Where each distinct row occurs first, in that order, and how often it occurs.

    >>> distinct_rows(np.array([[2.0], [1.0], [2.0]]))
    (array([0, 1]), array([2, 1]))
    """
    x, mixed = np.asarray(x), row_hashes(x)
    order = np.argsort(mixed, kind="stable")
    is_new = np.ones(len(x), dtype=bool)
    is_new[1:] = mixed[order[1:]] != mixed[order[:-1]]
    for part in row_blocks(len(order)):
        # Of equal hashes each row is compared with the one before, so that a chance agreement is seen.
        again = part.start + np.flatnonzero(~is_new[part])
        if np.any(x[order[again]] != x[order[again - 1]]):
            return _by_sorting(x)
    starts = np.flatnonzero(is_new)
    first, counts = order[starts], np.diff(np.append(starts, len(order)))
    kept = np.argsort(first)
    return first[kept], counts[kept]


def num_distinct(x: Float[np.ndarray, "N D"]) -> int:
    """How many rows differ."""
    return len(distinct_rows(x)[0])


def _by_sorting(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same by values, for rows whose hashes agree by chance."""
    _, first, counts = np.unique(x, axis=0, return_index=True, return_counts=True)
    kept = np.argsort(first)
    return first[kept], counts[kept]


def sorted_by_values(
    x: Float[np.ndarray, "N D"], y: Float[np.ndarray, " N"]
) -> tuple[Int[np.ndarray, " N"], Int[np.ndarray, " N"]]:
    """The order of rows (x, y) by their columns, the first one first, and the number of each among those that differ.

    >>> order, number = sorted_by_values(np.array([[2.0], [1.0], [2.0]]), np.array([5.0, 0.0, 5.0]))
    >>> order.tolist(), number.tolist()
    ([1, 0, 2], [1, 0, 1])
    """
    columns = [*np.asarray(x).T, np.asarray(y)]
    order = np.lexsort(columns[::-1])
    is_new = np.zeros(len(order), dtype=bool)
    for column in columns:
        values = column[order]
        is_new[1:] |= values[1:] != values[:-1]
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.cumsum(is_new)
    return order, number
