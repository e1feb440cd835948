"""Counts with too many zeros: formulas, and the way from data to predictions."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import scipy.stats

import kosambi as ko
from kosambi.errors import InputError
from kosambi.posterior import Prediction

lk = ko.likelihoods
MODEL = lk.ZeroInflatedPoisson(0.3)


def counts(size, probability=0.25, seed=0):
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-3.0, 3.0, size))[:, None]
    rate = np.exp(1.2 + np.sin(2.0 * x[:, 0]))
    return x, rng.poisson(rate) * (rng.uniform(size=size) > probability).astype(float), rate


def test_a_zero_is_not_convex_in_f_and_other_counts_are():
    f = np.linspace(-6.0, 6.0, 400)
    second = MODEL.second_derivative(np.zeros(400), f)
    assert second.min() < -0.1
    assert np.all(MODEL.curvature(np.zeros(400), f) == np.maximum(second, 0.0))
    assert np.all(MODEL.second_derivative(np.full(400, 2.0), f) > 0)
    # From certain to hopeless the cost of a zero rises by −log p.
    np.testing.assert_allclose(MODEL.cost([0.0, 0.0], [-50.0, 50.0]), [0.0, -np.log(0.3)], atol=1e-12)


@pytest.mark.parametrize("probability", [0.01, 0.3, 0.5, 0.8])
def test_the_strip_ends_at_the_nearest_singularity(probability):
    strip = lk.ZeroInflatedPoisson(probability).strip
    odd = np.pi * np.arange(1, 2001, 2)
    singular = np.log(np.log((1.0 - probability) / probability) + 1j * odd)
    np.testing.assert_allclose(probability + (1.0 - probability) * np.exp(-np.exp(singular[:3])), 0.0, atol=1e-12)
    assert strip <= np.abs(singular.imag).min() + 1e-12
    assert strip >= 0.99 * np.abs(singular.imag).min()


def test_distribution_given_f():
    f, y = np.array([-1.0, 0.5, 2.0]), np.arange(-1.0, 12.0)[:, None]
    expected = np.where(y < 0, 0.0, 0.3 + 0.7 * scipy.stats.poisson.cdf(y, np.exp(f)))
    np.testing.assert_allclose(MODEL.cdf(y, f), expected, rtol=1e-12)
    k = np.arange(200.0)[:, None]
    masses = np.where(k == 0, 0.3, 0.0) + 0.7 * scipy.stats.poisson.pmf(k, np.exp(f))
    mean = np.sum(k * masses, axis=0)
    np.testing.assert_allclose(MODEL.observation_mean(f), mean, rtol=1e-10)
    np.testing.assert_allclose(MODEL.observation_variance(f), np.sum((k - mean) ** 2 * masses, axis=0), rtol=1e-10)


def test_predictions_are_mixtures_of_a_zero_and_poisson():
    means, deviation = np.array([[0.2, 1.0, 6.0]]), np.array([0.1, 1.5, 0.8])
    own, plain = (Prediction(model, means, deviation, np.ones(3)) for model in (MODEL, lk.Poisson()))
    for y in (np.zeros(3), np.array([1.0, 5.0, 2000.0])):
        mixed = np.log(0.3 * (y == 0) + 0.7 * np.exp(plain.log_density(y)))
        np.testing.assert_allclose(own.log_density(y), mixed, rtol=1e-10)
        below = 0.3 + 0.7 * lk.Poisson().mixture_cdf(y, means, deviation)
        np.testing.assert_allclose(MODEL.mixture_cdf(y, means, deviation), below, rtol=1e-12)
    assert own.quantile(0.25).tolist() == [0.0, 0.0, 0.0]
    np.testing.assert_allclose(own.observation_mean, 0.7 * plain.observation_mean, rtol=1e-10)


def test_a_small_probability_is_poisson():
    rare, f = lk.ZeroInflatedPoisson(1e-12), np.linspace(-2.0, 1.8, 9)
    for y in (0.0, 4.0):
        np.testing.assert_allclose(rare.cost(np.full(9, y), f), lk.Poisson().cost(np.full(9, y), f), rtol=1e-6)


@pytest.mark.parametrize("probability", [0.0, 1.0, 1.3, -0.2])
def test_a_probability_is_between_zero_and_one(probability):
    with pytest.raises(InputError, match=r"ZeroInflatedPoisson\(probability"):
        lk.ZeroInflatedPoisson(probability)


@pytest.mark.slow
def test_from_data_to_predictions_and_back_from_a_file(tmp_path):
    x, y, rate = counts(60)
    model = ko.ProjectedLangevinRegressor(
        "zero_inflated_poisson", n_inducing=8, n_samples=40, hyperparameters=None, progress=False
    ).fit(x, y)
    assert isinstance(model.posterior_.likelihood, lk.ZeroInflatedPoisson)
    assert np.corrcoef(model.predict(x), rate)[0, 1] > 0.7
    lower, upper = model.predict_interval(x, 0.9)
    assert np.all(lower == 0)
    assert 0.8 < np.mean(y <= upper) <= 1.0
    ko.save(model, tmp_path / "model.kosambi")
    np.testing.assert_array_equal(ko.load(tmp_path / "model.kosambi").predict(x), model.predict(x))


@pytest.mark.slow
def test_the_probability_is_learned():
    x, y, _ = counts(300)
    prior = ko.GaussianProcess(ko.kernels.Matern52(), mean=1.0)
    _, likelihood, report = ko.fit_hyperparameters(jax.random.key(0), prior, MODEL, x, y, num_inducing=20)
    assert report.converged
    assert 0.18 < float(likelihood.probability) < 0.33
