"""Laws of prior draws: joint covariance at 20 points with 20,000 draws, each test with a wrong law that it rejects."""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest
import scipy.stats

import kosambi as ko
from tests.cases import cases
from tests.laws import joint_normal_p_value

LEVEL = 1e-3
NUM_DRAWS = 20_000
X = np.linspace(-2.5, 2.5, 20)[:, None]
DATA = np.random.default_rng(4).uniform(-3.0, 3.0, (40, 1))
k = ko.kernels

GAUSSIAN_PROCESSES = {
    "SquaredExponential": k.SquaredExponential(0.3, 1.7),
    "Matern12": k.Matern12(0.5, 1.7),
    "Matern32": k.Matern32(0.5, 1.7),
    "Matern52": k.Matern52(0.4, 1.7),
    "RationalQuadratic": k.RationalQuadratic(0.3, 1.7, alpha=0.8),
    "Sum of a product": k.Matern12(0.4) * k.Periodic(0.5, period=1.3) * 1.2 + k.Linear(0.5) * k.Matern12(0.6) + 0.3,
}


@functools.cache
def featured(name):
    # Smooth kernels are the harder ones: more combinations of 20 values nearly cancel.
    num_features = 256 if name == "SquaredExponential" else 64
    prior = ko.GaussianProcess(GAUSSIAN_PROCESSES[name], mean=0.7)
    return prior.draw(jax.random.key(11), NUM_DRAWS, num_features=num_features)(X)


@pytest.mark.parametrize("name", cases(GAUSSIAN_PROCESSES, quick=["Matern52"]))
def test_random_features_have_the_joint_law_of_the_kernel(name):
    draws, covariance = featured(name), GAUSSIAN_PROCESSES[name](X)
    assert joint_normal_p_value(draws, covariance, mean=0.7) > LEVEL
    assert joint_normal_p_value(draws, 1.05 * covariance, mean=0.7) < LEVEL
    assert joint_normal_p_value(draws, covariance, mean=0.75) < LEVEL


def test_the_joint_test_rejects_a_lengthscale_wrong_by_five_percent():
    assert joint_normal_p_value(featured("Matern52"), k.Matern52(0.42, 1.7)(X), mean=0.7) < LEVEL


@pytest.mark.parametrize("num_features", cases([64, 1024], slow=["1024"]))
def test_shared_frequencies_fail_the_joint_test(num_features):
    kernel = k.SquaredExponential(0.3)
    prior = ko.GaussianProcess(kernel)
    draws = prior.draw(jax.random.key(13), NUM_DRAWS, num_features=num_features, shared_features=True)(X)
    assert joint_normal_p_value(draws, kernel(X)) < LEVEL


@pytest.mark.parametrize(
    "kernel",
    [k.SquaredExponential(0.5, 2.0), pytest.param(k.Periodic(0.7, 1.5, period=2.0), marks=pytest.mark.slow)],
    ids=["SE", "P"],
)
def test_the_stated_error_of_shared_frequencies(kernel):
    """Over many lists of frequencies, k̂(x, z) scatters around k(x, z) with the standard deviation that is stated."""
    prior, x, z, num_features, repeats = ko.GaussianProcess(kernel), X[:1], X[:8], 20, 4000
    (fourier,) = prior.draw(jax.random.key(14), repeats, num_features=num_features).parts
    angles = np.einsum("jrd,nd->jnr", fourier.frequencies, x[0] - z)
    estimates = kernel.variance * np.cos(angles).mean(axis=2)
    stated = prior.shared_feature_error(x, z, num_features)[0]
    assert stated[0] == 0.0
    np.testing.assert_allclose(estimates.mean(axis=0), kernel(x, z)[0], atol=5 * stated.max() / np.sqrt(repeats))
    # The sample standard deviation of 4,000 nearly normal values is good to 1.1 %; this allows 4.5 of these.
    np.testing.assert_allclose(estimates.std(axis=0)[1:], stated[1:], rtol=0.05)


def test_the_stated_fourth_moment_of_own_frequencies():
    """E F(x)²F(z)² exceeds its normal value by σ⁴(1 + ρ(2δ) − 2ρ(δ)²)/R; with R = 1 that is far from zero."""
    variance, lag, repeats = 1.3, 0.4, 400_000
    kernel = k.SquaredExponential(0.5, variance)
    x = np.array([[0.0], [lag]])
    draws = ko.GaussianProcess(kernel).draw(jax.random.key(15), repeats, num_features=1)(x)
    product = draws[:, 0] ** 2 * draws[:, 1] ** 2
    rho, rho2 = kernel(x)[0, 1] / variance, kernel(2 * x)[0, 1] / variance
    normal = variance**2 * (1 + 2 * rho**2)
    stated = normal + variance**2 * (1 + rho2 - 2 * rho**2)
    error = product.std() / np.sqrt(repeats)
    assert abs(product.mean() - stated) < 3.3 * error
    assert abs(product.mean() - normal) > 3.3 * error


def test_single_values_are_exactly_normal_with_few_features():
    draws = ko.GaussianProcess(k.Matern32(variance=2.0)).draw(jax.random.key(16), NUM_DRAWS, num_features=2)
    values = draws([[0.37]])[:, 0]
    assert scipy.stats.kstest(values, scipy.stats.norm(0.0, np.sqrt(2.0)).cdf).pvalue > LEVEL
    assert scipy.stats.kstest(values, scipy.stats.norm(0.0, 1.05 * np.sqrt(2.0)).cdf).pvalue < LEVEL


def test_random_element_draws_are_exact_sums():
    kernel = k.Matern12(0.7, 1.3)
    weights = np.random.default_rng(5).uniform(size=40)
    prior = ko.GaussianRandomElement(kernel, ko.measures.points(DATA, weights), mean=lambda x: x[:, 0])
    draws = prior.draw(jax.random.key(17), NUM_DRAWS)(X)
    p = weights / weights.sum()
    covariance = np.einsum("s,ns,ms->nm", p, kernel(X, DATA), kernel(X, DATA))
    assert joint_normal_p_value(draws, covariance, mean=X[:, 0]) > LEVEL
    assert joint_normal_p_value(draws, 1.05 * covariance, mean=X[:, 0]) < LEVEL
    equal = np.einsum("ns,ms->nm", kernel(X, DATA), kernel(X, DATA)) / 40
    assert joint_normal_p_value(draws, equal, mean=X[:, 0]) < LEVEL


@pytest.mark.parametrize("background", cases([False, True], slow=["True"]))
def test_random_element_with_a_normal_measure(background):
    kernel = k.SquaredExponential(0.8, 1.3)
    measure = ko.measures.gaussian([0.2], [[1.5]])
    if background:
        measure = ko.measures.mixture([ko.measures.empirical(DATA), measure], weights=[0.7, 0.3])
    prior = ko.GaussianRandomElement(kernel, measure)
    x = X[::3]
    draws = prior.draw(jax.random.key(18), NUM_DRAWS, num_features=128)(x)
    assert joint_normal_p_value(draws, prior.covariance(x)) > LEVEL
    assert joint_normal_p_value(draws, 1.05 * prior.covariance(x)) < LEVEL


def test_dense_draws_are_exact_where_asked():
    kernel = k.Matern12(0.5) * k.Matern12(0.8)
    draws = ko.GaussianProcess(kernel).draw(jax.random.key(19), NUM_DRAWS, at=X)
    assert joint_normal_p_value(draws(X), kernel(X)) > LEVEL
    assert joint_normal_p_value(draws(X), 1.05 * kernel(X)) < LEVEL


def test_draws_are_independent_of_each_other():
    prior = ko.GaussianProcess(k.Matern32(0.5))
    values = prior.draw(jax.random.key(20), NUM_DRAWS, num_features=16)(X[7:8])[:, 0]
    pairs = values.reshape(-1, 2)
    correlation = np.corrcoef(pairs.T)[0, 1]
    assert abs(correlation) < scipy.stats.norm.isf(LEVEL / 2) / np.sqrt(len(pairs))
    together = np.corrcoef((pairs**2).T)[0, 1]
    assert abs(together) < scipy.stats.norm.isf(LEVEL / 2) / np.sqrt(len(pairs))


def test_coordinates_of_prior_draws_have_the_covariance_of_the_basis():
    """Joint law of (u, G(x) − φᵀu): independent for Ritz and Point, with covariances Λ and the residual's."""
    kernel = k.Matern32(0.7, 1.3)
    prior = ko.GaussianRandomElement(kernel, ko.measures.empirical(DATA))
    x = np.array([[-1.3], [0.1], [2.2]])
    draws = prior.draw(jax.random.key(21), NUM_DRAWS)
    for basis in (ko.RitzBasis(prior, DATA[:5]), ko.PointBasis(prior, DATA[:5])):
        u = basis.coordinates(draws)
        rest = draws(x) - u @ basis.conditional_mean(x).T
        phi = basis.conditional_mean(x)
        residual = prior.covariance(x) - phi @ basis.covariance @ phi.T
        joint = np.block([[basis.covariance, np.zeros((5, 3))], [np.zeros((3, 5)), residual]])
        together = np.hstack([u, rest])
        assert joint_normal_p_value(together, joint) > LEVEL
        wrong = joint.copy()
        wrong[5:, 5:] *= 1.05
        assert joint_normal_p_value(together, wrong) < LEVEL
        np.testing.assert_allclose(basis.residual_variance(x), np.diag(residual), rtol=1e-9)
