"""What is wrong with a long table is said with its place, before anything is fitted."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kosambi.cli._data import DataRequest
from kosambi.cli._stream import load_stream
from kosambi.errors import FileError, InputError
from kosambi.sources import CSVSource, ParquetSource, survey

RNG = np.random.default_rng(0)


def table(number=3000):
    return pd.DataFrame({"age": RNG.normal(size=number), "b": RNG.normal(size=number), "y": RNG.normal(size=number)})


def looked_at(path):
    """What the command line reads of a table before it fits."""
    return load_stream(DataRequest(path, "y", memory="64GB"), lambda _: None)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize(("column", "others"), [("age", " Values are missing in `b` too."), ("y", "")])
def test_the_first_missing_value_is_named(tmp_path, ending, column, others):
    path, rows = tmp_path / f"rows.{ending}", table()
    rows.loc[2999, column] = np.nan
    if others:
        rows.loc[2999, "b"] = np.nan
    rows.to_csv(path, index=False) if ending == "csv" else rows.to_parquet(path, index=False, row_group_size=1000)
    words = rf"`rows.{ending}`, row 2,999 \(counted from 0\): column `{column}` has no value.{others} Fill"
    with pytest.raises(InputError, match=words):
        looked_at(path)


def test_a_file_that_was_cut_off_is_named_with_its_place(tmp_path):
    """In the last row of text, in a compressed file, in the last row group, with and without the index behind it."""
    rows = table()
    whole = rows.to_csv(index=False).encode()
    (tmp_path / "short.csv").write_bytes(whole[: whole.rindex(b",", 0, -5)])
    for read in (looked_at, lambda path: survey(CSVSource(path, target="y"))):
        with pytest.raises(InputError, match=r"row 2,999 .*column `y` has no value"):
            read(tmp_path / "short.csv")
    (tmp_path / "short.csv.gz").write_bytes(gzip.compress(whole)[:-2000])
    path = tmp_path / "rows.parquet"
    options = {"use_dictionary": False, "compression": "none", "row_group_size": 1000}
    pq.write_table(pa.Table.from_pandas(rows, preserve_index=False), path, **options)
    content, column = path.read_bytes(), pq.ParquetFile(path).metadata.row_group(2).column(0)
    index = content[-8 - int.from_bytes(content[-8:-4], "little") :]
    (tmp_path / "hole.parquet").write_bytes(content[: column.data_page_offset + 200] + index)
    (tmp_path / "short.parquet").write_bytes(content[: column.data_page_offset + 200])
    for name, words in (
        ("short.csv.gz", "ended before the end-of-stream marker"),
        ("hole.parquet", "cannot be read in row group 3 of 3: .* Write it again"),
        ("short.parquet", "not written to its end. Write it again"),
    ):
        kind = ParquetSource if name.endswith("parquet") else CSVSource
        for read in (looked_at, lambda path, kind=kind: survey(kind(path, target="y"))):
            with pytest.raises(FileError, match=words):
                read(tmp_path / name)


@pytest.mark.slow
def test_a_missing_value_in_the_ten_millionth_row_of_a_file_is_named(tmp_path):
    """By the command line and by a source; the file takes a few MB, because all other rows are alike."""
    path, number = tmp_path / "rows.parquet", 10_000_000
    schema = pa.schema([("age", pa.float64()), ("y", pa.float64())])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, number, 500_000):
            age = np.resize([1.0, 2.0], 500_000)
            if start + len(age) == number:
                age[-1] = np.nan
            writer.write_table(pa.table({"age": age, "y": np.resize([0.0, 1.0, 3.0], 500_000)}, schema))
    with pytest.raises(InputError, match=r"row 9,999,999 \(counted from 0; row group 20 of 20\): column `age` is nan"):
        survey(ParquetSource(path, target="y"), sample_rows=100)
    with pytest.raises(InputError, match=r"row 9,999,999 \(counted from 0\): column `age` has no value"):
        looked_at(path)
