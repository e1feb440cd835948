"""What a pass counts of its rows, added over the processes that have some of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from kosambi._core.groups import Group
from kosambi._core.journal import Arrays
from kosambi.sources.passes import Block, hashed

MOST_VALUES = 64
"""Distinct values of y up to which they are kept, as labels are few."""


class Tally:
    """Counts, moments, ranges, values of y and a sample of the rows that have come.

    Arguments:
        number: rows of the sample, at most.
    """

    def __init__(self, number: int) -> None:
        self.num_rows = self.counted = 0
        self.moments, self.kept, self.values = Moments(), Kept(number), np.empty(0)
        self.lowest: np.ndarray | None = None
        self.highest: np.ndarray | None = None

    def add(self, block: Block) -> None:
        """Count more rows."""
        self.num_rows += len(block.y)
        used = block.weights > 0
        if not np.all(used):
            block = Block(*(field[used] for field in block))
        if not len(block.y):
            return
        self.counted += len(block.y)
        self.moments.add(np.column_stack([block.x, block.y]), block.weights)
        self.kept.add(block)
        self._widen(np.min(block.x, axis=0), np.max(block.x, axis=0), block.y)

    def memory(self) -> Sequence[Any]:
        """What has been counted, as arrays."""
        moments, rows = self.moments, self.kept.block() if self.kept.parts else (None,) * len(Block._fields)
        counts = np.array([self.num_rows, self.counted])
        ends = self.values, self.lowest, self.highest
        return [counts, *ends, moments.weight, moments.mean, moments.squares, moments.largest, *rows]

    def recall(self, memory: Arrays) -> None:
        """Go on from there."""
        counts, values, self.lowest, self.highest, weight, mean, squares, largest, *rows = memory
        self.num_rows, self.counted = np.asarray(counts).tolist()
        self.values = np.asarray(values)
        self.moments, self.kept = Moments(), Kept(self.kept.number)
        self.moments.join(float(np.asarray(weight)), *map(np.asarray, (mean, squares, largest)))
        block = [part for part in rows if part is not None]
        if block:
            self.kept.add(Block(*block))

    def over(self, group: Group) -> Tally:
        """That of the rows of all processes; the same as if one had read them, but for the order of sums."""
        if group.count == 1:
            return self
        counts, moments = np.array([self.num_rows, self.counted]), self.moments
        own: tuple[np.ndarray, ...] = ()
        if self.lowest is not None and self.highest is not None:
            own = (self.lowest, self.highest, self.values, np.array(moments.weight), moments.mean, moments.squares)
            own += (moments.largest, *self.kept.block())
        whole = Tally(self.kept.number)
        for numbers, *found in group.gathered("what the first pass found", counts, *own):
            whole.num_rows, whole.counted = whole.num_rows + int(numbers[0]), whole.counted + int(numbers[1])
            if found:
                lowest, highest, values, weight, mean, squares, largest, *rows = found
                whole._widen(lowest, highest, values)
                whole.moments.join(float(weight), mean, squares, largest)
                whole.kept.add(Block(*rows))
        return whole

    def _widen(self, lowest: np.ndarray, highest: np.ndarray, y: np.ndarray) -> None:
        self.lowest = lowest if self.lowest is None else np.minimum(self.lowest, lowest)
        self.highest = highest if self.highest is None else np.maximum(self.highest, highest)
        if len(self.values) <= MOST_VALUES:
            self.values = np.union1d(self.values, y)


class Moments:
    """Weighted means and squared deviations, block by block (Chan et al. 1979): no digits are lost to large means."""

    def __init__(self) -> None:
        self.weight = 0.0
        self.mean = self.squares = self.largest = np.zeros(0)

    def add(self, values: Float[np.ndarray, "n K"], weights: Float[np.ndarray, " n"]) -> None:
        """Count more rows."""
        # Squares that are no numbers are for `survey` to refuse, which knows the row.
        with np.errstate(over="ignore", invalid="ignore"):
            mean = np.average(values, axis=0, weights=weights)
            squares, largest = weights @ np.square(values - mean), np.max(np.abs(values), axis=0)
            self.join(float(np.sum(weights)), mean, squares, largest)

    def join(self, weight: float, mean: np.ndarray, squares: np.ndarray, largest: np.ndarray) -> None:
        """Count rows of which these are known."""
        if not self.weight:
            self.weight, self.mean, self.squares, self.largest = weight, mean, squares, largest
            return
        total, apart = self.weight + weight, mean - self.mean
        self.mean = self.mean + apart * (weight / total)
        self.squares = self.squares + squares + np.square(apart) * (self.weight * weight / total)
        self.weight, self.largest = total, np.maximum(self.largest, largest)

    def location_and_scale(self) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations; a deviation of one where all values are equal.

        To some 12 digits of the deviation: what is standardised with them, and learned from that, then does not depend
        on the order in which blocks, or processes, were added up. Searches turn last digits into visible ones.
        """
        deviation = np.sqrt(self.squares / self.weight)
        scale = np.where(deviation > 1e-13 * self.largest, deviation, 1.0)
        unit = np.exp2(np.floor(np.log2(scale)) - 40)
        return np.round(self.mean / unit) * unit, np.round(scale / unit) * unit


class Kept:
    """The rows with the smallest hashes of those that have come."""

    def __init__(self, number: int) -> None:
        self.number, self.limit = number, np.uint64(2**64 - 1)
        self.parts: list[tuple[np.ndarray, ...]] = []

    def add(self, block: Block) -> None:
        """Look at more rows."""
        chosen = hashed(block.rows) <= self.limit
        if not np.any(chosen):
            return
        self.parts.append(tuple(field[chosen] for field in block))
        if sum(len(part[0]) for part in self.parts) > 2 * self.number:
            self._cut()

    def _cut(self) -> None:
        rows, *others = (np.concatenate(field) for field in zip(*self.parts, strict=True))
        order = np.argsort(hashed(rows))[: self.number]
        if len(order) == self.number:
            self.limit = hashed(rows[order])[-1]
        # In the order of the rows, whichever process had them.
        order = order[np.argsort(rows[order])]
        self.parts = [(rows[order], *(other[order] for other in others))]

    def block(self) -> Block:
        """Them."""
        self._cut()
        return Block(*self.parts[0])
