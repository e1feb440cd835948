"""Mini-batches: gradients without bias; draws whose bias is small, shrinks with the step, and is what is reported."""

from __future__ import annotations

import contextlib
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kosambi as ko
from kosambi.samplers import mini_batches
from kosambi.samplers.stochastic_gradient import _angle
from tests.files.helpers import through_file
from tests.samplers.grids import grid_of, p_values

KEY = jax.random.key(0)
NUM_PARTICLES = 4000
X = np.linspace(0.0, 1.0, 7)[:, None]
PRIOR = ko.GaussianProcess(ko.kernels.SquaredExponential(lengthscale=0.8, variance=30.0))
# Few labels and a wide prior: the posterior is far from normal, and what a batch says differs much from another.
TARGET = ko.Target(
    ko.PointBasis(PRIOR, [[0.1], [0.9]]), ko.likelihoods.Bernoulli(), X, (X[:, 0] > 0.6).astype(float), "projected"
)
SETTINGS = {"batch_size": 3, "num_steps": 400}
LONG, SHORT = 1.5, 0.5


def sigmoid(f):
    return 1.0 / (1.0 + np.exp(-f))


@pytest.fixture(scope="module")
def grid():
    return grid_of(TARGET)


@pytest.fixture(scope="module")
def runs():
    """With a step that is far too long and one that is not: one program serves both."""
    found = {}
    for angle in (LONG, SHORT):
        sampler = ko.samplers.StochasticGradient(step_size=angle, **SETTINGS)
        with pytest.warns(ko.errors.ConvergenceWarning) if angle == LONG else contextlib.nullcontext():
            found[angle] = ko.sample(KEY, TARGET, sampler, NUM_PARTICLES)
    return found


def bias(w, grid):
    """Of means, in posterior standard deviations, and of variances, as parts of them, by quadrature."""
    centre = grid.mean(grid.points)
    deviation = np.sqrt(grid.mean(np.square(grid.points - centre)))
    return (w.mean(axis=0) - centre) / deviation, w.var(axis=0) / np.square(deviation) - 1.0


@pytest.mark.parametrize("weighted", [False, True])
def test_the_mean_over_batches_is_the_gradient_of_all_rows(weighted, rng):
    """Of seven rows in batches of three, one of which is filled up, by the formula of the logistic cost."""
    weights = rng.uniform(0.2, 2.0, size=7) if weighted else None
    target = ko.Target(TARGET.basis, TARGET.likelihood, TARGET.x, TARGET.y, "projected", weights=weights)
    modes = ko.target.find_modes(KEY, target)
    v = rng.normal(size=(16, 2))
    with jax.enable_x64(True):
        made = mini_batches.mini_batches(KEY, target.term, modes, 3)
        assert made.batches.y.shape == (3, 3)
        every = [jax.tree.map(lambda leaf, i=i: leaf[i], made.batches) for i in range(3)]
        estimates = np.stack([np.asarray(made._estimate(jnp.asarray(v), batch)) for batch in every])
        centres = np.stack([np.asarray(made._estimate(jnp.zeros((1, 2)), batch)) for batch in every])
        linear = np.asarray(made.pull + v @ made.linear)
    psi, y = np.asarray(target.term.psi), np.asarray(target.y)
    w = modes.positions[0] + v @ modes.roots[0].T
    slope = (sigmoid(w @ psi.T) - y) * (1.0 if weights is None else weights)
    expected = (w + slope @ psi) @ modes.roots[0] - v
    np.testing.assert_allclose(linear + estimates.mean(axis=0), expected, atol=1e-8)
    # What is known of all rows at the mode takes the place of the batch's own.
    np.testing.assert_allclose(made.at_mode[None], centres.mean(axis=0), atol=1e-8)
    # A curvature at the mode that is the frame's leaves nothing linear over.
    np.testing.assert_allclose(made.linear, 0.0, atol=1e-8)


def test_noise_of_gradients_and_the_step_that_it_allows(rng):
    modes = ko.target.find_modes(KEY, TARGET)
    v = rng.normal(size=(64, 2))
    with jax.enable_x64(True):
        made = mini_batches.mini_batches(KEY, TARGET.term, modes, 3)
        found = np.asarray(mini_batches.gradient_noise(made, KEY, v))
        every = [jax.tree.map(lambda leaf, i=i: leaf[i], made.batches) for i in range(3)]
        values = [made._estimate(jnp.asarray(v), batch) - made._estimate(jnp.zeros((1, 2)), batch) for batch in every]
    expected = np.var(np.stack(values), axis=0).mean(axis=0)
    np.testing.assert_allclose(found, expected, rtol=0.25)
    # v' = cos θ v − (1 − cos θ) ε + sin θ ξ has variance one and tan²(θ/2) of that of ε.
    angle, noise = 0.4, 2.0
    stationary = (np.sin(angle) ** 2 + (1.0 - np.cos(angle)) ** 2 * noise) / (1.0 - np.cos(angle) ** 2)
    assert stationary - 1.0 == pytest.approx(np.tan(0.5 * angle) ** 2 * noise)
    assert np.tan(0.5 * _angle(2.0)) ** 2 * 2.0 == pytest.approx(0.01)
    assert _angle(0.0) == 0.5


def test_the_bias_is_small_and_shrinks_with_the_step(runs, grid):
    means, variances = bias(runs[SHORT][0].whitened, grid)
    # Four Monte Carlo standard errors, and a few hundredths.
    assert np.max(np.abs(means)) < 4.0 / NUM_PARTICLES**0.5 + 0.02
    assert np.max(np.abs(variances)) < 4.0 * (2.0 / NUM_PARTICLES) ** 0.5 + 0.04
    long_means, long_variances = bias(runs[LONG][0].whitened, grid)
    assert np.max(np.abs(long_variances)) > 3.0 * np.max(np.abs(variances))
    assert np.max(np.abs(long_means)) > np.max(np.abs(means))
    # The same test tells them apart from the posterior.
    assert min(p_values(runs[LONG][0].whitened, grid)) < 1e-6


def test_the_report_says_how_large_the_bias_is(runs, grid):
    for angle, (particles, report) in runs.items():
        found = report.stochastic
        _, variances = bias(particles.whitened, grid)
        # Not the same for a posterior that is not normal, but as large.
        assert found.inflation == pytest.approx(variances.mean(), abs=0.03 + 0.5 * abs(variances.mean())), angle
        assert found.drift <= 3.0 * found.drift_error
        assert 0.5 < found.inflation_error / np.sqrt(2.0 / (2 * NUM_PARTICLES)) < 3.0
        assert (found.batch_size, found.num_batches, found.metropolis_steps) == (3, 3, 0)
        assert report.step_size == pytest.approx(angle)
        assert report.steps == report.gradient_evaluations == report.energy_steps[-1] == 400
        assert "batches of 3 rows" in str(report)
        assert "mini-batches" in report._repr_html_()
    assert abs(runs[SHORT][1].stochastic.inflation) < 0.04 + 3 * runs[SHORT][1].stochastic.inflation_error
    assert runs[SHORT][1].converged
    assert "biased" in runs[LONG][1].warnings[-1]


def test_the_identities_that_bias_is_measured_by(grid):
    """E[∂V/∂v] = 0 and E[v ∂V/∂v] = 1 for every coordinate, by quadrature."""
    modes = ko.target.find_modes(KEY, TARGET)
    v = np.linalg.solve(modes.roots[0], (grid.points - modes.positions[0]).T).T
    psi, y = np.asarray(TARGET.term.psi), np.asarray(TARGET.y)
    gradient = (grid.points + (sigmoid(grid.points @ psi.T) - y) @ psi) @ modes.roots[0]
    np.testing.assert_allclose(grid.mean(gradient), 0.0, atol=1e-4)
    np.testing.assert_allclose(grid.mean(v * gradient), 1.0, atol=1e-3)


@pytest.mark.slow
def test_metropolis_steps_are_counted():
    sampler = ko.samplers.StochasticGradient(3, LONG, 40, metropolis=True)
    _, report = ko.sample(KEY, TARGET, sampler, 64)
    assert report.sampler == "stochastic_gradient"
    assert report.steps == 40 + report.stochastic.metropolis_steps
    assert "Metropolis steps on all rows" in str(report)


@pytest.mark.slow
def test_metropolis_steps_leave_no_bias(grid):
    sampler = ko.samplers.StochasticGradient(step_size=LONG, metropolis=True, **SETTINGS)
    particles, report = ko.sample(KEY, TARGET, sampler, NUM_PARTICLES)
    assert report.converged
    assert 0.5 < report.acceptance < 1.0
    assert min(p_values(particles.whitened, grid)) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_the_expected_cost_and_a_cost_that_is_not_convex(precision):
    x = np.linspace(-2.0, 2.0, 300)[:, None]
    basis = ko.PointBasis(ko.GaussianProcess(ko.kernels.Matern52()), x[::30])
    y = np.sin(2 * x[:, 0]) + 0.2 * np.random.default_rng(0).standard_t(4, size=300)
    target = ko.Target(basis, ko.likelihoods.StudentT(4.0, 0.2), x, y, "optimal")
    sampler = ko.samplers.StochasticGradient(50)
    particles, report = ko.sample(KEY, target, sampler, 1000, precision=precision)
    assert report.converged
    right = ko.sample(jax.random.key(1), target, num_particles=1000)[0].whitened
    deviation = right.std(axis=0)
    assert np.max(np.abs(particles.whitened.mean(axis=0) - right.mean(axis=0)) / deviation) < 0.2
    np.testing.assert_allclose(particles.whitened.std(axis=0), deviation, rtol=0.12)


def test_results_survive_pickle_and_files(runs, tmp_path):
    particles, report = runs[SHORT]
    again = pickle.loads(pickle.dumps((particles, report)))
    np.testing.assert_array_equal(again[0].coordinates, particles.coordinates)
    assert again[1] == report
    assert through_file(report, tmp_path) == report


@pytest.mark.parametrize("likelihood", [ko.likelihoods.Gaussian(0.3), ko.likelihoods.Categorical(3)])
def test_bad_input_what_is_no_sum_over_rows(likelihood):
    target = ko.Target(TARGET.basis, likelihood, TARGET.x, np.zeros(7), "projected")
    with pytest.raises(ko.errors.InputError, match=r"`StochasticGradient` .*Use sampler=\"auto\""):
        ko.sample(KEY, target, "stochastic_gradient")


def test_bad_input_settings():
    with pytest.raises(ko.errors.InputError, match="`batch_size`"):
        ko.samplers.StochasticGradient(0)
    with pytest.raises(ko.errors.InputError, match=r"angle in \(0, π/2\]. Got 2"):
        ko.samplers.StochasticGradient(step_size=2.0)
    with pytest.raises(ko.errors.InputError, match=r"`metropolis` must be True or False\. Got 1"):
        ko.samplers.StochasticGradient(metropolis=1)
