"""Columns that code dates, shown as dates: their names, the ticks of an axis, values in words.

A coded table has labels such as `date (days since 2024-01-01)`. A reader of a picture wants `date`, and the calendar on
its axis.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import numpy as np

from kosambi._core.calendar import as_days, as_hours, circles

# So far apart, times of day do not matter to a reader.
_MANY_DAYS = 7.0
# Between them matplotlib's dates are those of Python.
_FIRST, _LAST = datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30)


def shown_name(label: str) -> str:
    """The name of a column as a picture has it.

    >>> shown_name("date (days since 2024-01-01)"), shown_name("start (hours)"), shown_name("size")
    ('date', 'start', 'size')
    """
    days = as_days(label)
    if days is not None:
        return f"{days.name} (UTC)" if days.is_utc else days.name
    return as_hours(label) or label


def shown_names(labels: Sequence[str]) -> list[str]:
    """The names of columns as tables have them, where sine and cosine of a season are two.

    >>> shown_names(["date (days since 2024-01-01)", "date (time of year, sine)", "date (time of year, cosine)"])
    ['date', 'date: time of year, sine', 'date: time of year, cosine']
    """
    found = [shown_name(label) for label in labels]
    for circle in circles(labels):
        for column, part in zip(circle.columns, ("sine", "cosine"), strict=True):
            found[column] = f"{circle.title}, {part}"
    return found


def shown_ends(label: str, values: np.ndarray) -> tuple[str, str]:
    """The first and the last value of a column in words; dates without their time where they are many days apart.

    >>> shown_ends("date (days since 2024-01-01)", np.array([0.4, 31.5]))
    ('2024-01-01', '2024-02-01')
    """
    low, high = float(values[0]), float(values[-1])
    if as_days(label) is not None and high - low > _MANY_DAYS:
        low, high = float(np.floor(low)), float(np.floor(high))
    return shown_value(label, low), shown_value(label, high)


def shown_value(label: str, value: float) -> str:
    """A value of a column in words: a date, with its time where that is not midnight, a time of day, or a number.

    >>> shown_value("date (days since 2024-01-01)", 31.5), shown_value("start (hours)", 9.5), shown_value("size", 2.0)
    ('2024-02-01 12:00', '9:30', '2')
    """
    days = as_days(label)
    if days is not None and (moment := _moment(days.origin, value)) is not None:
        has_time = moment.time() != datetime.time.min
        return moment.isoformat(" ", "minutes") if has_time else moment.date().isoformat()
    if as_hours(label) is not None and 0.0 <= value <= 24.0:
        return clock(value)
    return f"{value:.4g}"


def clock(hours: float) -> str:
    """Hours since midnight as a clock shows them, to the minute.

    >>> clock(9.5), clock(24.0)
    ('9:30', '24:00')
    """
    minutes = round(60.0 * hours)
    return f"{minutes // 60}:{minutes % 60:02}"


def unit_of(label: str) -> str:
    """The unit of a column of days or of hours, with a space before it; empty for all others."""
    return " days" if as_days(label) is not None else " hours" if as_hours(label) is not None else ""


def mark_axis(axis: Any, label: str) -> None:
    """Put the calendar, or the clock, on the axis of a column that codes it; leave all other axes as they are.

    Arguments:
        axis: of matplotlib, on which the values of the column are.
        label: of the column.

    >>> from matplotlib.figure import Figure
    >>> axes = Figure().add_subplot()
    >>> _ = axes.plot([0.0, 366.0], [0.0, 1.0])
    >>> mark_axis(axes.xaxis, "date (days since 2024-01-01)")
    >>> axes.figure.canvas.draw()
    >>> axes.get_xticklabels()[0].get_text()
    '2024'
    """
    from matplotlib.ticker import FuncFormatter, MultipleLocator

    days = as_days(label)
    if days is not None:
        locator = _locator(days.origin)
        axis.set_major_locator(locator)
        axis.set_major_formatter(_formatter(locator))
    elif as_hours(label) is not None:
        axis.set_major_locator(MultipleLocator(4.0))
        axis.set_major_formatter(FuncFormatter(lambda value, _: clock(value)))


def mark_axes(axes: Any, across: str, up: str) -> None:
    """The same for both axes of a map."""
    mark_axis(axes.xaxis, across)
    mark_axis(axes.yaxis, up)


def _moment(origin: str, days: float) -> datetime.datetime | None:
    """The time so many days after the beginning of a day, to the second; None outside the calendar."""
    try:
        return datetime.datetime.fromisoformat(origin) + datetime.timedelta(seconds=round(86_400.0 * days))
    except OverflowError:
        return None


def _matplotlib_dates() -> Any:
    # Without types.
    from matplotlib import dates

    return dates


def _locator(origin: str) -> Any:
    """matplotlib's places of ticks for dates, on an axis of days since an origin."""
    from matplotlib.ticker import Locator

    dates = _matplotlib_dates()
    start = dates.date2num(np.datetime64(origin))
    limits = [dates.date2num(end) for end in (_FIRST, _LAST)]

    class SinceOrigin(Locator):
        def __init__(self) -> None:
            self.inner, self.start = dates.AutoDateLocator(minticks=3, maxticks=7), start

        def __call__(self) -> Any:
            axis: Any = self.axis
            return self.tick_values(*sorted(axis.get_view_interval()))

        def tick_values(self, low: float, high: float) -> Any:
            ends = np.clip([low + start, high + start], *limits)
            first, last = (dates.num2date(end).replace(tzinfo=None) for end in ends)
            return np.asarray(self.inner.tick_values(first, last)) - start

    return SinceOrigin()


def _formatter(locator: Any) -> Any:
    """matplotlib's words for dates, which say what changes from tick to tick and the rest once."""
    from matplotlib.ticker import Formatter

    dates = _matplotlib_dates()

    class SinceOrigin(Formatter):
        def __init__(self) -> None:
            self.inner = dates.ConciseDateFormatter(locator.inner)

        def __call__(self, value: float, position: int | None = None) -> str:
            del position
            return str(dates.num2date(value + locator.start).isoformat(" ", "minutes")[:16])

        def format_ticks(self, values: Any) -> list[str]:
            return list(self.inner.format_ticks(np.asarray(values) + locator.start))

        def get_offset(self) -> str:
            return str(self.inner.get_offset())

    return SinceOrigin()
