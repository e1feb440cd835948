"""Dates and times of day as tables have them, beside Python's own parser; and what leaves something open."""

from __future__ import annotations

import datetime
import zoneinfo

import numpy as np
import pandas as pd
import pytest

from kosambi.errors import InputError
from kosambi.tables import layouts_of, typed
from kosambi.tables._layouts import LAYOUTS, MONTHS, check_format, parsed

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
UTC2 = datetime.timezone(datetime.timedelta(hours=2))


def read(values, layout=None):
    kinds, layouts = ({"d": "date"}, {"d": layout}) if layout else (None, None)
    return typed(pd.DataFrame({"d": values}), kinds, layouts)["d"]


FORMS = {
    "year-first": ["%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S.%f"],
    "day-first": ["%d/%m/%Y", "%d.%m.%Y", "%d-%m-%Y %H:%M", "%d/%m/%Y %I:%M %p", "%d/%m/%Y, %I:%M:%S%p"],
    "month-first": ["%m/%d/%Y", "%m-%d-%Y", "%m/%d/%Y %I:%M:%S %p"],
    "day-name": ["%d %b %Y", "%d-%b-%Y", "%d%b%Y", "%d. %B %Y", "%d %B %Y %H:%M"],
    "name-day": ["%b %d %Y", "%B %d, %Y", "%b %d, %Y %I:%M %p", "%b-%d-%Y"],
    "name-year": ["%b %Y", "%B %Y", "%b-%Y"],
    "year-month": ["%Y-%m", "%Y/%m"],
}


@pytest.mark.parametrize("layout", FORMS)
def test_common_forms_are_read_as_python_reads_them(layout, rng):
    times = [datetime.datetime(1900, 1, 1) + datetime.timedelta(seconds=int(s)) for s in rng.integers(0, 6e9, 60)]
    # Days that say which number is the month.
    times += [datetime.datetime(2024, 1, 31, 12, 30, 1), datetime.datetime(2024, 2, 29, 0, 5)]
    for form in FORMS[layout]:
        texts = [time.strftime(form) for time in times]
        expected = [datetime.datetime.strptime(text, form) for text in texts]
        raw = pd.DataFrame({"d": [*texts, None, " ? "]})
        table = typed(raw)
        assert table["d"].dtype == "datetime64[us]"
        assert table["d"][:-2].tolist() == expected
        assert table["d"].isna().tolist() == [False] * 62 + [True] * 2
        assert layouts_of(raw, table) == {"d": layout}
        # Once more, as when new rows are coded; and a table that has been read already stays as it is.
        again = read(texts[:3], layout)
        assert again.tolist() == expected[:3]
        pd.testing.assert_series_equal(typed(table)["d"], table["d"])


def test_parts_of_a_second_are_kept():
    found = read(["2024-01-01 00:00:00.123456789", "2024-01-01 00:00:00.5"])
    assert found.dtype == "datetime64[ns]"
    assert found.tolist()[0].nanosecond == 789
    assert read(["1500-01-01T10:00", "9999-12-31"]).dtype == "datetime64[us]"


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1/2/2024", "13/2/2024"], "2024-02-01"),
        (["1/2/2024", "2/13/2024"], "2024-01-02"),
        (["1.2.2024", "13.2.2024"], "2024-02-01"),
        (["1/1/2020", "1/1/2021"], "2020-01-01"),
        (["3rd March 2024", "Sept 4, 2024"][:1] * 2, "2024-03-03"),
        (["2024-01", "2024-02"], "2024-01-01"),
    ],
)
def test_the_whole_column_decides(texts, expected):
    assert str(read(texts)[0].date()) == expected


def test_years_of_two_digits_and_other_forms_need_a_format():
    assert read(["01/02/24", "3/4/69"], "%d/%m/%y").tolist() == [pd.Timestamp("2024-02-01"), pd.Timestamp("1969-04-03")]
    assert read([20240131, 20240229], "%Y%m%d").tolist() == [pd.Timestamp("2024-01-31"), pd.Timestamp("2024-02-29")]
    assert read(["3/4/2024"], "month-first").tolist() == [pd.Timestamp("2024-03-04")]
    zoned = read(["1.2.2024 10:00 +0200"], "%d.%m.%Y %H:%M %z")
    assert zoned.tolist() == [pd.Timestamp("2024-02-01 10:00", tz=UTC2)]
    assert [
        check_format(text) for text in ("%Y-%j", "%G-%V-%u", "%B %y", "%Y", "%H:%M", "%", "%d%d%m%Y", "%Y" * 2)
    ] == [
        True,
        True,
        True,
        False,
        False,
        False,
        False,
        False,
    ]


OBJECTS = {
    "dates": ([datetime.date(2024, 1, 1), None], ["2024-01-01", None]),
    "datetimes": ([datetime.datetime(2024, 1, 1, 5), datetime.date(2024, 1, 2)], ["2024-01-01 05:00", "2024-01-02"]),
    "timestamps": ([pd.Timestamp("2024-01-01"), pd.NaT], ["2024-01-01", None]),
    "seconds": (np.array(["1000-01-01", "NaT"], "M8[s]"), ["1000-01-01", None]),
    "periods": (pd.period_range("2024-01", periods=2, freq="M"), ["2024-01-01", "2024-02-01"]),
    "text of pandas": (pd.array(["2024-01-01", None], dtype="string"), ["2024-01-01", None]),
    "dates of arrow": (pd.array([datetime.date(2024, 1, 1), None], dtype="date32[pyarrow]"), ["2024-01-01", None]),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_of_python_and_pandas(name):
    values, expected = OBJECTS[name]
    found = read(values)
    assert found.dt.tz is None
    assert found.astype("datetime64[us]").tolist() == [pd.Timestamp(text) if text else pd.NaT for text in expected]


ZONED = {
    "a zone": (pd.to_datetime(["2024-07-01 00:00"]).tz_localize("Europe/Berlin"), "Europe/Berlin"),
    "an offset": (pd.to_datetime(["2024-07-01 00:00"]).tz_localize(UTC2), "UTC+02:00"),
    "objects": ([datetime.datetime(2024, 7, 1, tzinfo=BERLIN)] * 2, "Europe/Berlin"),
    "objects of two": ([datetime.datetime(2024, 7, 1, tzinfo=z) for z in (UTC2, datetime.UTC, UTC2)], "UTC+02:00"),
    "text": (["2024-07-01 00:00+02:00", "2024-01-01T00:00+01", "2024-08-01 00:00 +0200"], "UTC+02:00"),
    "text in UTC": (["2024-06-30T22:00:00Z", "2024-06-30 22:00 UTC"], "UTC"),
}


@pytest.mark.parametrize("name", ZONED)
def test_times_with_a_zone_stay_what_they_are(name):
    values, zone = ZONED[name]
    found = read(values)
    assert str(found.dt.tz) == zone
    assert found[0] == pd.Timestamp("2024-06-30 22:00", tz="UTC") or name == "objects of two"


def test_times_of_day():
    table = typed(pd.DataFrame({"t": ["9:30", "23:59:59.25", None, "12:05 am", "1:00 PM"]}))
    time = datetime.time
    assert table["t"].tolist() == [time(9, 30), time(23, 59, 59, 250_000), None, time(0, 5), time(13)]
    pd.testing.assert_frame_equal(typed(table), table)


@pytest.mark.parametrize(
    "texts",
    [["2010-11", "2011-12", "2012-13"], ["2019-20", "2020-21"], ["1-2", "3-4"], ["May", "June"], ["12 apples 20"] * 2],
)
def test_other_text_stays_text(texts):
    assert str(read(texts).dtype) == "category"


def test_declared_categories_stay_categories():
    table = pd.DataFrame({"d": pd.to_datetime(["2024-01-01", "2024-01-02"]), "c": pd.Categorical(["2024-01-01", "x"])})
    assert [str(t) for t in typed(table, {"d": "categorical"}).dtypes] == ["category", "category"]


BAD = {
    "open": (
        ["1/2/2024", "2/3/2024"],
        r"`1/2/2024`.*`--date-format d=day-first` if that is 1 February 2024.*2 January",
    ),
    "both": (
        ["13/3/2024", "3/13/2024"],
        r"day comes first, such as `13/3/2024`.*whose month does, such as `3/13/2024`",
    ),
    "two forms": (["2024-01-05", "5/1/2024", "6/1/2024"], r"several forms: .*1 times, row 1.*2 times, rows 2, 3"),
    "no such day": (["2023-02-28", "2023-02-30"], r"1 times text that is none.*`2023-02-30` \(row 2\)"),
    "no such month": (["2023-12-01"] * 9 + ["2023-13-01"], "`2023-13-01`"),
    "no such hour": (["2023-12-01 10:00", "2023-12-01 24:00"], "`2023-12-01 24:00`"),
    "year zero": (["0000-00-00", "2024-01-01"], "`0000-00-00`"),
    "two digits": (["1/2/24", "13/2/24"], r"years have two digits.*`--date-format d=%d/%m/%y`"),
    "names and two digits": (["1 Mar 24", "2 Apr 25"], "years have two digits"),
    "versions": (["1.2.10", "1.3.11", "1.2.10"], "`--categorical d`"),
    "words": (["2024-01-01"] * 9 + ["soon"], r"`soon` \(row 10\)"),
    "unknown": (["2024-01-01 ab", "2024-01-01 cd"], r"in a form that is not read.*strptime"),
    "zones mixed": (["2024-01-01 00:00Z", "2024-01-02 00:00"], r"with an offset from UTC \(row 1\) and 1 without"),
    "objects mixed": ([datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 1, tzinfo=BERLIN)], "1 without"),
    "far": (np.array([2**40, 0], "M8[s]"), "outside the years 1 to 9999"),
    "before": (np.array(["-0001-01-01", "2024-01-01"], "M8[s]"), "outside the years 1 to 9999"),
    "durations": (pd.to_timedelta([1, 2], "h"), r"holds durations.*pandas.Timedelta"),
    "objects of durations": ([datetime.timedelta(1), None], "holds durations"),
    "no time of day": (["10:30", "25:10", "11:00"], r"times of day.*`25:10`"),
    "zoned times": ([datetime.time(1, tzinfo=datetime.UTC), datetime.time(2)], "times of day with a time zone"),
    "several types": ([pd.Timestamp("2024-01-01"), "2024-01-02"], "values of several types"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_dates(name):
    values, message = BAD[name]
    with pytest.raises(InputError, match=message):
        read(values)


def test_bad_input_of_a_layout_that_is_known():
    with pytest.raises(InputError, match=r"`31/12/2024`"):
        read(["31/12/2024"], "year-first")
    with pytest.raises(InputError, match=r"`1/2/2024`"):
        read(["1/2/2024", "1/1/2024"], "day-is-month")
    with pytest.raises(InputError, match=r"should hold dates, as it did.*Got numbers"):
        typed(pd.DataFrame({"d": [1.0, 2.0]}), {"d": "date"})
    with pytest.raises(InputError, match=r"should hold numbers, as it did.*Got dates"):
        typed(pd.DataFrame({"d": pd.to_datetime(["2024-01-01"])}), {"d": "numeric"})
    with pytest.raises(InputError, match="should hold times of day"):
        typed(pd.DataFrame({"d": pd.to_datetime(["2024-01-01"])}), {"d": "time"})


def test_a_column_without_values_is_of_any_kind():
    table = pd.DataFrame({"d": [None, None]})
    found = {kind: str(typed(table, {"d": kind})["d"].dtype) for kind in ("date", "time", "numeric", "boolean")}
    assert found == {"date": "datetime64[us]", "time": "object", "numeric": "float64", "boolean": "boolean"}


def test_every_layout_is_read(rng):
    """A registry: a layout that is added is tested above, and names of months are read to their third letter."""
    assert set(FORMS) | {"day-is-month"} == set(LAYOUTS)
    short = np.array([f"{month[:3].upper()} 5, 2024" for month in MONTHS], dtype=object)
    months = parsed(short, "name-day").times.astype("M8[M]").astype(int) % 12
    np.testing.assert_array_equal(months, np.arange(12))
