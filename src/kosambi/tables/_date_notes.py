"""How columns of dates are written: what a user says of it, what a table says, and what is said to the user."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kosambi.errors import InputError
from kosambi.tables._columns import Column
from kosambi.tables._dates import layout_of, read_texts, written_out
from kosambi.tables._layouts import ORDERS, check_format
from kosambi.tables._names import as_known, quoted
from kosambi.tables._pandas import pandas
from kosambi.tables._seasons import season_words
from kosambi.tables._texts import Distinct, distinct
from kosambi.tables._typed import kind_of

GIVEN = ("year-first", "day-first", "month-first")
"""What may be said of a column's dates in place of a format."""
# Whole numbers that are dates if they are read as year, month and day.
_FIRST_COMPACT, _LAST_COMPACT = 19_000_101, 21_001_231


class DateNote(NamedTuple):
    """What is said of a column of dates."""

    text: str
    is_decided: bool
    """Whether something was open that the column, or its commonest offset, decided."""


def checked_formats(formats: Mapping[str, str], known: Sequence[str]) -> dict[str, str]:
    """How columns are written, as a user says, if the columns are there and the formats can be used.

    >>> checked_formats({"d": "day-first"}, ["d"])
    {'d': 'day-first'}
    """
    for name, layout in formats.items():
        as_known(name, known, "The set of inputs")
        if layout not in GIVEN and not ("%" in layout and check_format(layout)):
            raise InputError(
                f"`--date-format {name}={layout}` says no year and month that can be read. Use {quoted(GIVEN)}, or a "
                "format in the codes of Python's `strptime` with a year and a month in it, such as `%d.%m.%Y %H:%M`."
            )
    return dict(formats)


def layouts_of(raw: Any, table: Any, given: Mapping[str, str] | None = None) -> dict[str, str]:
    """How the columns that are dates and were text are written.

    Arguments:
        raw: as `read` gives it.
        table: the same, as `typed` gives it.
        given: what is known already.

    >>> import pandas as pd
    >>> from kosambi.tables import typed
    >>> raw = pd.DataFrame({"d": ["1/2/2024", "31/3/2024"], "x": [1.0, 2.0]})
    >>> layouts_of(raw, typed(raw))
    {'d': 'day-first'}
    """
    found = dict(given or {})
    for name in table:
        is_open = name not in found and kind_of(table[name]) in ("date", "time")
        texts = _text_of(raw[name]) if is_open else None
        layout = None if texts is None else layout_of(str(name), texts)
        if layout is not None:
            found[str(name)] = layout
    return found


def date_notes(columns: Sequence[Column], raw: Any, given: Collection[str] = ()) -> tuple[DateNote, ...]:
    """What is said of the columns that hold dates or times of day, one line for each.

    Arguments:
        columns: of a schema.
        raw: the training rows, or some of them, as `read` gives them.
        given: names of columns of which the user said how they are written.

    >>> import pandas as pd
    >>> from kosambi.tables import Schema
    >>> raw = pd.DataFrame({"d": ["1/2/2024", "31/3/2024"]})
    >>> date_notes(Schema.learn(raw, target="y", inputs=["d"]).columns, raw)[0].text
    'Column `d` is read as dates, the day first (`31/3/2024` is 31 March 2024), and coded by days since 2024-02-01.'
    """
    return tuple(_note(column, raw[column.name], column.name in given) for column in columns if column.calendar)


def _note(column: Column, values: Any, is_given: bool) -> DateNote:
    calendar, name = column.calendar, column.name
    assert calendar is not None
    texts = _text_of(values)
    is_text = texts is not None and texts.levels.size > 0
    if calendar.origin is None:
        if not calendar.seasons:
            return DateNote(f"Column `{name}` is read as times of day, and coded by hours since midnight.", False)
        words = f"Column `{name}` is read as times of day, and coded by points on a circle, where 23:59 is near 0:00."
        return DateNote(words, False)
    how, is_decided = "", False
    if is_text and calendar.layout is not None and (calendar.layout in ORDERS or "%" in calendar.layout):
        assert texts is not None
        what = {"day-first": ", the day first", "month-first": ", the month first"}.get(calendar.layout, "")
        how = f"{what} ({_example(texts.levels, calendar.layout)})"
        is_decided = calendar.layout in ORDERS and not is_given
    if calendar.zone is not None:
        how += f", with clocks at {calendar.zone}"
        is_decided = is_decided or (is_text and calendar.zone != "UTC")
    rest = "; `--dates days` takes the days alone" if calendar.seasons else ""
    comma = "," if how else ""
    return DateNote(
        f"Column `{name}` is read as dates{how}{comma} and coded by {season_words(calendar)}{rest}.", is_decided
    )


def _example(levels: np.ndarray, layout: str) -> str:
    """One date as it is written, and what it is read as; one that leaves nothing open, if there is any."""
    times = read_texts(levels, layout).times
    days = (times.astype("M8[D]") - times.astype("M8[M]")) / np.timedelta64(1, "D")
    place = int(np.argmax(np.where(np.isnat(times), -1.0, days)))
    return f"`{levels[place]}` is {written_out(times[place])}"


def compact_notes(raw: Any, table: Any, inputs: Sequence[str]) -> tuple[str, ...]:
    """What is said of columns of whole numbers that are dates if they are read as year, month and day.

    >>> import pandas as pd
    >>> raw = pd.DataFrame({"day": [20240131, 20240201, 20240229]})
    >>> compact_notes(raw, raw.astype(float), ["day"])[0][:60]
    'Column `day` is read as numbers. If 20240131 is a date, say '
    """
    notes = []
    for name in inputs:
        if kind_of(table[name]) != "numeric" or _text_of(raw[name]) is not None:
            continue
        values = np.unique(table[name].dropna().to_numpy(dtype=np.float64))
        is_inside = (values >= _FIRST_COMPACT) & (values <= _LAST_COMPACT) & (values == np.round(values))
        if len(values) > 2 and is_inside.all():
            texts = np.array([str(int(value)) for value in values], dtype=object)
            if not np.isnat(read_texts(texts, "%Y%m%d").times).any():
                notes.append(
                    f"Column `{name}` is read as numbers. If {texts[0]} is a date, say `--date-format {name}=%Y%m%d`."
                )
    return tuple(notes)


def _text_of(column: Any) -> Distinct | None:
    """The texts of a column of text; None for any other column."""
    pd = pandas()
    if isinstance(column.dtype, pd.CategoricalDtype) or not (
        pd.api.types.is_object_dtype(column.dtype) or pd.api.types.is_string_dtype(column.dtype)
    ):
        return None
    return distinct(column) if pd.api.types.infer_dtype(column, skipna=True) == "string" else None
