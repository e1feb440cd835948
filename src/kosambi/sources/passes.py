"""Passes over a source: blocks of one size, checked, and the same rows at every pass.

Every block's rows are hashed with their numbers, which costs less than reading them. A later pass whose hash differs
has other rows than the first one, and the sums of a fit would be of no data set at all.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from kosambi.errors import InputError
from kosambi.sources.base import AT_ONCE, AbstractRowSource, Part, check_number, where

# Odd numbers with many bits, of SplitMix64.
_GOLDEN, _MIX, _FINAL = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


class Block(NamedTuple):
    """Rows in the order of their source, as float64."""

    rows: Int[np.ndarray, " n"]
    """Their numbers, counted from 0."""
    x: Float[np.ndarray, "n D"]
    y: Float[np.ndarray, " n"]
    weights: Float[np.ndarray, " n"]

    def padded(self, size: int) -> Block:
        """With copies of the first row, of weight zero, behind the others: one shape, one compiled program."""
        extra = size - len(self.y)
        if not extra:
            return self
        return Block(
            np.concatenate([self.rows, np.repeat(self.rows[:1], extra)]),
            np.concatenate([self.x, np.repeat(self.x[:1], extra, axis=0)]),
            np.concatenate([self.y, np.repeat(self.y[:1], extra)]),
            np.concatenate([self.weights, np.zeros(extra)]),
        )


@dataclasses.dataclass
class Mark:
    """How far a pass has come: what it needs, beside sums, to be taken up again."""

    rows: int = 0
    """Whose blocks have been handed out."""
    hashes: Sequence[int] = (0,)
    """Of 65,536 rows each, the last one of those that came after them."""
    seconds: float = 0.0

    @property
    def is_compared(self) -> bool:
        """Whether all rows before it are known to be those of earlier passes."""
        return self.rows % AT_ONCE == 0


class Stream:
    """Passes over the rows of a source.

    Arguments:
        source: where the rows are.
        transform: of every block, after it was checked; None for none.

    >>> import numpy as np, kosambi as ko
    >>> stream = ko.sources.Stream(ko.sources.ArraySource(np.ones((5, 2)), np.arange(5.0)))
    >>> [len(block.y) for block in stream.blocks(2)], stream.num_rows, stream.passes
    ([2, 2, 1], 5, 1)
    """

    def __init__(self, source: AbstractRowSource, transform: Callable[[Block], Block] | None = None) -> None:
        if not isinstance(source, AbstractRowSource):
            raise InputError(
                f"Rows as a stream come from a `kosambi.sources` object. Got {type(source).__name__}. For example "
                '`kosambi.sources.ParquetSource(path, target="y")`.'
            )
        self.source, self.transform = source, transform
        self.num_rows: int | None = None
        """N, or as many of them as this process has; known after the first pass."""
        self.seconds: list[float] = []
        """What each complete pass took."""
        self._digests: list[int] = []
        self._is_recalled = False

    @property
    def passes(self) -> int:
        """Complete passes so far."""
        return len(self.seconds)

    def mapped(self, transform: Callable[[Block], Block]) -> Stream:
        """The same rows, transformed, whose passes are counted and compared with those before."""
        other = Stream(self.source, transform)
        other.num_rows, other.seconds, other._digests = self.num_rows, self.seconds, self._digests
        other._is_recalled = self._is_recalled
        return other

    def recall(self, mark: Mark) -> None:
        """Count a complete pass that an earlier run has made."""
        if self.num_rows is None:
            self.num_rows, self._digests[:], self._is_recalled = mark.rows, mark.hashes, True
        self.seconds.append(mark.seconds)

    def blocks(self, size: int, mark: Mark | None = None) -> Iterator[Block]:
        """One pass: blocks of `size` rows, a power of two up to 65536, the last one with what is left.

        With a mark of an earlier run, which lies behind a multiple of 65536 rows, those before it are read and compared
        with what they were, and blocks begin behind it. The mark is moved along.
        """
        if size < 1 or size > AT_ONCE or size & (size - 1):
            raise InputError(f"`size` must be a power of two, at most {AT_ONCE}. Got {size}.")
        mark = Mark() if mark is None else mark
        before, began, row, is_first = mark.rows, time.perf_counter() - mark.seconds, 0, self.num_rows is None
        self._is_recalled = self._is_recalled or before > 0
        # Of the first pass as far as it has come.
        known = list(mark.hashes[:-1]) if is_first else self._digests
        hashes = [0]
        for block in _equal(_checked(self.source, is_first), size):
            row += len(block.y)
            # Before anybody gets them, who may have room for no more.
            if not is_first and row > (self.num_rows or 0):
                raise self._changed(f"more rows than the {self.num_rows:,} of the first pass")
            hashes[-1] = (hashes[-1] + _digest(block)) % 2**64
            if row % AT_ONCE == 0:
                self._compare(hashes, known, row, is_first)
                hashes.append(0)
            if row <= before:
                continue
            mark.rows, mark.hashes, mark.seconds = row, tuple(hashes), time.perf_counter() - began
            yield block if self.transform is None else self.transform(block)
        if row == 0 and is_first and self.source.group.count == 1:
            raise InputError(f"{self.source.name} has no rows. {self.source.if_empty}")
        if row < before:
            raise self._changed(f"{row:,} rows where an earlier run had read {before:,}")
        self._compare(hashes, known, row, is_first)
        if is_first:
            self.num_rows, self._digests[:] = row, hashes
        elif row != self.num_rows:
            raise self._changed(f"{row:,} rows where the first pass had {self.num_rows:,}")
        mark.seconds = time.perf_counter() - began
        self.seconds.append(mark.seconds)

    def _compare(self, hashes: list[int], known: list[int], row: int, is_first: bool) -> None:
        """Refuse the last 65,536 rows, or what is left of them, if they are not those that were there before."""
        place = len(hashes) - 1
        if (is_first and place >= len(known)) or (place < len(known) and hashes[place] == known[place]):
            return
        if self.num_rows is not None and row < min((place + 1) * AT_ONCE, self.num_rows):
            raise self._changed(f"{row:,} rows where the first pass had {self.num_rows:,}")
        whose = f" of those of process {self.source.group.index}" if self.source.group.count > 1 else ""
        places = f"in rows {place * AT_ONCE:,} to {row - 1:,}{whose}"
        raise self._changed(f"other values, or another order, {places}")

    def _changed(self, what: str) -> InputError:
        begun, remedy = ("", "")
        if self._is_recalled:
            begun = ", which an earlier run made"
            remedy = " To fit the rows as they are now, remove the checkpoint."
        return InputError(
            f"{self.source.name} gives other rows in a later pass than in the first{begun}: {what}. A source must give "
            "the same rows each time it is read; seed random numbers inside the function that begins the iterator, and "
            f"do not write to a file that is being read.{remedy}"
        )


def _checked(source: AbstractRowSource, is_first: bool) -> Iterator[Block]:
    """Parts of a source as float64 blocks; refused where they do not fit each other or are no finite numbers."""
    # Of several processes, each compares its parts with the first one of all.
    row, first = 0, source.first() if is_first and source.group.count > 1 else None
    for part in source.parts():
        x, y, weights, place, rows = part
        if rows is not None and len(rows):
            row = int(rows[0])
        if first is None:
            first = part
        _check_alike(source.name, row, part, first)
        rows = row + np.arange(len(y)) if rows is None else rows
        columns = [f"column `{n}`" for n in source.columns] if source.columns else None
        for what, values in (("x", x), ("y", y), ("weights", weights)):
            if values is None or np.all(np.isfinite(values)):
                continue
            bad = np.argwhere(~np.isfinite(values))[0]
            named = "`y`" if what == "y" else f"`{what}`"
            if what == "x":
                named = columns[int(bad[1])] if columns else f"column {int(bad[1])} of `x`"
            raise InputError(
                f"{where(source.name, int(rows[bad[0]]), place)}: {named} is {values[tuple(bad)]}. Repair the row or "
                "leave it out."
            )
        counts = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=np.float64)
        if np.any(counts < 0):
            bad = np.flatnonzero(counts < 0)[:1]
            raise InputError(
                f"{where(source.name, int(rows[bad[0]]), place)}: the weight is {counts[bad[0]]:g}. Weights must "
                "not be negative."
            )
        yield Block(rows, np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64), counts)
        row = int(rows[-1]) + 1 if len(rows) else row


def _check_alike(name: str, row: int, part: Part, first: Part) -> None:
    """Refuse a part that is no table, or not like the first one."""
    x, y, weights, place, _ = part
    for what, values in (("x", x), ("y", y), ("weights", weights)):
        if values is not None:
            check_number(name, row, place, what, values)
    if x.ndim != 2 or x.shape[1] == 0 or y.shape != (len(x),) or (weights is not None and weights.shape != (len(x),)):
        shapes = f"x {x.shape}, y {y.shape}" + ("" if weights is None else f", weights {weights.shape}")
        raise InputError(f"{where(name, row, place)}: rows need x of shape (n, D) and y of shape (n,). Got {shapes}.")
    if x.shape[1] != first.x.shape[1]:
        raise InputError(
            f"{where(name, row, place)}: x has {x.shape[1]} columns from here on, and had {first.x.shape[1]} before. "
            "Give all rows the same columns."
        )
    for what, new, old in (("x", x, first.x), ("y", y, first.y)):
        if new.dtype != old.dtype:
            raise InputError(
                f"{where(name, row, place)}: `{what}` has the dtype {new.dtype} from here on, and had {old.dtype} "
                "before. Convert it to float64 throughout."
            )
    if (weights is None) != (first.weights is None):
        raise InputError(f"{where(name, row, place)}: some rows have weights and others none. Give all of them some.")


def _equal(blocks: Iterator[Block], size: int) -> Iterator[Block]:
    """The same rows in blocks of one size."""
    held: list[Block] = []
    count = 0
    for block in blocks:
        held.append(block)
        count += len(block.y)
        if count < size:
            continue
        joined = _joined(held)
        for start in range(0, count - size + 1, size):
            yield Block(*(field[start : start + size] for field in joined))
        left = count % size
        held = [Block(*(field[count - left :] for field in joined))] if left else []
        count = left
    if count:
        yield _joined(held)


def _joined(blocks: list[Block]) -> Block:
    return Block(*(np.concatenate(field) for field in zip(*blocks, strict=True)))


def _digest(block: Block) -> int:
    """A sum over rows of a hash of each row's numbers and of its place: the same for any blocks."""
    table = np.column_stack([block.x, block.y, block.weights]).view(np.uint64)
    with np.errstate(over="ignore"):
        factors = hashed(np.arange(1, table.shape[1] + 1)) | np.uint64(1)
        mixed = ((table ^ (table >> np.uint64(29))) * factors).sum(axis=1, dtype=np.uint64)
        mixed = mixed ^ (mixed >> np.uint64(32))
        return int((mixed * (hashed(block.rows) | np.uint64(1))).sum(dtype=np.uint64))


def hashed(numbers: np.ndarray) -> np.ndarray:
    """Whole numbers as 64 bits that look random (SplitMix64).

    >>> [int(n) >> 60 for n in hashed(np.arange(4))]
    [14, 6, 0, 15]
    """
    with np.errstate(over="ignore"):
        z = (numbers.astype(np.uint64) + np.uint64(1)) * _GOLDEN
        z = (z ^ (z >> np.uint64(30))) * _MIX
        z = (z ^ (z >> np.uint64(27))) * _FINAL
        return np.asarray(z ^ (z >> np.uint64(31)))
