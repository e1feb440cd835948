"""Text in CSV files that a spreadsheet would run: guarded when written, and as it was when kosambi reads it back.

A cell that begins with = + - @, a tab or a carriage return is a formula to a spreadsheet, and names of columns, labels
and identifiers come from files that others wrote. Such text gets an apostrophe in front, which spreadsheets take for
"this is text". Text that has apostrophes before one of these characters gets one more, so that no two texts become one.
Numbers stay: -1 is no formula.
"""

from __future__ import annotations

import re
from typing import Any

from kosambi.tables._pandas import pandas

_FORMULA = re.compile(r"'*[=+\-@\t\r]", re.DOTALL)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


def guarded(text: str) -> str:
    """Text as it may stand in a CSV file.

    >>> guarded("=1+1"), guarded("-1.5"), guarded("plain"), guarded("'=x")
    ("'=1+1", '-1.5', 'plain', "''=x")
    """
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def unguarded(text: str) -> str:
    """What `guarded` was given.

    >>> [unguarded(guarded(text)) for text in ("=1+1", "-1.5", "'=x", "'quoted'")]
    ['=1+1', '-1.5', "'=x", "'quoted'"]
    """
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


def guarded_table(table: Any) -> Any:
    """A data frame whose text, and the names of whose columns, may stand in a CSV file."""
    return _changed(table, guarded)


def unguarded_table(table: Any) -> Any:
    """What `guarded_table` was given."""
    return _changed(table, unguarded)


def _changed(table: Any, change: Any) -> Any:
    types = pandas().api.types

    def cell(value: Any) -> Any:
        return change(value) if isinstance(value, str) else value

    changed = {}
    for name in table:
        column = table[name]
        if isinstance(column.dtype, pandas().CategoricalDtype):
            column = column.astype(object)
        is_text = types.is_object_dtype(column.dtype) or types.is_string_dtype(column.dtype)
        changed[cell(name)] = column.map(cell) if is_text else column
    return pandas().DataFrame(changed, index=table.index)
