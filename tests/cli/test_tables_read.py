"""Files become tables, or a message that says what is wrong with them."""

from __future__ import annotations

import gzip
import sys
import time

import numpy as np
import pandas as pd
import pytest

from kosambi import tables
from kosambi.errors import FileError, InputError


@pytest.fixture
def write(tmp_path):
    def to_file(text, name="table.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(text.encode(encoding))
        return path

    return to_file


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_separators_spaces_and_byte_order_marks(write, separator, start):
    lines = [["x", " y ", "name"], ["1.5", "2", " a b"], ["", " 3", '"c, d; e"']]
    path = write(start + "\r\n".join(separator.join(line) for line in lines) + "\r\n")
    assert tables.column_names(path) == ["x", "y", "name"]
    table = tables.typed(tables.read(path))
    assert table["y"].tolist() == [2.0, 3.0]
    assert np.isnan(table["x"].iloc[1])
    assert table["name"].tolist() == ["a b", "c, d; e"]


def test_compressed_tab_separated_and_parquet_files(tmp_path):
    table = pd.DataFrame({"x": [1.0, 2.5], "b": [True, False], "c": ["u", "v"]})
    with gzip.open(tmp_path / "t.csv.gz", "wt") as file:
        table.to_csv(file, index=False)
    table.to_csv(tmp_path / "t.tsv", sep="\t", index=False)
    table.to_parquet(tmp_path / "t.parquet")
    for name in ("t.csv.gz", "t.tsv", "t.parquet"):
        assert tables.column_names(tmp_path / name) == ["x", "b", "c"]
        found = tables.typed(tables.read(tmp_path / name, columns=["c", "x", "b"]))
        assert list(found) == ["c", "x", "b"]
        pd.testing.assert_frame_equal(found, tables.typed(table[["c", "x", "b"]]))


def test_numbers_are_read_to_the_last_digit(tmp_path, rng):
    x = np.concatenate([rng.normal(size=500), 10.0 ** rng.uniform(-300, 300, 500)])
    pd.DataFrame({"x": x, "y": x}).to_csv(tmp_path / "t.csv", index=False)
    np.testing.assert_array_equal(tables.read(tmp_path / "t.csv")["x"], x)


def test_a_file_with_one_column_and_one_with_a_quoted_separator(write):
    assert tables.column_names(write("x\n1\n2\n")) == ["x"]
    assert tables.column_names(write('"a, b",y\n1,2\n')) == ["a, b", "y"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("  \n\n", "is empty"),
        ("x,y\n", "a header and no rows"),
        ("x,y,x\n1,2,3\n", "several columns of the same name: `x`"),
        ("x, x\n1,2\n", "several columns of the same name: `x`"),
        ("x,y\n1,5,2,5\n3,5,1,5\n", "rows with 4 fields under a header with 2.*decimal commas"),
        ("x,y\n" + "1,2\n" * 300 + "1,2,3\n", "rows that do not fit its header .Expected 2 fields in line 302, saw 3"),
        ("x,y\n1,\0\n", "binary data"),
    ],
)
def test_bad_input_files(write, text, message):
    with pytest.raises(InputError, match=message):
        tables.read(write(text))


def test_bad_input_encoding_and_kind_of_file(write, tmp_path):
    with pytest.raises(InputError, match="not written in UTF-8"):
        tables.read(write("x,y\nKöln,1\n", encoding="latin1"))
    with pytest.raises(FileError, match="There is no file"):
        tables.read(tmp_path / "none.csv")
    with pytest.raises(FileError, match="is a directory"):
        tables.read(tmp_path)
    with pytest.raises(FileError, match="of a kind that is not read"):
        tables.read(write("x", "table.xlsx"))
    with pytest.raises(FileError, match="cannot be read"):
        tables.read(write("no gzip", "t.csv.gz"))
    with pytest.raises(FileError, match="cannot be read"):
        tables.read(write("no parquet", "t.parquet"))
    good = write("x,y\n1,2\n")
    with pytest.raises(InputError, match="no column `z`"):
        tables.read(good, columns=["z"])
    whole = gzip.compress(b"x,y\n" + b"1,2\n" * 100_000)
    (tmp_path / "cut.csv.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FileError, match="cannot be read"):
        tables.read(tmp_path / "cut.csv.gz")


def test_bad_input_without_pandas_or_pyarrow(write, monkeypatch, tmp_path):
    pd.DataFrame({"x": [1]}).to_parquet(tmp_path / "t.parquet")
    good = write("x,y\n1,2\n")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install kosambi\[parquet\]"):
        tables.read(tmp_path / "t.parquet")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pip install kosambi\[cli\]"):
        tables.read(good)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1, 2, 3], "float64"),
        (["1", "2.5", "NA"], "float64"),
        (["1e3", " 2 ", "?"], "float64"),
        ([True, False, None], "boolean"),
        (["true", "FALSE", ""], "boolean"),
        (["a", "b", " a"], "category"),
        (["01", "b", "1"], "category"),
        (pd.Categorical(["1", "2", "1"]), "category"),
        ([None, None, None], "float64"),
        (pd.array([1, None, 3], dtype="Int64"), "float64"),
        (pd.array([True, None, False], dtype="boolean"), "boolean"),
    ],
    ids=str,
)
def test_kinds_of_columns(values, dtype):
    column = tables.typed(pd.DataFrame({"x": values}))["x"]
    assert str(column.dtype) == dtype
    again = tables.typed(pd.DataFrame({"x": column}))["x"]
    pd.testing.assert_series_equal(column, again)


def test_a_kind_that_is_given_wins():
    table = pd.DataFrame({"zip": [53111, 50667, 53111], "b": [0, 1, 1], "n": [True, False, True]})
    found = tables.typed(table, {"zip": "categorical", "b": "boolean", "n": "numeric"})
    assert found["zip"].tolist() == ["53111", "50667", "53111"]
    assert found["b"].tolist() == [False, True, True]
    assert found["n"].tolist() == [1.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["1", "2", "3", "4", "5", "6", "many", "7", "8", "9"], r"1 times text: `many` \(row 7\).*--categorical x"),
        (["1,5", "2,5", "3"], "numbers with commas, such as '1,5'"),
        (["1.234,5", "2,5", "3,5"], "numbers with commas"),
        ([1.0, np.inf, -np.inf], r"2 infinite values \(rows 2, 3\)"),
        (["1", "inf", "3"], r"1 infinite values \(row 2\)"),
        ([[1], [2]], "lists, bytes or values of several types"),
        ([1.0 + 2.0j, 1.0], "complex numbers"),
    ],
    ids=str,
)
def test_bad_input_columns(values, message):
    with pytest.raises(InputError, match=message):
        tables.typed(pd.DataFrame({"x": values}))


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        (["1", "b", "c"], "numeric", r"2 times text: `b`, `c` \(rows 2, 3\)"),
        (["true", "perhaps"], "boolean", "should hold true or false. Got `perhaps`"),
        ([0.0, 2.0], "boolean", "should hold true or false. Got `2.0`"),
    ],
)
def test_bad_input_of_a_kind_that_is_known(values, kind, message):
    with pytest.raises(InputError, match=message):
        tables.typed(pd.DataFrame({"x": values}), {"x": kind})


def test_row_numbers_of_a_saved_frame_are_left_out(tmp_path):
    table = pd.DataFrame({"x": [3.0, 1.0], "n": [0, 1]})
    table.to_csv(tmp_path / "t.csv")
    raw = tables.read(tmp_path / "t.csv")
    found, notes = tables.without_row_numbers(raw)
    assert list(raw) == ["Unnamed: 0", "x", "n"]
    assert list(found) == ["x", "n"]
    assert "numbers the rows" in notes[0]


def test_bad_input_names():
    with pytest.raises(InputError, match=r"no column `Prize`. Did you mean `price`"):
        tables.choose_columns(["size", "price"], "Prize")
    with pytest.raises(InputError, match=r"no column `PRICE`. Did you mean `price`"):
        tables.as_known("PRICE", ["size", "price"])
    with pytest.raises(InputError, match=r"no column `siez`. Did you mean `size`"):
        tables.choose_columns(["size", "price"], "price", drop=["siez"])
    with pytest.raises(InputError, match="cannot be among the features"):
        tables.choose_columns(["size", "price"], "price", features=["price"])
    with pytest.raises(InputError, match="cannot be dropped"):
        tables.choose_columns(["size", "price"], "price", drop=["price"])
    with pytest.raises(InputError, match="both a feature and dropped"):
        tables.choose_columns(["size", "price"], "price", drop=["size"], features=["size"])
    with pytest.raises(InputError, match="No input column is left"):
        tables.choose_columns(["size", "price"], "price", drop=["size"])


@pytest.mark.slow
def test_a_million_rows(tmp_path, rng):
    import pyarrow
    import pyarrow.csv

    from kosambi.cli._data import DataRequest, load

    number = 1_000_000
    columns = {f"x{i}": rng.normal(size=number) for i in range(4)}
    columns["group"] = rng.choice(["a", "b", "c"], size=number)
    columns["y"] = columns["x0"] + rng.normal(size=number)
    path = tmp_path / "big.csv"
    pyarrow.csv.write_csv(pyarrow.table(columns), path)
    notes = []
    start = time.perf_counter()
    data = load(DataRequest(path, "y", max_rows=1000, seed=1), notes.append)
    seconds = time.perf_counter() - start
    print(f"{number} rows in {seconds:.1f} s")
    assert seconds < 30.0
    assert (len(data.training), len(data.held_out), data.num_rows) == (1000, 250, number)
    assert not set(data.training) & set(data.held_out)
    assert data.matrix(data.training).shape == (1000, 7)
    assert any("998750 are not used" in note for note in notes)
