"""Tables with dates on the command line: what is said, what is refused, and that all commands read them alike."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import kosambi as ko
from kosambi.cli._data import DataRequest, load
from kosambi.cli._stream import load_stream
from kosambi.errors import InputError
from kosambi.tables import Schema, TableSource, typed

RNG = np.random.default_rng(0)
TIMES = pd.Timestamp("2023-01-01") + pd.to_timedelta(np.arange(60), "D")
SALES = np.sin(np.arange(60) / 9.0) + (TIMES.day_of_week == 6) + 0.1 * RNG.normal(size=60)


@pytest.fixture
def write(tmp_path):
    def to_file(dates, name="t.csv", **columns):
        table = pd.DataFrame({"date": dates, "sales": SALES[: len(dates)], **columns})
        table.to_csv(tmp_path / name, index=False)
        return tmp_path / name

    return to_file


def loaded(path, **options):
    notes = []
    return load(DataRequest(path, "sales", **options), notes.append), notes


def test_dates_are_read_and_said_in_one_line(write):
    data, notes = loaded(write(TIMES.strftime("%d/%m/%Y")))
    assert len(notes) == 1
    assert (
        "Column `date` is read as dates, the day first (`31/01/2023` is 31 January 2023), and coded by days" in notes[0]
    )
    assert data.schema.notes == tuple(notes)
    assert data.schema.columns[0].calendar.seasons == ("week",)
    assert data.matrix(data.held_out).shape == (12, 3)
    alone, notes = loaded(write(TIMES.strftime("%Y-%m-%d")), dates="days")
    assert alone.schema.labels == ("date (days since 2023-01-01)",)
    assert "--dates" not in notes[0]


def test_a_format_decides_what_a_column_leaves_open(write):
    texts = TIMES[:12].strftime("%d/%m/%Y")
    with pytest.raises(InputError, match=r"--date-format date=day-first` if that is 2 January 2023"):
        # The second of January could be the first of February.
        loaded(write(texts[:9]))
    first, _ = loaded(write(texts), date_format=("date=day-first",))
    second, _ = loaded(write(texts), date_format=("date=%d/%m/%Y",))
    assert first.table["date"].tolist() == second.table["date"].tolist() == list(TIMES[:12])
    other, _ = loaded(write(texts), date_format=("date=month-first",))
    assert other.table["date"][1] == pd.Timestamp("2023-02-01")
    compact = [int(text) for text in TIMES.strftime("%Y%m%d")]
    numbers, notes = loaded(write(compact))
    assert numbers.schema.kinds == {"date": "numeric"}
    assert "If 20230101 is a date, say `--date-format date=%Y%m%d`" in " ".join(notes)
    dates, _ = loaded(write(compact), date_format=("date=%Y%m%d",))
    assert dates.table["date"].tolist() == list(TIMES)


def test_names_with_equals_signs_have_formats_too(tmp_path):
    table = pd.DataFrame({"a=b": TIMES.strftime("%d/%m/%y"), "sales": SALES})
    table.to_csv(tmp_path / "t.csv", index=False)
    data, _ = loaded(tmp_path / "t.csv", date_format=("a=b=%d/%m/%y",))
    assert data.schema.layouts == {"a=b": "%d/%m/%y"}
    assert data.table["a=b"].tolist() == list(TIMES)


@pytest.mark.parametrize(
    ("formats", "options", "message"),
    [
        (("date",), {}, "Write `--date-format COLUMN=FORMAT`"),
        (("dat=day-first",), {}, "no column `dat`. Did you mean `date`"),
        (("sales=day-first",), {}, "no column `sales`"),
        (("date=first",), {}, "says no year and month that can be read"),
        (("date=%H:%M",), {}, "says no year and month that can be read"),
        (("date=%Y-%m-%d",), {}, r"holds dates, but also 60 times text that is none.*`01/01/2023`"),
        (("date=day-first",), {"categorical": ("date",)}, "cannot have both categories and dates"),
    ],
)
def test_bad_input_formats(write, formats, options, message):
    with pytest.raises(InputError, match=message):
        loaded(write(TIMES.strftime("%d/%m/%Y")), date_format=formats, **options)


def test_bad_input_targets_that_are_dates(tmp_path):
    pd.DataFrame({"x": SALES, "sales": TIMES, "t": "1:00"}).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(InputError, match="The target `sales` holds dates, and what is predicted must be numbers"):
        loaded(tmp_path / "t.csv", drop=("t",))


def test_a_date_that_is_in_the_order_of_the_target_is_a_copy(write):
    _, notes = loaded(write(TIMES[np.argsort(np.argsort(SALES))].strftime("%Y-%m-%d")))
    assert any("Column `date` puts the rows in the order of the target" in note for note in notes)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_stream_codes_dates_as_a_table_does(tmp_path, suffix):
    number = 1500
    times = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(number), "D")
    table = pd.DataFrame({"date": times, "x": RNG.normal(size=number), "sales": RNG.normal(size=number)})
    path = tmp_path / f"t.{suffix}"
    if suffix == "csv":
        table.assign(date=times.strftime("%d.%m.%Y")).to_csv(path, index=False)
    else:
        table.to_parquet(path, index=False, row_group_size=400)
    notes = []
    data = load_stream(DataRequest(path, "sales", memory="1GB", seed=1), notes.append)
    assert any("Column `date` is read as dates" in note for note in notes)
    assert data.schema.columns[0].calendar.seasons == ("week", "year")
    x = np.concatenate([part.x for part in data.source.parts()])
    kept = np.setdiff1d(np.arange(number), data.source.without)
    np.testing.assert_array_equal(x, data.schema.encode(table)[0][kept])
    np.testing.assert_array_equal(data.matrix(data.held_out), data.schema.encode(table.loc[data.source.without])[0])
    # A row that is no date is found where it stands.
    if suffix == "csv":
        spoiled = table.assign(date=times.strftime("%d.%m.%Y"))
        spoiled.loc[1234, "date"] = "soon"
        spoiled.to_csv(path, index=False)
        with pytest.raises(InputError, match="`soon`"):
            list(TableSource(path, data.schema, "numeric").parts())


@pytest.mark.slow
def test_a_run_on_dates_from_fit_to_page(cli, tmp_path):
    """A table of dates, zoned times and times of day; predictions are those of the model, and the page shows dates."""
    number = 120
    times = pd.Timestamp("2023-01-01") + pd.to_timedelta(np.arange(number), "D")
    hour = RNG.integers(0, 24, number)
    y = (
        0.01 * np.arange(number)
        + (times.day_of_week == 6)
        + np.sin(2 * np.pi * hour / 24)
        + 0.1 * RNG.normal(size=number)
    )
    table = pd.DataFrame({"<date>": times.strftime("%d/%m/%Y"), "start": [f"{h}:30" for h in hour], "sales": y})
    table.to_csv(tmp_path / "t.csv", index=False)
    options = ("-t", "sales", "--samples", "20", "--hyperparameters", "evidence")
    result = cli("fit", tmp_path / "t.csv", "-o", tmp_path / "run", *options)
    assert result.exit_code == 0, result.output
    record = json.loads((tmp_path / "run" / "run.json").read_text("utf-8"))
    assert record["format_version"] == 3
    assert record["metrics"]["r2"]["value"] > 0.9
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    for words in ("&lt;date&gt;: day of the week", "start: time of day", "&lt;date&gt;: from 2023-01-", "days since"):
        assert (words in page) == (words != "days since")
    # New rows are coded the same way, and those that cannot be are named.
    new = table.drop(columns="sales").iloc[:30].assign(key=range(30))
    new.loc[4, "<date>"] = "2023-01-05"
    new.loc[7, "<date>"] = "31/31/2023"
    new.loc[9, "start"] = "25:00"
    new.to_csv(tmp_path / "new.csv", index=False)
    result = cli("predict", tmp_path / "run", tmp_path / "new.csv", "-o", tmp_path / "p.csv", "--on-bad-row", "flag")
    assert result.exit_code == 0, result.output
    found = pd.read_csv(tmp_path / "p.csv")
    assert found["problem"].dropna().tolist() == [
        "`<date>` is `31/31/2023`, which is no date, or not written as in training",
        "`start` is `25:00`, which is no time of day",
    ]
    schema, model = Schema.from_dict(record["schema"]), ko.load(tmp_path / "run" / "model.kosambi")
    good = new[schema.faults(new) == ""]
    inputs = pd.DataFrame(schema.encode(typed(good, schema.kinds, schema.layouts))[0], columns=list(schema.labels))
    np.testing.assert_allclose(found["mean"].dropna(), model.predict(inputs), rtol=1e-12)
    # The page again, from held-out rows that are on disk.
    result = cli("report", tmp_path / "run", "-o", tmp_path / "again.html")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "again.html").read_text("utf-8").count("<svg") == page.count("<svg")
