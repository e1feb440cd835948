"""Passes over a stream whose sums are kept in a journal, so that a pass which is under way can be taken up again.

A finished pass is an answer: the sums, and how many rows of what digests they are of. Of one that is under way the
journal has the sums so far and the place of the next block. Rows before it are read once more, which is quick beside
what is computed of them, and compared with those that were added up.

Sums are those of one process. What processes tell each other is told again in a run that is taken up, so that nobody
has to know how far the others had come: whoever has a sum waits for those who have not.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from kosambi._core.journal import Arrays, Keeper, Steps
from kosambi.sources.passes import Block, Mark, Stream

STRETCH = 5.0
"""Seconds of a pass between two answers of a journal; how a pass is cut changes no number."""


class Totals(Keeper, Protocol):
    """Sums over rows."""

    def add(self, block: Block) -> None:
        """Count more rows."""


class Sweeps:
    """Passes over a stream, one after the other.

    Arguments:
        stream: the rows.
        size: of a block.

    >>> import numpy as np, kosambi as ko
    >>> from kosambi.sources.tally import Tally
    >>> stream, tally = ko.sources.Stream(ko.sources.ArraySource(np.ones((5, 2)), np.arange(5.0))), Tally(3)
    >>> Sweeps(stream, 2).over(tally)
    >>> tally.num_rows, stream.passes
    (5, 1)
    """

    def __init__(self, stream: Stream, size: int) -> None:
        self.stream, self.size = stream, size
        self._mark: Mark | None = None
        self._totals: Totals | None = None
        self._steps = Steps("pass", self)

    def over(self, totals: Totals, *asked: Any) -> None:
        """One pass, whose blocks are added to `totals`.

        Arguments:
            totals: sums of nothing; afterwards those of all rows of this process.
            asked: what they depend on beside the rows.
        """
        self._mark, self._totals = Mark(), totals
        blocks, count, is_done = None, self.stream.passes, False

        def compute() -> tuple[Any, ...]:
            nonlocal blocks
            mark = self._mark
            assert mark is not None
            if blocks is None:
                blocks = self.stream.blocks(self.size, mark)
            until = time.perf_counter() + STRETCH
            for block in blocks:
                totals.add(block)
                if mark.is_compared and time.perf_counter() >= until:
                    return (False,)
            self._mark = None
            sums = [None if part is None else np.asarray(part) for part in totals.memory()]
            return (True, *_written(mark), *sums)

        found: Sequence[Any] = ()
        while not is_done:
            is_done, *found = self._steps.next(compute, self.size, *asked)
        if self.stream.passes == count:
            self.stream.recall(_read(found[:3]))
        # The same way whether they are of this run or of an earlier one.
        totals.recall(tuple(found[3:]))
        self._mark = self._totals = None

    def memory(self) -> Sequence[Any]:
        """The sums so far and their place; nothing between two passes."""
        if self._mark is None or self._totals is None:
            return []
        return [*_written(self._mark), *self._totals.memory()]

    def recall(self, memory: Arrays) -> None:
        """Go on from there."""
        if len(memory) and self._totals is not None:
            self._mark = _read(memory[:3])
            self._totals.recall(memory[3:])


def _written(mark: Mark) -> tuple[int, np.ndarray, float]:
    return mark.rows, np.array(mark.hashes, dtype=np.uint64), mark.seconds


def _read(parts: Sequence[Any]) -> Mark:
    rows, hashes, seconds = parts
    return Mark(int(rows), tuple(hashes.tolist()), float(seconds))
