"""What is computed of rows on the devices of a mesh: least squares, sums that are filled up, near rows, estimators."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import jax
import numpy as np
import pytest

import kosambi as ko
from kosambi._core.meshes import filled
from kosambi.basis.local import LocalSystems, Rows
from kosambi.errors import InputError, NumericalError
from kosambi.parallel.terms import ShardedTerm, _filled, _filled_up
from kosambi.target import mesh_rows

GENERATOR = np.random.default_rng(3)
X = GENERATOR.normal(size=(53, 2))
F = np.sin(2.0 * X[:, 0]) + X[:, 1]
PRIOR = ko.GaussianProcess(ko.kernels.Matern52())
WORKER = pathlib.Path(__file__).with_name("mesh_worker.py")


def mesh():
    return ko.parallel.mesh(rows=1)


def test_least_squares_of_blocks_on_devices_are_those_of_the_normal_equations(monkeypatch):
    """Of rows that come in two parts, a device with several blocks; with NumPy from sums."""
    monkeypatch.setattr(mesh_rows, "_ROWS_OF_A_BLOCK", 8)
    psi, error, precision = GENERATOR.normal(size=(53, 4)), F, np.linspace(0.0, 2.0, 53)
    rows = mesh_rows.MeshLeastSquares(mesh(), 4)
    for part in (slice(0, 20), slice(20, 53)):
        rows.add(psi[part], error[part], precision[part])
    term = rows.term(1.5)
    np.testing.assert_allclose(term.root.T @ term.root, (psi.T * precision) @ psi, rtol=1e-12)
    np.testing.assert_allclose(term.root.T @ term.aim, psi.T @ (precision * error), rtol=1e-12)
    w = GENERATOR.normal(size=(3, 4))
    cost = 0.5 * np.sum(precision * np.square(error - w @ psi.T), axis=1) + 1.5
    np.testing.assert_allclose(np.asarray(term.value(w)), cost, rtol=1e-5 if not jax.config.jax_enable_x64 else 1e-12)


def test_a_gaussian_target_on_a_device_is_the_one_without():
    likelihood, weights = ko.likelihoods.Gaussian(np.linspace(0.1, 0.3, 53)), np.linspace(0.0, 2.0, 53)
    basis = ko.PointBasis(PRIOR, X[:7])
    alone, there = (ko.Target(basis, likelihood, X, F, weights=weights, mesh=devices) for devices in (None, mesh()))
    u = basis.colour(GENERATOR.normal(size=(4, 7)))
    np.testing.assert_allclose(there.potential(u), alone.potential(u), rtol=1e-11)
    key = jax.random.key(0)
    (one, report), (other, _) = (
        ko.sample(key, target, mesh=devices) for target, devices in ((there, mesh()), (alone, None))
    )
    assert report.sampler == "exact"
    np.testing.assert_allclose(one.whitened, other.whitened, atol=1e-10)


def test_rows_that_are_no_numbers_are_named():
    basis = ko.PointBasis(ko.GaussianProcess(ko.kernels.Linear()), 1e3 * X[:2])
    x = X.copy()
    x[11] = 1e307
    with pytest.raises(NumericalError, match="row 11"):
        ko.Target(basis, ko.likelihoods.Gaussian(0.1), x, F, mesh=mesh())
    with pytest.raises(NumericalError, match="row 11"):
        ko.Target(basis, ko.likelihoods.Bernoulli(), x, (F > 0) * 1.0, mesh=mesh())


@pytest.mark.parametrize(("number", "link"), [(53, "logit"), pytest.param(5, "probit", marks=pytest.mark.slow)])
def test_rows_that_fill_up_change_nothing(number, link):
    """Neither where weights are inside an integral, nor where a closed form knows none."""
    x, y = X[:number], (F[:number] > 0) * 1.0
    basis, likelihood = ko.PointBasis(PRIOR, x[:4]), ko.likelihoods.Bernoulli(link=link)
    w = GENERATOR.normal(size=(3, 4))
    for term, fill in (
        (ko.Target(basis, likelihood, x, y, "projected").term, _filled),
        (ko.Target(basis, likelihood, x, y, "neighbors", num_neighbors=3).term, _filled_up),
    ):
        rows, surplus = fill(term, 8)
        with jax.enable_x64(True):
            more = term.at_rows(rows)
            value, gradient = map(np.asarray, more.value_and_gradient(jax.numpy.asarray(w)))
            old = [np.asarray(part) for part in term.value_and_gradient(jax.numpy.asarray(w))]
            curvatures = [np.asarray(each.curvature(jax.numpy.asarray(w[0]))) for each in (term, more)]
        assert len(rows[0]) == 8 * -(-number // 8)
        np.testing.assert_allclose(value - surplus, old[0], rtol=1e-12)
        np.testing.assert_allclose(gradient, old[1], rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(curvatures[1], curvatures[0], rtol=1e-12)
        if fill is _filled_up:
            # Without the surplus it would show.
            assert np.min(np.abs(value - old[0])) > 1e-3


def test_filled_leaves_what_parts_divide():
    whole = np.arange(8.0)
    assert filled(whole, 4) is whole
    np.testing.assert_array_equal(filled(whole[:3], 8)[2:], np.full(6, 2.0))


def test_systems_of_near_rows_on_a_device_are_those_of_the_host():
    basis = ko.PointBasis(PRIOR, X[:5])
    psi, precision = np.asarray(basis.whitened_mean(X)), np.linspace(0.0, 9.0, 53)
    index = np.stack([np.delete(np.arange(53), n)[:6] for n in range(53)])
    index[3, 4:] = -1
    given = PRIOR, Rows(X, psi, precision), X, psi, index
    one, other = (LocalSystems(*given, mesh=devices).conditionals(precision) for devices in (None, mesh()))
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-11, atol=1e-12)


def test_neighbors_on_a_device_are_those_without():
    basis, options = ko.PointBasis(PRIOR, X[:5]), {"potential": "neighbors", "num_neighbors": 4}
    u = basis.colour(GENERATOR.normal(size=(4, 5)))
    for likelihood, y in ((ko.likelihoods.Gaussian(0.2), F), (ko.likelihoods.Bernoulli(link="probit"), (F > 0) * 1.0)):
        alone, there = (ko.Target(basis, likelihood, X, y, **options, mesh=devices) for devices in (None, mesh()))
        np.testing.assert_allclose(there.neighborhood.location, alone.neighborhood.location, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(there.potential(u), alone.potential(u), rtol=1e-10)


def test_the_diffusion_on_a_device_is_the_one_without():
    target = ko.Target(ko.PointBasis(PRIOR, X[:3]), ko.likelihoods.Poisson(), X, np.round(np.exp(F)))
    sampler, key = ko.samplers.EulerMaruyama(num_steps=20), jax.random.key(0)
    with pytest.warns(ko.errors.ConvergenceWarning):
        one, other = (ko.sample(key, target, sampler, 16, mesh=devices)[0] for devices in (None, mesh()))
    np.testing.assert_allclose(other.whitened, one.whitened, atol=1e-10)


def test_a_mesh_of_an_estimator_is_used_or_refused(monkeypatch):
    used = []
    spread = mesh_rows.least_squares_on_mesh
    monkeypatch.setattr("kosambi.target.target.least_squares_on_mesh", lambda *given: used.append(1) or spread(*given))
    options = {"kernel": ko.kernels.Matern52(), "hyperparameters": None, "n_inducing": 5, "n_samples": 16}
    model, other = (ko.ProjectedLangevinRegressor(**options) for _ in range(2))
    devices = mesh()
    model.fit(X, F, mesh=devices)
    assert used
    np.testing.assert_allclose(model.predict(X[:5]), other.fit(X, F).predict(X[:5]), atol=1e-9)
    for given, reason in (({"checkpoint": "folder"}, "checkpoint"), ({"max_memory": "4GB"}, "max_memory")):
        with pytest.raises(InputError, match=f"`mesh` cannot be given with `{reason}`"):
            model.fit(X, F, mesh=devices, **given)
    with pytest.raises(InputError, match="`mesh` cannot be given with `X`"):
        model.fit(ko.sources.ArraySource(X, F), mesh=devices)
    with pytest.raises(InputError, match=r"kosambi.parallel.mesh"):
        model.fit(X, F, mesh="all")
    for refused in ("tempering", ko.samplers.StochasticGradient()):
        with pytest.raises(InputError, match="runs on one device"):
            ko.ProjectedLangevinClassifier(sampler=refused).fit(X, F > 0, mesh=devices)


def test_chains_that_parts_do_not_divide_are_refused():
    target = ko.Target(ko.PointBasis(PRIOR, X[:3]), ko.likelihoods.Bernoulli(), X, (F > 0) * 1.0)
    devices = jax.sharding.Mesh(np.array([jax.devices() * 3]), ("rows", "particles"))
    with pytest.raises(InputError, match="16 chains cannot be shared out among `particles=3`"):
        ko.parallel.terms.placed_particles(np.zeros((16, 3)), devices)
    assert isinstance(ko.parallel.spread(target.term, mesh()), ShardedTerm)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "number"),
    [
        ("exact", 101),
        ("exact", 5),
        ("euler", 101),
        ("euler", 5),
        ("chains", 40),
        ("near_gaussian", 101),
        ("near_gaussian", 7),
        ("near_sites", 101),
        ("near_sites", 7),
        ("near_rounds", 101),
        ("near_rounds", 7),
        ("estimator", 101),
        ("average", 40),
    ],
)
def test_eight_devices_find_what_none_does(case, number):
    """To 1e-8, on four meshes; the draws of `MALA` are compared between meshes, since it has cheaper steps without."""
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
    child = subprocess.run(
        [sys.executable, str(WORKER), case, str(number)],
        capture_output=True,
        text=True,
        env={**os.environ, "XLA_FLAGS": flags},
    )
    assert child.returncode == 0, child.stderr
    for found in json.loads(child.stdout):
        assert found["numbers"] < 1e-8
        assert found["draws between meshes"] < 1e-8
        assert found["draws"] < 1e-8 or case in ("chains", "near_sites", "near_rounds", "average")
        assert found["has the same steps"]
        assert found["deviation of draws"] > 0.1
