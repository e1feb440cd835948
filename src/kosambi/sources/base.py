"""What a source of rows is: something that gives the same rows, in the same order, as often as it is asked."""

from __future__ import annotations

import abc
import datetime
import os
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kosambi._core.groups import ALONE, Group
from kosambi._core.journal import digest_of
from kosambi.errors import InputError

AT_ONCE = 2**16
"""Rows that a source reads at a time, where it can choose."""


IN_TURN = 2**13
"""Rows that one process takes before it is the next one's turn, where nobody knows how many there are."""


class Part(NamedTuple):
    """Some rows in the order of their source."""

    x: np.ndarray
    """(n, D)."""
    y: np.ndarray
    """(n,)."""
    weights: np.ndarray | None
    """(n,), how often each row counts; once when None."""
    place: str = ""
    """Where they are, for a message: "row group 3 of 12"."""
    rows: np.ndarray | None = None
    """(n,), their numbers; those that follow on the last part's when None."""

    def only(self, some: slice, rows: np.ndarray) -> Part:
        """Some of them, with their numbers."""
        weights = None if self.weights is None else self.weights[some]
        return Part(self.x[some], self.y[some], weights, self.place, rows)


class AbstractRowSource(abc.ABC):
    """Rows that are read in parts and never all held. Subclasses say where from; `Stream` reads and checks them.

    A kind of your own has `parts`, and what names it.
    """

    name: str
    """What messages call it."""
    if_empty = "Give a source with data."
    """What they say to do where it has no rows."""
    columns: tuple[str, ...] | None = None
    """(D,), the names of the input columns, where they have some."""
    labels: tuple[str, ...] | None = None
    """What the numbers 0, 1, … of y stand for, where they stand for labels."""

    group: Group = ALONE
    """The processes that share the rows; see `kosambi.parallel.distributed`."""

    @abc.abstractmethod
    def parts(self) -> Iterator[Part]:
        """All rows, from the first, in parts of any size; each call begins again."""

    def parts_of(self, index: int, count: int) -> Iterator[Part]:
        """The rows of one process of several, with their numbers: here 8192 in turn, for which all of them are read.

        Arguments:
            index: of the process.
            count: of processes.
        """
        row = 0
        for part in self.parts():
            rows = row + np.arange(len(part.y)) if part.rows is None else part.rows
            row = int(rows[-1]) + 1 if len(rows) else row
            turns = rows // IN_TURN
            for turn in np.unique(turns[turns % count == index]):
                some = slice(*np.searchsorted(turns, [turn, turn + 1]))
                yield part.only(some, rows[some])

    def first(self) -> Part:
        """The first rows that there are, whichever process has them."""
        found = next(iter(self.parts()), None)
        if found is None:
            raise InputError(f"{self.name} has no rows. {self.if_empty}")
        return found

    def facts(self) -> dict[str, object]:
        """What must be the same wherever parts of it are read."""
        return {"the name of the data": self.name, "the input columns": self.columns, "the labels": self.labels}

    def marks(self) -> dict[str, object]:
        """What must be the same when a fit is taken up again on the same machine; not all rows are read for that."""
        first = self.first()
        values = [part for part in first[:3] if part is not None]
        is_numbers = all(part.dtype.kind in "fiub" for part in values)
        # What holds no numbers is refused by the first pass.
        return self.facts() | {"the first rows": digest_of(values) if is_numbers else "no numbers"}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


def written(path: str | os.PathLike[str]) -> dict[str, object]:
    """Where a file is, and when it was written last."""
    time = datetime.datetime.fromtimestamp(os.stat(path).st_mtime_ns * 1e-9, datetime.UTC)
    return {"the path of the file": os.path.realpath(path), "the time when the file was written": time.isoformat()}


def check_number(name: str, start: int, place: str, what: str, values: np.ndarray) -> None:
    """Refuse what is no number; values that are not finite are for `Stream` to refuse, which knows the column."""
    if values.dtype.kind not in "fiub":
        raise InputError(
            f"{where(name, start, place)}: `{what}` has the dtype {values.dtype}, which holds no numbers. Convert it "
            "to float64."
        )


def where(name: str, row: int, place: str = "") -> str:
    """A row for a message, counted from 0, with the place where the source has it.

    >>> where("`rows.parquet`", 9_999_999, "row group 7 of 7")
    '`rows.parquet`, row 9,999,999 (counted from 0; row group 7 of 7)'
    """
    return f"{name}, row {row:,} (counted from 0{f'; {place}' if place else ''})"
