"""Some rows of a long table that say as much about its columns as all of them: what `Schema.learn` looks at.

A uniform sample, and beside it the first row of every level, of every label, of a missing value in each column, and of
a second value in each. Medians are then those of the sample, levels those of all rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kosambi._core.groups import Group
from kosambi.sources.passes import hashed
from kosambi.tables._columns import MAX_LEVELS
from kosambi.tables._pandas import pandas
from kosambi.tables._target import MAX_CLASSES

# Levels of a column beyond which no more rows are kept for it: it will be refused.
_MANY = 3 * MAX_LEVELS


class Witnesses:
    """Rows of a table that were kept, in one pass over it.

    Arguments:
        parts: the table, some rows at a time, with their numbers as index.
        target: the column that is predicted.
        number: rows of the sample, at most.
    """

    def __init__(self, parts: Iterator[Any], target: str, number: int) -> None:
        self.target, self.number, self.num_rows = target, number, 0
        self._seen: dict[str, set[object]] = {}
        sampled: list[Any] = []
        witnesses: list[Any] = []
        for part in parts:
            self.num_rows += len(part)
            sampled.append(_smallest(part, number))
            if sum(map(len, sampled)) > 2 * number:
                sampled = [_smallest(pandas().concat(sampled), number)]
            rows = sorted({place for name in part for place in self._new(str(name), part[name])})
            if rows:
                witnesses.append(part.iloc[rows])
        self.sample = _smallest(pandas().concat(sampled), number)
        both = pandas().concat([self.sample, *witnesses])
        self.rows = both[~both.index.duplicated()].sort_index()
        """Sample and witnesses, in the order of the table."""

    def over(self, group: Group) -> Witnesses:
        """Those of all processes, each of which has looked at its own rows."""
        if group.count == 1:
            return self
        total = int(group.added("rows of the table", [self.num_rows])[0][0])
        # The first of a kind in the table is the first of it in the rows of some process.
        whole = Witnesses(iter([gathered_rows(group, self.rows)]), self.target, self.number)
        whole.num_rows = total
        return whole

    def _new(self, name: str, column: Any) -> Sequence[int]:
        """Places of the rows that have something which no earlier row had in this column."""
        seen = self._seen.setdefault(name, set())
        is_number = pandas().api.types.is_numeric_dtype(column.dtype)
        most = (MAX_CLASSES + 2 if name == self.target else 3) if is_number else _MANY
        places = []
        # One more for a missing value, which is looked for to the end.
        if None not in seen and (missing := np.flatnonzero(column.isna())).size:
            seen.add(None)
            places.append(int(missing[0]))
        if len(seen) - (None in seen) >= most:
            return places
        for place, value in _first_places(column):
            if value not in seen and len(seen) - (None in seen) < most:
                seen.add(value)
                places.append(place)
        return places


def gathered_rows(group: Group, table: Any) -> Any:
    """The rows of all processes' tables, by their numbers. Needs pyarrow, as Parquet does."""
    if group.count == 1:
        return table
    import pyarrow as arrow  # type: ignore[import-untyped]

    # An index of numbers, not of a range, travels as a column.
    whole = arrow.Table.from_pandas(table.set_axis(np.asarray(table.index, dtype=np.int64)), preserve_index=True)
    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, whole.schema) as writer:
        writer.write_table(whole)
    found = group.exchange("rows of the table", sink.getvalue().to_pybytes())
    frames = [arrow.ipc.open_stream(message).read_all().to_pandas() for message in found]
    return pandas().concat([frame for frame in frames if len(frame)] or frames[:1]).sort_index()


def _first_places(column: Any) -> Iterator[tuple[int, object]]:
    """The first place of each value in a column that is not missing."""
    codes, values = pandas().factorize(column)
    first = np.full(len(values) + 1, -1)
    # From the last to the first, so that the first stays; a missing value has the code −1, the last place.
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    yield from zip(first[:-1].tolist(), values, strict=True)


def _smallest(table: Any, number: int) -> Any:
    """The rows whose numbers have the smallest hashes, in order."""
    if len(table) <= number:
        return table
    kept = np.sort(np.argsort(hashed(table.index.to_numpy()))[:number])
    return table.iloc[kept]
