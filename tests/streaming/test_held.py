"""Rows of a source that are held in memory give what arrays give, bit for bit; what does not fit is read or refused."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import kosambi as ko
from kosambi._core.groups import Group
from kosambi.errors import FileError, InputError
from kosambi.learning import memory as sizes
from kosambi.learning import num_neighbors
from kosambi.sources import ArraySource, BlockSource, ParquetSource, memory
from kosambi.streaming import held

RNG = np.random.default_rng(5)
N = 700
X = RNG.uniform(-2.0, 2.0, (N, 3))
F = np.sin(2.0 * X[:, 0]) + X[:, 1]
WEIGHTS = RNG.integers(0, 3, size=N).astype(float)
NEW = RNG.uniform(-2.0, 2.0, (12, 3))
KERNEL = ko.kernels.Matern52(lengthscale=[1.0, 2.0, 3.0])
KEY = jax.random.key(0)
DATA = {
    "gaussian": (ko.likelihoods.Gaussian(0.3), F + 0.3 * RNG.normal(size=N)),
    "bernoulli": (ko.likelihoods.Bernoulli(), (RNG.uniform(size=N) < 1.0 / (1.0 + np.exp(-2.0 * F))).astype(float)),
    "student_t": (ko.likelihoods.StudentT(4.0, 0.3), F + 0.3 * RNG.standard_t(4.0, size=N)),
}
GB = 10**9


@pytest.fixture
def empty(monkeypatch):
    """A process that takes no memory yet, so that what is left is what is given."""
    monkeypatch.setattr(held, "resident", lambda: 0)
    monkeypatch.setattr(held, "PROGRAMS", 0)
    # Blocks of the first pass, and coordinates, have room.
    monkeypatch.setattr(memory, "resident", lambda: -10 * GB)


@pytest.fixture
def near(monkeypatch):
    """Near rows for more than 300 rows, beside 64 points."""
    for name in ("NEAR_ROWS", "NEAR_ROWS_GAUSSIAN", "PROCESS_FROM"):
        monkeypatch.setattr(num_neighbors, name, 300)
    monkeypatch.setattr(held, "NEAR_ROWS", 300)
    monkeypatch.setattr(held, "NEAR_ROWS_GAUSSIAN", 300)
    monkeypatch.setattr(num_neighbors, "NEAR_POINTS", 64)
    monkeypatch.setattr(num_neighbors, "MOST", 16)


def blocks(y, weights=None, size=90):
    parts = [slice(i, i + size) for i in range(0, N, size)]
    return BlockSource(lambda: ((X[p], y[p]) if weights is None else (X[p], y[p], weights[p]) for p in parts))


def equal(one, other):
    np.testing.assert_array_equal(one.particles.coordinates, other.particles.coordinates)
    for name in ("mean", "variance"):
        np.testing.assert_array_equal(getattr(one.predict(NEW), name), getattr(other.predict(NEW), name))


@pytest.mark.parametrize("name", ["gaussian", pytest.param("bernoulli", marks=pytest.mark.slow)])
def test_a_source_with_neighbors_is_the_arrays(name):
    likelihood, y = DATA[name]
    options = {"num_neighbors": 9, "num_inducing": 8, "num_particles": 12}
    plain = ko.infer(KEY, KERNEL, likelihood, X, y, weights=WEIGHTS, **options)
    posterior = ko.infer(KEY, KERNEL, likelihood, blocks(y, WEIGHTS), **options)
    equal(posterior, plain)
    stream = posterior.report.stream
    assert (stream.is_held, stream.passes, stream.num_rows, stream.sample_rows) == (True, 2, N, N)
    assert stream.peak_memory > 0
    assert "700 rows held in memory after 2 passes" in str(posterior.report)
    assert plain.report.stream is None
    limited = ko.infer(KEY, KERNEL, likelihood, X, y, weights=WEIGHTS, max_memory="64GB", **options)
    equal(limited, plain)
    assert (limited.report.stream.passes, limited.report.stream.max_memory) == (0, 64 * GB)


def test_what_is_left_open_is_what_arrays_leave_open(near):
    likelihood, y = DATA["gaussian"]
    posterior = ko.infer(KEY, KERNEL, likelihood, blocks(y))
    equal(posterior, ko.infer(KEY, KERNEL, likelihood, X, y))
    assert (posterior.target.num_neighbors, posterior.selection.reason) == (16, "neighbors")


def test_few_rows_go_the_way_of_arrays_too():
    likelihood, y = DATA["gaussian"]
    posterior = ko.infer(KEY, KERNEL, likelihood, blocks(y))
    equal(posterior, ko.infer(KEY, KERNEL, likelihood, X, y))
    assert posterior.report.stream.is_held
    assert posterior.target.num_neighbors is None


def test_with_less_memory_there_are_fewer_points_and_then_none(near, empty, monkeypatch):
    likelihood, y = DATA["gaussian"]
    monkeypatch.setattr(sizes, "_LEARNING", 0)
    monkeypatch.setattr(sizes, "_LEAST_BATCH", 0)
    monkeypatch.setattr(sizes, "_STEP", 16)
    plain = ko.infer(KEY, KERNEL, likelihood, X, y)
    # No points, and single precision for them where there are any.
    needed = [sizes.Size.of((N, 3), 16, points, likelihood).needed(True) for points in (0, 32)]
    few = ko.infer(KEY, KERNEL, likelihood, blocks(y), max_memory=needed[1])
    assert (few.basis.report.num_inducing, few.target.neighborhood.psi.dtype) == (32, np.float32)
    assert "32 inducing points at most instead of 64" in str(few.report.stream)
    none = ko.infer(KEY, KERNEL, likelihood, X, y, max_memory=needed[0])
    assert none.basis.size == 0
    assert "0 inducing points at most instead of 64" in none.report.stream.reason
    # All of them are near the function, and one that has fewer neighbours is not.
    deviation = np.sqrt(plain.predict(NEW).variance)
    for other in (few, none):
        assert np.max(np.abs(other.predict(NEW).mean - plain.predict(NEW).mean) / deviation) < 1.0
    less = ko.infer(KEY, KERNEL, likelihood, blocks(y), max_memory=needed[0] - 1)
    assert less.target.neighborhood is None
    assert not less.report.stream.is_held
    assert "near rows would take" in str(less.report.stream)


def test_neighbors_that_were_asked_for_and_do_not_fit_are_refused_with_their_bytes(empty):
    likelihood, y = DATA["gaussian"]
    for options, words in (
        ({"num_neighbors": 9}, r"9 neighbours of 700 rows take 0\.2\d* GB of memory, and `max_memory` is 0\.1 GB"),
        ({"num_neighbors": 9, "num_inducing": 50}, r"9 neighbours of 700 rows beside 50 inducing points take 0\.2"),
        ({"potential": "neighbors"}, r"30 neighbours of 700 rows take 0\.2"),
    ):
        for rows in ((blocks(y),), (X, y)):
            with pytest.raises(InputError, match=words):
                ko.infer(KEY, KERNEL, likelihood, *rows, max_memory="100MB", **options)


ASKED = [{"num_inducing": 8}, {"num_neighbors": 0}, {"potential": "optimal"}, {"inducing_points": X[:8]}]


@pytest.mark.parametrize("options", [*ASKED, {"basis": "ritz"}])
def test_coordinates_that_were_asked_for_are_those_of_a_stream(options):
    likelihood, y = DATA["gaussian"]
    prior = KERNEL if options.get("basis") is None else ko.GaussianRandomElement(KERNEL, ko.measures.empirical(X[:50]))
    posterior = ko.infer(KEY, prior, likelihood, blocks(y), **options)
    assert not posterior.report.stream.is_held
    assert posterior.target.stream is not None
    assert "not held: " in str(posterior.report)


def test_rows_that_share_their_inputs_have_no_use_for_near_ones(near):
    likelihood, y = DATA["gaussian"]
    source = ArraySource(np.repeat(X[:70], 10, axis=0), y)
    posterior = ko.infer(KEY, KERNEL, likelihood, source)
    assert "most rows share their inputs with others" in posterior.report.stream.reason


def test_a_likelihood_without_neighbors_is_read_in_blocks_where_rows_are_many(near):
    y = np.digitize(F, [-1.0, 1.0]).astype(float)
    posterior = ko.infer(KEY, KERNEL, ko.likelihoods.Categorical(3), blocks(y), num_particles=8)
    assert "`Categorical` has no neighbours" in posterior.report.stream.reason


def test_several_processes_have_no_neighbors():
    class Pair(Group):
        def everyones(self, own):
            del own
            raise AssertionError("nothing is exchanged")

    asked = held.Asked("auto", "auto", "auto")
    assert held.why_not(asked, Pair(0, 2)) == "several processes share the rows"
    for more in (asked._replace(num_neighbors=5), asked._replace(potential="neighbors")):
        with pytest.raises(InputError, match=r"in the memory of each.* Leave out `num_neighbors`"):
            held.why_not(more, Pair(0, 2))


def test_rows_that_are_wrong_are_named_as_in_a_stream(tmp_path):
    likelihood, y = DATA["gaussian"]
    options = {"num_neighbors": 5}
    bad = y.copy()
    bad[-1] = np.nan
    with pytest.raises(InputError, match=r"row 699 \(counted from 0; block 7\): `y` is nan"):
        ko.infer(KEY, KERNEL, likelihood, blocks(bad), **options)
    with pytest.raises(InputError, match=r"row 100 .*x has 2 columns from here on, and had 3 before"):
        ko.infer(KEY, KERNEL, likelihood, BlockSource(lambda: [(X[:100], y[:100]), (X[100:, :2], y[100:])]), **options)
    # Cut off in the last row group, with the index behind it.
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    path, cut = tmp_path / "rows.parquet", tmp_path / "cut.parquet"
    table = pa.Table.from_pandas(pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y}), preserve_index=False)
    pq.write_table(table, path, row_group_size=300, use_dictionary=False, compression="none")
    content, last = path.read_bytes(), pq.ParquetFile(path).metadata.row_group(2).column(0)
    index = content[-8 - int.from_bytes(content[-8:-4], "little") :]
    cut.write_bytes(content[: last.data_page_offset + 60] + index)
    two = ko.kernels.Matern52(lengthscale=[1.0, 2.0])
    with pytest.raises(FileError, match="cannot be read in row group 3 of 3"):
        ko.infer(KEY, two, likelihood, ParquetSource(cut, target="y"), **options)
    equal_rows = ko.infer(KEY, two, likelihood, X[:, :2], y, num_inducing=8, **options)
    posterior = ko.infer(KEY, two, likelihood, ParquetSource(path, target="y"), num_inducing=8, **options)
    np.testing.assert_array_equal(posterior.predict(NEW[:, :2]).mean, equal_rows.predict(NEW[:, :2]).mean)


def test_other_rows_in_the_second_pass_are_refused():
    likelihood, y = DATA["gaussian"]
    calls = []

    def changing():
        calls.append(None)
        # The first call is for the number of columns.
        yield X, y + (len(calls) > 2) * 1e-9 * np.eye(N)[3]

    with pytest.raises(InputError, match="gives other rows in a later pass than in the first: other values"):
        ko.infer(KEY, KERNEL, likelihood, BlockSource(changing), num_neighbors=5)
    calls.clear()

    def growing():
        calls.append(None)
        yield X, y
        if len(calls) > 2:
            yield X[:1], y[:1]

    # For which the arrays have no room.
    with pytest.raises(InputError, match="in a later pass than in the first: more rows than the 700 of the first"):
        ko.infer(KEY, KERNEL, likelihood, BlockSource(growing), num_neighbors=5)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(DATA))
def test_a_posterior_of_held_rows_is_one_like_others(name, tmp_path):
    likelihood, y = DATA[name]
    posterior = ko.infer(KEY, KERNEL, likelihood, blocks(y), num_neighbors=8, num_inducing=6, num_particles=16)
    posterior.save(tmp_path / "model")
    again = ko.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(NEW).mean, posterior.predict(NEW).mean)
    assert again.report == posterior.report
    assert again.report.stream.is_held
    assert posterior.functions(KEY)(NEW).shape == (16, 12)
    more = posterior.condition(KEY, NEW, y[:12])
    assert (more.target.num_rows, more.report.stream.num_rows) == (N + 12, N + 12)
    assert "2m" not in str(posterior.certificate())


def test_more_than_one_output_has_no_limit():
    y = np.column_stack([F, F])
    with pytest.raises(InputError, match="`max_memory` is for one output"):
        ko.infer(KEY, KERNEL, ko.likelihoods.Gaussian(np.ones(2)), X, y, max_memory="2GB")
