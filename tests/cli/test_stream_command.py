"""`kosambi fit --memory` and predictions of long tables: all rows, coded as those of short ones are."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import kosambi as ko
from kosambi.cli._data import DataRequest, load
from kosambi.cli._stream import load_stream
from kosambi.errors import InputError
from kosambi.tables import Schema, TableSource, Witnesses, read_in_parts, typed

RNG = np.random.default_rng(0)


def long_table(number=3000):
    x = RNG.normal(size=number)
    city = RNG.choice(["Bonn", "Kiel", "Trier"], size=number, p=[0.5, 0.4998, 0.0002])
    city[-1] = "Ulm"
    age = np.where(RNG.uniform(size=number) < 0.001, np.nan, RNG.normal(size=number))
    y = np.sin(2.0 * x) + (city == "Kiel") + 0.1 * RNG.normal(size=number)
    return pd.DataFrame({"x": x, "city": city, "age": age, "y": y, "sold": np.where(y > 0.5, "yes", "no")})


@pytest.fixture(scope="module")
def table():
    return long_table()


@pytest.fixture(scope="module", params=["csv", "parquet"])
def path(request, table, tmp_path_factory):
    path = tmp_path_factory.mktemp("tables") / f"long.{request.param}"
    if request.param == "csv":
        table.to_csv(path, index=False, float_format="%.17g")
    else:
        table.to_parquet(path, index=False, row_group_size=700)
    return path


def test_parts_are_the_table(path, table):
    parts = list(read_in_parts(path, columns=["city", "x"], size=700))
    assert len(parts) == 5
    whole = pd.concat(parts)
    pd.testing.assert_frame_equal(whole, table[["city", "x"]], check_dtype=False)


def test_witnesses_have_every_level_and_what_is_missing(path, table):
    found = Witnesses(read_in_parts(path, columns=["x", "city", "age", "y"], size=700), "y", 100)
    assert found.num_rows == 3000
    assert len(found.sample) == 100
    assert set(found.rows["city"]) == set(table["city"])
    assert found.rows["age"].isna().any()
    schema = Schema.learn(typed(found.rows), target="y", inputs=["x", "city", "age"], impute=True)
    whole = Schema.learn(typed(table), target="y", inputs=["x", "city", "age"], impute=True)
    assert schema.labels == whole.labels


def test_a_source_codes_rows_as_a_schema_does(path, table):
    schema = Schema.learn(typed(table), target="sold", inputs=["x", "city", "age"], impute=True)
    held = np.array([5, 2999])
    source = TableSource(path, schema, "categorical", ("no", "yes"), held)
    x, y = (np.concatenate(parts) for parts in list(zip(*source.parts(), strict=True))[:2])
    kept = np.setdiff1d(np.arange(3000), held)
    np.testing.assert_allclose(x, schema.encode(typed(table))[0][kept], rtol=1e-15)
    np.testing.assert_array_equal(y, (table["sold"] == "yes").to_numpy()[kept])
    assert [len(part) for part in source.tables(only=held) if len(part)] in ([2], [1, 1])
    with pytest.raises(InputError, match=r"labels that were not there before: \['yes'\]"):
        list(TableSource(path, schema, "categorical", ("no",)).parts())
    plain = Schema.learn(typed(table[["x", "y"]]), target="age", inputs=["x"])
    with pytest.raises(InputError, match=r"the target `age` is missing"):
        list(TableSource(path, plain, "numeric").parts())


@pytest.mark.slow
@pytest.mark.parametrize("target", ["y", "sold"])
def test_a_long_table_is_fitted_and_predicted_as_a_stream(cli, path, table, tmp_path, target):
    other = "sold" if target == "y" else "y"
    options = ("--target", target, "--drop", other, "--impute", "--no-report", "--inducing", 32, "--json")
    result = cli("fit", path, "--out", tmp_path / "run", "--memory", "8GB", *options)
    assert result.exit_code == 0, result.output
    record = json.loads((tmp_path / "run" / "run.json").read_text("utf-8"))
    assert record["rows"] == {"training": 2400, "held_out": 600}
    assert record["fit"]["stream"]["num_rows"] == 2400
    score = record["metrics"]["r2" if target == "y" else "accuracy"]["value"]
    assert score > 0.9
    out = tmp_path / "out.parquet"
    assert cli("predict", tmp_path / "run", path, "--out", out).exit_code == 0
    predictions = pd.read_parquet(out)
    assert len(predictions) == 3000
    model = ko.load(tmp_path / "run" / "model.kosambi")
    schema = Schema.from_dict(record["schema"])
    inputs = pd.DataFrame(schema.encode(typed(table))[0], columns=list(schema.labels))
    name, right = ("mean", model.predict(inputs)) if target == "y" else ("label", model.predict(inputs))
    if target == "y":
        np.testing.assert_allclose(predictions[name], right, atol=1e-9)
    else:
        assert np.mean(predictions[name].to_numpy() == right) == 1.0


def test_what_a_stream_cannot_have_is_refused(cli, path, tmp_path):
    common = ("fit", path, "--target", "y", "--out", tmp_path / "run")
    for options in (("--memory", "much"), ("--memory", "2GB", "--max-rows", 10), ("--process-id", 0)):
        assert cli(*common, *options).exit_code == 2
    for options in (("--distributed", "--max-rows", 10), ("--distributed", "--neighbors", 5)):
        assert cli(*common, *options).exit_code == 2
    assert cli(*common, "--distributed", "--coordinator", "nowhere").exit_code == 3
    assert "needed for" in cli(*common, "--memory", "1MB", "--impute", "--no-report").output


def test_a_stream_says_of_units_words_and_copies_what_a_table_says(tmp_path):
    number = 300
    table = pd.DataFrame({"share": [f"{i % 50}%" for i in range(number)], "x": RNG.normal(size=number)})
    table["copy"] = 2.0 * table["x"]
    table["code"] = [str(i % 5) if i % 3 else "low" for i in range(number)]
    table.assign(y=table["x"]).to_csv(tmp_path / "t.csv", index=False)
    notes, others = [], []
    stream = load_stream(DataRequest(tmp_path / "t.csv", "y", memory="2GB", holdout=0.0), notes.append)
    whole = load(DataRequest(tmp_path / "t.csv", "y", holdout=0.0), others.append)
    assert stream.schema == whole.schema
    assert sorted(others) == sorted(notes[:-1])
    assert len(others) == 4
    (part,) = stream.source.parts()
    np.testing.assert_array_equal(part.x[:, 0], np.arange(number) % 50)
