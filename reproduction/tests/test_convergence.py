"""`convergence` and `optimal`: distances, rates, the long run, scores."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import scipy.stats

import kosambi as ko
from kosambi._core.writing import as_json
from reproduction import convergence
from reproduction._distances import Yardstick, energy_distance, fit_line, power_law
from reproduction._divergence import divergence, full_gap
from reproduction._long_run import long_run
from reproduction._optimal_pages import entries
from reproduction._races import seconds_to_reach
from reproduction._rates import _inducing, _measure, fitted, least_remainders, rate, theory
from reproduction._small_problems import small_problem
from reproduction.optimal import both_potentials, scores


def test_energy_distance_against_a_double_loop(rng):
    a, b = rng.normal(size=(7, 3)), rng.normal(size=(5, 3)) + 0.5

    def mean_distance(p, q):
        return np.mean([np.sqrt(np.sum((one - other) ** 2)) for one in p for other in q])

    expected = 2 * mean_distance(a, b) - mean_distance(a, a) - mean_distance(b, b)
    np.testing.assert_allclose(energy_distance(a, b), expected, rtol=1e-12)


def test_energy_distance_of_equal_samples_is_zero(rng):
    a = rng.normal(size=(50, 4))
    assert energy_distance(a, a[::-1]) < 1e-12


def test_yardstick_tells_another_distribution_from_noise(rng):
    yardstick = Yardstick(rng.normal(size=(2000, 4)) * 3.0 + 5.0)
    noise = yardstick.noise(500)
    others = [rng.normal(size=(500, 4)) * 3.0 + 5.0 for _ in range(30)]
    distances = [yardstick.distance(other) for other in others]
    assert np.mean(distances) == pytest.approx(noise.mean, rel=0.4)
    assert np.median(distances) < noise.limit
    same = others[0]
    assert yardstick.distance(same + 1.0) > 3.0 * noise.limit
    mean_error, deviation_error = yardstick.moments(2.0 * (same - 5.0) + 5.0 + 3.0)
    assert mean_error == pytest.approx(1.0, abs=0.15)
    assert deviation_error == pytest.approx(1.0, abs=0.15)


def test_error_of_a_difference_of_distances_against_repetition(rng):
    differences, errors = [], []
    for _ in range(60):
        yardstick = Yardstick(rng.normal(size=(400, 3)))
        found = yardstick.compare(rng.normal(size=(150, 3)) + 0.8, 1.5 * rng.normal(size=(150, 3)))
        differences.append(found.first - found.second)
        errors.append(found.standard_error)
    # The spread of 60 repetitions is known to 9 %.
    assert np.std(differences, ddof=1) == pytest.approx(np.mean(errors), rel=0.35)


def test_slopes_of_exact_powers():
    sizes = np.array([4, 8, 12, 32])
    line = power_law(sizes, 2.5 * sizes**-7.0)
    assert line.slope == pytest.approx(-7.0, abs=1e-10)
    assert line.standard_error < 1e-10
    noisy = fit_line(np.arange(4.0), np.array([0.0, 1.1, 1.9, 3.0]))
    reference = scipy.stats.linregress(np.arange(4.0), [0.0, 1.1, 1.9, 3.0])
    np.testing.assert_allclose([noisy.slope, noisy.standard_error], [reference.slope, reference.stderr])


def test_theory_of_the_squared_exponential_against_its_eigenvalues():
    points, weights = _measure(None, 400)
    kernel = ko.kernels.SquaredExponential(1.0)
    best = least_remainders(ko.GaussianProcess(kernel), kernel, points, weights, [2, 6])
    assert np.log(best[1] / best[0]) / 4 == pytest.approx(theory("process", None), rel=1e-8)
    assert theory("element", None) == pytest.approx(2 * theory("process", None))


@pytest.mark.parametrize("prior", ["element", "process"])
@pytest.mark.parametrize("order", [0, 2, None])
def test_remainder_against_dense_linear_algebra(prior, order):
    found = rate(prior, order, [3, 5], 60)
    points, weights = _measure(order, 60)
    kernels = {0: ko.kernels.Matern12, 2: ko.kernels.Matern52, None: ko.kernels.SquaredExponential}
    kernel = kernels[order](1.0)
    k = np.asarray(kernel(points))
    for size, remainder, best in zip(found["sizes"], found["remainder"], found["best"], strict=True):
        z = _inducing(order, size)
        across, inside, r = np.asarray(kernel(points, z)), np.asarray(kernel(z)), k
        if prior == "element":
            spread = np.asarray(kernel(z, points)) * weights
            across, inside, r = (k * weights) @ across, spread @ across, (k * weights) @ k
        rest = np.diag(r) - np.sum(across * np.linalg.solve(inside, across.T).T, axis=1)
        assert remainder == pytest.approx(weights @ rest, rel=1e-6, abs=1e-12)
        # Nothing beats the leading eigenfunctions.
        assert remainder > best
    assert found["clean"] == [True, True]


def test_rates_are_those_of_theory():
    found = rate("process", 1, [12, 16, 24, 32], 200)
    assert fitted(found).slope == pytest.approx(theory("process", 1), abs=0.25)
    assert fitted(found | {"clean": [True, False, False, True]}) is None


def test_gap_of_a_gaussian_likelihood_is_below_its_bound():
    problem = small_problem("gaussian", "process", 40)
    gaps = []
    for size in (4, 8):
        posterior = ko.infer(
            jax.random.key(0), problem.prior, problem.likelihood, problem.x, problem.y, num_inducing=size
        )
        gap = full_gap(problem, np.asarray(posterior.basis.whitened_mean(problem.x)))
        assert 0 < gap <= posterior.certificate().full_bound
        gaps.append(gap)
    assert gaps[0] > gaps[1]


@pytest.fixture(scope="module")
def gaussian_run():
    problem = small_problem("gaussian", "process", 12)
    return problem, long_run(
        jax.random.key(3), problem.prior, problem.likelihood, problem.x, problem.y, num_draws=1500, num_warmup=400
    )


def _closed_form(problem, x_new):
    r, across = np.asarray(problem.prior.covariance(problem.x)), np.asarray(problem.prior.covariance(x_new, problem.x))
    noisy = r + float(problem.likelihood.noise) ** 2 * np.eye(len(r))
    mean = across @ np.linalg.solve(noisy, problem.y)
    return mean, np.asarray(problem.prior.covariance(x_new)) - across @ np.linalg.solve(noisy, across.T)


def _p_value(draws, mean, covariance):
    """Of the mean and of the variance along every axis of the covariance, Bonferroni over both and all axes."""
    values, vectors = np.linalg.eigh(covariance)
    white = (draws - mean) @ vectors / np.sqrt(values)
    count, size = white.shape
    p_mean = scipy.stats.chi2.sf(count * np.sum(white.mean(axis=0) ** 2), size)
    spread = np.sum((white - white.mean(axis=0)) ** 2, axis=0)
    tails = np.minimum(scipy.stats.chi2.cdf(spread, count - 1), scipy.stats.chi2.sf(spread, count - 1))
    return min(1.0, (size + 1) * min(float(p_mean), 2.0 * float(tails.min())))


def test_long_run_has_the_distribution_of_the_closed_form(gaussian_run):
    problem, run = gaussian_run
    x_new = np.array([[-2.5], [-1.0], [0.3], [1.7], [3.5]])
    mean, covariance = _closed_form(problem, x_new)
    assert run.divergences == 0
    assert run.r_hat < 1.01
    # Neighbours in a chain are not independent; the draws come in random order, so take no more than there are.
    draws = run.values(jax.random.key(4), x_new)[: int(min(run.ess, len(run.whitened)) / 3)]
    assert len(draws) > 1000
    assert _p_value(draws, mean, covariance) > 1e-3
    # The test can tell: 15 % of a deviation and of the scale are both seen.
    deviations = np.sqrt(np.diag(covariance))
    assert _p_value(draws + 0.15 * deviations, mean, covariance) < 1e-3
    assert _p_value(mean + 1.15 * (draws - mean), mean, covariance) < 1e-3


def test_latent_distribution_of_a_long_run(gaussian_run):
    problem, run = gaussian_run
    x_new = np.array([[-1.0], [4.5]])
    mean, covariance = _closed_form(problem, x_new)
    means, deviation = run.latent(x_new)
    error = 5.0 * np.sqrt(np.diag(covariance) / min(run.ess, len(means)))
    assert np.all(np.abs(means.mean(axis=0) - mean) < error)
    np.testing.assert_allclose(means.var(axis=0) + deviation**2, np.diag(covariance), rtol=0.15)


def test_scores_are_the_log_density_of_the_mixture():
    problem = small_problem("poisson", "process", 30, num_test=10)
    posterior = ko.infer(jax.random.key(0), problem.prior, problem.likelihood, problem.x, problem.y, num_inducing=8)
    prediction = posterior.predict(problem.x_test)
    found = scores(problem, np.asarray(prediction.component_means), np.asarray(prediction.component_deviation))
    expected = posterior.log_predictive_density(problem.x_test, problem.y_test)
    np.testing.assert_allclose(found.log_density, expected, rtol=1e-6)
    assert 0 < found.monte_carlo < 0.1


def test_arrival_counts_only_where_the_curve_stays_low():
    points = [{"seconds": s, "distance": d} for s, d in ((1.0, 0.1), (2.0, 0.5), (3.0, 0.2), (4.0, 0.1))]
    assert seconds_to_reach(points, 0.2) == 3.0
    assert seconds_to_reach(points, 0.05) is None


@pytest.mark.slow
def test_a_cell_of_optimal_goes_through_to_the_page():
    found = {"poisson-0": as_json(both_potentials("poisson", 0, [3], num_rows=25, num_particles=100))}
    (entry,) = entries(found)
    assert entry.nats > 0
    assert entry.projected > entry.floor > 0
    # With three points for 25 counts the full posterior predicts better.
    assert entry.to_full > 0


@pytest.mark.slow
def test_a_cell_of_convergence_goes_through_to_the_page():
    cell = as_json(divergence("bernoulli", "element", num_rows=30, sizes=[3, 6], num_particles=200))
    first, second = cell["rows"]
    assert first["divergence"] > second["divergence"] > 0
    assert all(row["divergence"] < row["curvature"] < row["theorem"] for row in cell["rows"])
    assert "the least bound holds for every M" in convergence.EXPERIMENT.table({"divergence-element-bernoulli": cell})
