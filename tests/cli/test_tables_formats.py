"""Numbers as people write them, words among numbers, and copies of the target."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from kosambi.cli._data import DataRequest, load
from kosambi.errors import InputError
from kosambi.tables import Schema, leak_notes, mixed_notes, read_target, typed


@pytest.mark.parametrize(
    ("texts", "numbers", "unit"),
    [
        (["12%", "7 %", None, "-3.5%"], [12.0, 7.0, np.nan, -3.5], "%"),
        (["$1,234.50", "-$3", "$-4", "NA"], [1234.5, -3.0, -4.0, np.nan], "$"),
        (["€ 3", "€ 1,000,000", "€ .5", "4 €"], [3.0, 1e6, 0.5, 4.0], "€"),
        (["1,234", "999", "12,345.5", "-1,000"], [1234.0, 999.0, 12345.5, -1000.0], "1,234"),
        (["1", "2.5", "1e3", "?"], [1.0, 2.5, 1000.0, np.nan], None),
    ],
)
def test_numbers_as_people_write_them(texts, numbers, unit):
    table = pd.DataFrame({"x": texts})
    np.testing.assert_array_equal(typed(table)["x"], numbers)
    schema = Schema.learn(table, target="y", inputs=["x"], impute=True)
    assert schema.columns[0].unit == unit
    assert Schema.from_dict(schema.to_dict()) == schema
    assert len(schema.notes) == (unit is not None)
    np.testing.assert_array_equal(schema.encode(table)[0][~np.isnan(numbers), 0], np.array(numbers)[~np.isnan(numbers)])


@pytest.mark.parametrize("texts", [["1,5", "2,25"], ["0,125", "1,234"], ["€ 3,50", "€ 2,10"], ["1,23", "4,567"]])
def test_bad_input_decimal_commas_are_not_thousands(texts):
    with pytest.raises(InputError, match="numbers with commas"):
        typed(pd.DataFrame({"x": texts}))


def test_bad_input_words_among_formatted_numbers():
    with pytest.raises(InputError, match=r"holds numbers in \$, but also 1 times text: `soon` .row 10"):
        typed(pd.DataFrame({"x": [*(f"${i}" for i in range(9)), "soon"]}))


@pytest.mark.parametrize("texts", [["a%", "b%"], ["%", "$"], ["1-2", "3-4"], ["$1%", "$2%"], ["12%", "$3", "5"] * 3])
def test_other_text_stays_text(texts):
    assert str(typed(pd.DataFrame({"x": texts}))["x"].dtype) == "category"


def test_a_schema_without_units_is_read():
    old = Schema.learn(pd.DataFrame({"x": [1.0, 2.0]}), target="y", inputs=["x"]).to_dict()
    del old["columns"][0]["unit"]
    assert Schema.from_dict(old).columns[0].unit is None
    with pytest.raises(InputError, match="has the unit"):
        Schema.from_dict(old | {"columns": [old["columns"][0] | {"unit": "furlongs"}]})


def test_words_among_numbers_are_named():
    raw = pd.DataFrame({"x": ["1", "2", "3", "4", "low", "high"], "c": ["a", "b", "1", "a", "b", "2"]})
    (note,) = mixed_notes(raw, typed(raw), ["x", "c"])
    assert "4 of its 6 values are numbers; the others are `low`, `high`" in note
    assert mixed_notes(raw, typed(raw), ["x", "c"], ["x"]) == ()
    many = pd.DataFrame({"x": [*map(str, range(30)), *(f"word {i}" for i in range(10))]})
    with pytest.raises(InputError, match=r"looks like an identifier.*30 of its 40 values are numbers.*`word 0`"):
        Schema.learn(many, target="y", inputs=["x"])


RNG = np.random.default_rng(0)
Y = RNG.normal(size=40)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (Y, "equals"),
        (-3.0 * Y + 2.0, "in other units"),
        (Y + 1e-6 * RNG.normal(size=40), "in other units"),
        (np.exp(3.0 * Y), "in the order of"),
        (1e200 * Y, "in other units"),
        (np.where(np.arange(40) < 5, np.nan, Y), "equals"),
        (Y + 0.3 * RNG.normal(size=40), None),
        (np.arange(40) % 2, None),
        (np.where(np.arange(40) < 35, np.nan, Y), None),
    ],
)
def test_copies_of_a_number(column, words):
    notes = leak_notes(typed(pd.DataFrame({"x": column})), read_target(pd.Series(Y, name="y")))
    assert [words in note for note in notes] == ([] if words is None else [True])


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (np.where(Y > 0, "up", "down"), "level for label"),
        ((Y > 0), "level for label"),
        (np.where(Y > 0, 7.0, 3.0), "level for label"),
        (Y, "without one error"),
        (np.where(Y.max() == Y, -Y, Y), None),
        (np.where(Y > 1, "up", "down"), None),
    ],
)
def test_copies_of_a_label(column, words):
    target = read_target(typed(pd.DataFrame({"y": np.where(Y > 0, "yes", "no")}))["y"])
    notes = leak_notes(typed(pd.DataFrame({"x": column})), target)
    assert [words in note for note in notes] == ([] if words is None else [True])


def test_a_file_is_read_with_all_of_it(tmp_path):
    table = pd.DataFrame({"rate": [f"{i % 7}%" for i in range(40)], "copy": 2.0 * Y, "price": [f"${y:.3f}" for y in Y]})
    table.to_csv(tmp_path / "t.csv", index=False)
    notes = []
    data = load(DataRequest(tmp_path / "t.csv", "price"), notes.append)
    text = "\n".join(notes)
    assert "Column `rate` is read as numbers: `0%` is 0." in text
    assert "Column `price` is read as numbers" in text
    assert "Column `copy` is the target `price` in other units" in text
    assert data.schema.columns[0].unit == "%"
    assert data.matrix(data.training).shape == (32, 2)
