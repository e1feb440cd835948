"""Columns that are copies of the target: a model that is given one predicts perfectly, and is of no use."""

from __future__ import annotations

from typing import Any

import numpy as np

from kosambi.tables._target import Target
from kosambi.tables._typed import kind_of

# Rows for which agreement by chance is out of the question, and rows that are looked at.
_FEW_ROWS, _MANY_ROWS = 10, 20_000
# Correlation from which on two columns of numbers say the same.
_COPY = 0.9999


def leak_notes(table: Any, target: Target) -> tuple[str, ...]:
    """What is said of input columns that are the target, all but the target, or another name for it.

    Numbers are compared by their correlation and by that of their ranks, labels by whether each level goes with one
    label and back, and two labels also by whether a threshold tells them apart without one error.

    Arguments:
        table: the inputs, as `typed` gives them.
        target: of the same rows.

    >>> import pandas as pd
    >>> from kosambi.tables import read_target, typed
    >>> table = typed(pd.DataFrame({"x": np.arange(20.0) % 7, "copy": np.exp(np.arange(20.0))}))
    >>> leak_notes(table, read_target(pd.Series(np.arange(20.0), name="y")))
    ('Column `copy` puts the rows in the order of the target `y`, all but exactly. If it is a copy of it, or known \
only when the target is, leave it out: `--drop copy`.',)
    """
    if len(table) < _FEW_ROWS:
        return ()
    rows = np.unique(np.linspace(0, len(table) - 1, min(len(table), _MANY_ROWS)).astype(int))
    values, notes = target.values[rows], []
    for name in table:
        column = table[name].iloc[rows]
        known = column.notna().to_numpy()
        if known.sum() < _FEW_ROWS:
            continue
        is_number = kind_of(column) in ("numeric", "date")
        given = _numbers(column[known]) if is_number else column[known].astype(str).to_numpy(object)
        compare = _of_numbers if target.task == "regression" else _of_labels
        if what := compare(given, values[known], is_number):
            notes.append(
                f"Column `{name}` {what.format(target=f'the target `{target.name}`')}. If it is a copy of it, or known "
                f"only when the target is, leave it out: `--drop {name}`."
            )
    return tuple(notes)


def _numbers(column: Any) -> np.ndarray:
    """Numbers as they are, and dates as numbers in their order."""
    if kind_of(column) == "date":
        return column.dt.tz_localize(None).to_numpy().astype("M8[us]").astype(np.float64)
    return column.to_numpy(dtype=np.float64)


def _of_numbers(x: np.ndarray, y: np.ndarray, is_number: bool) -> str:
    if not is_number or len(np.unique(x)) < 3 or len(np.unique(y)) < 3:
        return ""
    if np.array_equal(x, y):
        return "equals {target}"
    if abs(_correlation(x, y)) > _COPY:
        return "is {target} in other units, all but exactly"
    if abs(_correlation(_ranks(x), _ranks(y))) > _COPY:
        return "puts the rows in the order of {target}, all but exactly"
    return ""


def _of_labels(x: np.ndarray, labels: np.ndarray, is_number: bool) -> str:
    names, y = np.unique(labels, return_inverse=True)
    if len(names) < 2:
        return ""
    levels, codes = np.unique(x, return_inverse=True)
    pairs = len(np.unique(codes * len(names) + y))
    if len(levels) == len(names) == pairs:
        return "says the same as {target}, level for label"
    # Few rows of one label are told apart by chance.
    if is_number and len(names) == 2 and min(np.bincount(y)) >= _FEW_ROWS:
        first, second = x[y == 0], x[y == 1]
        if first.max() < second.min() or second.max() < first.min():
            return "tells the labels of {target} apart without one error"
    return ""


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks, equal for equal values."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - 0.5 * counts)[places]


def _correlation(x: np.ndarray, y: np.ndarray) -> float:
    # In units of the largest, so that no square overflows.
    x, y = (v / np.max(np.abs(v), initial=np.finfo(np.float64).tiny) for v in (x, y))
    x, y = x - x.mean(), y - y.mean()
    size = float(np.sqrt(np.sum(x * x) * np.sum(y * y)))
    return float(np.sum(x * y)) / size if size > 0 else 0.0
