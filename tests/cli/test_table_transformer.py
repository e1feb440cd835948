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
    return found


def test_a_pipeline_predicts_what_the_command_line_predicts(cli, table, tmp_path):
    table.to_csv(tmp_path / "t.csv", index=False)
    settings = ("--holdout", "0", "--samples", "20", "--hyperparameters", "evidence")
    options = ("-t", "price", "--drop", "is_dear", "--impute", "--no-report", *settings)
    assert cli("fit", tmp_path / "t.csv", "--out", tmp_path / "run", *options).exit_code == 0
    out = cli("predict", tmp_path / "run", tmp_path / "t.csv", "--out", tmp_path / "p.csv")
    assert out.exit_code == 0, out.output
    there = pd.read_csv(tmp_path / "p.csv")
    model = ko.ProjectedLangevinRegressor(n_samples=20, hyperparameters="evidence", progress=False)
    pipeline = make_pipeline(TableTransformer(impute=True), model)
    # Text, booleans and missing values as pandas has them, with columns that a file would have in another order.
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
    "dates": ({"x": [1.0, 2.0], "d": pd.to_datetime(["2020-01-01", "2021-01-01"])}, {}, r"`drop=\['d'\]`"),
    "dates as text": ({"d": ["2020-01-01", "2021-01-01"]}, {}, "holds dates"),
    "names": ({"id": ["a", "b", "c", "d"]}, {}, r"looks like an identifier.*`drop=\['id'\]`"),
    "unknown": ({"x": [1.0, 2.0]}, {"drop": ["z"]}, "no column `z`"),
    "none varies": ({"x": [1.0, 1.0]}, {}, "None of the input columns varies"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_tables(name):
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
