"""Remarks on columns that a user should hear before a fit: how numbers are written, and words among numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kosambi.tables._formats import Written, as_written, number_of
from kosambi.tables._names import quoted
from kosambi.tables._pandas import MISSING_TEXT, pandas
from kosambi.tables._typed import kind_of

# From this share of numbers on, a column of text is said to be mixed.
_MIXED = 0.5


class Texts(NamedTuple):
    """The distinct texts of a column, how often each occurs, and the numbers that they stand for."""

    levels: np.ndarray
    counts: np.ndarray
    written: Written


def texts_of(column: Any) -> Texts | None:
    """What a column of text holds, without missing values; None for any other column.

    >>> import pandas as pd
    >>> texts_of(pd.Series(["$5", None, "$1,000"])).written.unit, texts_of(pd.Series([5.0]))
    ('$', None)
    """
    pd = pandas()
    if not (pd.api.types.is_object_dtype(column.dtype) or pd.api.types.is_string_dtype(column.dtype)):
        return None
    found = column.dropna().astype(str).str.strip().value_counts(sort=False)
    found = found[~found.index.isin(list(MISSING_TEXT))]
    levels, counts = found.index.to_numpy(dtype=object), found.to_numpy()
    plain = np.asarray(pd.to_numeric(pd.Series(levels, dtype=object), errors="coerce"), dtype=np.float64)
    return Texts(levels, counts, as_written(levels, plain, counts))


def units_of(raw: Any, table: Any) -> dict[str, Written]:
    """How numbers were written that are not plain, by column: `raw` as `read` gives it, `table` as `typed` does."""
    found = {}
    for name in table:
        texts = texts_of(raw[name]) if kind_of(table[name]) == "numeric" else None
        if texts is not None and texts.written.unit is not None:
            found[str(name)] = texts.written
    return found


def unit_note(name: str, written: Written) -> str:
    """What is said of a column whose numbers are not written plainly."""
    parsed = number_of(written.example)
    assert parsed is not None
    return f"Column `{name}` is read as numbers: `{written.example}` is {parsed[0]:.15g}."


def mixed_notes(raw: Any, table: Any, inputs: Sequence[str], categorical: Sequence[str] = ()) -> tuple[str, ...]:
    """What is said of columns that are taken for categories although most of their values are numbers.

    Arguments:
        raw: as `read` gives it.
        table: the same, as `typed` gives it.
        inputs: the columns to look at.
        categorical: columns that were declared to be categories.

    >>> import pandas as pd
    >>> from kosambi.tables import typed
    >>> raw = pd.DataFrame({"x": ["1", "2", "3", "low", "high"]})
    >>> mixed_notes(raw, typed(raw), ["x"])[0][:79]
    'Column `x` is taken for names of groups, but 3 of its 5 values are numbers; the'
    """
    notes = []
    for name in inputs:
        is_open = name not in categorical and kind_of(table[name]) == "categorical"
        # Whoever declared categories in the data frame meant them.
        if is_open and texts_of(raw[name]) is not None and (note := mixed_note(name, raw[name])):
            notes.append(note)
    return tuple(notes)


def mixed_note(name: str, column: Any) -> str:
    """What is said of one such column; empty if most of its values are words."""
    texts = texts_of(column.astype(object))
    assert texts is not None
    is_word = np.isnan(texts.written.values)
    total, numbers = int(np.sum(texts.counts)), int(np.sum(texts.counts[~is_word]))
    if not total or numbers < _MIXED * total:
        return ""
    return (
        f"Column `{name}` is taken for names of groups, but {numbers} of its {total} values are numbers; the others "
        f"are {quoted(list(texts.levels[is_word]), 5)}. If it measures something, correct these or leave them empty; "
        f"if it does name groups, say `--categorical {name}`."
    )
