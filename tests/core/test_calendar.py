"""Days since an origin and phases of seasons, beside Python's own calendar."""

from __future__ import annotations

import datetime
import zoneinfo

import numpy as np
import pytest

import kosambi as ko
from kosambi._core import calendar
from kosambi.errors import InputError

ORIGIN = "2019-12-30"
START = datetime.datetime(2019, 12, 30)


def moments(rng, number=400):
    """Times of some years on either side of the origin, some of them midnights and ends of years."""
    seconds = rng.integers(-(10**8), 10**8, number).tolist()
    ends = [datetime.datetime(year, 12, 31, 23, 59, 59) for year in (2019, 2020, 2023)]
    return [START + datetime.timedelta(seconds=s) for s in seconds] + ends + [START, datetime.datetime(2020, 2, 29)]


def phase(season, local):
    """Where a time stands, by Python's datetime alone."""
    of_day = (local.hour * 3600 + local.minute * 60 + local.second) / 86_400
    if season == "day":
        return of_day
    if season == "week":
        return local.weekday() / 7
    length = 366 if local.year % 4 == 0 and (local.year % 100 != 0 or local.year % 400 == 0) else 365
    return (local.timetuple().tm_yday - 1 + of_day) / length


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_days_are_those_of_python(rng, unit):
    times = moments(rng)
    found = calendar.days_since(np.array(times, dtype=f"M8[{unit}]"), ORIGIN)
    np.testing.assert_allclose(found, [(time - START) / datetime.timedelta(days=1) for time in times], rtol=1e-15)


def test_parts_of_a_second_keep_their_digits():
    """Also far from the origin: the digits that a day has in float64 are there."""
    times = np.array(["2024-01-01T00:00:00.000000001", "2024-01-01T00:00:00.000000002"], "M8[ns]")
    near = calendar.days_since(times, "2024-01-01")
    np.testing.assert_allclose(near * 86_400e9, [1.0, 2.0], rtol=1e-12)
    far = calendar.days_since(np.array(["9999-12-31T12:00:00", "0001-01-01"], "M8[us]"), "2024-01-01")
    expected = [(datetime.date(9999, 12, 31) - datetime.date(2024, 1, 1)).days + 0.5]
    assert far.tolist() == [*expected, (datetime.date(1, 1, 1) - datetime.date(2024, 1, 1)).days]


@pytest.mark.parametrize("season", calendar.SEASONS)
def test_phases_are_those_of_python(rng, season):
    times = moments(rng)
    days = calendar.days_since(np.array(times, dtype="M8[us]"), ORIGIN)
    found = calendar.phases(season, days, ORIGIN)
    np.testing.assert_allclose(found, [phase(season, time) for time in times], rtol=0, atol=1e-8)
    assert np.all((found >= 0) & (found < 1))


@pytest.mark.parametrize("season", calendar.SEASONS)
@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/St_Johns", "+05:45", "-11:00", "UTC"])
def test_phases_are_those_of_the_clocks_there(rng, season, zone):
    """With hours that are left out and repeated, and at midnights there, which are no midnights in UTC."""
    known = calendar.zone_of(zone)
    local = [time.replace(tzinfo=known) for time in moments(rng, 200)]
    local += [datetime.datetime(2024, 3, 31, hour, tzinfo=known) for hour in range(5)]
    utc = [time.astimezone(datetime.UTC) for time in local]
    days = calendar.days_since(np.array([time.replace(tzinfo=None) for time in utc], dtype="M8[us]"), ORIGIN)
    expected = [phase(season, time.astimezone(known)) for time in utc]
    np.testing.assert_allclose(calendar.phases(season, days, ORIGIN, zone), expected, rtol=0, atol=1e-8)
    if zone == "Europe/Berlin" and season != "year":
        # Clocks without summer time are another thing.
        wrong = calendar.phases(season, days, ORIGIN, "+01:00")
        assert np.max(np.abs(wrong - expected)) > 0.01


def test_the_ends_of_the_calendar_have_clocks_too():
    days = calendar.days_since(np.array(["0001-01-01", "9999-12-31T23:00"], "M8[us]"), ORIGIN)
    for zone in ("America/New_York", "Asia/Tokyo"):
        assert np.all(np.isfinite(calendar.phases("day", days, ORIGIN, zone)))


def test_a_stationary_kernel_on_the_circle_is_the_periodic_kernel(rng):
    x, z = rng.uniform(0, 30, (7, 1)), rng.uniform(0, 30, (5, 1))
    periodic = ko.kernels.Periodic(lengthscale=0.7, period=1.0)
    circle = [calendar.on_circle(calendar.phases("day", part[:, 0], ORIGIN)) for part in (x, z)]
    found = ko.kernels.SquaredExponential(lengthscale=0.7)(*circle)
    np.testing.assert_allclose(found, periodic(x, z), atol=1e-6)


def test_phases_come_back_from_the_circle(rng):
    given = np.append(rng.uniform(size=50), [0.0, 0.5])
    np.testing.assert_allclose(calendar.phases_of(calendar.on_circle(given)), given, atol=1e-12)


@pytest.mark.parametrize("name", ["date", "a (b), c", "x\ny", "days since 2020-01-01", "=1", "d (hours)"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin", "+02:00"])
def test_labels_say_what_a_column_is(name, zone):
    label = calendar.days_label(name, "2024-02-29", is_utc=zone is not None)
    assert calendar.as_days(label) == calendar.Days(name, "2024-02-29", zone is not None)
    assert calendar.as_hours(calendar.hours_label(name)) == name
    seasons = [part for season in calendar.SEASONS for part in calendar.circle_labels(name, season, zone)]
    found = calendar.circles([label, *seasons, "size"])
    assert found == [
        calendar.Circle(name, season, zone, (1 + 2 * place, 2 + 2 * place))
        for place, season in enumerate(calendar.SEASONS)
    ]
    assert calendar.time_columns([label, *seasons]) == calendar.as_days(label)
    assert calendar.time_columns([label, *seasons, "size"]) is None
    assert calendar.time_columns(seasons) is None
    days = np.array([0.25, 100.5])
    coded = calendar.coded_days([*seasons, label], days)
    np.testing.assert_array_equal(coded[:, -1], days)
    week = calendar.on_circle(calendar.phases("week", days, "2024-02-29", zone))
    np.testing.assert_array_equal(coded[:, 2:4], week)


@pytest.mark.parametrize("label", ["date", "date (days since 2024-13-01)", "d (days since 0000-01-01)", " (hours)", ""])
def test_other_labels_are_no_dates(label):
    assert calendar.as_days(label) is None
    assert calendar.as_hours(label) is None
    # A sine without its cosine is a column like any other.
    assert calendar.circles([label, "d (time of day, sine)", "e (time of day, cosine)"]) == []


@pytest.mark.parametrize(
    "zone", ["Mars/Olympus", "+25:00", "../../etc/passwd", "/etc/localtime", "", "Europe", "x" * 99]
)
def test_bad_input_zones(zone):
    with pytest.raises(InputError, match="no time zone"):
        calendar.zone_of(zone)
    assert calendar.zone_of("Europe/Berlin") == zoneinfo.ZoneInfo("Europe/Berlin")
