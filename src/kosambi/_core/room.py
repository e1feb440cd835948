"""How much memory the arrays of a stage may take: what decides on blocks, on what is kept, and on single precision.

A `Room` is planned once for a fit and handed down to whatever has a choice; where it comes from is the matter of
`kosambi.target.memory`. What is computed does not depend on it but for rounding.
"""

from __future__ import annotations

import os
from typing import NamedTuple

MOST_THREADS = 8
"""Threads that solve small systems side by side."""
# Rows of a block: the fewest of which products are still fast, and the most.
_FEWEST_ROWS, _MOST_ROWS = 2**13, 2**15
# Arrays of the size of a batch that a thread holds at once.
_ARRAYS = 4


class Room(NamedTuple):
    """Bytes for the arrays of a stage."""

    batch: int = 2**29
    """What is computed at once, by all threads together."""
    kept: int = 2**32
    """What may be held, because it would have to be computed again."""
    features: int = 2**30
    """What the features of all rows may take in double precision; above it they are held in single precision."""

    def numbers(self, most: int) -> int:
        """Numbers of one array of a batch of one thread, at most `most`.

        >>> Room(batch=0).numbers(2**22), Room().numbers(100)
        (1, 100)
        """
        threads = min(os.cpu_count() or 1, MOST_THREADS)
        return max(1, min(most, self.batch // (8 * _ARRAYS * threads)))

    def rows(self, width: int) -> int:
        """Rows of a block with `width` numbers each: a power of two.

        >>> Room().rows(8), Room(batch=2**20).rows(8)
        (32768, 8192)
        """
        wanted = max(1, self.batch // (16 * max(width, 1)))
        return min(_MOST_ROWS, max(_FEWEST_ROWS, 2 ** (wanted.bit_length() - 1)))


USUAL = Room()
"""Where nobody has said how much memory there is."""
