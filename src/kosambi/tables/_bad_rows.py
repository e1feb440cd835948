"""Which new rows a schema cannot code, and why: a word for a number, a level that was not there, a missing value."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kosambi.errors import InputError
from kosambi.tables._dates import read_texts
from kosambi.tables._formats import THOUSANDS, number_of
from kosambi.tables._layouts import parsed_clock
from kosambi.tables._names import quoted
from kosambi.tables._pandas import MISSING_TEXT, pandas
from kosambi.tables._remarks import texts_of

if TYPE_CHECKING:
    from kosambi.tables._columns import Column

_TRUE_OR_FALSE = ("true", "false", "1", "0", "1.0", "0.0")


def row_faults(columns: Sequence[Column], table: Any, *, impute: bool) -> np.ndarray:
    """(N,) texts: why a row cannot be coded; empty for rows that can. The first column at fault is named.

    Arguments:
        columns: of the schema.
        table: new rows as `read` gives them, with these columns.
        impute: whether missing inputs are filled in.
    """
    found = np.full(len(table), "", dtype=object)
    for column in columns:
        values = table[column.name]
        if column.kind == "numeric" and pandas().api.types.is_float_dtype(values.dtype):
            # As most columns are, and of them not each value is looked at by itself.
            numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
            codes, levels = np.where(np.isnan(numbers), -1, np.isinf(numbers).astype(int)), [0.0, np.inf]
        else:
            codes, levels = pandas().factorize(values)
        if column.calendar is not None:
            reasons = np.array([*_date_faults(column, levels, impute), _missing(column, impute)], dtype=object)
            found = np.where(found == "", reasons[codes], found)
            continue
        reasons = np.array([_fault(column, level, impute) for level in levels] + [_missing(column, impute)], object)
        found = np.where(found == "", reasons[codes], found)
    return found


def check_units(columns: Sequence[Column], table: Any, *, is_raw: bool) -> None:
    """Refuse new rows whose numbers are written in another unit than those of the training rows.

    Arguments:
        columns: of the schema.
        table: the new rows.
        is_raw: whether numbers without a unit are known to have been written so. In a table that has been through
            `typed`, units are gone.
    """
    for column in columns:
        texts = texts_of(table[column.name]) if column.kind == "numeric" else None
        if (texts is None and not is_raw) or (texts is not None and np.all(np.isnan(texts.written.values))):
            # Nothing to go by, or no numbers at all, which is said elsewhere.
            continue
        given = _symbol(None if texts is None else texts.written.unit)
        wanted = _symbol(column.unit)
        if column.kind == "numeric" and given != wanted and table[column.name].notna().any():
            then, now = (f"in {unit}" if unit else "plain numbers" for unit in (wanted, given))
            raise InputError(
                f"Column `{column.name}` had numbers {then if wanted else 'without a unit'} when the model was fitted, "
                f"and has {now if not given else f'numbers {now}'} here. Write them as they were, so that none is "
                "taken for a hundred times as much."
            )


def _symbol(unit: str | None) -> str:
    return "" if unit in (None, THOUSANDS) else str(unit)


def _missing(column: Column, impute: bool) -> str:
    can_be = impute if column.is_measured else "(missing)" in column.levels
    return "" if can_be else f"`{column.name}` is missing"


def _fault(column: Column, value: Any, impute: bool) -> str:
    text = str(value).strip()
    if text in MISSING_TEXT:
        return _missing(column, impute)
    shown = text if len(text) <= 40 else text[:37] + "..."
    if column.kind == "boolean":
        return "" if text.lower() in _TRUE_OR_FALSE else f"`{column.name}` is `{shown}`, neither true nor false"
    if column.kind == "categorical":
        known = text in column.levels
        return "" if known else f"`{column.name}` is `{shown}`, which was not there in training"
    parsed = _number(value, text, _symbol(column.unit))
    if parsed is None:
        return f"`{column.name}` is `{shown}`, which is no number" + (f" in {column.unit}" if column.unit else "")
    return "" if np.isfinite(parsed) else f"`{column.name}` is infinite"


def _date_faults(column: Column, levels: Any, impute: bool) -> list[str]:
    """What is wrong with each value of a column of dates or of times of day; empty where nothing is."""
    calendar = column.calendar
    assert calendar is not None
    texts = np.array([str(value).strip() for value in levels], dtype=object)
    if column.kind == "time":
        is_time = np.array([time is not None for time in parsed_clock(texts)], dtype=bool)
        what, zoned = "no time of day", np.zeros(len(texts), dtype=bool)
    else:
        fields = read_texts(texts, calendar.layout or "year-first")
        is_date = np.array([isinstance(value, datetime.date) for value in levels], dtype=bool)
        is_time = is_date | (np.array([isinstance(value, str) for value in levels], bool) & ~np.isnat(fields.times))
        zoned = np.array([getattr(value, "tzinfo", None) is not None for value in levels], dtype=bool)
        zoned |= ~is_date & ~np.isnan(fields.offsets)
        what = "no date, or not written as in training"
    wants_zone = calendar.zone is not None
    found = []
    for text, is_right, has_zone in zip(texts, is_time, zoned, strict=True):
        shown = text if len(text) <= 40 else text[:37] + "..."
        if text in MISSING_TEXT:
            found.append(_missing(column, impute))
        elif not is_right:
            found.append(f"`{column.name}` is `{shown}`, which is {what}")
        elif has_zone != wants_zone and column.kind == "date":
            has = "a time zone, and training had none" if has_zone else "no time zone, and training had one"
            found.append(f"`{column.name}` is `{shown}`, which has {has}")
        else:
            found.append("")
    return found


def _number(value: Any, text: str, unit: str) -> float | None:
    if isinstance(value, bool | int | float | np.number | np.bool_):
        return float(value)
    parsed = number_of(text)
    if parsed is not None:
        return parsed[0] if parsed[1] == unit else None
    plain = pandas().to_numeric(text, errors="coerce")
    return None if np.isnan(plain) or unit else float(plain)


def first_of(faults: np.ndarray, start: int = 0) -> str:
    """How many rows are at fault and which is the first, for a message; `start` rows came before these.

    >>> first_of(np.array(["", "`x` is missing"], dtype=object))
    '1 of 2 rows cannot be predicted; the first is row 2: `x` is missing'
    """
    bad = np.nonzero(faults != "")[0]
    return (
        f"{len(bad)} of {len(faults)} rows cannot be predicted; the first is row {start + bad[0] + 1}: {faults[bad[0]]}"
    )


def listed(faults: np.ndarray, limit: int = 5) -> str:
    """The commonest reasons with their numbers, for a note."""
    reasons, counts = np.unique(faults[faults != ""].astype(str), return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return quoted([f"{reasons[i].replace('`', '')} ({counts[i]})" for i in order], limit)
