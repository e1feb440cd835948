"""Columns of dates and of times of day, however a table has them: as text, as Python's objects or as datetime64.

A date without a time is its midnight. Times are naive or all in one zone, which is that of the column or, where text or
objects have offsets from UTC, the commonest of these. Nothing is guessed: what can be read in two ways is refused.
"""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np

from kosambi._core.calendar import zone_of
from kosambi.errors import InputError
from kosambi.tables._layouts import (
    FIRST_YEAR,
    LAST_YEAR,
    MONTHS,
    ORDERS,
    Fields,
    form_of,
    has_short_year,
    is_clock,
    order_of,
    parsed,
    parsed_clock,
    parsed_format,
)
from kosambi.tables._names import quoted, rows_text
from kosambi.tables._pandas import pandas
from kosambi.tables._texts import MOSTLY, Distinct

CLOCK = "clock"
"""The layout of a column of times of day."""


def layout_of(name: str, texts: Distinct) -> str | None:
    """How a column of text writes its dates, one of `LAYOUTS` or `CLOCK`; None if it holds something else.

    Raises:
        InputError: it holds dates, but not in one form, or in one that can be read in two ways.

    >>> layout_of("d", Distinct(np.arange(2), np.array(["1/2/2024", "31/3/2024"], dtype=object)))
    'day-first'
    """
    if texts.share(is_clock(texts.levels)) >= MOSTLY:
        return CLOCK
    forms = form_of(texts.levels)
    is_short = np.array([has_short_year(text) for text in texts.levels], dtype=bool)
    if texts.share((forms != "") | is_short) < MOSTLY:
        return None
    found = {form: texts.rows(forms == form) for form in dict.fromkeys(forms) if form not in ("", "loose")}
    if texts.share(is_short) >= MOSTLY:
        example = texts.levels[int(np.argmax(is_short))]
        raise InputError(
            f"Column `{name}` looks like dates whose years have two digits, such as `{example}`. Write four, or say "
            f"how they are written: `--date-format {name}=%d/%m/%y` has the day first, and takes 69 to 99 for years of "
            f"the 20th century. If the column names groups, say `--categorical {name}`."
        )
    if not found:
        raise InputError(
            f"Column `{name}` looks like dates, such as `{texts.levels[np.argmax(forms != '')]}`, in a form that is "
            "not read. Write `2024-12-31` or `2024-12-31 23:59:59`, or say how they are written in the codes of "
            f"Python's `strptime`, such as `--date-format {name}=%d%b%Y`; if the column names groups, say "
            f"`--categorical {name}`."
        )
    if len(found) > 1:
        shown = "; ".join(
            f"`{texts.levels[texts.codes[rows[0]]]}` ({len(rows)} times, {rows_text(rows)})" for rows in found.values()
        )
        raise InputError(
            f"Column `{name}` has dates in several forms: {shown}. Write them in one, best with the year first, so "
            "that none is misread."
        )
    (form,) = found
    if form == "year-month" and not _are_months(texts.levels[forms == form]):
        return None
    return _order(name, texts, forms == "numbers") if form == "numbers" else form


def _are_months(levels: np.ndarray) -> bool:
    """Whether texts such as `2011-12` are months, and not the seasons that begin in one year and end in the next."""
    ends = np.array([(int(text[:4]) + 1 - int(text[5:])) % 100 == 0 for text in levels])
    return not np.isnat(parsed(levels, "year-month").times).any() and not ends.all()


def _order(name: str, texts: Distinct, are_numbers: np.ndarray) -> str:
    """Whether the day or the month comes first, as the whole column says."""
    levels = texts.levels[are_numbers]
    order = order_of(levels)
    if order in ORDERS:
        return order
    if order == "both":
        days, months = (levels[int(np.argmax(_first_above(levels, place)))] for place in (0, 1))
        raise InputError(
            f"Column `{name}` has dates whose day comes first, such as `{days}`, and dates whose month does, such as "
            f"`{months}`. Write all of them in one way."
        )
    example = next(text for text in levels if order_of(np.array([text], dtype=object)) == "unknown")
    first, last = (written_out(parsed(np.array([example]), order).times[0]) for order in ("day-first", "month-first"))
    raise InputError(
        f"Column `{name}` has dates such as `{example}`, and none of them says whether the day or the month comes "
        f"first. Say `--date-format {name}=day-first` if that is {first}, and `--date-format {name}=month-first` if it "
        f"is {last}."
    )


def _first_above(levels: np.ndarray, place: int) -> np.ndarray:
    """(L,): whether the first or the last number of a date is above twelve."""
    orders = ("day-first", "month-first")
    return np.array([order_of(np.array([text], dtype=object)) == orders[place] for text in levels])


def written_out(time: np.datetime64) -> str:
    """A date in words, which nobody takes for another.

    >>> written_out(np.datetime64("2024-04-03T10:00"))
    '3 April 2024'
    """
    date = time.astype("M8[D]").item()
    return f"{date.day} {MONTHS[date.month - 1]} {date.year}"


def read_texts(levels: np.ndarray, layout: str) -> Fields:
    """Texts in a layout, or in a format of `strptime`; with a layout the year may come first all the same.

    >>> read_texts(np.array(["31/3/2024", "2024-03-31"], dtype=object), "day-first").times.astype("M8[D]").tolist()
    [datetime.date(2024, 3, 31), datetime.date(2024, 3, 31)]
    """
    if "%" in layout:
        return parsed_format(levels, layout)
    found = parsed(levels, layout)
    if layout == "year-first" or found.has_form.all():
        return found
    plain = parsed(levels, "year-first")
    unit = max(found.times.dtype, plain.times.dtype)
    times = np.where(found.has_form, found.times.astype(unit), plain.times.astype(unit))
    offsets = np.where(found.has_form, found.offsets, plain.offsets)
    return Fields(times, found.has_form | plain.has_form, offsets)


def dates_of_text(name: str, texts: Distinct, layout: str, index: Any) -> Any:
    """A column of text as a series of datetime64, or of `datetime.time` for `CLOCK`; refused where a text is none."""
    pd = pandas()
    if layout == CLOCK:
        found = parsed_clock(texts.levels)
        _refuse_others(name, texts, np.array([time is None for time in found], dtype=bool), "times of day")
        return pd.Series(texts.spread(found, None), index=index, name=name, dtype=object)
    fields = read_texts(texts.levels, layout)
    _refuse_others(name, texts, np.isnat(fields.times), "dates")
    is_zoned = ~np.isnan(fields.offsets)
    if texts.levels.size and not is_zoned.all() and is_zoned.any():
        raise _zones_mixed(name, texts.rows(is_zoned), texts.rows(~is_zoned))
    times = pd.Series(texts.spread(fields.times, "NaT"), index=index, name=name)
    return in_zone(times, texts.spread(fields.offsets, np.nan), None) if is_zoned.any() else times


def _refuse_others(name: str, texts: Distinct, is_wrong: np.ndarray, what: str) -> None:
    rows = texts.rows(is_wrong)
    if not len(rows):
        return
    shown = quoted(list(dict.fromkeys(texts.levels[texts.codes[rows]])), 5)
    raise InputError(
        f"Column `{name}` holds {what}, but also {len(rows)} times text that is none, or that is written in another "
        f"way: {shown} ({rows_text(rows)}). Correct it, or leave it empty where the value is missing; if the "
        f"column names groups, say `--categorical {name}`."
    )


def dates_of_objects(name: str, column: Any) -> Any:
    """Python's dates and datetimes, pandas' timestamps, with or without zones, as a series of datetime64."""
    values = column.to_numpy(dtype=object)
    is_there = column.notna().to_numpy()
    offsets = np.full(len(values), np.nan)
    times = np.full(len(values), np.datetime64("NaT"), dtype="M8[us]")
    if any(getattr(value, "nanosecond", 0) for value in values[is_there]):
        times = times.astype("M8[ns]")
    zones = set()
    for row in np.flatnonzero(is_there):
        value = values[row]
        offset = value.utcoffset() if isinstance(value, datetime.datetime) else None
        if offset is not None:
            zones.add(zone_name(value.tzinfo))
            offsets[row] = offset.total_seconds() / 60.0
        times[row] = value.to_datetime64() if hasattr(value, "to_datetime64") else _naive(value, offset)
    is_zoned = ~np.isnan(offsets)
    if is_zoned.any() and not is_zoned[is_there].all():
        raise _zones_mixed(name, np.flatnonzero(is_zoned), np.flatnonzero(is_there & ~is_zoned))
    found = pandas().Series(times, index=column.index, name=name)
    return in_zone(found, offsets, zones.pop() if len(zones) == 1 else None) if is_zoned.any() else found


def _naive(value: datetime.date, offset: datetime.timedelta | None) -> np.datetime64:
    if offset is None:
        return np.datetime64(value)
    assert isinstance(value, datetime.datetime)
    return np.datetime64(value.replace(tzinfo=None)) - np.timedelta64(offset)


def dates_of_datetime64(name: str, column: Any) -> Any:
    """A series of datetime64, with or without a zone, in years of the calendar."""
    pd = pandas()
    if isinstance(column.dtype, pd.ArrowDtype):
        column = dates_of_objects(name, column.astype(object))
    zone = column.dt.tz
    times = (column if zone is None else column.dt.tz_convert("UTC").dt.tz_localize(None)).to_numpy()
    # By years, because these have as many digits as any unit.
    years = times.astype("M8[Y]").astype(np.int64) + 1970
    outside = ~np.isnat(times) & ((years < FIRST_YEAR) | (years > LAST_YEAR))
    if outside.any():
        rows = np.flatnonzero(outside)
        raise InputError(
            f"Column `{name}` has {len(rows)} times outside the years {FIRST_YEAR} to {LAST_YEAR} ({rows_text(rows)}), "
            f"which no calendar here has. Correct them, or leave the column out: `--drop {name}`."
        )
    if zone is None or zone_name(zone) is not None:
        return column
    offsets = (column.dt.tz_localize(None).to_numpy() - times) / np.timedelta64(1, "m")
    return in_zone(pd.Series(times, index=column.index, name=name), offsets, None)


def in_zone(times: Any, offsets: np.ndarray, zone: str | None) -> Any:
    """Naive times in UTC as times of a zone: of the one that is given, or with the commonest of their offsets."""
    if zone is None:
        values, counts = np.unique(offsets[~np.isnan(offsets)], return_counts=True)
        # The first of those that are equally common, so that it does not depend on the order of rows.
        zone = offset_name(float(values[np.argmax(counts)]))
    return times.dt.tz_localize("UTC").dt.tz_convert(zone_of(zone))


def offset_name(minutes: float) -> str:
    """An offset from UTC as a zone.

    >>> offset_name(-210.0), offset_name(0.0)
    ('-03:30', 'UTC')
    """
    size = round(abs(minutes))
    return f"{'-' if minutes < 0 else '+'}{size // 60:02}:{size % 60:02}" if size else "UTC"


def zone_name(zone: Any) -> str | None:
    """The name of a time zone in the database of zones; None for one that is a mere offset.

    >>> import zoneinfo
    >>> zone_name(zoneinfo.ZoneInfo("Europe/Berlin")), zone_name(datetime.timezone(datetime.timedelta(hours=1)))
    ('Europe/Berlin', None)
    """
    # pytz has `zone` where the standard library has `key`.
    name = getattr(zone, "key", None) or getattr(zone, "zone", None) or str(zone)
    try:
        zone_of(name)
    except InputError:
        return None
    return str(name)


def _zones_mixed(name: str, zoned: np.ndarray, naive: np.ndarray) -> InputError:
    return InputError(
        f"Column `{name}` has {len(zoned)} times with an offset from UTC ({rows_text(zoned)}) and {len(naive)} without "
        f"({rows_text(naive)}), which cannot be put in order. Write all of them with an offset, or none."
    )
