"""The first pass: how many rows there are, their means and ranges, and a sample that stays in memory.

The sample is uniform: the n rows whose numbers have the smallest hashes. It does not depend on the sizes of blocks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int

from kosambi.errors import InputError
from kosambi.sources.base import AT_ONCE, AbstractRowSource
from kosambi.sources.memory import MOST_SAMPLED
from kosambi.sources.passes import Block, Stream, hashed

MOST_VALUES = 64
"""Distinct values of y up to which they are kept, as labels are few."""


@dataclasses.dataclass(frozen=True, eq=False)
class Sample:
    """Some rows of a source, in its order."""

    rows: Int[np.ndarray, " n"]
    """Their numbers."""
    x: Float[np.ndarray, "n D"]
    y: Float[np.ndarray, " n"]
    weights: Float[np.ndarray, " n"]

    def first(self, number: int) -> Sample:
        """The sample that would have been drawn with at most `number` rows."""
        if number >= len(self.rows):
            return self
        kept = np.sort(np.argsort(hashed(self.rows))[:number])
        return Sample(self.rows[kept], self.x[kept], self.y[kept], self.weights[kept])


@dataclasses.dataclass(frozen=True, eq=False)
class Survey:
    """What the first pass found. `survey` makes it."""

    stream: Stream
    """For further passes."""
    num_rows: int
    """N."""
    num_counted: int
    """Rows of a weight above zero."""
    total_weight: float
    """Σ_n weight_n."""
    x_mean: Float[np.ndarray, " D"]
    x_scale: Float[np.ndarray, " D"]
    """Weighted means and standard deviations of the input columns; one where a column is constant."""
    y_mean: float
    y_scale: float
    lowest: Float[np.ndarray, " D"]
    highest: Float[np.ndarray, " D"]
    """The range of each column, over rows of a weight above zero."""
    values: Float[np.ndarray, " V"] | None
    """The distinct values of y, in order, while there are no more than 64."""
    sample: Sample

    @property
    def factor(self) -> float:
        """How many rows one of the sample stands for, by weight."""
        return self.total_weight / float(np.sum(self.sample.weights))

    def mapped(self, transform: Callable[[Block], Block], sample_rows: int | None = None) -> Survey:
        """The survey of transformed rows; means and values of y stay those of the rows as they were."""
        held = self.sample if sample_rows is None else self.sample.first(sample_rows)
        block = transform(Block(0, held.x, held.y, held.weights))
        ends = transform(Block(0, np.stack([self.lowest, self.highest]), np.zeros(2), np.ones(2))).x
        return dataclasses.replace(
            self,
            stream=self.stream.mapped(transform),
            lowest=np.min(ends, axis=0),
            highest=np.max(ends, axis=0),
            sample=Sample(held.rows, block.x, block.y, block.weights),
        )


def survey(
    source: AbstractRowSource,
    *,
    sample_rows: int = MOST_SAMPLED,
    block_rows: int = AT_ONCE,
    check: Callable[[np.ndarray], object] | None = None,
) -> Survey:
    """One pass over a source: counts, moments, ranges, checks and a sample.

    Arguments:
        source: where the rows are.
        sample_rows: how many of them stay in memory, at most.
        block_rows: rows of a block; a power of two.
        check: refuses observations that a likelihood cannot have, by an `InputError`.

    >>> import numpy as np, kosambi as ko
    >>> x = np.arange(10.0)[:, None]
    >>> found = survey(ko.sources.ArraySource(x, x[:, 0] % 2), sample_rows=4)
    >>> found.num_rows, found.x_mean, found.values, len(found.sample.y)
    (10, array([4.5]), array([0., 1.]), 4)
    """
    stream, moments, kept = Stream(source), _Moments(), _Kept(sample_rows)
    counted, values = 0, np.empty(0)
    lowest: np.ndarray | None = None
    highest: np.ndarray | None = None
    for block in stream.blocks(block_rows):
        if check is not None:
            _check(check, block, source.name)
        used = block.weights > 0
        if not np.all(used):
            index, block = np.flatnonzero(used), Block(block.start, *(part[used] for part in block[1:]))
        else:
            index = np.arange(len(block.y))
        if not len(index):
            continue
        counted += len(index)
        moments.add(np.column_stack([block.x, block.y]), block.weights)
        kept.add(block.start + index, block)
        ends = np.min(block.x, axis=0), np.max(block.x, axis=0)
        lowest = ends[0] if lowest is None else np.minimum(lowest, ends[0])
        highest = ends[1] if highest is None else np.maximum(highest, ends[1])
        if len(values) <= MOST_VALUES:
            values = np.union1d(values, block.y)
    if lowest is None or highest is None:
        raise InputError(f"All weights of {source.name} are zero. Give some row a positive weight.")
    assert stream.num_rows is not None
    mean, scale = moments.location_and_scale()
    return Survey(
        stream,
        stream.num_rows,
        counted,
        moments.weight,
        mean[:-1],
        scale[:-1],
        float(mean[-1]),
        float(scale[-1]),
        lowest,
        highest,
        values if len(values) <= MOST_VALUES else None,
        kept.sample(),
    )


def _check(check: Callable[[np.ndarray], object], block: Block, name: str) -> None:
    """`check`, with the row that it refuses."""
    try:
        check(block.y)
    except InputError:
        low, high = 0, len(block.y)
        # The first row whose company is refused.
        while high - low > 1:
            middle = (low + high) // 2
            try:
                check(block.y[low:middle])
            except InputError:
                high = middle
            else:
                low = middle
        try:
            check(block.y[low:high])
        except InputError as error:
            raise InputError(f"{name}, row {block.start + low:,} (counted from 0): {error}") from error
        raise


class _Moments:
    """Weighted means and squared deviations, block by block (Chan et al. 1979): no digits are lost to large means."""

    def __init__(self) -> None:
        self.weight = 0.0
        self.mean = self.squares = self.largest = np.zeros(0)

    def add(self, values: Float[np.ndarray, "n K"], weights: Float[np.ndarray, " n"]) -> None:
        """Count more rows."""
        weight = float(np.sum(weights))
        mean = np.average(values, axis=0, weights=weights)
        squares = weights @ np.square(values - mean)
        largest = np.max(np.abs(values), axis=0)
        if not self.weight:
            self.weight, self.mean, self.squares, self.largest = weight, mean, squares, largest
            return
        total, apart = self.weight + weight, mean - self.mean
        self.mean = self.mean + apart * (weight / total)
        self.squares = self.squares + squares + np.square(apart) * (self.weight * weight / total)
        self.weight, self.largest = total, np.maximum(self.largest, largest)

    def location_and_scale(self) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations; a deviation of one where all values are equal."""
        deviation = np.sqrt(self.squares / self.weight)
        return self.mean, np.where(deviation > 1e-13 * self.largest, deviation, 1.0)


class _Kept:
    """The rows with the smallest hashes of those that have come."""

    def __init__(self, number: int) -> None:
        self.number, self.limit = number, np.uint64(2**64 - 1)
        self.parts: list[tuple[np.ndarray, ...]] = []

    def add(self, rows: Int[np.ndarray, " n"], block: Block) -> None:
        """Look at more rows."""
        chosen = hashed(rows) <= self.limit
        if not np.any(chosen):
            return
        self.parts.append((rows[chosen], block.x[chosen], block.y[chosen], block.weights[chosen]))
        if sum(len(part[0]) for part in self.parts) > 2 * self.number:
            self._cut()

    def _cut(self) -> None:
        rows, *others = (np.concatenate(field) for field in zip(*self.parts, strict=True))
        order = np.argsort(hashed(rows))[: self.number]
        self.limit = hashed(rows[order])[-1]
        order = np.sort(order)
        self.parts = [(rows[order], *(other[order] for other in others))]

    def sample(self) -> Sample:
        """Them."""
        self._cut()
        return Sample(*self.parts[0])
