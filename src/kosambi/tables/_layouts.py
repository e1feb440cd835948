"""Text as dates and times of day: the forms in which they are written, and which of them a column has.

Year first, or a month by its name, leave nothing open. In `03/04/2024` the day or the month may come first, which is
decided by the whole column or not at all.
"""

from __future__ import annotations

import datetime
import re
from typing import NamedTuple

import numpy as np

_HALVES = "January February March April May June", "July August September October November December"
MONTHS = tuple(" ".join(_HALVES).split())
"""English names, which may be cut to three letters."""
FIRST_YEAR, LAST_YEAR = 1, 9999
"""Years that are read."""
_NAME = "(?P<name>" + "|".join([f"{month[:3]}(?:{month[3:]})?" for month in MONTHS if month != "May"]) + "|May|Sept)"
_ZONE = r"(?:\s?(?P<zone>Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?))?"
_SECONDS = r"(?::(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?)"
_HALF = r"(?:\s?(?P<half>[ap])\.?m\.?)?"
_TIME = rf"(?:(?:T|,?\s+)(?P<hour>\d{{1,2}}){_SECONDS}?{_HALF}{_ZONE})?"
_DAY, _YEAR = r"(?P<day>\d{1,2})", r"(?P<year>\d{4})"
_FORMS = {
    "year-first": rf"{_YEAR}(?P<mark>[-/.])(?P<month>\d{{1,2}})(?P=mark){_DAY}{_TIME}",
    "year-month": rf"{_YEAR}[-/](?P<month>\d{{1,2}})",
    "numbers": rf"(?P<first>\d{{1,2}})(?P<mark>[-/.])(?P<last>\d{{1,2}})(?P=mark){_YEAR}{_TIME}",
    "day-name": rf"{_DAY}(?:st|nd|rd|th)?[\s\-/.]*{_NAME}\.?[\s\-/,]*{_YEAR}{_TIME}",
    "name-day": rf"{_NAME}\.?[\s\-/]*{_DAY}(?:st|nd|rd|th)?(?:,\s*|[\s\-/]+){_YEAR}{_TIME}",
    "name-year": rf"{_NAME}\.?[\s\-/,]+{_YEAR}",
}
_PATTERNS = {form: re.compile(pattern, re.IGNORECASE) for form, pattern in _FORMS.items()}
_CLOCK = re.compile(rf"(?P<hour>\d{{1,2}}){_SECONDS}{_HALF}", re.IGNORECASE)
ORDERS = ("day-first", "month-first", "day-is-month")
"""What a column of numbers can turn out to be; in the last none says which of the two comes first."""
LAYOUTS = (*[form for form in _FORMS if form != "numbers"], *ORDERS)
"""How a column of dates can be written, where no format was given."""
_LOOSE = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:[T ].*)?"
    r"|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}(?: .*)?",
    re.DOTALL,
)
_SHORT_YEAR = re.compile(
    rf"(?:\d{{1,2}}[-/.]\d{{1,2}}[-/.]\d{{2}}|\d{{1,2}}[\s\-/.]*{_NAME}\.?[\s\-/,']*\d{{2}})(?:,?\s.*)?", re.IGNORECASE
)


class Fields(NamedTuple):
    """Texts as dates, in one form."""

    times: np.ndarray
    """(L,) datetime64, in UTC where there is an offset; NaT where a text has not this form or is in no calendar."""
    has_form: np.ndarray
    """(L,): whether a text is written so, in the calendar or not."""
    offsets: np.ndarray
    """(L,) minutes ahead of UTC, NaN without an offset."""


def form_of(levels: np.ndarray) -> np.ndarray:
    """(L,) the form of each text: one of the forms, `loose` for what looks like a date, empty for anything else.

    >>> form_of(np.array(["2024-02-30", "3/4/2024", "5 Mar 2024", "3/4/24", "soon"], dtype=object)).tolist()
    ['year-first', 'numbers', 'day-name', 'loose', '']
    """
    found = np.full(len(levels), "", dtype=object)
    for place, text in enumerate(levels):
        for form, pattern in _PATTERNS.items():
            if pattern.fullmatch(text):
                found[place] = form
                break
        else:
            if _LOOSE.fullmatch(text):
                found[place] = "loose"
    return found


def is_clock(levels: np.ndarray) -> np.ndarray:
    """(L,): whether a text is written like a time of day, such as `9:30`, `23:59:59.5` or `9:30 pm`."""
    return np.array([_CLOCK.fullmatch(text) is not None for text in levels], dtype=bool)


def has_short_year(text: str) -> bool:
    """Whether a text looks like a date whose year has two digits."""
    return _SHORT_YEAR.fullmatch(text) is not None


def order_of(levels: np.ndarray) -> str:
    """What texts of the form `numbers` say about their order: one of `ORDERS`, `both` or `unknown`.

    >>> order_of(np.array(["1/2/2024", "13/2/2024"], dtype=object)), order_of(np.array(["1/2/2024"], dtype=object))
    ('day-first', 'unknown')
    """
    fields = _fields(levels, "numbers")
    first, last = fields["first"], fields["last"]
    day, month = bool(np.any(first > 12)), bool(np.any(last > 12))
    if day and month:
        return "both"
    if day or month:
        return "day-first" if day else "month-first"
    return "day-is-month" if np.array_equal(first, last) else "unknown"


def parsed(levels: np.ndarray, layout: str) -> Fields:
    """Texts as dates in a layout of `LAYOUTS`.

    >>> parsed(np.array(["1/2/2024 9:30 pm", "31/2/2024"], dtype=object), "day-first").times
    array(['2024-02-01T21:30:00.000000',                        'NaT'],
          dtype='datetime64[us]')
    """
    fields = _fields(levels, "numbers" if layout in ORDERS else layout)
    has_form = ~np.isnan(fields["year"])
    if layout in ORDERS:
        day, month = ("first", "last") if layout != "month-first" else ("last", "first")
        fields["day"], fields["month"] = fields[day], fields[month]
        if layout == "day-is-month":
            has_form &= fields["day"] == fields["month"]
    times = _times(fields)
    times = np.where(has_form, times, np.datetime64("NaT"))
    offsets = np.where(has_form, fields["offset"], np.nan)
    shift = np.where(np.isnan(offsets), 0.0, offsets)
    return Fields(times - shift.astype("m8[m]"), has_form, offsets)


def parsed_clock(levels: np.ndarray) -> np.ndarray:
    """(L,) `datetime.time` objects, None where a text is no time of day.

    >>> parsed_clock(np.array(["9:30 pm", "25:00"], dtype=object)).tolist()
    [datetime.time(21, 30), None]
    """
    fields = _fields(levels, "clock")
    within = _of_day(fields)
    found = np.full(len(levels), None, dtype=object)
    for place in np.flatnonzero(~np.isnat(within)):
        found[place] = (datetime.datetime.min + within[place].astype("m8[us]").item()).time()
    return found


def parsed_format(levels: np.ndarray, layout: str) -> Fields:
    """Texts as dates in a format of `strptime`, such as `%d.%m.%y`.

    >>> parsed_format(np.array(["1.2.24", "soon"], dtype=object), "%d.%m.%y").times
    array(['2024-02-01T00:00:00.000000',                        'NaT'],
          dtype='datetime64[us]')
    """
    times = np.full(len(levels), np.datetime64("NaT"), dtype="M8[us]")
    offsets = np.full(len(levels), np.nan)
    for place, text in enumerate(levels):
        try:
            found = datetime.datetime.strptime(text, layout)
        except ValueError:
            continue
        offset = found.utcoffset()
        times[place] = np.datetime64(found.replace(tzinfo=None), "us")
        if offset is not None:
            offsets[place] = offset.total_seconds() / 60.0
            times[place] -= np.timedelta64(offset)
    return Fields(times, ~np.isnat(times), offsets)


def check_format(layout: str) -> bool:
    """Whether a format of `strptime` says the year and the month, or the day of the year, and can be used.

    >>> check_format("%d/%m/%Y"), check_format("%d/%m"), check_format("%Q")
    (True, False, False)
    """
    moments = (datetime.datetime(2024, 2, 25, 13, 45), datetime.datetime(2031, 12, 9, 4, 7))
    for moment in moments:
        try:
            again = datetime.datetime.strptime(moment.strftime(layout), layout)
        except (ValueError, re.error):
            return False
        if (again.year, again.month) != (moment.year, moment.month):
            return False
    return True


def _fields(levels: np.ndarray, form: str) -> dict[str, np.ndarray]:
    """Numbers by the names of groups, NaN where a text has not this form; `nanosecond` and `offset` besides."""
    pattern = _CLOCK if form == "clock" else _PATTERNS[form]
    nothing = ("",) * pattern.groups
    matches = [pattern.fullmatch(text) for text in levels]
    rows = [nothing if match is None else match.groups("") for match in matches]
    columns = np.array(rows, dtype=str).reshape(len(rows), pattern.groups)
    text = {name: columns[:, number - 1] for name, number in pattern.groupindex.items()}
    found = {name: _numbers(text[name]) for name in text if name not in ("mark", "name", "half", "zone", "fraction")}
    if "name" in text:
        numbers = {month[:3].lower(): float(number) for number, month in enumerate(MONTHS, 1)}
        found["month"] = np.array([numbers.get(name[:3].lower(), np.nan) for name in text["name"]])
    found.setdefault("day", np.ones(len(levels)))
    blank = np.full(len(levels), "", dtype=str)
    half = np.char.lower(text.get("half", blank))
    found["half"] = np.select([half == "a", half == "p"], [0.0, 12.0], np.nan)
    found["nanosecond"] = _numbers(np.char.ljust(text.get("fraction", blank), 9, "0"))
    found["offset"] = np.array([_minutes(zone) for zone in text.get("zone", blank)])
    return found


def _numbers(texts: np.ndarray) -> np.ndarray:
    """Texts of digits as numbers, NaN where they are empty."""
    return np.where(texts == "", "nan", texts).astype(np.float64)


def _minutes(zone: str) -> float:
    """An offset from UTC as it is written, Z, UTC, +02:00, -0330, +01; NaN where there is none."""
    if not zone or zone[0] not in "+-":
        return 0.0 if zone else np.nan
    digits = zone[1:].replace(":", "")
    minutes = 60.0 * int(digits[:2]) + int(digits[2:] or 0)
    return -minutes if zone[0] == "-" else minutes


def _times(fields: dict[str, np.ndarray]) -> np.ndarray:
    """Times without an offset, NaT where the calendar has none."""
    year, month, day = (fields[name] for name in ("year", "month", "day"))
    is_right = (year >= FIRST_YEAR) & (year <= LAST_YEAR) & (month >= 1) & (month <= 12) & (day >= 1)
    year, month, day = (np.where(is_right, part, 1.0).astype(np.int64) for part in (year, month, day))
    months = (year - 1970).astype("M8[Y]").astype("M8[M]") + (month - 1)
    days = months.astype("M8[D]") + (day - 1)
    is_right &= days.astype("M8[M]") == months
    within = _of_day(fields)
    days = np.where(is_right, days, np.datetime64("NaT"))
    # Nanoseconds only where they are written, because they reach from 1678 to 2261.
    unit = "us" if np.all(within[~np.isnat(within)].astype(np.int64) % 1000 == 0) else "ns"
    return days.astype(f"M8[{unit}]") + within.astype(f"m8[{unit}]")


def _of_day(fields: dict[str, np.ndarray]) -> np.ndarray:
    """(L,) timedelta64[ns] since midnight, NaT where a clock shows no such time."""
    if "hour" not in fields:
        return np.zeros(len(fields["day"]), dtype="m8[ns]")
    hour, minute, second = (np.nan_to_num(fields[name]) for name in ("hour", "minute", "second"))
    half = fields["half"]
    is_right = (minute < 60) & (second < 60) & (hour < 24)
    is_right &= np.isnan(half) | ((hour >= 1) & (hour <= 12))
    hour = np.where(np.isnan(half), hour, hour % 12 + np.nan_to_num(half))
    seconds = (3600.0 * hour + 60.0 * minute + second).astype(np.int64)
    since = seconds * 1_000_000_000 + np.nan_to_num(fields["nanosecond"]).astype(np.int64)
    return np.where(is_right, since.astype("m8[ns]"), np.timedelta64("NaT", "ns"))
