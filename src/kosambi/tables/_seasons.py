"""What becomes of dates and times of day: the time as a number, and the seasons that a column has in it.

A date is a number of days, from which a trend is learned. A season is a point on a circle (`kosambi._core.calendar`),
from which is learned what comes back every day, week or year; decision 51 has what that gains and costs. A time of day
is a point on the circle of the day alone, where a minute before midnight is near a minute after it.
"""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any, Literal

import numpy as np

from kosambi._core.calendar import SEASONS, circle_labels, days_label, days_since, hours_label, on_circle, phases
from kosambi.errors import InputError
from kosambi.tables._dates import offset_name, zone_name
from kosambi.tables._names import quoted

Dates = Literal["calendar", "days"]
DATES: tuple[Dates, ...] = ("calendar", "days")
_PERIODS = {"day": 1.0, "week": 7.0, "year": 365.0}
# Parts of a period, of which one may not hold nearly all times.
_PARTS = {"day": 24, "week": 7, "year": 12}
_NEARLY_ALL = 0.9
# Periods that a column must span, and different times that it must have.
_FEWEST_PERIODS, _FEWEST_TIMES = 2.0, 20
# Days between neighbours, a tenth of which must be as near, or nothing is said about days of the week: months, say.
_NEAR_DAYS, _SOME = 3.0, 0.1


@dataclasses.dataclass(frozen=True)
class Calendar:
    """How one column of dates or times of day is read and coded."""

    layout: str | None = None
    """How text writes it: one of `LAYOUTS`, `clock`, or a format of `strptime`; None where the table had times."""
    origin: str | None = None
    """The day from whose beginning days are counted, as `2024-01-01`; None for times of day."""
    zone: str | None = None
    """Whose clocks seasons go by, `Europe/Berlin` or `+02:00`; days are then counted in UTC. None for naive times."""
    seasons: tuple[str, ...] = ()
    """Of `day`, `week` and `year`, those that are coded."""

    def labels(self, name: str) -> tuple[str, ...]:
        """The names of the columns that a column is coded by."""
        circles = [label for season in self.seasons for label in circle_labels(name, season, self.zone)]
        return (*self.number_labels(name), *circles)

    def number_labels(self, name: str) -> tuple[str, ...]:
        """The name of the column in which it is a number, if there is one."""
        if self.origin is not None:
            return (days_label(name, self.origin, is_utc=self.zone is not None),)
        return () if self.seasons else (hours_label(name),)

    def numbers(self, values: Any) -> np.ndarray:
        """(N,): days since the origin, or hours since midnight, of a column of `typed`'s; NaN where it is missing."""
        if self.origin is None:
            return np.array([np.nan if time is None else _hours(time) for time in values.to_numpy(dtype=object)])
        return days_since(_in_utc(values), self.origin)

    def coded(self, numbers: np.ndarray, fill: float | None) -> np.ndarray:
        """The columns of `labels`, where `numbers` are those of `numbers`; a missing time is in the middle of circles.

        Arguments:
            numbers: (N,) days or hours, NaN where missing.
            fill: what stands for a missing number; needed where there are any.
        """
        missing = np.isnan(numbers)
        filled = np.where(missing, np.nan if fill is None else fill, numbers)
        days, origin = (filled / 24.0, "1970-01-01") if self.origin is None else (filled, self.origin)
        found = [filled[:, None]] if self.number_labels("") else []
        for season in self.seasons:
            found.append(np.where(missing[:, None], 0.0, on_circle(phases(season, days, origin, self.zone))))
        return np.column_stack(found)

    def check_zone(self, name: str, values: Any) -> None:
        """Refuse times with a zone where those of the training rows had none, or the other way round."""
        if (text := self.zone_problem(values)) and values.notna().any():
            raise InputError(f"Column `{name}` {text}. Write them as they were.")

    def zone_problem(self, values: Any) -> str:
        """What is wrong with the zone of a column of `typed`'s; empty if nothing."""
        if self.origin is None or (values.dt.tz is not None) == (self.zone is not None):
            return ""
        had, has = "a time zone", "none"
        had, has = (had, has) if self.zone is not None else ("no time zone", "one")
        return f"had times with {had} when the model was fitted, and has times with {has} here"


def calendar_of(values: Any, layout: str | None, dates: Dates) -> Calendar:
    """How a column of `typed`'s is coded: from the first day on, and by the seasons that its times allow.

    Arguments:
        values: dates or times of day, at least two of them different.
        layout: how they were written.
        dates: "calendar" for seasons too, "days" for the number alone.

    >>> import pandas as pd
    >>> calendar_of(pd.Series(pd.date_range("2024-01-02", periods=40)), None, "calendar")
    Calendar(layout=None, origin='2024-01-02', zone=None, seasons=('week',))
    """
    if values.dtype == object:
        return Calendar(layout, seasons=("day",) if dates == "calendar" else ())
    zone = None if values.dt.tz is None else _zone_text(values.dt.tz)
    times = np.unique(_in_utc(values.dropna()))
    found = Calendar(layout, str(times[0].astype("M8[D]")), zone)
    return found if dates == "days" else dataclasses.replace(found, seasons=seasons_of(found.numbers(values), found))


def seasons_of(days: np.ndarray, calendar: Calendar) -> tuple[str, ...]:
    """The seasons about which times say something: those that come back, in which they differ, and often enough.

    Arguments:
        days: (N,) since the origin of `calendar`, NaN where missing.
        calendar: whose origin and zone are taken.
    """
    assert calendar.origin is not None
    times = np.unique(days[~np.isnan(days)])
    if len(times) < _FEWEST_TIMES:
        return ()
    gaps = np.diff(np.unique(np.floor(times)))
    # Of 24 months the last begins 23 after the first, and all of them are two years.
    span = np.ptp(times) + np.median(np.diff(times))
    found = []
    for season in SEASONS:
        parts = np.floor(phases(season, times, calendar.origin, calendar.zone) * _PARTS[season] + 1e-9)
        commonest = np.max(np.unique(parts, return_counts=True)[1]) / len(times)
        is_near = season != "week" or (len(gaps) > 0 and np.quantile(gaps, _SOME) <= _NEAR_DAYS)
        if span >= _FEWEST_PERIODS * _PERIODS[season] and commonest <= _NEARLY_ALL and is_near:
            found.append(season)
    return tuple(found)


def season_words(calendar: Calendar) -> str:
    """What a column is coded by, for a note.

    >>> season_words(Calendar(origin="2024-01-01", seasons=("day", "week")))
    'days since 2024-01-01, time of day and day of the week'
    """
    words = [SEASONS[season] for season in calendar.seasons]
    if calendar.origin is not None:
        words = [f"days since {calendar.origin}", *words]
    words = words or ["hours since midnight"]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def check_dates(dates: object) -> None:
    """Refuse what `dates` cannot be."""
    if dates not in DATES:
        raise InputError(f"`dates` must be one of {quoted(DATES)}. Got {dates!r}.")


def _hours(time: datetime.time) -> float:
    seconds = 3600 * time.hour + 60 * time.minute + time.second
    return seconds / 3600.0 + time.microsecond / 3.6e9


def _in_utc(values: Any) -> np.ndarray:
    naive = values if values.dt.tz is None else values.dt.tz_convert("UTC").dt.tz_localize(None)
    return np.asarray(naive.to_numpy())


def _zone_text(zone: Any) -> str:
    """A zone as `zone_of` takes it."""
    return zone_name(zone) or offset_name(zone.utcoffset(None).total_seconds() / 60.0)
