"""What becomes of dates: which seasons a column has, how they are coded, and what a schema keeps of it."""

from __future__ import annotations

import datetime
import json
import zoneinfo

import numpy as np
import pandas as pd
import pytest

from kosambi.errors import InputError
from kosambi.tables import Calendar, Column, Schema, date_notes
from kosambi.tables._columns import MISSING

NOON = pd.DatetimeIndex([pd.Timestamp(t) for t in ("2024-01-01", "2024-03-31 12:00", "2025-12-31 23:59:59.5")])


def learned(times, **options):
    table = pd.DataFrame({"d": times})
    return Schema.learn(table, target="y", inputs=["d"], **options)


def seasons(times):
    return learned(times).columns[0].calendar.seasons


def days(start, number, step=1.0):
    return pd.Timestamp(start) + pd.to_timedelta(np.arange(number) * step, "D")


SEASONS = {
    "ten dates": (days("2024-01-01", 10, 100), ()),
    "nineteen days": (days("2024-01-01", 19), ()),
    "three weeks": (days("2024-01-01", 21), ("week",)),
    "hours of three days": (days("2024-01-01", 72, 1 / 24), ("day",)),
    "hours of a month": (days("2024-01-01", 24 * 30, 1 / 24), ("day", "week")),
    "a year of hours": (days("2024-01-01", 24 * 366, 1 / 24), ("day", "week")),
    "a year of days": (days("2024-01-01", 366), ("week",)),
    "two years of days": (days("2024-01-01", 732), ("week", "year")),
    "three years of hours": (days("2022-01-01", 24 * 1096, 1 / 24), ("day", "week", "year")),
    "each morning, an hour apart": (days("2024-01-01 07:30", 60) + pd.to_timedelta(np.arange(60) % 2, "m"), ("week",)),
    "mornings and evenings": (days("2024-01-01 08:00", 60, 0.5), ("day", "week")),
    "working days": (pd.bdate_range("2024-01-01", periods=60), ("week",)),
    "Mondays": (days("2024-01-01", 120, 7), ("year",)),
    "months": (pd.date_range("2015-01-01", periods=60, freq="MS"), ("year",)),
    "ends of months": (pd.date_range("2015-01-31", periods=60, freq="ME"), ("year",)),
    "two years of months": (pd.date_range("2015-01-01", periods=24, freq="MS"), ("year",)),
    "nearly two years of months": (pd.date_range("2015-01-01", periods=23, freq="MS"), ()),
    "quarters": (pd.date_range("2010-01-01", periods=24, freq="QS"), ("year",)),
    "years": (pd.date_range("1900-01-01", periods=100, freq="YS"), ()),
    "any moments of five years": (
        days("2020-01-01", 1, 1)[0] + pd.to_timedelta(np.random.default_rng(0).uniform(0, 1826, 300), "D"),
        ("day", "week", "year"),
    ),
}


@pytest.mark.parametrize("name", SEASONS)
def test_seasons_come_from_span_and_resolution(name):
    times, expected = SEASONS[name]
    assert seasons(times) == expected
    # In another order, and each time several times.
    shuffled = np.random.default_rng(0).permutation(np.repeat(times, 2))
    assert seasons(shuffled) == expected
    assert learned(times, dates="days").columns[0].calendar.seasons == ()


def test_the_coding_beside_formulas():
    times = days("2021-06-15 06:00", 24 * 800, 1 / 24)
    schema = learned(times)
    assert schema.labels == (
        "d (days since 2021-06-15)",
        "d (time of day, sine)",
        "d (time of day, cosine)",
        "d (day of the week, sine)",
        "d (day of the week, cosine)",
        "d (time of year, sine)",
        "d (time of year, cosine)",
    )
    matrix, labels = schema.encode(pd.DataFrame({"d": NOON}))
    assert labels == schema.labels
    assert matrix.dtype == np.float64
    assert matrix.flags.c_contiguous
    expected = []
    for time in NOON.to_pydatetime():
        since = time - datetime.datetime(2021, 6, 15)
        of_day = (time - datetime.datetime.combine(time, datetime.time())) / datetime.timedelta(days=1)
        length = 366 if time.year == 2024 else 365
        of_year = (time.timetuple().tm_yday - 1 + of_day) / length
        angles = 2.0 * np.pi * np.array([of_day, time.weekday() / 7, of_year])
        row = [since / datetime.timedelta(days=1), *np.column_stack([np.sin(angles), np.cos(angles)]).ravel()]
        expected.append(row)
    np.testing.assert_allclose(matrix, expected, rtol=0, atol=1e-9)


def test_text_objects_and_datetime64_are_coded_alike():
    times = days("2022-01-01", 900)
    tables = {
        "datetime64": times,
        "text": times.strftime("%Y-%m-%d"),
        "other text": times.strftime("%d.%m.%Y"),
        "objects": [time.date() for time in times],
    }
    found = {name: learned(values).encode(pd.DataFrame({"d": values})) for name, values in tables.items()}
    for matrix, labels in found.values():
        np.testing.assert_array_equal(matrix, found["datetime64"][0])
        assert labels == found["datetime64"][1]
    # New rows may have the year first, however the training rows were written.
    schema = learned(tables["other text"])
    for name in ("datetime64", "text", "objects"):
        np.testing.assert_array_equal(schema.encode(pd.DataFrame({"d": tables[name]}))[0], found["text"][0])


def test_parts_of_a_second_reach_the_matrix():
    """A run of a second in steps of a microsecond, long after the beginning of the calendar."""
    times = pd.Timestamp("2024-05-05 10:00:00") + pd.to_timedelta(np.arange(1000), "us")
    matrix, _ = learned(times).encode(pd.DataFrame({"d": times}))
    steps = np.diff(matrix[:, 0]) * 86_400e6
    np.testing.assert_allclose(steps, 1.0, atol=1e-4)
    wrong = np.diff(times.to_numpy().astype("M8[us]").astype(np.int64) / 86_400e6) * 86_400e6
    assert np.max(np.abs(wrong - 1.0)) > 0.1  # days since 1970 would have lost them


def test_zones_are_those_of_the_clocks_on_the_wall():
    """A month around the change to summer time: seasons go by the clock, days by what has passed."""
    berlin = zoneinfo.ZoneInfo("Europe/Berlin")
    times = pd.date_range("2024-03-15", periods=24 * 30, freq="h", tz=berlin)
    schema = learned(times)
    calendar = schema.columns[0].calendar
    assert (calendar.zone, calendar.origin, calendar.seasons) == ("Europe/Berlin", "2024-03-14", ("day", "week"))
    assert schema.labels[:3] == (
        "d (days since 2024-03-14 UTC)",
        "d (time of day in Europe/Berlin, sine)",
        "d (time of day in Europe/Berlin, cosine)",
    )
    matrix, _ = schema.encode(pd.DataFrame({"d": times}))
    np.testing.assert_allclose(np.diff(matrix[:, 0]), 1 / 24, rtol=1e-9)
    hours = np.array([time.hour for time in times])
    np.testing.assert_allclose(matrix[:, 1], np.sin(2 * np.pi * hours / 24), atol=1e-9)
    # The same moments by other clocks are coded the same, whatever they are written by.
    for other in (times.tz_convert("UTC"), times.tz_convert("Asia/Tokyo"), [t.isoformat() for t in times]):
        np.testing.assert_array_equal(schema.encode(pd.DataFrame({"d": other}))[0], matrix)
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    with pytest.raises(InputError, match="had times with a time zone when the model was fitted, and has times with"):
        schema.encode(pd.DataFrame({"d": times.tz_localize(None)}))
    with pytest.raises(InputError, match="had times with no time zone"):
        learned(times.tz_localize(None)).encode(pd.DataFrame({"d": times}))


def test_text_with_offsets_goes_by_the_commonest():
    texts = [f"2024-0{m}-{day:02}T08:00:00{zone}" for m, zone in ((1, "+01:00"), (7, "+02:00")) for day in range(1, 29)]
    texts += ["2024-07-30T08:00:00+02:00"]
    schema = learned(texts)
    assert schema.columns[0].calendar.zone == "+02:00"
    (note,) = date_notes(schema.columns, pd.DataFrame({"d": texts}))
    assert "with clocks at +02:00" in note.text
    assert note.is_decided


def test_times_of_day_are_points_on_a_circle():
    table = pd.DataFrame({"t": ["0:00", "6:00", "23:59:59", "12:30"]})
    schema = Schema.learn(table, target="y", inputs=["t"])
    assert schema.labels == ("t (time of day, sine)", "t (time of day, cosine)")
    matrix, _ = schema.encode(table)
    angles = 2.0 * np.pi * np.array([0.0, 6.0, 23 + 59 / 60 + 59 / 3600, 12.5]) / 24
    np.testing.assert_allclose(matrix, np.column_stack([np.sin(angles), np.cos(angles)]), atol=1e-12)
    alone = Schema.learn(table, target="y", inputs=["t"], dates="days")
    assert alone.labels == ("t (hours)",)
    np.testing.assert_allclose(alone.encode(table)[0][:, 0], 24 * angles / (2.0 * np.pi), rtol=1e-12)


def test_missing_times_are_the_median_and_in_the_middle_of_circles():
    times = days("2022-01-01", 901).to_series().reset_index(drop=True)
    table = pd.DataFrame(
        {"d": times.mask(times.index.isin([3, 700])), "t": [datetime.time(i % 24) for i in range(901)]}
    )
    table.loc[5, "t"] = None
    with pytest.raises(InputError, match="`d` 2, `t` 1"):
        Schema.learn(table, target="y", inputs=["d", "t"])
    schema = Schema.learn(table, target="y", inputs=["d", "t"], impute=True)
    assert [label for label in schema.labels if MISSING in label] == ["d (missing)", "t (missing)"]
    matrix, labels = schema.encode(table)
    found = dict(zip(labels, matrix[[3, 5]].T, strict=True))
    assert found["d (days since 2022-01-01)"].tolist() == [
        np.nanmedian([i for i in range(901) if i not in (3, 700)]),
        5,
    ]
    assert found["d (day of the week, sine)"][0] == found["d (day of the week, cosine)"][0] == 0.0
    assert found["d (missing)"].tolist() == [1.0, 0.0]
    assert found["t (time of day, sine)"][1] == found["t (time of day, cosine)"][1] == 0.0
    assert found["t (missing)"].tolist() == [0.0, 1.0]
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    new, _ = schema.encode(pd.DataFrame({"d": [None, "2022-01-02"], "t": ["", "12:00"]}))
    np.testing.assert_array_equal(
        new[0], matrix[3] * (np.arange(len(labels)) < 6) + new[0] * (np.arange(len(labels)) >= 6)
    )


def test_new_rows_far_outside_are_numbers_like_any():
    schema = learned(days("2022-01-01", 900))
    matrix, _ = schema.encode(pd.DataFrame({"d": ["9999-12-31", "0001-01-01"]}))
    assert np.all(np.isfinite(matrix))
    expected = [
        (datetime.date(year, m, d) - datetime.date(2022, 1, 1)).days for year, m, d in ((9999, 12, 31), (1, 1, 1))
    ]
    assert matrix[:, 0].tolist() == expected


def test_rows_that_cannot_be_coded_are_named():
    texts = days("2022-01-01", 900).strftime("%d/%m/%Y")
    table = pd.DataFrame({"d": texts, "t": [f"{i % 24}:00" for i in range(900)]})
    schema = Schema.learn(table, target="y", inputs=["d", "t"])
    new = pd.DataFrame(
        {
            "d": ["1/2/2023", "2/13/2023", "30/2/2023", "2023-02-01", None, "1/2/2023 00:00Z", "soon", "1/2/2023"],
            "t": ["1:00", "1:00", "1:00", "1:00", "1:00", "1:00", "1:00", "24:00"],
        }
    )
    assert schema.faults(new).tolist() == [
        "",
        "`d` is `2/13/2023`, which is no date, or not written as in training",
        "`d` is `30/2/2023`, which is no date, or not written as in training",
        "",
        "`d` is missing",
        "`d` is `1/2/2023 00:00Z`, which has a time zone, and training had none",
        "`d` is `soon`, which is no date, or not written as in training",
        "`t` is `24:00`, which is no time of day",
    ]
    objects = pd.DataFrame({"d": [datetime.date(2023, 1, 2), 5, pd.Timestamp("2023-01-02", tz="UTC")], "t": "1:00"})
    assert [bool(fault) for fault in schema.faults(objects)] == [False, True, True]
    good = new[schema.faults(new) == ""]
    assert schema.encode(good)[0].shape == (2, len(schema.labels))
    imputing = Schema.learn(table, target="y", inputs=["d", "t"], impute=True)
    assert imputing.faults(new).tolist()[4] == ""


def test_constant_dates_are_left_out():
    table = pd.DataFrame({"d": ["2024-01-01"] * 4, "x": [1.0, 2.0, 3.0, 4.0]})
    schema = Schema.learn(table, target="y", inputs=["d", "x"])
    assert schema.names == ("x",)
    assert "Column `d` is left out: it has one value" in schema.notes[0]


def column(**changes):
    calendar = {"layout": "day-first", "origin": "2024-01-01", "zone": None, "seasons": ["week"]}
    whole = {"name": "d", "kind": "date", "levels": [], "fill": None, "has_indicator": False, "unit": None}
    return whole | {"calendar": calendar | changes.pop("calendar", {})} | changes


HOSTILE = {
    "no calendar": column() | {"calendar": None},
    "a calendar of numbers": column(kind="numeric"),
    "a calendar that is a list": column() | {"calendar": []},
    "fewer fields": column() | {"calendar": {"layout": None}},
    "further fields": column(calendar={"further": 1}),
    "levels": column(levels=["a", "b"]),
    "a unit": column(unit="%"),
    "no origin": column(calendar={"origin": None}),
    "an origin that is none": column(calendar={"origin": "2024-02-30"}),
    "a long origin": column(calendar={"origin": "2024-01-01" * 1000}),
    "an origin in other words": column(calendar={"origin": "20240101"}),
    "an origin of another kind": column(calendar={"origin": 5}),
    "seasons twice": column(calendar={"seasons": ["week", "week"]}),
    "seasons out of order": column(calendar={"seasons": ["year", "day"]}),
    "unknown seasons": column(calendar={"seasons": ["moon"]}),
    "seasons that are no text": column(calendar={"seasons": [["week"]]}),
    "a layout that is unknown": column(calendar={"layout": "any"}),
    "a clock for dates": column(calendar={"layout": "clock"}),
    "a format without end": column(calendar={"layout": "%Y%m%d" + " " * 10_000}),
    "a format that breaks": column(calendar={"layout": "%d%d%Y"}),
    "a format of nothing": column(calendar={"layout": "%%"}),
    "a zone elsewhere": column(calendar={"zone": "../../../etc/passwd"}),
    "a zone that is none": column(calendar={"zone": "Mars/Olympus"}),
    "a zone without end": column(calendar={"zone": "A" * 10**6}),
    "a median that is none": column(fill=float("nan")),
    "a time of day with an origin": column(kind="time"),
    "a time of day by weeks": column(kind="time", calendar={"origin": None, "layout": None}),
    "a time of day in a zone": column(
        kind="time", calendar={"origin": None, "layout": None, "seasons": [], "zone": "UTC"}
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_bad_input_json_of_dates(name):
    good = Schema("y", (Column("d", "date", calendar=Calendar("day-first", "2024-01-01", None, ("week",))),)).to_dict()
    assert good["columns"] == [column()]
    assert Schema.from_dict(json.loads(json.dumps(good))).to_dict() == good
    with pytest.raises(InputError):
        Schema.from_dict(good | {"columns": [HOSTILE[name]]})


def test_a_schema_without_dates_is_read():
    old = Schema("y", (Column("x", "numeric"),)).to_dict()
    del old["columns"][0]["calendar"]
    assert Schema.from_dict(old).columns[0].calendar is None
    del old["columns"][0]["unit"]
    assert Schema.from_dict(old).columns[0].unit is None


NOTES = {
    "plain": (days("2024-01-01", 30).strftime("%Y-%m-%d"), {}, "is read as dates and coded by days since", False),
    "typed": (
        days("2024-01-01", 900),
        {},
        "day of the week and time of year; `--dates days` takes the days alone",
        False,
    ),
    "decided": (days("2024-01-01", 30).strftime("%m/%d/%Y"), {}, r"the month first (`01/30/2024` is 30 January", True),
    "few": (days("2024-01-01", 5), {}, "coded by days since 2024-01-01.", False),
    "times": (["1:00", "2:00"], {}, "points on a circle", False),
    "hours": (["1:00", "2:00"], {"dates": "days"}, "hours since midnight", False),
    "a zone": (days("2024-01-01", 5).tz_localize("Asia/Tokyo"), {}, "with clocks at Asia/Tokyo", False),
}


@pytest.mark.parametrize("name", NOTES)
def test_one_line_says_how_a_column_is_read(name):
    values, options, words, is_decided = NOTES[name]
    (note,) = date_notes(learned(values, **options).columns, pd.DataFrame({"d": values}))
    assert words in note.text
    assert "\n" not in note.text
    assert note.is_decided == is_decided


def test_bad_input_dates_is_one_of_two():
    with pytest.raises(InputError, match=r"`dates` must be one of `calendar`, `days`. Got 'weeks'"):
        learned(days("2024-01-01", 5), dates="weeks")
