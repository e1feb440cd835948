"""A column of text by its distinct values, of which there are few even in a long file."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kosambi.tables._pandas import MISSING_TEXT, pandas

MOSTLY = 0.8
"""From this share on, text among numbers or dates is taken for a mistake, and numbers among text for names."""


class Distinct(NamedTuple):
    """The distinct texts of a column, without spaces around them, and which of them each row has."""

    codes: np.ndarray
    """(N,): the place of each row's text, −1 where it is missing."""
    levels: np.ndarray
    """(L,) texts, of which two may be equal once spaces were cut off."""

    @property
    def counts(self) -> np.ndarray:
        """(L,): in how many rows each text is."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.levels))

    def share(self, is_so: Any) -> float:
        """The share of the values that are there with a property of their text, given for each of these."""
        there = self.codes[self.codes >= 0]
        return float(np.mean(np.asarray(is_so, dtype=bool)[there])) if len(there) else 0.0

    def rows(self, is_so: Any) -> np.ndarray:
        """The rows whose text has a property, in order."""
        return np.flatnonzero(np.append(np.asarray(is_so, dtype=bool), False)[self.codes])

    def spread(self, values: np.ndarray, missing: Any) -> np.ndarray:
        """(N,): what belongs to each row's text, and `missing` where there is none."""
        return np.append(values, np.array([missing], dtype=values.dtype))[self.codes]


def distinct(column: Any) -> Distinct:
    """The distinct texts of a column; what stands for a missing value is missing.

    >>> import pandas as pd
    >>> distinct(pd.Series(["a ", "?", "b", "a "]))
    Distinct(codes=array([ 0, -1,  1,  0]), levels=array(['a', 'b'], dtype=object))
    """
    codes, values = pandas().factorize(column)
    levels = np.array([str(value).strip() for value in values], dtype=object)
    is_there = np.array([level not in MISSING_TEXT for level in levels], dtype=bool)
    places = np.append(np.where(is_there, np.cumsum(is_there) - 1, -1), -1)
    return Distinct(places[codes], levels[is_there])
