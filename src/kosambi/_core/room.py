"""How much memory the arrays of a stage may take: what decides on blocks, on what is kept, and on single precision.

A `Room` is planned once for a fit and handed down to whatever has a choice; where it comes from is the matter of
`kosambi.learning.memory`. What is computed does not depend on it but for rounding.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from kosambi._core.process_memory import give_back, resident

MOST_THREADS = 8
"""Threads that solve small systems side by side."""
FEWEST_ROWS, MOST_ROWS = 2**13, 2**15
"""Rows of a block: as many as sums take together, and the most that gain anything."""
# Arrays of the size of a block that exist at once while it is used.
_COPIES = 4
# What is left for programs that are compiled later, and for what stands in no plan.
_MARGIN = 150 * 10**6


class Room(NamedTuple):
    """Bytes for the arrays of a stage."""

    batch: int = 2**29
    """What is computed at once: one half by all threads together, the other half a block of their results."""
    kept: int = 2**32
    """What may be held, because it would have to be computed again."""
    features: int = 2**30
    """What the features of all rows may take in double precision; above it they are held in single precision."""
    limit: int | None = None
    """What the whole process may take, if that is limited."""

    def now(self) -> Room:
        """The same with no more to keep than there is memory left at this moment.

        What is kept changes no digit, so that this need not be the same when a fit is taken up again.
        """
        if self.limit is None:
            return self
        give_back()
        return self._replace(kept=max(0, min(self.kept, self.limit - resident() - self.batch - _MARGIN)))

    def inputs(self, each: int) -> int:
        """Inputs whose systems one thread may hold, with so many bytes for each.

        >>> Room(batch=0).inputs(100)
        1
        """
        threads = min(os.cpu_count() or 1, MOST_THREADS)
        return max(1, self.batch // (2 * threads * each))

    def rows(self, width: int) -> int:
        """Rows of a block with `width` numbers each: a power of two.

        >>> Room().rows(8), Room(batch=2**20).rows(8)
        (32768, 8192)
        """
        wanted = max(1, self.batch // (2 * 8 * _COPIES * max(width, 1)))
        return min(MOST_ROWS, max(FEWEST_ROWS, 2 ** (wanted.bit_length() - 1)))


USUAL = Room()
"""Where nobody has said how much memory there is."""
