"""Posteriors that are far from their Laplace law: what must still work, and what must at least be said."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

import kosambi as ko
from kosambi.samplers import phases, row_jumps
from kosambi.samplers.starts import _share_out

lk = ko.likelihoods


def single(likelihood, y, variance):
    """One datum, one coordinate."""
    prior = ko.GaussianProcess(ko.kernels.SquaredExponential(1.0, variance))
    return ko.Target(ko.PointBasis(prior, [[0.0]]), likelihood, [[0.0]], [y], "projected")


def regression_with_outliers(degrees_of_freedom, scale):
    x = np.linspace(0.0, 10.0, 40)[:, None]
    y = np.sin(x[:, 0])
    y[[5, 17, 30]] += (4.0, -5.0, 6.0)
    prior = ko.GaussianProcess(ko.kernels.Matern52(lengthscale=2.0))
    return ko.Target(ko.PointBasis(prior, x[::4]), lk.StudentT(degrees_of_freedom, scale), x, y, "projected")


@pytest.mark.slow
def test_no_start_is_out_of_reach_of_an_exponential_cost():
    target = single(lk.Poisson(), 0.0, 25.0)
    for seed in range(12):
        assert ko.sample(jax.random.key(seed), target)[1].converged


@pytest.mark.parametrize(("degrees_of_freedom", "scale"), [(3.0, 0.02), (3.0, 0.01), (1.0, 0.02)])
def test_robust_regression_finds_its_modes(degrees_of_freedom, scale):
    target = regression_with_outliers(degrees_of_freedom, scale)
    modes = ko.target.find_modes(jax.random.key(0), target)
    assert modes.converged.all()
    root = target.basis.colour(np.eye(10))

    def potential(w):
        value, gradient = target.value_and_gradient(w @ root)
        return float(value), root @ gradient

    best = scipy.optimize.minimize(potential, modes.positions[0], jac=True, method="BFGS")
    assert modes.potentials[0] <= best.fun + 1e-6


@pytest.mark.slow
def test_results_do_not_depend_on_the_clock(monkeypatch):
    """Segments are cut by time, but what happens is not, also when the tuning is repeated or the limit reached."""
    target = regression_with_outliers(3.0, 0.05)
    found = []
    for seconds in (1e-9, 0.02, 100.0):
        monkeypatch.setattr(phases, "SEGMENT_SECONDS", seconds)
        with pytest.warns(ko.errors.ConvergenceWarning):
            particles, report = ko.sample(jax.random.key(0), target, ko.samplers.MALA(initial="prior", max_steps=150))
        found.append((report.steps, report.step_size, particles.coordinates))
    assert len({(steps, size) for steps, size, _ in found}) == 1
    for _, _, coordinates in found[1:]:
        np.testing.assert_array_equal(coordinates, found[0][2])


@pytest.mark.slow
def test_a_small_mode_that_was_found_is_not_passed_over(monkeypatch):
    target = single(lk.ShiftMixture(shift=2.0, probability=0.05, noise=0.2), 1.0, 1.0)
    modes = ko.target.find_modes(jax.random.key(0), target)
    assert 0.01 < modes.weights[1] < 0.1
    # Steps alone do not lead there and back; with jumps of the row they do, and each mode has its share.
    particles, report = ko.sample(jax.random.key(0), target, ko.samplers.MALA(max_steps=400), 1000)
    assert report.converged
    halfway = float(np.mean(modes.positions))
    grid = np.linspace(-6.0, 6.0, 6001)
    density = np.exp(-np.asarray(target.whitened_potential(grid[:, None])))
    is_small = np.sign(grid - halfway) == np.sign(modes.positions[1, 0] - halfway)
    right = density[is_small].sum() / density.sum()
    w = np.asarray(target.whiten(particles.coordinates))[:, 0]
    found = np.mean(np.sign(w - halfway) == np.sign(modes.positions[1, 0] - halfway))
    assert abs(found - right) < 4.0 * np.sqrt(right * (1.0 - right) / 1000)
    monkeypatch.setattr(row_jumps, "LEAST", np.inf)
    with pytest.warns(ko.errors.ConvergenceWarning, match="separate modes"):
        _, report = ko.sample(jax.random.key(0), target, ko.samplers.MALA(max_steps=200), 1000)
    assert not report.converged
    assert report.basins == 2


def test_superchains_are_shared_out_by_mass():
    assert list(_share_out(np.array([1.0]))) == [0] * 8
    assert list(_share_out(np.array([0.5, 0.5]))) == [0] * 4 + [1] * 4
    assert list(_share_out(np.array([0.95, 0.05]))) == [0] * 7 + [1]
    assert list(_share_out(np.array([1.0 - 1e-5, 1e-5]))) == [0] * 8


@pytest.mark.slow
def test_an_infinite_potential_at_the_start_is_left():
    half = lk.Custom(lambda y, f: jnp.where(f > 0, jnp.square(y - f), jnp.inf))
    target = single(half, 1.0, 1.0)
    start = np.linspace(-0.5, 2.0, 100)[:, None]
    particles, report = ko.sample(jax.random.key(0), target, "mala", initial=start)
    assert report.converged
    assert np.all(particles.coordinates > 0)


def test_particles_that_hardly_moved_have_not_converged():
    target = single(lk.Bernoulli(), 1.0, 1.0)
    sampler = ko.samplers.EulerMaruyama(1e-7, 1000, initial=np.zeros((500, 1)))
    with pytest.warns(ko.errors.ConvergenceWarning, match="autocorrelation times"):
        _, report = ko.sample(jax.random.key(0), target, sampler, 500)
    assert not report.converged


def test_few_particles_of_the_diffusion_cannot_be_judged():
    with pytest.warns(ko.errors.ConvergenceWarning, match="cannot be judged"):
        ko.sample(jax.random.key(0), single(lk.Bernoulli(), 1.0, 1.0), ko.samplers.EulerMaruyama(0.1, 1000), 10)


def test_modes_that_no_particle_leaves_end_a_run_early():
    """Two observations of one number that contradict each other: a mode at each, and nothing between."""
    prior = ko.GaussianProcess(ko.kernels.SquaredExponential(1.0, 25.0))
    likelihood = lk.StudentT(3.0, 0.02)
    target = ko.Target(ko.PointBasis(prior, [[0.0]]), likelihood, [[0.0], [0.0]], [-5.0, 5.0], "projected")
    mala = ko.samplers.MALA(max_steps=20_000)
    with pytest.warns(ko.errors.ConvergenceWarning, match="do not pass between them"):
        report = ko.sample(jax.random.key(0), target, sampler=mala)[1]
    assert not report.converged
    assert report.r_hat > phases.HOPELESS
    assert report.steps < 2500
