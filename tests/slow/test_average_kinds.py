"""Averages over hyperparameters for both priors, both potentials, several latent functions, and weights."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import scipy.stats

import kosambi as ko

pytestmark = pytest.mark.slow
X = np.linspace(0.0, 4.0, 30)[:, None]
Y = np.sin(2.0 * X[:, 0]) + 0.2 * np.random.default_rng(0).normal(size=30)
NEW = np.array([[0.3], [2.2], [3.3]])


def random_element(model):
    """Mean and deviation of observations, with r(x, x') = mean over s of k(x, s) k(s, x') written out."""
    prior, likelihood = model
    kernel = prior.kernel
    support = np.asarray(prior.measure.points)
    weights = np.asarray(prior.measure.weights)

    def covariance(a, b):
        return (np.asarray(kernel(a, support)) * weights) @ np.asarray(kernel(support, b))

    gram = covariance(X, X) + float(likelihood.noise) ** 2 * np.eye(len(X))
    cross = covariance(NEW, X)
    variance = np.diag(covariance(NEW, NEW)) - np.sum(cross * np.linalg.solve(gram, cross.T).T, axis=1)
    return cross @ np.linalg.solve(gram, Y), np.sqrt(variance + float(likelihood.noise) ** 2)


def test_a_random_element_is_averaged_over_end_to_end(tmp_path):
    prior = ko.GaussianRandomElement(ko.kernels.SquaredExponential(0.5), ko.measures.empirical(X))
    draws = ko.fit_hyperparameters(jax.random.key(0), prior, ko.likelihoods.Gaussian(0.3), X, Y, num_draws=6)[2].draws
    assert all(isinstance(each, ko.GaussianRandomElement) for each in draws.priors)
    averaged = ko.average(jax.random.key(1), draws, X, Y, num_particles=600, num_inducing="all")
    models = list(zip(draws.priors, draws.likelihoods, strict=True))
    mean, deviation = np.array([random_element(model) for model in models]).swapaxes(0, 1)
    y = np.array([0.5, -0.5, 0.2])
    density = np.log(np.mean(scipy.stats.norm.pdf(y, mean, deviation), axis=0))
    prediction = averaged.predict(NEW)
    np.testing.assert_allclose(prediction.observation_mean, mean.mean(axis=0), atol=1e-3)
    np.testing.assert_allclose(prediction.log_density(y), density, atol=5e-3)
    # Those of the most probable hyperparameters are others.
    alone = np.log(scipy.stats.norm.pdf(y, *random_element(draws.point)))
    assert np.max(np.abs(alone - density)) > 0.02
    functions = averaged.functions(jax.random.key(2))(NEW)
    error = np.std(functions, axis=0) / np.sqrt(len(functions))
    assert np.all(np.abs(np.mean(functions, axis=0) - prediction.mean) < 4.0 * error)
    averaged.save(tmp_path / "average.kosambi")
    loaded = ko.load(tmp_path / "average.kosambi")
    np.testing.assert_array_equal(loaded.predict(NEW).mean, prediction.mean)


@pytest.mark.parametrize("potential", ["projected", "optimal"])
def test_either_potential_is_that_of_every_model(potential):
    draws = ko.fit_hyperparameters(
        jax.random.key(0), ko.kernels.Matern52(), ko.likelihoods.StudentT(4.0, 0.2), X, Y, num_draws=3
    )[2].draws
    averaged = ko.average(jax.random.key(1), draws, X, Y, num_particles=300, num_inducing=8, potential=potential)
    assert {part.target.kind for part in (averaged.point, *averaged.components)} == {potential}
    parts = [part.predict(NEW).mean for part in averaged.components]
    np.testing.assert_allclose(averaged.predict(NEW).mean, np.mean(parts, axis=0), atol=1e-12)


@pytest.mark.parametrize("name", ["categorical", "heteroscedastic"])
def test_several_latent_functions(name):
    if name == "categorical":
        likelihood, y = ko.likelihoods.Categorical(3), np.digitize(Y, [-0.4, 0.4]).astype(float)
    else:
        likelihood, y = ko.likelihoods.HeteroscedasticGaussian(), Y
    draws = ko.fit_hyperparameters(jax.random.key(0), ko.kernels.Matern52(), likelihood, X, y, num_draws=3)[2].draws
    averaged = ko.average(jax.random.key(1), draws, X, y, num_particles=60, num_inducing=8)
    latents = likelihood.num_latents
    assert averaged.functions(jax.random.key(2))(NEW).shape == (60, len(NEW), latents)
    each = [part.predict(NEW).log_density(y[[2, 15, 25]]) for part in averaged.components]
    mixed = np.log(np.mean(np.exp(each), axis=0))
    np.testing.assert_allclose(averaged.predict(NEW).log_density(y[[2, 15, 25]]), mixed, rtol=1e-9)


def test_weights_are_those_of_every_model():
    weights = np.where(np.arange(len(Y)) % 3 == 0, 2.0, 1.0)
    twice = np.repeat(np.arange(len(Y)), weights.astype(int))
    draws = ko.fit_hyperparameters(
        jax.random.key(0), ko.kernels.Matern52(), ko.likelihoods.Gaussian(0.3), X, Y, weights=weights, num_draws=4
    )[2].draws
    weighted = ko.average(jax.random.key(1), draws, X, Y, weights=weights).predict(NEW)
    repeated = ko.average(jax.random.key(1), draws, X[twice], Y[twice]).predict(NEW)
    np.testing.assert_allclose(weighted.mean, repeated.mean, atol=1e-6)
    np.testing.assert_allclose(weighted.variance, repeated.variance, rtol=1e-5)
