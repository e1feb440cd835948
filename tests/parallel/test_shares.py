"""Rows that are shared out among processes: every row once, and the same sums; threads stand for the processes."""

from __future__ import annotations

import jax
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kosambi as ko
from kosambi.errors import FileError, HostError, InputError
from kosambi.sources import ArraySource, BlockSource, CSVSource, ParquetSource, SharedSource, Stream, base, survey
from kosambi.sources.parquet import shared_out
from kosambi.target import stream
from kosambi.target.stream_newton import StreamPotential
from tests.parallel.threads import in_threads

RNG = np.random.default_rng(4)
N = 700
X = RNG.normal(size=(N, 2))
F = np.sin(2.0 * X[:, 0]) + X[:, 1]
Y = F + 0.3 * RNG.normal(size=N)
LABELS = (RNG.uniform(size=N) < 1.0 / (1.0 + np.exp(-F))).astype(float)
WEIGHTS = RNG.integers(0, 3, size=N).astype(float)
PRIOR = ko.GaussianProcess(ko.kernels.Matern52(), mean=0.3)
BASIS = ko.PointBasis(PRIOR, X[:6])


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "w": WEIGHTS, "y": Y})
    pq.write_table(table, folder / "rows.parquet", row_group_size=90)
    table.to_pandas().to_csv(folder / "rows.csv", index=False)
    options = {"target": "y", "weights": "w"}
    blocks = [(X[k : k + 130], Y[k : k + 130], WEIGHTS[k : k + 130]) for k in range(0, N, 130)]
    return {
        "arrays": ArraySource(X, Y, WEIGHTS),
        "parquet": ParquetSource(folder / "rows.parquet", **options),
        "csv": CSVSource(folder / "rows.csv", **options),
        "blocks": BlockSource(lambda: iter(blocks)),
    }


@pytest.mark.parametrize("name", ["arrays", "parquet", "csv", "blocks"])
@pytest.mark.parametrize("count", [2, 3, 9])
def test_every_row_is_one_processs(monkeypatch, sources, name, count):
    monkeypatch.setattr(base, "IN_TURN", 64)
    found = [part for index in range(count) for part in sources[name].parts_of(index, count)]
    rows = np.concatenate([part.rows for part in found])
    np.testing.assert_array_equal(np.sort(rows), np.arange(N))
    np.testing.assert_array_equal(np.concatenate([part.x for part in found]), X[rows])
    np.testing.assert_array_equal(np.concatenate([part.weights for part in found]), WEIGHTS[rows])


def test_row_groups_are_shared_out_evenly_and_in_order():
    for sizes, count in (([1] * 12, 4), ([5, 1, 1, 1, 8, 2, 9], 3), ([7], 4)):
        owners = shared_out(sizes, count)
        assert np.all(np.diff(owners) >= 0)
        assert 0 <= owners[0] <= owners[-1] < count
        held = np.bincount(owners, weights=sizes, minlength=count)
        assert np.max(np.abs(held - sum(sizes) / count)) <= max(sizes)
    assert shared_out([1] * 12, 4).tolist() == np.repeat(np.arange(4), 3).tolist()


def test_only_own_row_groups_are_read(monkeypatch, sources):
    read = []
    monkeypatch.setattr(
        pq.ParquetFile,
        "iter_batches",
        lambda self, row_groups, **options: (
            read.extend(row_groups) or iter([self.read_row_group(row_groups[0]).to_batches()[0]])
        ),
    )
    for _ in sources["parquet"].parts_of(1, 2):
        pass
    assert read == [4, 5, 6, 7]


@pytest.mark.parametrize(("count", "names"), [(2, ["arrays", "csv"]), (9, ["parquet"])])
def test_a_survey_of_shares_is_that_of_all_rows(monkeypatch, sources, count, names):
    """With nine processes some have no row group at all."""
    monkeypatch.setattr(base, "IN_TURN", 64)
    for name in names:
        source = sources[name]
        alone = survey(source, sample_rows=100, block_rows=128)
        for each in in_threads(
            lambda group, source=source: survey(SharedSource(source, group), sample_rows=100, block_rows=128), count
        ):
            assert (each.num_rows, each.num_counted, each.total_weight) == (N, alone.num_counted, alone.total_weight), (
                name
            )
            np.testing.assert_allclose(each.x_mean, np.average(X, axis=0, weights=WEIGHTS), atol=1e-12)
            # Bit for bit, so that what is learned from standardised rows is the same.
            np.testing.assert_array_equal([each.x_mean, each.x_scale], [alone.x_mean, alone.x_scale])
            assert (each.y_mean, each.y_scale) == (alone.y_mean, alone.y_scale)
            np.testing.assert_array_equal(each.sample.rows, alone.sample.rows)
            np.testing.assert_array_equal(each.sample.x, alone.sample.x)
            np.testing.assert_array_equal([each.lowest, each.highest], [alone.lowest, alone.highest])


@pytest.mark.parametrize("largest", [1e8, 0.0])
def test_normal_equations_of_shares_are_those_of_all_rows(monkeypatch, largest):
    """Their minimum against least squares with NumPy, from the normal matrix and from its factor."""
    monkeypatch.setattr(stream, "LARGEST_TRACE", largest)
    noise, source = 0.3, ArraySource(X, Y, WEIGHTS)
    psi = np.asarray(BASIS.whitened_mean(X))
    normal = (psi * WEIGHTS[:, None]).T @ psi / noise**2
    toward = psi.T @ (WEIGHTS * (Y - 0.3)) / noise**2
    for found in in_threads(
        lambda group: stream.gaussian_sums(
            BASIS, ko.likelihoods.Gaussian(noise), Stream(SharedSource(source, group)), 128, False, float(sum(WEIGHTS))
        )
    ):
        root, aim = np.asarray(found.term.root), np.asarray(found.term.aim)
        np.testing.assert_allclose(root.T @ root, normal, rtol=1e-10, atol=1e-8)
        np.testing.assert_allclose(root.T @ aim, toward, rtol=1e-10, atol=1e-8)
        assert found.squared_error == pytest.approx(np.sum(WEIGHTS * (Y - 0.3) ** 2) / noise**2, rel=1e-12)


def test_derivatives_of_shares_are_those_of_all_rows():
    """Bernoulli, in closed form: slope Σ(p − y)ψ and curvature Σ p(1 − p)ψψᵀ, weighted; w is the first's."""
    source, psi = ArraySource(X, LABELS, WEIGHTS), np.asarray(BASIS.whitened_mean(X))
    w = 0.3 * RNG.normal(size=BASIS.size)
    p = 1.0 / (1.0 + np.exp(-(0.3 + psi @ w)))

    def work(group):
        potential = StreamPotential(BASIS, ko.likelihoods.Bernoulli(), Stream(SharedSource(source, group)), 128, None)
        return potential.derivatives(w + 1e-3 * group.index), potential.values(w[None]), potential.sums.residual

    first, second = in_threads(work)
    np.testing.assert_array_equal(first[0].second, second[0].second)
    np.testing.assert_allclose(first[0].slope, psi.T @ (WEIGHTS * (p - LABELS)), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(first[0].second, (psi * (WEIGHTS * p * (1 - p))[:, None]).T @ psi, rtol=1e-9, atol=1e-9)
    cost = -np.sum(WEIGHTS * np.log(np.where(LABELS == 1.0, p, 1.0 - p)))
    np.testing.assert_allclose([first[0].value, first[1][0] - 0.5 * w @ w], cost, rtol=1e-11)
    residual = np.asarray(BASIS.residual_variance(X))[WEIGHTS > 0]
    assert first[2] == second[2] == pytest.approx(np.sum(residual), rel=1e-9)


def test_one_that_fails_ends_all_with_its_message():
    wrong = np.where(np.arange(N) == 600, np.nan, Y)
    first, second = in_threads(lambda group: survey(SharedSource(ArraySource(X, wrong), group)))
    assert isinstance(second, InputError)
    assert "row 600" in str(second)
    assert isinstance(first, InputError)
    assert str(first) == f"Process 1 has failed: {second}"
    others = in_threads(lambda group: (_ for _ in ()).throw([FileError, KeyError][group.index]("gone")))
    assert [type(error) for error in others] == [FileError, KeyError]


def test_what_differs_between_processes_is_named(sources):
    first, second = in_threads(
        lambda group: group.check_same(
            ArraySource(X[: N - group.index], Y[: N - group.index]).facts(), "Give the same."
        )
    )
    assert str(first) == str(second)
    assert "differ in the shape of `x`: (700, 2) on process 0, (699, 2) on process 1. Give the same." in str(first)
    places = in_threads(lambda group: group.added("first" if group.index else "second", [1.0]))
    assert all(isinstance(error, HostError) and "different steps" in str(error) for error in places)
    assert sources["parquet"].facts() == sources["parquet"].facts() != sources["csv"].facts()


def test_large_sums_are_added_in_pieces(monkeypatch):
    monkeypatch.setattr("kosambi._core.groups._AT_ONCE", 5)
    whole = np.arange(12.0).reshape(3, 4)
    for a, b in in_threads(lambda group: group.added("a sum", whole * (group.index + 1), group.index)):
        np.testing.assert_array_equal(a, 3.0 * whole)
        assert b == 1.0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"coordinator": "nowhere"}, "HOST:PORT"),
        ({"coordinator": "127.0.0.1:1"}, "`num_processes` is missing"),
        ({"coordinator": "127.0.0.1:1", "num_processes": 2, "process_id": 2}, "from 0 to 1"),
        ({"num_processes": 2}, "need `coordinator`"),
    ],
)
def test_arguments_of_initialize_are_checked(arguments, words):
    with pytest.raises(InputError, match=words):
        ko.parallel.initialize(**arguments)


def test_one_process_shares_with_nobody():
    source = ko.parallel.distributed(ArraySource(X, Y))
    assert (source.group.count, jax.process_count()) == (1, 1)
    with pytest.raises(InputError, match="once"):
        ko.parallel.distributed(source)
