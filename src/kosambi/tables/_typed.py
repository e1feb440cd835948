"""What a column holds: numbers, Boolean values, categories, dates or times of day; and a plain refusal of all else."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from kosambi.errors import InputError
from kosambi.tables._dates import CLOCK, dates_of_datetime64, dates_of_objects, dates_of_text, layout_of
from kosambi.tables._formats import THOUSANDS, as_written, bare
from kosambi.tables._names import UNNAMED, quoted, rows_text
from kosambi.tables._pandas import pandas
from kosambi.tables._texts import MOSTLY, Distinct, distinct

Kind = Literal["numeric", "boolean", "categorical", "date", "time"]
KINDS: tuple[Kind, ...] = ("numeric", "boolean", "categorical", "date", "time")
_TRUTH = {"true": True, "false": False}
_DECIMAL_COMMA = re.compile(r"[+-]?\d{1,3}(?:\.\d{3})*,\d+(?:[eE][+-]?\d+)?|[+-]?\d*,\d+(?:[eE][+-]?\d+)?")


def typed(table: Any, kinds: Mapping[str, Kind] | None = None, layouts: Mapping[str, str] | None = None) -> Any:
    """The same data frame with columns of five types.

    They are float64, boolean, category with text as levels, datetime64 with or without a zone, and objects of
    `datetime.time`.

    Arguments:
        table: a data frame as `read` gives it.
        kinds: of columns where it is known already; elsewhere the values decide.
        layouts: how columns of dates are written, where it is known already: one of `LAYOUTS`, or a format of
            `strptime`.

    Raises:
        InputError: infinite values, text among numbers or dates (with its rows), decimal commas, dates that can be read
            in two ways, nested values.

    >>> import pandas as pd
    >>> table = typed(pd.DataFrame({"x": ["1", "2", "?"], "b": [True, None, False], "c": ["u", " v", "u"]}))
    >>> [str(kind) for kind in table.dtypes], list(table["c"].cat.categories)
    (['float64', 'boolean', 'category'], ['u', 'v'])
    """
    pd = pandas()
    known, written = kinds or {}, layouts or {}
    columns = {name: _column(str(name), table[name], known.get(name), written.get(name)) for name in table}
    return pd.DataFrame(columns, index=table.index)


def kind_of(column: Any) -> Kind:
    """The kind of a column of `typed`'s."""
    types = pandas().api.types
    if types.is_bool_dtype(column.dtype):
        return "boolean"
    if types.is_datetime64_any_dtype(column.dtype):
        return "date"
    if types.is_object_dtype(column.dtype):
        return "time"
    return "numeric" if types.is_float_dtype(column.dtype) else "categorical"


def check_complete(table: Any, remedy: str = "Fill them, drop those columns or rows, or ask for `--impute`.") -> None:
    """Refuse missing values, naming the columns and how many there are in each."""
    missing = {name: int(table[name].isna().sum()) for name in table}
    found = [f"`{name}` {count}" for name, count in missing.items() if count]
    if found:
        shown = ", ".join(found[:8]) + (f" and {len(found) - 8} more columns" if len(found) > 8 else "")
        raise InputError(f"There are missing values among {len(table)} rows: {shown}. {remedy}")


def without_row_numbers(table: Any) -> tuple[Any, tuple[str, ...]]:
    """The table without columns that only number its rows, as saved data frames have them, and notes that say so.

    >>> import pandas as pd
    >>> without_row_numbers(pd.DataFrame({"Unnamed: 0": [0, 1], "x": [3, 3]}))[0].columns.tolist()
    ['x']
    """
    # Of rows that were taken from a longer table the index has their numbers there.
    places = table.index.to_numpy()
    numbers = [
        name
        for name in table
        if str(name).startswith((UNNAMED, "__index_level_"))
        and pandas().api.types.is_integer_dtype(table[name].dtype)
        and np.array_equal(table[name].to_numpy(), places)
    ]
    notes = tuple(f"Column `{name}` is left out: it has no name and numbers the rows." for name in numbers)
    return table.drop(columns=numbers), notes


def _column(name: str, column: Any, kind: Kind | None, layout: str | None) -> Any:
    pd = pandas()
    types = pd.api.types
    if isinstance(column.dtype, pd.CategoricalDtype):
        # Whoever declared categories meant them, also where they look like numbers.
        return _other(name, column, kind or "categorical", layout)
    if isinstance(column.dtype, pd.PeriodDtype):
        column = column.dt.to_timestamp()
    if types.is_datetime64_any_dtype(column.dtype):
        dates = dates_of_datetime64(name, column)
        return _text(name, dates.astype(object), kind, None) if kind == "categorical" else _of_kind(name, dates, kind)
    if types.is_timedelta64_dtype(column.dtype):
        raise _duration(name)
    if types.is_complex_dtype(column.dtype):
        raise _foreign(name, "complex numbers")
    if types.is_bool_dtype(column.dtype):
        return _text(name, column.astype(object), kind, None) if kind == "categorical" else _truth(name, column, kind)
    if types.is_numeric_dtype(column.dtype):
        if kind == "categorical" or layout is not None:
            return _text(name, column.astype(object), kind, layout)
        numbers = _finite(name, column)
        return _truth(name, numbers, kind) if kind == "boolean" else _of_kind(name, numbers, kind)
    return _other(name, column, kind, layout)


def _of_kind(name: str, column: Any, kind: Kind | None) -> Any:
    """The column, if it is of the kind that was asked for, or has no values."""
    words = {"numeric": "numbers", "date": "dates", "time": "times of day", "boolean": "true or false"}
    found = kind_of(column)
    if kind in (None, found):
        return column
    if column.isna().all():
        return _nothing(column, kind)
    raise InputError(
        f"Column `{name}` should hold {words[str(kind)]}, as it did when the model was fitted. Got {words[found]}. "
        "Write it as it was."
    )


def _nothing(column: Any, kind: Kind | None) -> Any:
    """A column without values, of a kind."""
    empty = {"boolean": "boolean", "categorical": pandas().CategoricalDtype([]), "date": "datetime64[us]"}
    values = pandas().Series([None] * len(column), index=column.index, name=column.name, dtype=object)
    return values if kind == "time" else values.astype(empty.get(str(kind), "float64"))


def _other(name: str, column: Any, kind: Kind | None, layout: str | None) -> Any:
    """A column of Python objects, text or categories."""
    pd = pandas()
    found = pd.api.types.infer_dtype(column.astype(object), skipna=True)
    if found == "empty":
        return _nothing(column, kind)
    if found == "timedelta":
        raise _duration(name)
    if kind != "categorical":
        if found == "boolean":
            return _of_kind(name, _truth(name, column.astype("boolean"), kind), kind)
        if found in ("integer", "floating", "mixed-integer-float", "decimal") and layout is None:
            numbers = _finite(name, column)
            return _truth(name, numbers, kind) if kind == "boolean" else _of_kind(name, numbers, kind)
        values = column[column.notna()]
        if all(isinstance(value, datetime.date) for value in values):
            return _of_kind(name, dates_of_datetime64(name, dates_of_objects(name, column.astype(object))), kind)
        if all(isinstance(value, datetime.time) for value in values):
            return _of_kind(name, _clock(name, column), kind)
    elif found in ("boolean", "integer", "decimal", "date", "datetime", "datetime64", "time"):
        return _text(name, column, kind, None)
    if found != "string" and not (found == "integer" and layout is not None):
        raise _foreign(name, "lists, bytes or values of several types")
    return _text(name, column, kind, layout)


def _clock(name: str, column: Any) -> Any:
    """Times of day as Python has them, without a zone, which means little without a date."""
    zoned = [row for row, value in enumerate(column) if isinstance(value, datetime.time) and value.tzinfo is not None]
    if zoned:
        raise InputError(
            f"Column `{name}` has {len(zoned)} times of day with a time zone ({rows_text(zoned)}). Give datetimes with "
            "one, or times of day without: `value.replace(tzinfo=None)`."
        )
    return column.astype(object).where(column.notna(), None)


def _finite(name: str, column: Any) -> Any:
    pd = pandas()
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    infinite = np.nonzero(np.isinf(values))[0]
    if len(infinite):
        raise InputError(
            f"Column `{name}` has {len(infinite)} infinite values ({rows_text(infinite)}). "
            "Replace them by finite numbers, leave them empty, or drop the column: `--drop`."
        )
    return pd.Series(values, index=column.index, name=name)


def _truth(name: str, column: Any, kind: Kind | None) -> Any:
    pd = pandas()
    if pd.api.types.is_bool_dtype(column.dtype):
        return _finite(name, column) if kind == "numeric" else column.astype("boolean")
    other = sorted(set(column.dropna().unique()) - {0.0, 1.0})
    if other:
        raise InputError(f"Column `{name}` should hold true or false. Got {quoted(other)}. Write true and false.")
    return column.astype("boolean")


def _text(name: str, column: Any, kind: Kind | None, layout: str | None) -> Any:
    """Text is judged by its distinct values."""
    pd = pandas()
    texts = distinct(column)
    if not texts.levels.size and kind is not None:
        return _nothing(column, kind)
    if layout is not None or kind in ("date", "time"):
        layout = CLOCK if kind == "time" else layout or "year-first"
        return dates_of_text(name, texts, layout, column.index)
    if kind != "categorical":
        numbers = _numbers(name, texts, kind)
        if numbers is not None:
            return pd.Series(numbers, index=column.index, name=name)
        truths = [_TRUTH.get(level.lower()) for level in texts.levels]
        if truths and all(truth is not None for truth in truths):
            values = pd.array([*truths, None], dtype="boolean")
            return pd.Series(values.take(texts.codes), index=column.index, name=name)
        if kind == "boolean":
            wrong = [level for level in texts.levels if level.lower() not in _TRUTH]
            raise InputError(f"Column `{name}` should hold true or false. Got {quoted(wrong)}. Write true and false.")
        if (found := layout_of(name, texts)) is not None:
            return dates_of_text(name, texts, found, column.index)
    # Sorted, so that the coding does not depend on the order of rows; once each, since spaces were cut off.
    names, places = np.unique(texts.levels.astype(str), return_inverse=True)
    codes = texts.spread(places, -1)
    values = pd.Categorical.from_codes(codes, categories=pd.Index(names.astype(object), dtype=object))
    return pd.Series(values, index=column.index, name=name)


def _numbers(name: str, texts: Distinct, kind: Kind | None) -> np.ndarray | None:
    """The numbers that text stands for; None if it stands for something else."""
    pd = pandas()
    if kind == "boolean" or not texts.levels.size:
        return np.full(len(texts.codes), np.nan) if kind != "boolean" else None
    plain = np.asarray(pd.to_numeric(pd.Series(texts.levels, dtype=object), errors="coerce"), dtype=np.float64)
    written = as_written(texts.levels, plain, texts.counts)
    parsed = written.values
    is_number = ~np.isnan(parsed)
    share = texts.share(is_number)
    has_comma = [bool(_DECIMAL_COMMA.fullmatch(bare(level))) for level in texts.levels] if share < 1.0 else [False]
    if any(has_comma) and texts.share(is_number | np.array(has_comma)) >= MOSTLY:
        example = texts.levels[int(np.argmax(has_comma))]
        raise InputError(
            f"Column `{name}` has numbers with commas, such as {example!r}. Write a decimal point, and nothing between "
            "thousands; a spreadsheet exports so in English."
        )
    if share < (MOSTLY if kind is None else 0.0):
        return None
    wrong = texts.rows(~is_number)
    if len(wrong):
        shown = quoted(list(dict.fromkeys(texts.levels[texts.codes[wrong]])), 5)
        unit = f" in {written.unit}" if written.unit not in (None, THOUSANDS) else ""
        raise InputError(
            f"Column `{name}` holds numbers{unit}, but also {len(wrong)} times text: {shown} ({rows_text(wrong)}). "
            f"Correct it, or leave it empty where the value is missing; if the column names groups, say "
            f"`--categorical {name}`."
        )
    return np.asarray(_finite(name, pd.Series(texts.spread(parsed, np.nan))))


def _duration(name: str) -> InputError:
    return InputError(
        f"Column `{name}` holds durations, which are read as numbers only. Replace it by `table[{name!r}] / "
        f"pandas.Timedelta('1h')`, or leave it out: `--drop {name}`."
    )


def _foreign(name: str, what: str) -> InputError:
    return InputError(f"Column `{name}` holds {what}. Give numbers, text or true and false, or `--drop {name}`.")
