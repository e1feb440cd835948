"""The first pass: how many rows there are, their means and ranges, and a sample that stays in memory.

The sample is uniform: the n rows whose numbers have the smallest hashes. It does not depend on the sizes of blocks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int

from kosambi.errors import InputError
from kosambi.sources.base import AT_ONCE, AbstractRowSource, where
from kosambi.sources.memory import MOST_SAMPLED
from kosambi.sources.passes import Block, Stream, hashed
from kosambi.sources.sweeps import Sweeps
from kosambi.sources.tally import MOST_VALUES, Tally


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
        block = transform(Block(held.rows, held.x, held.y, held.weights))
        ends = transform(Block(np.arange(2), np.stack([self.lowest, self.highest]), np.zeros(2), np.ones(2))).x
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
    stream, tally = Stream(source), _Checked(sample_rows, check, source)
    Sweeps(stream, block_rows).over(tally, "first", sample_rows)
    whole = tally.over(source.group)
    if not whole.num_rows:
        raise InputError(f"{source.name} has no rows. Give a source with data.")
    if whole.lowest is None or whole.highest is None:
        raise InputError(f"All weights of {source.name} are zero. Give some row a positive weight.")
    mean, scale = whole.moments.location_and_scale()
    return Survey(
        stream,
        whole.num_rows,
        whole.counted,
        whole.moments.weight,
        mean[:-1],
        scale[:-1],
        float(mean[-1]),
        float(scale[-1]),
        whole.lowest,
        whole.highest,
        whole.values if len(whole.values) <= MOST_VALUES else None,
        Sample(*whole.kept.block()),
    )


class _Checked(Tally):
    """A tally that refuses rows which `check` does, and such as make its sums no numbers."""

    def __init__(self, number: int, check: Callable[[np.ndarray], object] | None, source: AbstractRowSource) -> None:
        super().__init__(number)
        self._check, self._source = check, source

    def add(self, block: Block) -> None:
        if self._check is not None:
            _check(self._check, block, self._source.name)
        super().add(block)
        _check_squares(self, block, self._source)


def _check_squares(tally: Tally, block: Block, source: AbstractRowSource) -> None:
    """Refuse columns without a variance that is a number, with the row that lies farthest out."""
    is_wrong = ~np.isfinite(tally.moments.squares)
    if not is_wrong.any():
        return
    column = int(np.argmax(is_wrong))
    values = np.column_stack([block.x, block.y])[:, column]
    row, largest = int(np.argmax(np.abs(values))), float(np.max(np.abs(values)))
    names = [*(source.columns or [f"column {d}" for d in range(block.x.shape[1])]), "y"]
    raise InputError(
        f"{where(source.name, int(block.rows[row]))}: `{names[column]}` is {values[row]:g}, and the weighted squares "
        f"of this column cannot be represented. Correct this row, or divide the column by {largest:.1g}, or "
        "very large weights."
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
            raise InputError(f"{name}, row {int(block.rows[low]):,} (counted from 0): {error}") from error
        raise
