"""Near rows: the order, the search among earlier rows, and what they say about the residual of a basis."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import kosambi as ko
from kosambi._core import room
from kosambi.basis import kept_systems
from kosambi.basis import local as local_module
from kosambi.basis import neighbors as neighbors_module
from kosambi.basis.local import LocalSystems, Rows, local_conditionals
from kosambi.basis.neighbors import Cells, Nearest, nearest_before, row_order

RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, (60, 2))
PRIORS = {
    "process": ko.GaussianProcess(ko.kernels.Matern52([0.7, 1.1], 1.5)),
    "element": ko.GaussianRandomElement(ko.kernels.SquaredExponential(0.8), ko.measures.empirical(X)),
}


def test_the_order_is_that_of_the_data_and_not_of_the_rows():
    y = RNG.normal(size=60)
    x = np.concatenate([X[:50], X[:10]])
    shuffled = RNG.permutation(60)
    first, again = row_order(x, y), shuffled[row_order(x[shuffled], y[shuffled])]
    np.testing.assert_array_equal(first, again)
    # As good as random: no trend along a column.
    many = RNG.uniform(size=(5000, 1))
    places = np.argsort(row_order(many, np.zeros(5000)))
    assert abs(np.corrcoef(places, many[:, 0])[0, 1]) < 0.05


def test_zero_has_one_sign():
    assert row_order(np.array([[-0.0], [0.0]]), np.array([1.0, 0.0])).tolist() == [1, 0]


@pytest.mark.parametrize("columns", [2, 20], ids=["tree", "exhaustive"])
def test_earlier_neighbors_against_all_distances(columns):
    x = RNG.normal(size=(700, columns))
    order = RNG.permutation(700)
    found = nearest_before(x[order], np.arange(700), 9)
    for place in (0, 1, 5, 9, 10, 350, 699):
        before = order[:place]
        nearest = before[np.argsort(cdist(x[order[place]][None], x[before])[0])[:9]]
        assert sorted(order[found[place][found[place] >= 0]]) == sorted(nearest)


def test_a_tree_is_asked_where_many_columns_fill_few_dimensions():
    few = RNG.normal(size=(3000, 3)) @ RNG.normal(size=(3, 40)) + 1e-3 * RNG.normal(size=(3000, 40))
    search = Nearest(few)
    assert search.is_tree
    near = search.query(few[:5], 4)
    np.testing.assert_array_equal(near, np.argsort(cdist(few[:5], few), axis=1)[:, :4])
    assert not Nearest(RNG.normal(size=(3000, 40))).is_tree
    # Rows that are all equal fill none.
    assert Nearest(np.zeros((300, 40))).query(np.zeros((2, 40)), 3).shape == (2, 3)


def test_cells_have_most_of_the_nearest(monkeypatch):
    monkeypatch.setattr(neighbors_module, "MOST_EXHAUSTIVE", 1000)
    points = RNG.normal(size=(6000, 20))
    search = Nearest(points)
    assert isinstance(search.search, Cells)
    inputs = RNG.normal(size=(300, 20))
    found = search.query(inputs, 10)
    apart = cdist(inputs, points)
    right = np.argsort(apart, axis=1)[:, :10]
    shared = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found, right, strict=True)])
    # A random choice of as many cells would have a third.
    assert shared > 0.7
    own = np.take_along_axis(apart, found, 1)
    assert np.all(np.diff(own, axis=1) > -1e-5)
    assert np.mean(own) < 1.05 * np.mean(np.take_along_axis(apart, right, 1))
    # A point is its own nearest.
    np.testing.assert_array_equal(search.query(points[:50], 1)[:, 0], np.arange(50))


def test_cells_with_fewer_points_than_are_asked_for():
    points = RNG.normal(size=(40, 3)).astype(np.float32)
    found = Cells(points).kneighbors(points[:4], 40)
    assert all(sorted(each) == list(range(40)) for each in found)


@pytest.mark.parametrize("most", [2**30, 0], ids=["double", "single"])
def test_systems_that_are_kept_serve_other_precisions(most, monkeypatch):
    monkeypatch.setattr(kept_systems, "DOUBLE_UP_TO", most)
    prior = PRIORS["process"]
    basis = ko.PointBasis(prior, X[:6])
    psi = np.asarray(basis.whitened_mean(X))
    index = np.argsort(cdist(X[:10], X), axis=1)[:, 1:8]
    rows = Rows(X, psi, np.ones(60))
    systems = LocalSystems(prior, rows, X[:10], psi[:10], index, keep=True)
    for precision in (np.ones(60), RNG.uniform(0.0, 5.0, size=60)):
        found = systems.conditionals(precision)
        right = local_conditionals(prior, rows._replace(precision=precision), X[:10], psi[:10], index)
        digits = {"atol": 1e-12} if most else {"atol": 1e-5}
        for one, other in zip(found[:3], right[:3], strict=True):
            np.testing.assert_allclose(one, other, **digits)


@pytest.mark.parametrize("most", [2**30, 0], ids=["double", "single"])
def test_how_many_systems_are_kept_changes_no_digit(most, monkeypatch):
    """In batches of four, the last of which has rows of the one before, and blocks of eight."""
    monkeypatch.setattr(kept_systems, "DOUBLE_UP_TO", most)
    monkeypatch.setattr(local_module, "_NUMBERS", 4 * 7 * (6 + 7))
    monkeypatch.setattr(room, "FEWEST_ROWS", 8)
    monkeypatch.setattr(room, "MOST_ROWS", 8)
    psi = np.asarray(ko.PointBasis(PRIORS["process"], X[:6]).whitened_mean(X))
    index = np.argsort(cdist(X[:23], X), axis=1)[:, 1:8].astype(np.int32)
    index[3, 5:] = -1
    given = PRIORS["process"], Rows(X, psi, np.ones(60)), X[:23], psi[:23], index
    whole = LocalSystems(*given, room.Room(kept=2**20), keep=True)
    some = LocalSystems(*given, room.Room(kept=3 * 4 * 7 * 8 * (4 if most == 0 else 8)), keep=True)
    for precision in (np.ones(60), RNG.uniform(0.0, 5.0, size=60)):
        right = whole.conditionals(precision)
        parts = list(some.blocks(precision))
        assert [(part.start, part.stop) for part, _ in parts] == [(0, 8), (8, 16), (16, 23)]
        for name in ("weights", "variance", "psi"):
            found = np.concatenate([getattr(each, name) for _, each in parts])
            np.testing.assert_allclose(found, getattr(right, name), rtol=0.0, atol=1e-15)
        assert sum(each.num_cut for _, each in parts) == right.num_cut
    assert len(some._kept.gram) == 12
    assert len(whole._kept.gram) == 20


def test_single_precision_is_not_kept_for_precise_observations(monkeypatch):
    monkeypatch.setattr(kept_systems, "DOUBLE_UP_TO", 0)
    prior = PRIORS["process"]
    psi = np.asarray(ko.PointBasis(prior, X[:6]).whitened_mean(X))
    index = np.argsort(cdist(X[:10], X), axis=1)[:, 1:8]
    rows = Rows(X, psi, np.ones(60))
    systems = LocalSystems(prior, rows, X[:10], psi[:10], index, keep=True)
    systems.conditionals(np.ones(60))
    precision = np.full(60, 1e8)
    right = local_conditionals(prior, rows._replace(precision=precision), X[:10], psi[:10], index)
    np.testing.assert_allclose(systems.conditionals(precision).weights, right.weights, atol=1e-10)


def test_the_host_solves_what_an_accelerator_cannot(monkeypatch):
    prior = PRIORS["process"]
    psi = np.asarray(ko.PointBasis(prior, X[:6]).whitened_mean(X))
    index = np.argsort(cdist(X[:10], X), axis=1)[:, 1:8]
    given = prior, Rows(X, psi, np.ones(60)), X[:10], psi[:10], index
    right = local_conditionals(*given)
    monkeypatch.setattr(local_module, "platform", lambda: "gpu")
    on_device = local_conditionals(*given)
    unknown = np.full((10, 7), np.nan), np.full(10, np.nan), np.full((10, 6), np.nan)
    monkeypatch.setattr(local_module, "_on_device", lambda *_: unknown)
    on_host = local_conditionals(*given)
    for found in (on_device, on_host):
        for one, other in zip(found[:3], right[:3], strict=True):
            np.testing.assert_allclose(one, other, atol=1e-10)


def test_rows_that_are_all_equal_have_earlier_neighbors():
    order = np.arange(200)
    found = nearest_before(np.zeros((200, 3)), order, 10)
    present = found >= 0
    assert np.all(found[present] < np.repeat(order, present.sum(axis=1)))
    assert present.sum() > 0.9 * (10 * 200 - 55)


def test_no_neighbors_and_no_inputs():
    assert nearest_before(X, np.arange(60), 0).shape == (60, 0)
    assert Nearest(X).query(X[:0], 5).shape == (0, 5)
    assert Nearest(X[:3]).query(X[:2], 5).shape == (2, 3)


@pytest.mark.parametrize("name", PRIORS)
def test_conditionals_against_the_dense_residual(name, monkeypatch):
    prior = PRIORS[name]
    basis = ko.PointBasis(prior, X[:8])
    psi, new = basis.whitened_mean(X), RNG.uniform(-2.0, 2.0, (13, 2))
    psi_new = basis.whitened_mean(new)
    precision = RNG.uniform(0.5, 50.0, 60)
    precision[20:30] = 0.0
    index = np.argsort(cdist(new, X), axis=1)[:, :40]
    index[3, 5:] = -1
    # Several batches, the last of which overlaps.
    monkeypatch.setattr(local_module, "_NUMBERS", 4 * 40 * 48)
    found = local_conditionals(prior, Rows(X, psi, precision), new, psi_new, index)
    for i in range(13):
        near = index[i][index[i] >= 0]
        near = near[precision[near] > 0]
        covariance = prior.covariance(X[near]) - psi[near] @ psi[near].T
        cross = prior.covariance(new[[i]], X[near])[0] - psi_new[i] @ psi[near].T
        weights = np.linalg.solve(covariance + np.diag(1.0 / precision[near]), cross)
        left = prior.variance(new[[i]])[0] - psi_new[i] @ psi_new[i] - weights @ cross
        mine = np.zeros(60)
        np.add.at(mine, index[i][index[i] >= 0], found.weights[i][index[i] >= 0])
        np.testing.assert_allclose(mine[near], weights, atol=1e-9)
        assert found.variance[i] == pytest.approx(left, abs=1e-9)
        np.testing.assert_allclose(found.psi[i], psi_new[i] - weights @ psi[near], atol=1e-9)
        assert np.all(mine[precision == 0] == 0)


def test_inputs_that_the_coordinates_explain_have_no_neighbors():
    basis = ko.PointBasis(PRIORS["process"], X[:8])
    psi = basis.whitened_mean(X)
    rows = Rows(X, psi, np.ones(60))
    found = local_conditionals(PRIORS["process"], rows, X[:10], psi[:10], np.tile(np.arange(10, 20), (10, 1)))
    assert (found.num_cut, found.num_clipped) == (8, 0)
    np.testing.assert_array_equal(np.all(found.weights == 0, axis=1), np.arange(10) < 8)
