"""What a column holds: numbers, Boolean values or categories; and a plain refusal of everything else."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from kosambi.errors import InputError
from kosambi.tables._formats import THOUSANDS, as_written, bare
from kosambi.tables._names import UNNAMED, quoted

Kind = Literal["numeric", "boolean", "categorical"]
KINDS: tuple[Kind, ...] = ("numeric", "boolean", "categorical")
MISSING_TEXT = frozenset(
    ["", "?", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "-nan", "NULL", "null", "None", "#NA", "-NaN", "NaT"]
)
"""Text that stands for a missing value, as pandas has it, and the question mark."""
_TRUTH = {"true": True, "false": False}
# From this share on, text among numbers is taken for a mistake, and numbers among text for names.
_MOSTLY = 0.8
_DECIMAL_COMMA = re.compile(r"[+-]?\d{1,3}(?:\.\d{3})*,\d+(?:[eE][+-]?\d+)?|[+-]?\d*,\d+(?:[eE][+-]?\d+)?")
_DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:[T ].*)?"
    r"|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}(?: .*)?"
    r"|\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?"
)


def pandas() -> Any:
    """The package, imported when it is first needed."""
    try:
        import pandas as pd  # type: ignore[import-untyped]
    except ImportError as error:
        raise ImportError("Tables are read with pandas. Install it with `pip install kosambi[cli]`.") from error
    return pd


def typed(table: Any, kinds: Mapping[str, Kind] | None = None) -> Any:
    """The same data frame with columns of three types: float64, boolean, and category with text as levels.

    Arguments:
        table: a data frame as `read` gives it.
        kinds: of columns where it is known already; elsewhere the values decide.

    Raises:
        InputError: dates, infinite values, text among numbers (with its rows), decimal commas, nested values.

    >>> import pandas as pd
    >>> table = typed(pd.DataFrame({"x": ["1", "2", "?"], "b": [True, None, False], "c": ["u", " v", "u"]}))
    >>> [str(kind) for kind in table.dtypes], list(table["c"].cat.categories)
    (['float64', 'boolean', 'category'], ['u', 'v'])
    """
    pd = pandas()
    known = kinds or {}
    return pd.DataFrame({name: _column(str(name), table[name], known.get(name)) for name in table}, index=table.index)


def kind_of(column: Any) -> Kind:
    """The kind of a column of `typed`'s."""
    types = pandas().api.types
    if types.is_bool_dtype(column.dtype):
        return "boolean"
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


def rows_text(positions: Sequence[int] | np.ndarray) -> str:
    """Rows for a message, counted from 1 below the header.

    >>> rows_text([0, 4])
    'rows 1, 5'
    """
    shown = ", ".join(str(int(place) + 1) for place in positions[:5]) + (", ..." if len(positions) > 5 else "")
    return f"row{'s' if len(positions) > 1 else ''} {shown}"


def _column(name: str, column: Any, kind: Kind | None) -> Any:
    pd = pandas()
    types = pd.api.types
    if isinstance(column.dtype, pd.CategoricalDtype):
        # Whoever declared categories meant them, also where they look like numbers.
        return _other(name, column, kind or "categorical")
    if types.is_datetime64_any_dtype(column.dtype) or types.is_timedelta64_dtype(column.dtype):
        raise _date(name)
    if types.is_complex_dtype(column.dtype):
        raise _foreign(name, "complex numbers")
    if types.is_bool_dtype(column.dtype):
        return _text(name, column.astype(object), kind) if kind == "categorical" else _truth(name, column, kind)
    if types.is_numeric_dtype(column.dtype):
        if kind == "categorical":
            return _text(name, column.astype(object), kind)
        numbers = _finite(name, column)
        return _truth(name, numbers, kind) if kind == "boolean" else numbers
    return _other(name, column, kind)


def _other(name: str, column: Any, kind: Kind | None) -> Any:
    """A column of Python objects, text or categories."""
    pd = pandas()
    found = pd.api.types.infer_dtype(column.astype(object), skipna=True)
    if found == "empty":
        empty = {"numeric": "float64", "boolean": "boolean", "categorical": pd.CategoricalDtype([])}
        return column.astype(object).where(column.notna(), None).astype(empty[kind or "numeric"])
    if found in ("datetime", "datetime64", "date", "time", "timedelta", "timedelta64", "period", "interval"):
        raise _date(name)
    if kind != "categorical":
        if found == "boolean":
            return _truth(name, column.astype("boolean"), kind)
        if found in ("integer", "floating", "mixed-integer-float", "decimal"):
            numbers = _finite(name, column)
            return _truth(name, numbers, kind) if kind == "boolean" else numbers
    elif found in ("boolean", "integer", "decimal"):
        return _text(name, column, kind)
    if found != "string":
        raise _foreign(name, "lists, bytes or values of several types")
    return _text(name, column, kind)


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


def _text(name: str, column: Any, kind: Kind | None) -> Any:
    """Text is judged by its distinct values, of which there are few even in a long file."""
    pd = pandas()
    codes, distinct = pd.factorize(column)
    levels = np.array([str(value).strip() for value in distinct], dtype=object)
    is_missing = np.array([level in MISSING_TEXT for level in levels], dtype=bool)
    codes = np.where((codes >= 0) & ~np.append(is_missing, True)[codes], codes, -1)
    if kind != "categorical":
        numbers = _numbers(name, codes, levels, kind)
        if numbers is not None:
            return pd.Series(numbers, index=column.index, name=name)
        truths = [_TRUTH.get(level.lower()) for level in levels]
        used = [truth for truth, missing in zip(truths, is_missing, strict=True) if not missing]
        if used and all(truth is not None for truth in used):
            values = pd.array([*truths, None], dtype="boolean")
            return pd.Series(values.take(codes), index=column.index, name=name)
        if kind == "boolean":
            wrong = [level for level in levels[~is_missing] if level.lower() not in _TRUTH]
            raise InputError(f"Column `{name}` should hold true or false. Got {quoted(wrong)}. Write true and false.")
        if levels.size and _share(codes, [bool(_DATE.fullmatch(level)) for level in levels]) >= _MOSTLY:
            raise _date(name)
    # Sorted, so that the coding does not depend on the order of rows; once each, since spaces were cut off.
    names, places = np.unique(levels[~is_missing].astype(str), return_inverse=True)
    numbering = np.full(len(levels) + 1, -1)
    numbering[:-1][~is_missing] = places
    values = pd.Categorical.from_codes(numbering[codes], categories=pd.Index(names.astype(object), dtype=object))
    return pd.Series(values, index=column.index, name=name)


def _numbers(name: str, codes: np.ndarray, levels: np.ndarray, kind: Kind | None) -> np.ndarray | None:
    """The numbers that text stands for; None if it stands for something else."""
    pd = pandas()
    if kind == "boolean" or not np.any(codes >= 0):
        return np.full(len(codes), np.nan) if kind != "boolean" else None
    plain = np.asarray(pd.to_numeric(pd.Series(levels, dtype=object), errors="coerce"), dtype=np.float64)
    written = as_written(levels, plain, np.bincount(codes[codes >= 0], minlength=len(levels)))
    parsed = written.values
    is_number = ~np.isnan(parsed)
    share = _share(codes, is_number)
    has_comma = [bool(_DECIMAL_COMMA.fullmatch(bare(level))) for level in levels] if share < 1.0 else [False]
    if any(has_comma) and _share(codes, is_number | np.array(has_comma)) >= _MOSTLY:
        example = levels[int(np.argmax(has_comma))]
        raise InputError(
            f"Column `{name}` has numbers with commas, such as {example!r}. Write a decimal point, and nothing between "
            "thousands; a spreadsheet exports so in English."
        )
    if share < (_MOSTLY if kind is None else 0.0):
        return None
    numbers = np.append(parsed, np.nan)[codes]
    wrong = np.nonzero((codes >= 0) & np.isnan(numbers))[0]
    if len(wrong):
        shown = quoted(list(dict.fromkeys(levels[codes[wrong]])), 5)
        unit = f" in {written.unit}" if written.unit not in (None, THOUSANDS) else ""
        raise InputError(
            f"Column `{name}` holds numbers{unit}, but also {len(wrong)} times text: {shown} ({rows_text(wrong)}). "
            f"Correct it, or leave it empty where the value is missing; if the column names groups, say "
            f"`--categorical {name}`."
        )
    return np.asarray(_finite(name, pd.Series(numbers)))


def _share(codes: np.ndarray, is_so: Any) -> float:
    """The share of the values that are there with a property of their level."""
    there = codes[codes >= 0]
    return float(np.mean(np.asarray(is_so, dtype=bool)[there])) if len(there) else 0.0


def _date(name: str) -> InputError:
    return InputError(
        f"Column `{name}` holds dates or times, which have no coding of their own. Replace it by numbers, such as days "
        f"since a start, the month or the hour, or leave it out: `--drop {name}`."
    )


def _foreign(name: str, what: str) -> InputError:
    return InputError(f"Column `{name}` holds {what}. Give numbers, text or true and false, or `--drop {name}`.")
