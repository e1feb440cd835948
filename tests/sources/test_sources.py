"""Sources of rows: blocks, checks with their places, samples and moments that do not depend on blocks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kosambi as ko
from kosambi.errors import FileError, InputError
from kosambi.sources import ArraySource, BlockSource, CSVSource, ParquetSource, Stream, survey
from kosambi.sources.passes import hashed

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(1000, 3)), RNG.integers(0, 2, size=1000).astype(float)
WEIGHTS = RNG.uniform(size=1000) * (RNG.uniform(size=1000) > 0.1)


def in_parts(size):
    return BlockSource(
        lambda: ((X[i : i + size], Y[i : i + size], WEIGHTS[i : i + size]) for i in range(0, 1000, size))
    )


def with_part(part, number=2):
    """Blocks of ten good rows, with another one in their midst."""

    def blocks():
        for each in range(4):
            yield part if each == number else (np.ones((10, 3)), np.zeros(10))

    return BlockSource(blocks)


def read_all(source, size=8):
    return [np.concatenate(parts) for parts in list(zip(*Stream(source).blocks(size), strict=True))[1:]]


@pytest.mark.parametrize("size", [1, 256, 1024])
@pytest.mark.parametrize("parts", [7, 333, 1000])
def test_blocks_have_all_rows_in_order(size, parts):
    blocks = list(Stream(in_parts(parts)).blocks(size))
    assert {len(block.y) for block in blocks[:-1]} <= {size}
    assert [block.rows[0] for block in blocks] == list(range(0, 1000, size))
    for found, right in zip(read_all(in_parts(parts), size), (X, Y, WEIGHTS), strict=True):
        np.testing.assert_array_equal(found, right)


def test_files_have_the_rows_that_were_written(tmp_path):
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": Y, "count": WEIGHTS})
    table.to_csv(tmp_path / "rows.csv", index=False, float_format="%.17g")
    pq.write_table(pa.Table.from_pandas(table), tmp_path / "rows.parquet", row_group_size=300)
    for source in (
        CSVSource(tmp_path / "rows.csv", target="y", weights="count"),
        ParquetSource(tmp_path / "rows.parquet", target="y", weights="count"),
    ):
        assert source.columns == ("a", "b")
        found = read_all(source)
        np.testing.assert_allclose(found[0], X[:, :2], rtol=1e-15)
        np.testing.assert_array_equal(found[1], Y)
        np.testing.assert_allclose(found[2], WEIGHTS, rtol=1e-15)


def test_a_memory_map_is_read(tmp_path):
    mapped = np.memmap(tmp_path / "x", dtype=np.float32, mode="w+", shape=(1000, 3))
    mapped[:] = X
    np.testing.assert_array_equal(read_all(ArraySource(mapped, Y))[0], X.astype(np.float32))


def test_moments_ranges_and_sample_do_not_depend_on_blocks():
    found = [survey(in_parts(parts), sample_rows=100, block_rows=size) for parts, size in ((7, 16), (1000, 1024))]
    used = WEIGHTS > 0
    mean = np.average(X, axis=0, weights=WEIGHTS)
    for each in found:
        assert (each.num_rows, each.num_counted) == (1000, used.sum())
        np.testing.assert_allclose(each.x_mean, mean, atol=1e-12)
        np.testing.assert_allclose(each.x_scale**2, np.average((X - mean) ** 2, axis=0, weights=WEIGHTS), rtol=1e-12)
        np.testing.assert_array_equal(each.lowest, X[used].min(axis=0))
        np.testing.assert_array_equal(each.values, [0.0, 1.0])
        np.testing.assert_array_equal(each.sample.x, X[each.sample.rows])
    np.testing.assert_array_equal(found[0].sample.rows, found[1].sample.rows)
    order = np.flatnonzero(used)[np.argsort(hashed(np.flatnonzero(used)))]
    np.testing.assert_array_equal(found[0].sample.rows, np.sort(order[:100]))
    np.testing.assert_array_equal(found[0].sample.first(10).rows, np.sort(order[:10]))
    assert found[0].factor == pytest.approx(WEIGHTS.sum() / found[0].sample.weights.sum())


def chi_squared(rows, number):
    """Of how many of the sampled rows lie in each of 50 parts of all rows."""
    counts = np.bincount(rows * 50 // number, minlength=50)
    return np.sum((counts - counts.mean()) ** 2) / counts.mean()


def test_the_sample_is_uniform_over_the_rows():
    """Level 1e-3 of chi squared with 49 degrees of freedom; a sample that favours early rows is rejected."""
    number = 200_000
    chosen = np.argsort(hashed(np.arange(number)))[:10_000]
    assert chi_squared(chosen, number) < 85.4
    early = (number * np.random.default_rng(0).uniform(size=10_000) ** 1.1).astype(int)
    assert chi_squared(early, number) > 85.4


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ((np.ones((10, 4)), np.zeros(10)), r"row 20 .*block 2.*4 columns from here on, and had 3"),
        ((np.ones((10, 3), dtype=np.float32), np.zeros(10)), r"row 20 .*dtype float32 from here on, and had float64"),
        ((np.ones((10, 3)), np.zeros(10, dtype=int)), r"row 20 .*`y` has the dtype int64"),
        ((np.full((10, 3), "a"), np.zeros(10)), r"holds no numbers"),
        ((np.ones((10, 3)), np.zeros(9)), r"row 20 .*y \(9,\)"),
        ((np.ones((10, 3)), np.r_[np.zeros(7), np.nan, 0, 0]), r"row 27 .*`y` is nan"),
        ((np.ones((10, 3)), np.zeros(10), np.ones(10)), r"row 20 .*some rows have weights"),
        (np.ones((10, 3)), r"block 2 .*must be \(x, y\)"),
    ],
)
def test_what_is_wrong_midway_is_named_with_its_place(part, words):
    with pytest.raises(InputError, match=words):
        survey(with_part(part))


def test_a_missing_number_in_the_ten_millionth_row_is_found():
    x, y = np.ones((100_000, 1)), np.zeros(100_000)
    last = x.copy()
    last[-1] = np.nan
    source = BlockSource(lambda: ((last if n == 99 else x, y) for n in range(100)), columns=["age"])
    with pytest.raises(InputError, match=r"row 9,999,999 \(counted from 0; block 99\): column `age` is nan"):
        survey(source, sample_rows=10)


def test_an_observation_that_a_likelihood_cannot_have_is_named():
    y = np.zeros(500)
    y[321] = 0.5
    with pytest.raises(InputError, match=r"row 321 .*Bernoulli"):
        survey(ArraySource(np.ones((500, 1)), y), check=ko.likelihoods.Bernoulli().check)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda x: x[:-1], "99,999 rows where the first pass had 100,000"),
        (lambda x: np.concatenate([x, x[:1]]), "more rows than the 100,000"),
        (lambda x: np.where(np.arange(len(x))[:, None] == 70_000, 5.0, x), "rows 65,536 to 99,999"),
        (lambda x: np.concatenate([x[1:2], x[:1], x[2:]]), "another order, in rows 0 to 65,535"),
    ],
)
def test_a_second_pass_with_other_rows_is_refused(change, words):
    x, calls = np.arange(100_000.0)[:, None], []

    def blocks():
        calls.append(1)
        now = x if len(calls) == 1 else change(x)
        yield now, np.zeros(len(now))

    stream = Stream(BlockSource(blocks))
    for _ in stream.blocks(1024):
        pass
    with pytest.raises(InputError, match=words):
        for _ in stream.blocks(4096):
            pass


def test_a_damaged_file_is_named_with_its_row_group(tmp_path):
    path = tmp_path / "rows.parquet"
    table = pa.table({"a": RNG.normal(size=5000), "y": RNG.normal(size=5000)})
    pq.write_table(table, path, row_group_size=1000, compression="snappy", use_dictionary=False)
    whole = path.read_bytes()
    start = pq.ParquetFile(path).metadata.row_group(4).column(0).data_page_offset
    path.write_bytes(whole[:start] + b"\xff" * 3000 + whole[start + 3000 :])
    with pytest.raises(FileError, match=r"row group 5 of 5"):
        survey(ParquetSource(path, target="y"))
    path.write_bytes(whole[: len(whole) - 500])
    with pytest.raises(FileError, match=r"not written to its end"):
        ParquetSource(path, target="y")


def test_text_and_gaps_in_files_are_named(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a,y\n" + "1,2\n" * 50 + "much,2\n")
    with pytest.raises(InputError, match=r"row 50 .*column `a` holds 'much'"):
        survey(CSVSource(path, target="y"))
    with pytest.raises(InputError, match="no column `z`"):
        CSVSource(path, target="z")
    pq.write_table(pa.table({"a": [1.0, None], "y": [1.0, 2.0], "c": ["u", "v"]}), tmp_path / "rows.parquet")
    with pytest.raises(InputError, match=r"row 1 .*column `a` has no value"):
        survey(ParquetSource(tmp_path / "rows.parquet", target="y", inputs=["a"]))
    with pytest.raises(InputError, match="column `c` holds"):
        survey(ParquetSource(tmp_path / "rows.parquet", target="y", inputs=["c"]))


def test_memory_is_planned():
    from kosambi._core.process_memory import resident
    from kosambi.sources.memory import plan

    small, large = (plan(resident() + extra, 8, 64, 100) for extra in (400_000_000, 4_000_000_000))
    assert small.sample_rows < large.sample_rows == 20_000
    assert small.block_rows <= large.block_rows == 2**16
    with pytest.raises(InputError, match=r"0.1 GB, and .* are needed for 64 coordinates"):
        plan("100MB", 8, 64, 100)
    for wrong in ("much", "2 GX", -1, True, "0GB"):
        with pytest.raises(InputError, match="number of bytes"):
            plan(wrong, 8, 64, 100)


def test_no_rows_and_no_weights_are_refused(tmp_path):
    with pytest.raises(InputError, match="has no rows"):
        survey(BlockSource(lambda: iter(())))
    # With a row group, as data frames without rows are written.
    pd.DataFrame({"a": [0.0], "y": [0.0]})[:0].to_parquet(tmp_path / "none.parquet")
    with pytest.raises(InputError, match="has no rows"):
        survey(ParquetSource(tmp_path / "none.parquet", target="y"))
    once = iter([(X, Y)])
    stream = Stream(BlockSource(lambda: once))
    assert sum(len(block.y) for block in stream.blocks(512)) == 1000
    # Its second pass finds an iterator that has been read.
    with pytest.raises(InputError, match="other rows in a later pass than in the first: 0 rows where"):
        list(stream.blocks(512))
    with pytest.raises(InputError, match=r"has no rows.* the iterator must begin anew each time"):
        list(Stream(BlockSource(lambda: once)).blocks(512))
    with pytest.raises(InputError, match="weights of the arrays are zero"):
        survey(ArraySource(X, Y, np.zeros(1000)))
    with pytest.raises(InputError, match=r"row 999 .*the weight is -1"):
        survey(ArraySource(X, Y, np.r_[WEIGHTS[:-1], -1.0]))
