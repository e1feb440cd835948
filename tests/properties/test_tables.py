"""Tables: any file of text is read, or refused in words; a data frame becomes finite numbers, row by row."""

from __future__ import annotations

import datetime
import pathlib
import tempfile
import zoneinfo

import numpy as np
import pandas as pd
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kosambi import tables
from kosambi.errors import FileError
from kosambi.tables import TableTransformer
from tests.properties.promises import assert_helpful, assert_numbers, outcome, own_warnings_allowed

double = settings(max_examples=2 * settings.default.max_examples)
characters = st.text(alphabet="ab1.5,;|\t\n\r\"'é -+eENAn?%$€\x00\ufeff", max_size=60)


def read_of(content, name="t.csv"):
    """The table, or None where it is refused in words."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / name
        path.write_bytes(content)
        try:
            return outcome(tables.read, path)
        except FileError as error:
            refusal = error
    assert_helpful(refusal)
    return None


@given(text=characters)
@double
def test_bad_input_any_text_is_a_table_or_refused(text):
    found = read_of(text.encode())
    if found is not None:
        assert len(found) >= 1
        assert len(set(found.columns)) == len(found.columns)
        typed = outcome(tables.typed, found)
        assert typed is None or list(typed) == list(found)


@given(content=st.binary(max_size=60), name=st.sampled_from(["t.csv", "t.tsv", "t.csv.gz", "t.parquet"]))
@double
def test_bad_input_any_bytes_are_a_table_or_refused(content, name):
    read_of(content, name)


names = st.lists(st.text(alphabet="abc xyzé_1", min_size=1, max_size=5).map(str.strip), min_size=1, max_size=3)
numbers = st.one_of(st.floats(-1e6, 1e6), st.integers(-1000, 1000).map(float))


@given(names=names, data=st.data(), separator=st.sampled_from([",", ";", "\t", "|"]))
@double
def test_numbers_that_are_written_are_read_bit_for_bit(names, data, separator):
    assume(all(names) and len({name.lower() for name in names}) == len(names))
    assume(not any(name.replace("_", "").isdigit() for name in names))
    rows = data.draw(st.lists(st.tuples(*[numbers] * len(names)), min_size=1, max_size=6))
    table = pd.DataFrame(rows, columns=names)
    found = read_of(table.to_csv(index=False, sep=separator).encode())
    if len(names) == 1 and found is None:
        return
    np.testing.assert_array_equal(found.to_numpy(dtype=float), table.to_numpy())


cells = {
    "numbers": st.floats(-1e9, 1e9),
    "edges": st.sampled_from([0.0, 1e-300, 1e300, -1e300, 1.0]),
    "whole": st.integers(-5, 5),
    "large": st.sampled_from([2**53 + 1, 2**63 - 1, 0, 1]),
    "text": st.sampled_from(["a", "b", "c d", "é", "", " "]),
    "truth": st.booleans(),
    "yes": st.sampled_from(["yes", "no"]),
    "percent": st.sampled_from(["10 %", "20 %", "5.5 %"]),
    "money": st.sampled_from(["$1,000", "$2.50", "$3"]),
    "gaps": st.sampled_from([1.0, 2.0, None, np.nan]),
    "mixed": st.sampled_from([1, "a", None, True, 2.5]),
    "none": st.none(),
    "dates": st.datetimes(pd.Timestamp("1700-01-01"), pd.Timestamp("2200-01-01")),
    "zoned": st.datetimes(timezones=st.sampled_from([datetime.UTC, zoneinfo.ZoneInfo("Asia/Kathmandu")])),
    "days": st.one_of(st.none(), st.dates()),
    "times": st.times(),
    "text of dates": st.dates(datetime.date(1000, 1, 1)).map(lambda date: date.strftime("%d/%m/%Y")),
    "text of days": st.sampled_from(
        ["2024-01-01", "2024-02-30", "1/2/2024", "1/2/24", "5 Mar 2024", "", "10:30", "25:00"]
    ),
    "moments": st.sampled_from([pd.Timestamp("2020-01-01"), pd.Timestamp("2021-05-05", tz="UTC"), pd.NaT]),
    "lists": st.sampled_from([[1], [2]]),
    "inf": st.sampled_from([1.0, np.inf, -np.inf]),
}


@given(
    kinds=st.lists(st.sampled_from(list(cells)), min_size=1, max_size=3),
    data=st.data(),
    number=st.sampled_from([1, 2, 5, 8]),
    impute=st.booleans(),
)
@settings(max_examples=4 * settings.default.max_examples)
def test_bad_input_any_data_frame_becomes_numbers_or_is_refused(kinds, data, number, impute):
    columns = {
        f"c{i}": data.draw(st.lists(cells[kind], min_size=number, max_size=number)) for i, kind in enumerate(kinds)
    }
    frame = pd.DataFrame(columns)
    model = outcome(TableTransformer(impute=impute).fit, frame)
    if model is None:
        return
    with own_warnings_allowed():
        found = model.transform(frame)
        labels = list(model.get_feature_names_out())
        assert list(found.columns) == labels
        assert_numbers(found.to_numpy(), (number, len(labels)))
        order = np.random.default_rng(0).permutation(number)
        pd.testing.assert_frame_equal(model.transform(frame.iloc[order]), found.iloc[order])
        pd.testing.assert_frame_equal(model.transform(frame.iloc[:1]), found.iloc[:1])
        assert (model.faults(frame) == "").all()


LAYOUTS = {
    "year-first": ("%Y-%m-%d", "%Y/%m/%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S.%f"),
    "day-first": ("%d/%m/%Y", "%d.%m.%Y %H:%M", "%d-%m-%Y %I:%M %p"),
    "month-first": ("%m/%d/%Y", "%m/%d/%Y %I:%M:%S %p"),
    "day-name": ("%d %B %Y", "%d-%b-%Y"),
    "name-day": ("%B %d, %Y", "%b %d %Y %H:%M"),
}


@given(
    dates=st.lists(st.datetimes(datetime.datetime(1000, 1, 1)), min_size=1, max_size=8),
    layout=st.sampled_from(list(LAYOUTS)),
    data=st.data(),
)
@double
def test_dates_are_read_as_they_were_written_or_refused(dates, layout, data):
    """Never as another day: what is open is refused, and what was said or decided is what was meant."""
    form = data.draw(st.sampled_from(LAYOUTS[layout]))
    texts = [date.strftime(form) for date in dates]
    meant = [datetime.datetime.strptime(text, form) for text in texts]
    frame = pd.DataFrame({"d": texts})
    found = outcome(tables.typed, frame)
    is_open = layout in ("day-first", "month-first") and all(date.day <= 12 for date in dates)
    if found is None:
        assert is_open
        found = tables.typed(frame, {"d": "date"}, {"d": layout})
    assert found["d"].tolist() == meant
    # What is written out is read again, whatever the layout was.
    again = tables.typed(pd.DataFrame({"d": found["d"].astype(str)}))
    assert again["d"].tolist() == meant


@given(
    moments=st.lists(
        st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2250, 1, 1)), min_size=2, max_size=30
    )
)
@double
def test_numbers_of_dates_are_the_time_that_has_passed(moments):
    assume(len(set(moments)) > 1)
    frame = pd.DataFrame({"d": moments})
    found = TableTransformer().fit(frame).transform(frame).to_numpy()
    since = np.array([(moment - min(moments)) / datetime.timedelta(days=1) for moment in moments])
    np.testing.assert_allclose(found[:, 0] - found[:, 0].min(), since, rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(np.hypot(*found[:, 1:].reshape(len(moments), -1, 2).T), 1.0, rtol=1e-12)
