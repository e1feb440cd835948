"""Several outputs against dense NumPy: means, joint covariances, evidence and its gradient, with missing cells."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy import stats

import kosambi as ko
from kosambi.learning.exact import ExactEvaluator
from kosambi.learning.layout import Model, lay_out
from kosambi.learning.rows import gathered

k = ko.kernels
RNG = np.random.default_rng(5)
X, NEW = RNG.normal(size=(14, 2)), RNG.normal(size=(4, 2))
Y = np.column_stack([np.sin(X[:, 0]), np.cos(X[:, 1])]) + 0.1 * RNG.normal(size=(14, 2))
Y[[0, 3, 7], 0] = np.nan
Y[[1, 7], 1] = np.nan
NOISE, LEVELS = np.array([0.1, 0.3]), np.array([0.2, -0.5])
LOADINGS, OWN = np.array([[0.9, 0.1], [-0.7, 0.4]]), np.array([0.2, 0.3])
KERNEL = k.Coregionalization(LOADINGS, OWN) * k.Matern52([1.0, 1.5], active_dims=[0, 1]) + k.Coregionalization(
    [[0.5], [0.3]]
) * k.SquaredExponential(0.8, active_dims=[0, 1])
PRIOR = ko.GaussianProcess(KERNEL, mean=ko.priors.OutputMean(LEVELS))


def covariance(x, p, z, q):
    """Cov(f_p(x), f_q(z)) from the definition."""
    distance = np.sqrt(5.0 * np.sum(np.square((x - z) / [1.0, 1.5])))
    matern = (1.0 + distance + distance**2 / 3.0) * np.exp(-distance)
    smooth = np.exp(-0.5 * np.sum(np.square(x - z)) / 0.64)
    return (LOADINGS[p] @ LOADINGS[q] + OWN[p] * (p == q)) * matern + [0.5, 0.3][p] * [0.5, 0.3][q] * smooth


CELLS = [(n, p) for n in range(14) for p in range(2) if not np.isnan(Y[n, p])]
OBSERVED = np.array([Y[cell] - LEVELS[cell[1]] for cell in CELLS])
GRAM = np.array([[covariance(X[n], p, X[m], q) for m, q in CELLS] for n, p in CELLS])
GRAM += np.diag([NOISE[p] ** 2 for _, p in CELLS])


def dense(row):
    """Mean and covariance of f at one input."""
    cross = np.array([[covariance(row, p, X[m], q) for m, q in CELLS] for p in range(2)])
    own = np.array([[covariance(row, p, row, q) for q in range(2)] for p in range(2)])
    return LEVELS + cross @ np.linalg.solve(GRAM, OBSERVED), own - cross @ np.linalg.solve(GRAM, cross.T)


@pytest.fixture(scope="module")
def posterior():
    key, gaussian = jax.random.key(0), ko.likelihoods.Gaussian(NOISE)
    return ko.infer(key, PRIOR, gaussian, X, Y, num_inducing="all", num_particles=600)


@pytest.fixture(scope="module")
def joint(posterior):
    return ko.outputs.predict(posterior, NEW)


def test_means_and_joint_covariances_are_those_of_one_dense_matrix(joint):
    for i, row in enumerate(NEW):
        mean, latent = dense(row)
        np.testing.assert_allclose(joint.mean[i], mean, rtol=0, atol=1e-8)
        np.testing.assert_allclose(joint.latent_covariance[i], latent, rtol=0, atol=1e-8)
        np.testing.assert_allclose(joint.covariance[i], latent + np.diag(NOISE**2), rtol=0, atol=1e-8)


def test_the_process_without_coordinates_says_the_same(posterior, joint):
    rows = posterior.target
    exact = ko.infer(jax.random.key(0), PRIOR, rows.likelihood, rows.x, rows.y, num_inducing=0, num_neighbors=99)
    found = ko.outputs.predict(exact, NEW)
    np.testing.assert_allclose(found.mean, joint.mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(found.latent_covariance, joint.latent_covariance, rtol=0, atol=1e-8)


def test_the_evidence_is_that_of_the_cells(posterior):
    expected = stats.multivariate_normal(np.zeros(len(GRAM)), GRAM).logpdf(OBSERVED)
    assert abs(float(posterior.log_evidence) - expected) < 1e-8
    assert posterior.certificate().full_bound < 1e-6


def test_joint_log_density_uses_the_correlation_and_integrates_missing_cells_out(joint):
    y = RNG.normal(size=(4, 2))
    y[1, 0] = y[2, 1] = y[3, 0] = y[3, 1] = np.nan
    mean, cov = joint.mean, joint.covariance
    expected = [
        stats.multivariate_normal(mean[0], cov[0]).logpdf(y[0]),
        stats.norm(mean[1, 1], np.sqrt(cov[1, 1, 1])).logpdf(y[1, 1]),
        stats.norm(mean[2, 0], np.sqrt(cov[2, 0, 0])).logpdf(y[2, 0]),
        0.0,
    ]
    np.testing.assert_allclose(joint.log_density(y), expected, rtol=0, atol=1e-9)


def test_intervals_and_quantiles_are_those_of_each_output(joint):
    lower, upper = joint.interval(0.9)
    sd = joint.standard_deviation
    np.testing.assert_allclose(upper, joint.mean + stats.norm.ppf(0.95) * sd, rtol=1e-7)
    np.testing.assert_allclose(joint.quantile([0.05, 0.5])[0], lower, rtol=1e-7)


def test_units_move_everything_together(joint):
    location, scale = np.array([5.0, -2.0]), np.array([3.0, 0.5])
    moved, y = joint.in_units(location, scale), RNG.normal(size=(4, 2))
    np.testing.assert_allclose(moved.mean, location + scale * joint.mean, rtol=1e-12)
    np.testing.assert_allclose(moved.covariance, joint.covariance * np.outer(scale, scale), rtol=1e-12)
    np.testing.assert_allclose(
        moved.log_density(location + scale * y), joint.log_density(y) - np.log(scale).sum(), rtol=1e-10
    )
    np.testing.assert_allclose(moved.interval()[0], location + scale * joint.interval()[0], rtol=1e-6)


def test_a_mixture_over_draws_of_the_coordinates_has_the_moments_of_the_closed_form(posterior, joint):
    held = posterior.particles
    drawn = ko.samplers.Particles(held.coordinates, held.whitened, None)
    mixed = ko.outputs.predict(ko.Posterior(posterior.target, drawn), NEW)
    assert mixed.component_means.shape == (600, 4, 2)
    spread = np.sqrt(np.einsum("npp->np", joint.latent_covariance) / 600)
    assert np.all(np.abs(mixed.mean - joint.mean) < 5.0 * spread)
    np.testing.assert_allclose(mixed.latent_covariance, joint.latent_covariance, rtol=0.2, atol=0.01)
    y = np.asarray(joint.mean)
    assert np.max(np.abs(mixed.log_density(y) - joint.log_density(y))) < 0.1


@pytest.mark.slow
def test_functions_of_the_posterior_have_the_joint_covariance(posterior, joint):
    cells = ko.outputs.every_cell(NEW, 2)
    values = np.asarray(posterior.functions(jax.random.key(1))(cells)).reshape(600, 4, 2)
    for i in range(4):
        assert _fits(values[:, i], joint.mean[i], joint.latent_covariance[i])
        wrong = np.array(joint.latent_covariance[i])
        scale = np.sqrt(wrong[0, 0] * wrong[1, 1])
        wrong[0, 1] = wrong[1, 0] = (-0.6 if wrong[0, 1] > 0 else 0.6) * scale
        assert not _fits(values[:, i], joint.mean[i], wrong)


def _fits(values, mean, cov):
    """At level 1e-4, of the sum and the difference in units of their deviations."""
    unit = np.sqrt(np.diag(cov))
    for direction in (1.0 / unit, np.array([1.0, -1.0]) / unit):
        law = stats.norm(direction @ mean, np.sqrt(direction @ cov @ direction))
        if stats.kstest(values @ direction, law.cdf).pvalue < 1e-4:
            return False
    return True


def test_the_gradient_of_the_evidence_is_that_of_finite_differences():
    cells = ko.outputs.stack(X, Y)
    gaussian = ko.likelihoods.Gaussian(NOISE, groups=cells.output)
    model = Model(KERNEL, PRIOR.mean, gaussian)
    layout = lay_out(model)
    blocks = gathered([np.arange(len(cells.y))], cells.x, cells.y, None, gaussian)
    with jax.enable_x64(True):
        evaluator = ExactEvaluator(layout, model, PRIOR, blocks)
        vector = layout.vector(model)
        value, gradient = evaluator(vector)
        assert abs(value + stats.multivariate_normal(np.zeros(len(GRAM)), GRAM).logpdf(OBSERVED)) < 1e-8
        for i in range(layout.size):
            step = 1e-5 * (np.arange(layout.size) == i)
            numeric = (evaluator(vector + step)[0] - evaluator(vector - step)[0]) / 2e-5
            np.testing.assert_allclose(gradient[i], numeric, rtol=1e-5, atol=1e-6)
    names = {group[0].name for group in layout.groups}
    assert {"kernel.0.0.loadings", "kernel.0.0.own_variance", "mean.values", "likelihood.noise"} <= names
