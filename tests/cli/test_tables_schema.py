"""What is learned from a training table, and how new rows are coded by it."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from kosambi.errors import InputError
from kosambi.tables import Column, Schema, read_target, typed
from tests.cli.houses import houses

INPUTS = ("size", "age", "city", "garden", "kind")


def test_numbers_truth_values_and_levels():
    table = houses(missing=False)
    schema = Schema.learn(table, target="price", inputs=INPUTS)
    assert schema.labels == ("size", "age", "city=Bonn", "city=Köln", "city=Ulm", "garden")
    assert schema.notes == ("Column `kind` is left out: it has one value, flat.",)
    matrix, labels = schema.encode(table)
    assert labels == schema.labels
    assert matrix.dtype == np.float64
    assert matrix.flags.c_contiguous
    np.testing.assert_array_equal(matrix[:, 0], table["size"])
    np.testing.assert_array_equal(matrix[:, 3], table["city"] == "Köln")
    np.testing.assert_array_equal(matrix[:, 5], table["garden"])
    np.testing.assert_array_equal(matrix[:, 2:5].sum(axis=1), 1.0)


def test_two_levels_are_one_column():
    schema = Schema.learn(pd.DataFrame({"c": ["v", "u", "v"]}), target="y", inputs=["c"])
    assert schema.labels == ("c=v",)
    np.testing.assert_array_equal(schema.encode(pd.DataFrame({"c": ["u", "v"]}))[0], [[0.0], [1.0]])


def test_imputation_is_that_of_the_training_table():
    table = houses()
    schema = Schema.learn(table, target="price", inputs=INPUTS, impute=True)
    expected = ("size", "age", "age (missing)", "city=Bonn", "city=Köln", "city=Ulm", "city=(missing)")
    assert schema.labels == (*expected, "garden=false", "garden=true", "garden=(missing)")
    new = pd.DataFrame({"garden": [None, True], "city": [None, "Ulm"], "age": [None, 3.0], "size": [None, 30.0]})
    matrix, _ = schema.encode(new)
    median = table["age"].median()
    np.testing.assert_array_equal(matrix[0], [table["size"].median(), median, 1.0, 0, 0, 0, 1, 0, 0, 1])
    np.testing.assert_array_equal(matrix[1], [30.0, 3.0, 0.0, 0, 0, 1, 0, 0, 1, 0])


def test_columns_are_found_by_name():
    table = houses()
    schema = Schema.learn(table, target="price", inputs=INPUTS, impute=True)
    other = table[list(table)[::-1]].assign(further=1)
    np.testing.assert_array_equal(schema.encode(table)[0], schema.encode(other)[0])


def test_json_round_trip():
    schema = Schema.learn(houses(), target="price", inputs=INPUTS, impute=True)
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema


@pytest.mark.parametrize(
    "change",
    [
        {"columns": []},
        {"columns": None},
        {"target": 3},
        {"impute": 1},
        {"notes": [1]},
        {"further": 1},
        {"columns": [{"name": "x"}]},
        {"columns": [{"name": "x", "kind": "date", "levels": [], "fill": None, "has_indicator": False}]},
        {"columns": [{"name": "x", "kind": "numeric", "levels": ["a"], "fill": None, "has_indicator": False}]},
        {"columns": [{"name": "x", "kind": "categorical", "levels": ["a"], "fill": None, "has_indicator": False}]},
        {"columns": [{"name": "x", "kind": "categorical", "levels": ["a", "a"], "fill": None, "has_indicator": False}]},
        {"columns": [{"name": "x", "kind": "categorical", "levels": [1, 2], "fill": None, "has_indicator": False}]},
        {"columns": [{"name": "x", "kind": "numeric", "levels": [], "fill": float("inf"), "has_indicator": False}]},
        {"columns": [{"name": "x", "kind": "numeric", "levels": [], "fill": True, "has_indicator": False}]},
        {"columns": [{"name": "x", "kind": "numeric", "levels": [], "fill": None, "has_indicator": True}]},
        {"columns": [{"name": "x", "kind": "numeric", "levels": [], "fill": None, "has_indicator": False}] * 2},
    ],
    ids=str,
)
def test_bad_input_json(change):
    good = Schema("y", (Column("x", "numeric"),)).to_dict()
    assert Schema.from_dict(good).labels == ("x",)
    with pytest.raises(InputError):
        Schema.from_dict(good | change)


def test_bad_input_json_that_is_no_object():
    with pytest.raises(InputError, match="not a schema"):
        Schema.from_dict([1])


def test_bad_input_missing_values_are_named_with_their_numbers():
    with pytest.raises(InputError, match=r"among 90 rows: `age` 3, `city` 4, `garden` 3.*--impute"):
        Schema.learn(houses(), target="price", inputs=INPUTS)
    schema = Schema.learn(houses(missing=False), target="price", inputs=INPUTS)
    with pytest.raises(InputError, match="among 90 rows: `age` 3"):
        schema.encode(houses())


def test_bad_input_new_levels_and_missing_columns():
    schema = Schema.learn(houses(), target="price", inputs=INPUTS, impute=True)
    new = houses(10, missing=False).assign(city=["Bonn"] * 7 + ["Aachen", "Aachen", "Trier"])
    with pytest.raises(InputError, match=r"Column `city` has levels .*: `Aachen` \(2 rows\), `Trier` \(1 rows\)"):
        schema.encode(new)
    np.testing.assert_array_equal(schema.is_known(new), [True] * 7 + [False] * 3)
    with pytest.raises(InputError, match=r"no column `age`. Did you mean `Age`"):
        schema.encode(new.rename(columns={"age": "Age"}))
    complete = Schema.learn(houses(missing=False), target="price", inputs=["city"], impute=True)
    with pytest.raises(InputError, match=r"`\(missing\)` \(4 rows\)"):
        complete.encode(houses())


def test_bad_input_identifiers_many_levels_and_constants():
    names = [f"house {i}" for i in range(50)]
    with pytest.raises(InputError, match=r"50 different texts in 50 rows.*--drop name"):
        Schema.learn(pd.DataFrame({"name": names}), target="y", inputs=["name"])
    with pytest.raises(InputError, match="looks like an identifier"):
        Schema.learn(pd.DataFrame({"name": [*names, *names[:5]]}), target="y", inputs=["name"])
    many = [f"level {i}" for i in range(150)] * 2
    with pytest.raises(InputError, match="150 levels, and at most 100"):
        Schema.learn(pd.DataFrame({"name": many}), target="y", inputs=["name"])
    with pytest.raises(InputError, match="None of the input columns varies: `a`, `b`"):
        Schema.learn(pd.DataFrame({"a": [1, 1], "b": [None, None]}), target="y", inputs=["a", "b"])
    with pytest.raises(InputError, match="Rename it"):
        Schema.learn(pd.DataFrame({"a": ["(missing)", "b"] * 9}), target="y", inputs=["a"])


@pytest.mark.parametrize(
    ("values", "task", "expected", "classes"),
    [
        ([1.5, 2.5, 3.5], "auto", "regression", ()),
        ([0, 1, 1], "auto", "classification", ("0", "1")),
        ([0, 1, 1], "regression", "regression", ()),
        ([10, 9, 2], "classification", "classification", ("2", "9", "10")),
        ([0.5, 1.5, 0.5], "auto", "classification", ("0.5", "1.5")),
        ([True, False, True], "auto", "classification", ("false", "true")),
        ([True, False, True], "regression", "regression", ()),
        (["b", "a", "c"], "auto", "classification", ("a", "b", "c")),
    ],
)
def test_targets(values, task, expected, classes):
    target = read_target(typed(pd.DataFrame({"y": values}))["y"], task)
    assert (target.task, target.classes) == (expected, classes)
    assert len(target.values) == 3


def test_counts_and_few_values_give_a_hint():
    assert "--likelihood poisson" in read_target(pd.Series([0.0, 3.0, 5.0], name="y")).hint
    assert "--task classification" in read_target(pd.Series([0.5, 3.0, 5.0], name="y")).hint
    assert "--task regression" in read_target(pd.Series([0.0, 1.0, 1.0], name="y")).hint


def test_bad_input_targets():
    with pytest.raises(InputError, match=r"holds text .`a`, `b`.*--task classification"):
        read_target(typed(pd.DataFrame({"y": ["a", "b"]}))["y"], "regression")
    with pytest.raises(InputError, match=r"a single value .3.0. in 2 rows"):
        read_target(pd.Series([3.0, 3.0], name="y"))
    with pytest.raises(InputError, match=r"a single label .a. in 2 rows"):
        read_target(typed(pd.DataFrame({"y": ["a", "a"]}))["y"])
    with pytest.raises(InputError, match=r"300 different labels.*--task regression"):
        read_target(pd.Series(np.arange(300.0), name="y"), "classification")
    with pytest.raises(InputError, match="1 missing values"):
        read_target(pd.Series([1.0, np.nan], name="y"))
