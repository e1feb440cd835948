r"""Times as numbers, and the seasons of the calendar as points on circles.

A time is the number of days since an origin, the beginning of a day. A season of it is its phase p in [0, 1): where it
stands in its day, its week or its year, as the two numbers

    (sin 2πp, cos 2πp).

A stationary kernel of these two with one lengthscale is MacKay's periodic kernel (1998). Days of the week are whole
days, so that midnight is a jump; years are measured by their own length, so that a date has one phase whether or not
there was a 29 February before it. Where times have a zone, days are counted in UTC, in which no hour is left out or
repeated, and phases are those of the clocks there.

Columns of coded tables are known by their labels, `date (days since 2024-01-01)` and `date (time of year, sine)`, so
that pictures can show dates wherever a table was coded.
"""

from __future__ import annotations

import datetime
import re
import zoneinfo
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from kosambi.errors import InputError

SEASONS = {"day": "time of day", "week": "day of the week", "year": "time of year"}
"""What seasons are called in labels."""
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
"""In the order of their phases, 0, 1/7, ..., 6/7."""
_DAY = np.timedelta64(1, "D")
_MILLISECONDS = 86_400_000
_ENDS = np.array(["0001-01-03", "9999-12-30"], "M8[s]").astype(np.int64)
_OFFSET = re.compile(r"([+-])(\d{2}):(\d{2})")
_DAYS = re.compile(r"(?P<name>.+) \(days since (?P<origin>\d{4}-\d{2}-\d{2})(?P<utc> UTC)?\)", re.DOTALL)
_HOURS = re.compile(r"(?P<name>.+) \(hours\)", re.DOTALL)
_CIRCLE = re.compile(
    rf"(?P<name>.+) \((?P<season>{'|'.join(SEASONS.values())})(?: in (?P<zone>[^ ,()]+))?, (?P<part>sine|cosine)\)",
    re.DOTALL,
)


class Days(NamedTuple):
    """A column of days since an origin."""

    name: str
    """Of the column in the table."""
    origin: str
    """The day from whose beginning days are counted, as `2024-01-01`."""
    is_utc: bool
    """Whether that is its beginning in UTC."""


class Circle(NamedTuple):
    """Two columns that hold a season of one column of the table."""

    name: str
    """Of the column in the table."""
    season: str
    """`day`, `week` or `year`."""
    zone: str | None
    """Whose clocks it goes by; None for the clocks that the times were written by."""
    columns: tuple[int, int]
    """Of the sine and of the cosine."""

    @property
    def title(self) -> str:
        """What a picture of it is called."""
        return f"{self.name}: {SEASONS[self.season]}"


def days_since(times: np.ndarray, origin: str) -> Float[np.ndarray, " N"]:
    """Days from the beginning of a day, of datetime64 in any unit; NaN where there is no time.

    Whole days and the rest are taken by themselves, so that a part of a day keeps its digits however far the origin is.

    >>> days_since(np.array(["2024-03-01T06:00", "2023-12-31", "NaT"], "M8[us]"), "2024-01-01")
    array([60.25, -1.  ,   nan])
    """
    whole = times.astype("M8[D]")
    missing = np.isnat(times)
    days = np.where(missing, 0, (whole - np.datetime64(origin, "D")).astype(np.int64)).astype(np.float64)
    return np.where(missing, np.nan, days + (times - whole) / _DAY)


def phases(season: str, days: Float[np.ndarray, " N"], origin: str, zone: str | None = None) -> Float[np.ndarray, " N"]:
    """Where times stand in their day, week or year, in [0, 1).

    Arguments:
        season: `day`, `week` or `year`.
        days: since the origin, finite; in UTC if there is a zone.
        origin: a day, as `2024-01-01`.
        zone: whose clocks to go by, as `Europe/Berlin` or `+02:00`.

    >>> phases("week", np.array([0.0, 0.9, 6.0]), "2024-01-01") * 7  # a Monday
    array([0., 0., 6.])
    >>> phases("day", np.array([0.5]), "2024-07-01", "Europe/Berlin") * 24  # noon in UTC
    array([14.])
    """
    # In whole milliseconds, so that a midnight elsewhere does not fall before the day by a rounding.
    start = np.datetime64(origin, "D").astype(np.int64) * _MILLISECONDS
    stamps = start + np.round(np.asarray(days) * _MILLISECONDS).astype(np.int64)
    local = (stamps + _offsets(stamps, zone)).astype("M8[ms]")
    day = local.astype("M8[D]")
    if season == "day":
        return (local - day) / _DAY
    if season == "week":
        # The first day of the calendar in computers, 1 January 1970, was a Thursday.
        return (day.astype(np.int64) + 3) % 7 / 7.0
    year = local.astype("M8[Y]")
    first, last = year.astype("M8[ms]"), (year + 1).astype("M8[ms]")
    return (local - first) / (last - first)


def on_circle(phase: Float[np.ndarray, " N"]) -> Float[np.ndarray, "N 2"]:
    """Sine and cosine of phases.

    >>> on_circle(np.array([0.0, 0.25])).round(15)
    array([[0., 1.],
           [1., 0.]])
    """
    angle = 2.0 * np.pi * np.asarray(phase)
    return np.column_stack([np.sin(angle), np.cos(angle)])


def phases_of(circle: Float[np.ndarray, "N 2"]) -> Float[np.ndarray, " N"]:
    """The phases of points on a circle, in [0, 1).

    >>> phases_of(on_circle(np.array([0.0, 0.25, 0.9]))).round(12)
    array([0.  , 0.25, 0.9 ])
    """
    return np.mod(np.arctan2(circle[:, 0], circle[:, 1]) / (2.0 * np.pi), 1.0)


def _offsets(stamps: Int[np.ndarray, " N"], zone: str | None) -> Int[np.ndarray, " N"]:
    """How far clocks are ahead of UTC at these times, all in milliseconds."""
    if zone is None:
        return np.zeros_like(stamps)
    known = zone_of(zone)
    # Of the last days of the calendar the offset is that of the day before, since their local time may not be in it.
    seconds, places = np.unique(np.clip(stamps // 1000, *_ENDS), return_inverse=True)
    start = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    found = []
    for second in seconds.tolist():
        offset = (start + datetime.timedelta(seconds=second)).astimezone(known).utcoffset()
        found.append(0 if offset is None else round(offset.total_seconds() * 1000))
    return np.array(found, dtype=np.int64)[places]


def zone_of(name: str) -> datetime.tzinfo:
    """A time zone by its name in the database of zones, or by its offset from UTC.

    >>> zone_of("-03:30").utcoffset(None)
    datetime.timedelta(days=-1, seconds=73800)
    >>> zone_of("Mars/Olympus")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    kosambi.errors.InputError: There is no time zone `Mars/Olympus` on this computer. Names are those of the IANA ...
    """
    offset = _OFFSET.fullmatch(name)
    if offset is not None and int(offset[2]) < 24 and int(offset[3]) < 60:
        minutes = 60 * int(offset[2]) + int(offset[3])
        return datetime.timezone(datetime.timedelta(minutes=-minutes if offset[1] == "-" else minutes))
    try:
        return zoneinfo.ZoneInfo(name)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(
            f"There is no time zone `{name[:40]}` on this computer. Names are those of the IANA database, such as "
            "`Europe/Berlin`, which `pip install tzdata` brings; offsets are written `+02:00`."
        ) from error


def days_label(name: str, origin: str, *, is_utc: bool) -> str:
    """The label of a column of days since an origin."""
    return f"{name} (days since {origin}{' UTC' if is_utc else ''})"


def hours_label(name: str) -> str:
    """The label of a column of hours since midnight.

    >>> hours_label("start")
    'start (hours)'
    """
    return f"{name} (hours)"


def circle_labels(name: str, season: str, zone: str | None) -> tuple[str, str]:
    """The labels of the two columns of a season.

    >>> circle_labels("date", "week", None)
    ('date (day of the week, sine)', 'date (day of the week, cosine)')
    """
    where = "" if zone is None else f" in {zone}"
    sine, cosine = (f"{name} ({SEASONS[season]}{where}, {part})" for part in ("sine", "cosine"))
    return sine, cosine


def as_days(label: str) -> Days | None:
    """What `days_label` was given; None if it is no such label.

    >>> as_days(days_label("date", "2024-01-01", is_utc=False))
    Days(name='date', origin='2024-01-01', is_utc=False)
    """
    found = _DAYS.fullmatch(label)
    if found is None or found["origin"].startswith("0000") or not _is_day(found["origin"]):
        return None
    return Days(found["name"], found["origin"], found["utc"] is not None)


def as_hours(label: str) -> str | None:
    """The name of a column of hours since midnight; None if it is no such label."""
    found = _HOURS.fullmatch(label)
    return None if found is None else found["name"]


def circles(labels: Sequence[str]) -> list[Circle]:
    """The seasons among the columns of a matrix.

    >>> circles(["size", *circle_labels("date", "year", None)])
    [Circle(name='date', season='year', zone=None, columns=(1, 2))]
    """
    seasons = {words: season for season, words in SEASONS.items()}
    places: dict[tuple[str, str, str | None], dict[str, int]] = {}
    for column, label in enumerate(labels):
        if found := _CIRCLE.fullmatch(label):
            key = found["name"], seasons[found["season"]], found["zone"]
            places.setdefault(key, {})[found["part"]] = column
    return [Circle(*key, columns=(parts["sine"], parts["cosine"])) for key, parts in places.items() if len(parts) == 2]


def time_columns(labels: Sequence[str]) -> Days | None:
    """The column of days, if all labels are those of one column of dates: its days and its seasons.

    >>> time_columns(["date (days since 2024-01-01)", *circle_labels("date", "week", None)])
    Days(name='date', origin='2024-01-01', is_utc=False)
    >>> time_columns(["date (days since 2024-01-01)", "size"])
    """
    found = [days for label in labels if (days := as_days(label)) is not None]
    seasons = circles(labels)
    is_one = len(found) == 1 and all(circle.name == found[0].name for circle in seasons)
    return found[0] if is_one and len(labels) == 1 + 2 * len(seasons) else None


def coded_days(labels: Sequence[str], days: Float[np.ndarray, " N"]) -> Float[np.ndarray, "N D"]:
    """The columns of `time_columns` at some times.

    >>> coded_days(circle_labels("date", "day", None) + ("date (days since 2024-01-01)",), np.array([0.25])).round(12)
    array([[1.  , 0.  , 0.25]])
    """
    known = time_columns(labels)
    assert known is not None
    table = np.tile(np.asarray(days, dtype=np.float64)[:, None], (1, len(labels)))
    for circle in circles(labels):
        table[:, list(circle.columns)] = on_circle(phases(circle.season, days, known.origin, circle.zone))
    return table


def _is_day(text: str) -> bool:
    try:
        np.datetime64(text, "D")
    except ValueError:
        return False
    return True
