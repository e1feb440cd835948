"""`Posterior.condition`: more rows in closed form against a fit of all of them, and by chains against quadrature."""

from __future__ import annotations

import pickle

import jax
import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

import kosambi as ko
from kosambi.target.least_squares import MANY

KEY, LATER = jax.random.key(0), jax.random.key(1)
RNG = np.random.default_rng(7)
X = RNG.uniform(-2.0, 2.0, (40, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * RNG.normal(size=40)
NEW = RNG.uniform(-2.5, 2.5, (9, 2))
FIRST, SECOND = slice(0, 25), slice(25, 40)
KERNEL = ko.kernels.Matern52(lengthscale=np.array([2.4, 3.0]), variance=1.5)
PRIOR = ko.GaussianProcess(KERNEL, mean=0.3)
GAUSSIAN = ko.likelihoods.Gaussian(0.2)
WEIGHTS = RNG.uniform(0.5, 2.0, 40)


def same(found, right, atol=1e-8):
    """Mean, covariance, and evidence of the coordinates, and predictions."""
    assert found.target.num_rows == right.target.num_rows
    one, other = found.particles.distribution, right.particles.distribution
    np.testing.assert_allclose(one.mean, other.mean, atol=atol)
    np.testing.assert_allclose(one.root @ one.root.T, other.root @ other.root.T, atol=atol)
    np.testing.assert_allclose(float(found.log_evidence), float(right.log_evidence), atol=atol)
    a, b = found.predict(NEW), right.predict(NEW)
    np.testing.assert_allclose(a.mean, b.mean, atol=atol)
    np.testing.assert_allclose(a.variance, b.variance, atol=atol)


@pytest.mark.parametrize("options", [{}, {"potential": "optimal"}, {"num_inducing": 12, "num_neighbors": 8}])
def test_gaussian_noise_equals_a_fit_of_all_rows(x64, options):
    early = ko.infer(KEY, PRIOR, GAUSSIAN, X[FIRST], Y[FIRST], weights=WEIGHTS[FIRST], **{"num_inducing": 25} | options)
    found = early.condition(LATER, X[SECOND], Y[SECOND], weights=WEIGHTS[SECOND])
    kept = {name: value for name, value in options.items() if name != "num_inducing"}
    kept = {"potential": early.target.kind} | kept if "num_neighbors" not in options else kept
    right = ko.infer(LATER, PRIOR, GAUSSIAN, X, Y, weights=WEIGHTS, basis=early.basis, **kept)
    same(found, right)
    # In two parts as in one.
    halves = early.condition(KEY, X[25:30], Y[25:30], weights=WEIGHTS[25:30])
    same(halves.condition(LATER, X[30:], Y[30:], weights=WEIGHTS[30:]), right)
    # Nothing that is asked of a posterior changes it, and what comes out is a posterior like others.
    assert early.target.num_rows == 25
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(found)).predict(NEW).mean, found.predict(NEW).mean)


def test_all_rows_stay_all_rows_and_equal_the_textbook_formula():
    early = ko.infer(KEY, PRIOR, GAUSSIAN, X[FIRST], Y[FIRST], num_inducing=0, num_neighbors=25)
    found = early.condition(LATER, X[SECOND], Y[SECOND])
    gram, cross = (np.asarray(PRIOR.covariance(at, X)) for at in (X, NEW))
    system = gram + 0.2**2 * np.eye(40)
    mean = 0.3 + cross @ np.linalg.solve(system, Y - 0.3)
    variance = 1.5 - np.einsum("ij,ji->i", cross, np.linalg.solve(system, cross.T))
    prediction = found.predict(NEW)
    np.testing.assert_allclose(prediction.mean, mean, atol=1e-8)
    np.testing.assert_allclose(prediction.variance, variance, atol=1e-8)
    right = stats.multivariate_normal(np.full(40, 0.3), system).logpdf(Y)
    np.testing.assert_allclose(float(found.log_evidence), right, atol=1e-8)


def test_noise_and_weights_that_came_late():
    noise = RNG.uniform(0.1, 0.4, 40)
    early = ko.infer(KEY, PRIOR, ko.likelihoods.Gaussian(noise[FIRST]), X[FIRST], Y[FIRST], num_inducing=25)
    found = early.condition(LATER, X[SECOND], Y[SECOND], noise=noise[SECOND], weights=WEIGHTS[SECOND])
    counts = np.concatenate([np.ones(25), WEIGHTS[SECOND]])
    right = ko.infer(LATER, PRIOR, ko.likelihoods.Gaussian(noise), X, Y, weights=counts, basis=early.basis)
    same(found, right)
    np.testing.assert_array_equal(found.likelihood.noise, noise)


@pytest.mark.slow
def test_many_coordinates_whose_rows_were_kept_as_they_are():
    """Above `MANY` coordinates a root of the data is not made smaller; more rows must go on from it."""
    x = RNG.uniform(-30.0, 30.0, (MANY + 30, 2))
    y = np.sin(x[:, 0])
    early = ko.infer(KEY, PRIOR, GAUSSIAN, x[:-15], y[:-15], num_inducing=MANY + 10)
    assert early.basis.size >= MANY
    with pytest.warns(ko.errors.TruncationWarning, match="at the 15 new rows open"):
        found = early.condition(LATER, x[-15:], y[-15:])
    same(found, ko.infer(LATER, PRIOR, GAUSSIAN, x, y, basis=early.basis))
    assert "new rows open" in found.report.warnings[0]


@pytest.mark.parametrize("potential", ["projected", "optimal"])
def test_a_stream_goes_on_without_its_rows(potential):
    options = {"num_inducing": "auto", "inducing_points": X[:12], "potential": potential}
    source = ko.sources.ArraySource(X[FIRST], Y[FIRST])
    early = ko.infer(KEY, PRIOR, GAUSSIAN, source, **options)
    found = early.condition(LATER, X[SECOND], Y[SECOND])
    right = ko.infer(LATER, PRIOR, GAUSSIAN, ko.sources.ArraySource(X, Y), **options)
    same(found, right)
    assert found.report.stream.num_rows == 40
    for name in ("residual_trace", "prior_trace", "largest_residual", "lowest", "highest", "squared_error"):
        np.testing.assert_allclose(getattr(found.target.stream, name), getattr(right.target.stream, name), rtol=1e-12)
    assert found.explained_variance == pytest.approx(right.explained_variance)


def test_an_average_equals_an_average_of_all_rows():
    priors = [ko.GaussianProcess(ko.kernels.Matern52(lengthscale=scale), mean=0.3) for scale in (0.8, 1.3)]
    early = ko.AveragedPosterior(*_components(priors, X[FIRST], Y[FIRST]))
    found = early.condition(LATER, X[SECOND], Y[SECOND])
    right = ko.AveragedPosterior(*_components(priors, X, Y))
    np.testing.assert_allclose(found.predict(NEW).mean, right.predict(NEW).mean, atol=1e-8)
    np.testing.assert_allclose(found.predict(NEW).variance, right.predict(NEW).variance, atol=1e-8)
    assert found.num_particles == early.num_particles


def test_an_average_says_when_its_hyperparameters_are_outdated():
    priors = [ko.GaussianProcess(ko.kernels.Matern52(lengthscale=scale)) for scale in (0.02, 1.3, 1.4)]
    early = ko.AveragedPosterior(*_components(priors, X[:2], Y[:2]))
    with pytest.warns(ko.errors.HyperparameterWarning, match=r"leave 1\.\d of 3 draws"):
        found = early.condition(LATER, X[2:], 3.0 * np.sign(X[2:, 0]))
    assert "Learn hyperparameters again" in found.report.warnings[-1]


def _components(priors, x, y):
    parts = [ko.infer(KEY, prior, GAUSSIAN, x, y, num_inducing=0, num_neighbors=len(x)) for prior in priors]
    return parts[0], tuple(parts)


# One coordinate, f = w·k(x, z)/√k(z, z), so that the posterior is an integral over a line.
LINE = np.array([[0.0], [0.3], [-0.4], [0.1], [0.2], [-0.1]])
LABELS = np.array([1.0, 1.0, 0.0, 1.0, 1.0, 1.0])


@pytest.fixture(scope="module")
def labelled():
    prior, options = ko.GaussianProcess(ko.kernels.Matern52(variance=2.0)), {"num_particles": 4000}
    basis = ko.PointBasis(prior, LINE[:1])
    options |= {"basis": basis, "potential": "projected"}
    early = ko.infer(KEY, prior, ko.likelihoods.Bernoulli(), LINE[:3], LABELS[:3], **options)
    return early, early.condition(LATER, LINE[3:], LABELS[3:])


def _distribution(posterior, count):
    """The cumulative distribution of w given the first `count` rows, by quadrature."""
    grid = np.linspace(-8.0, 8.0, 4001)
    psi = np.asarray(posterior.basis.whitened_mean(LINE[:count]))[:, 0]
    probability = expit(grid[:, None] * psi)
    density = np.exp(-0.5 * grid**2) * np.prod(np.where(LABELS[:count] > 0, probability, 1.0 - probability), axis=1)
    total = np.cumsum(density)
    return lambda w: np.interp(w, grid, total / total[-1])


@pytest.mark.slow
def test_labels_have_the_posterior_of_all_rows(labelled):
    early, found = labelled
    assert found.report.converged
    assert found.target.kind == "projected"
    w = np.asarray(found.particles.whitened)[:, 0]
    assert stats.kstest(w, _distribution(found, 6)).pvalue > 1e-3
    # The test tells the posterior of before, and that of all rows but one, from the right one.
    assert stats.kstest(np.asarray(early.particles.whitened)[:, 0], _distribution(found, 6)).pvalue < 1e-10
    assert stats.kstest(w, _distribution(found, 5)).pvalue < 1e-6


@pytest.mark.slow
def test_particles_that_new_rows_make_impossible_are_drawn_in():
    """A count of one after a prior of exp(10): every particle begins where V is astronomical."""
    prior = ko.GaussianProcess(ko.kernels.Matern52(variance=100.0))
    basis = ko.PointBasis(prior, LINE[:1])
    early = ko.infer(KEY, prior, ko.likelihoods.Poisson(), LINE[:1], [22000.0], basis=basis)
    found = early.condition(LATER, np.zeros((200, 1)), np.zeros(200))
    assert found.report.converged
    assert found.report.divergences == 0
    f = np.asarray(found.predict(np.zeros((1, 1))).mean)[0]
    # 201 counts with a sum of 22000, beside which the prior says nothing.
    assert f == pytest.approx(np.log(22000.0 / 201.0), abs=0.05)


@pytest.mark.slow
def test_two_modes_are_weighed_anew():
    """f and −f: new rows leave them equal, and chains that cannot pass between them would not know."""
    square = ko.likelihoods.Poisson("square")
    x, y = np.linspace(-1.0, 1.0, 12)[:, None], np.full(12, 9.0)
    early = ko.infer(KEY, ko.kernels.SquaredExponential(variance=4.0), square, x[::2], y[::2], num_inducing=2)
    found = early.condition(LATER, x[1::2], y[1::2])
    assert found.report.ladder is not None
    share = np.mean(np.asarray(found.predict(np.zeros((1, 1))).component_means) > 0)
    assert 0.3 < share < 0.7


def test_bad_input():
    early = ko.infer(KEY, PRIOR, GAUSSIAN, X[FIRST], Y[FIRST])
    for rows, message in (
        ((X[:3, :1], Y[:3]), "1 columns, but 2 are expected"),
        ((X[:3], Y[:2]), "`y` has 2 entries for 3 rows"),
        ((X[:3], [0.0, np.nan, 1.0]), "finite"),
    ):
        with pytest.raises(ko.errors.InputError, match=message):
            early.condition(LATER, *rows)
    with pytest.raises(ko.errors.InputError, match="one number per observation"):
        early.condition(LATER, X[:2], Y[:2], noise=[0.1, 0.1])
    own = ko.infer(KEY, PRIOR, ko.likelihoods.Gaussian(np.full(25, 0.1)), X[FIRST], Y[FIRST])
    with pytest.raises(ko.errors.InputError, match=r"Give `noise`, \(2,\)"):
        own.condition(LATER, X[:2], Y[:2])
    part = early.some(np.arange(50))
    part.mode_share = 0.5
    with pytest.raises(ko.errors.InputError, match="of one mode"):
        part.condition(LATER, X[:2], Y[:2])
    with pytest.raises(ko.errors.InputError, match="the same basis"):
        ko.sample(KEY, ko.Target(ko.PointBasis(PRIOR, X[:3]), GAUSSIAN, X, Y), initial=early.particles)
