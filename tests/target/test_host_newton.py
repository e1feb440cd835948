"""The search for a mode with LAPACK ends where the compiled one does."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kosambi as ko
from kosambi import likelihoods as lk
from kosambi.target.host_newton import HostPotential, downhill, inverse_root, search_on_host
from kosambi.target.modes import _search, _searched

X = np.linspace(-2.0, 2.0, 40)[:, None]
WAVE = np.sin(2.0 * X[:, 0])
NOISY = WAVE + 0.3 * np.random.default_rng(0).standard_t(3, size=40)
WEIGHTS = np.where(np.arange(40) % 7 == 0, 0.0, 1.0 + np.arange(40) % 3)
BASIS = ko.PointBasis(ko.GaussianProcess(ko.kernels.Matern52(0.7, variance=2.0), mean=0.3), X[::4])
CASES = {
    "convex": (lk.Bernoulli(), (WAVE > 0).astype(float), "projected", None),
    "not convex": (lk.StudentT(3.0, 0.3), NOISY, "projected", None),
    "not convex, expected": (lk.StudentT(3.0, 0.3), NOISY, "optimal", None),
    "weights": (lk.Poisson(), np.arange(40.0) % 5, "projected", WEIGHTS),
    "expected, weights": (lk.Bernoulli(), (WAVE > 0).astype(float), "optimal", WEIGHTS),
    "three classes": (lk.Categorical(3), np.arange(40.0) // 14, "projected", WEIGHTS),
    "two functions": (lk.HeteroscedasticGaussian(), NOISY, "projected", None),
}


@pytest.fixture(params=CASES, ids=str)
def target(request):
    likelihood, y, potential, weights = CASES[request.param]
    return ko.Target(BASIS, likelihood, X, y, potential, weights=weights)


def test_searches_end_where_the_compiled_ones_do(target):
    size = int(np.prod(target.shape))
    starts = np.concatenate([np.zeros((1, size)), np.random.default_rng(1).normal(size=(2, size))])
    found = _searched(target, starts)
    with jax.enable_x64(True):
        expected = jax.tree.map(np.asarray, _search(target, jnp.asarray(starts)))
    # A search ends where a step promises 1e-10 nats: a hundred-thousandth of a standard deviation from the mode.
    np.testing.assert_allclose(found.positions, expected.positions, atol=1e-5)
    np.testing.assert_allclose(found.potentials, expected.potentials, rtol=1e-10)
    np.testing.assert_allclose(found.roots, expected.roots, atol=1e-5)
    np.testing.assert_allclose(found.log_masses, expected.log_masses, rtol=1e-7)
    np.testing.assert_array_equal(found.converged, expected.converged)
    assert found.converged.all()


def test_potential_and_gradient_are_those_of_the_target(target):
    w = 0.5 * np.random.default_rng(2).normal(size=int(np.prod(target.shape)))
    potential = HostPotential(target.term)
    with jax.enable_x64(True):
        compiled = jax.jit(lambda w: target.whitened_value_and_gradient(w))
        value, gradient = compiled(w.reshape(1, *target.shape))
    np.testing.assert_allclose(potential.value(w), value[0], rtol=1e-12)
    np.testing.assert_allclose(potential.gradient(w, potential.rows(w)), np.ravel(gradient), rtol=1e-9, atol=1e-9)


def test_rows_of_weight_zero_are_absent_also_where_their_cost_is_infinite():
    target = ko.Target(BASIS, lk.Poisson(), X, np.zeros(40), "projected", weights=np.zeros(40))
    far = np.full(10, 1e4)
    assert HostPotential(target.term).value(far) == pytest.approx(0.5 * np.sum(far**2))


def test_nothing_is_compiled_for_another_number_of_points(caplog):
    likelihood, y = lk.Bernoulli(), (WAVE > 0).astype(float)
    targets = [ko.Target(ko.PointBasis(BASIS.prior, X[::step]), likelihood, X, y, "projected") for step in (4, 5, 8)]
    _searched(targets[0], np.zeros((1, 10)))
    with jax.log_compiles(True), caplog.at_level("WARNING"):
        for target in targets[1:]:
            _searched(target, np.zeros((1, target.basis.size)))
    assert not [record for record in caplog.records if "XLA compilation" in record.getMessage()]


def test_ways_down_end_in_a_minimum_whichever_mode_they_are_measured_by(target):
    potential = HostPotential(target.term)
    end = search_on_host(potential, np.zeros(int(np.prod(target.shape))))
    root = inverse_root(end.factor)
    np.testing.assert_allclose(root @ root.T @ (end.factor @ end.factor.T), np.eye(len(root)), atol=1e-9)
    start = end.w + root @ np.random.default_rng(3).normal(size=len(end.w))
    for mode in (end.w, end.w + 5.0 * root[:, 0]):
        below = downhill(potential, start, mode, root)
        assert np.linalg.norm(np.linalg.solve(root, below - end.w)) < 0.1
        assert potential.value(below) < end.value + 1e-3
    # Where nothing is known of the cost the way ends at once, and at a finite point.
    assert np.all(np.isfinite(downhill(potential, 1e6 * start, end.w, root)))


def test_a_search_of_counts_begins_where_each_row_would_be_by_itself():
    y = np.round(np.exp(6.0 + 2.0 * WAVE))
    basis = ko.PointBasis(ko.GaussianProcess(ko.kernels.Matern52(0.7, variance=2.0), mean=5.0), X[::2])
    potential = HostPotential(ko.Target(basis, lk.Poisson(), X, y, "projected").term)
    start, nothing = potential.likely_start(), np.zeros(20)
    assert potential.value(start) < potential.value(nothing)
    near, far = search_on_host(potential, start), search_on_host(potential, nothing)
    assert near.iterations < far.iterations
    np.testing.assert_allclose(near.w, far.w, atol=1e-5)


def test_a_search_of_a_cost_that_is_not_convex_begins_at_zero():
    potential = HostPotential(ko.Target(BASIS, lk.StudentT(3.0, 0.3), X, NOISY, "projected").term)
    np.testing.assert_array_equal(potential.likely_start(), 0.0)
