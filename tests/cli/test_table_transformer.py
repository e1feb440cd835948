"""Data frames in a pipeline are coded as files are on the command line."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import kosambi as ko
from kosambi.errors import DataWarning, InputError
from kosambi.tables import TableTransformer
from tests.cli.houses import houses

ONE_VALUE = "Column `kind` is left out"


@pytest.fixture(scope="module")
def table():
    found = houses(72)
    # As spreadsheets write them.
    found["tax"] = [f"{5 + i % 7}%" for i in range(72)]
    found["sold"] = pd.Timestamp("2021-03-05") + pd.to_timedelta(np.arange(72) * 13, "D")
    return found


def test_a_pipeline_predicts_what_the_command_line_predicts(cli, table, tmp_path):
    table.assign(sold=table["sold"].dt.strftime("%d/%m/%Y")).to_csv(tmp_path / "t.csv", index=False)
    settings = ("--holdout", "0", "--samples", "20", "--hyperparameters", "evidence")
    options = ("-t", "price", "--drop", "is_dear", "--impute", "--no-report", *settings)
    assert cli("fit", tmp_path / "t.csv", "--out", tmp_path / "run", *options).exit_code == 0
    out = cli("predict", tmp_path / "run", tmp_path / "t.csv", "--out", tmp_path / "p.csv")
    assert out.exit_code == 0, out.output
    there = pd.read_csv(tmp_path / "p.csv")
    model = ko.ProjectedLangevinRegressor(n_samples=20, hyperparameters="evidence", progress=False)
    pipeline = make_pipeline(TableTransformer(impute=True), model)
    # Text, booleans, dates and missing values as pandas has them, with columns that a file would have in another order.
    inputs = table.drop(columns=["price", "is_dear"]).convert_dtypes()
    with pytest.warns(DataWarning, match=ONE_VALUE):
        pipeline.fit(inputs, table["price"])
    mean = pipeline.predict(inputs[inputs.columns[::-1]])
    np.testing.assert_allclose(mean, there["mean"], rtol=1e-9)
    assert model.feature_names_in_.tolist() == list(pipeline[0].get_feature_names_out())
    for other in (pickle.loads(pickle.dumps(pipeline)), pipeline):
        np.testing.assert_array_equal(other.predict(inputs), mean)
    # A level that was not there.
    with pytest.raises(InputError, match=r"1 of 72 rows cannot be predicted; the first is row 3: `city` is `Trier`"):
        pipeline.predict(inputs.assign(city=inputs["city"].where(inputs.index != 2, "Trier")))


def test_the_coding_is_that_of_a_schema(table):
    inputs = table[["size", "age", "city", "garden", "tax"]]
    transformer = TableTransformer(impute=True)
    with pytest.warns(DataWarning, match="tax"):
        coded = transformer.fit_transform(inputs)
    schema = ko.tables.Schema.learn(inputs, target="price", inputs=list(inputs), impute=True)
    np.testing.assert_array_equal(coded, schema.encode(inputs)[0])
    assert list(coded) == list(schema.labels) == list(transformer.get_feature_names_out())
    assert transformer.n_features_in_ == 5
    assert coded.index.equals(inputs.index)
    other = clone(transformer).set_params(drop=["tax", "age"], impute=False).set_output(transform="pandas")
    complete = inputs.dropna()
    complete = complete.assign(floor=np.arange(len(complete)) % 3)
    other.set_params(categorical=["floor"]).fit(complete)
    assert {"floor=0", "floor=1", "floor=2"} <= set(other.get_feature_names_out())
    assert isinstance(other.transform(complete), pd.DataFrame)
    assert repr(transformer) == "TableTransformer(impute=True)"


def test_dates_in_a_data_frame():
    """Only what a column left open is warned of; seasons are those of the command line."""
    times = pd.Timestamp("2022-01-01") + pd.to_timedelta(np.arange(800), "D")
    table = pd.DataFrame({"typed": times, "iso": times.strftime("%Y-%m-%d"), "t": times.time})
    table["zoned"] = times.tz_localize("America/New_York")
    table.loc[3, "t"] = (times[3] + pd.Timedelta("5h")).time()
    coded = TableTransformer().fit(table).transform(table)
    assert coded.shape == (800, 5 + 5 + 2 + 5)
    assert "zoned (days since 2022-01-01 UTC)" in coded
    np.testing.assert_array_equal(coded["typed (days since 2022-01-01)"], np.arange(800.0))
    text = table[["iso"]].assign(iso=times.strftime("%m/%d/%Y"))
    with pytest.warns(DataWarning, match=r"the month first .*; `dates='days'` takes the days alone"):
        months = TableTransformer().fit(text)
    np.testing.assert_array_equal(months.transform(table[["iso"]]), coded.filter(like="iso "))
    # What the user said is no surprise.
    TableTransformer(date_format={"iso": "month-first"}).fit(text)
    alone = TableTransformer(dates="days", date_format={"iso": "%m/%d/%Y"}).fit(text)
    assert list(alone.get_feature_names_out()) == ["iso (days since 2022-01-01)"]
    assert clone(alone).get_params()["date_format"] == {"iso": "%m/%d/%Y"}
    with pytest.raises(InputError, match=r"1 of 2 rows cannot be predicted; the first is row 2: `iso` is `13/13/2022`"):
        alone.transform(pd.DataFrame({"iso": ["12/13/2022", "13/13/2022"]}))


def test_rows_that_cannot_be_coded_can_be_found(table):
    inputs = table[["size", "city"]].dropna()
    transformer = TableTransformer().fit(inputs)
    new = pd.DataFrame({"city": ["Ulm", None, "Köln"], "size": [50.0, 60.0, np.nan]})
    faults = transformer.faults(new)
    assert faults.tolist() == ["", "`city` is missing", "`size` is missing"]
    assert transformer.transform(new[faults == ""]).shape == (1, 4)
    with pytest.raises(InputError, match="2 of 3 rows cannot be predicted"):
        transformer.transform(new)


BAD = {
    "missing": ({"x": [1.0, None, 2.0]}, {}, "impute=True"),
    "open dates": ({"d": ["1/2/2020", "2/1/2021"]}, {}, r"Say `date_format={'d': 'day-first'}` if that is 1 February"),
    "formats": ({"d": ["1/2/2020"]}, {"date_format": {"d": "x"}}, r"`date_format={'d': 'x'}` says no year"),
    "seasons": ({"d": ["2020-01-01", "2020-01-02"]}, {"dates": "all"}, "must be one of `calendar`, `days`"),
    "durations": ({"d": pd.to_timedelta([1, 2], "h")}, {}, r"`drop=\['d'\]`"),
    "names": ({"id": ["a", "b", "c", "d"]}, {}, r"looks like an identifier.*`drop=\['id'\]`"),
    "unknown": ({"x": [1.0, 2.0]}, {"drop": ["z"]}, "no column `z`"),
    "none varies": ({"x": [1.0, 1.0]}, {}, "None of the input columns varies"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_tables(name):
    columns, options, match = BAD[name]
    with pytest.raises(InputError, match=match):
        TableTransformer(**options).fit(pd.DataFrame(columns))


def test_bad_input_what_is_no_table():
    with pytest.raises(InputError, match="needs a pandas DataFrame"):
        TableTransformer().fit(np.zeros((3, 2)))
    with pytest.raises(InputError, match="several columns of the same name"):
        TableTransformer().fit(pd.DataFrame(np.eye(2), columns=["a", "a"]))
    with pytest.raises(InputError, match="no rows"):
        TableTransformer().fit(pd.DataFrame({"a": []}))
    with pytest.raises(ValueError, match="must be those of `fit`"):
        TableTransformer().fit(pd.DataFrame({"a": [1.0, 2.0]})).get_feature_names_out(["b"])
