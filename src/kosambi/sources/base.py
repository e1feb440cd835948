"""What a source of rows is: something that gives the same rows, in the same order, as often as it is asked."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kosambi.errors import InputError

AT_ONCE = 2**16
"""Rows that a source reads at a time, where it can choose."""


class Part(NamedTuple):
    """Some rows that follow each other, as a source has them."""

    x: np.ndarray
    """(n, D)."""
    y: np.ndarray
    """(n,)."""
    weights: np.ndarray | None
    """(n,), how often each row counts; once when None."""
    place: str = ""
    """Where they are, for a message: "row group 3 of 12"."""


class AbstractRowSource(abc.ABC):
    """Rows that are read in parts and never all held. Subclasses say where from; `Stream` reads and checks them.

    A kind of your own has `parts`, and what names it.
    """

    name: str
    """What messages call it."""
    columns: tuple[str, ...] | None = None
    """(D,), the names of the input columns, where they have some."""
    labels: tuple[str, ...] | None = None
    """What the numbers 0, 1, … of y stand for, where they stand for labels."""

    @abc.abstractmethod
    def parts(self) -> Iterator[Part]:
        """All rows, from the first, in parts of any size; each call begins again."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


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
