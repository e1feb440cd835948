"""Class probabilities: E softmax(f) of normal f, against other ways to compute it."""

from __future__ import annotations

import time

import jax
import numpy as np
import pytest
import scipy.special
import scipy.stats

import kosambi as ko
from kosambi.likelihoods.quadrature import numbered_rule
from kosambi.likelihoods.softmax import expected_softmax
from kosambi.posterior import Prediction
from tests.cases import cases

lk = ko.likelihoods


def probabilities(means, deviation):
    """Of one component per input, by the public way."""
    means = np.asarray(means, dtype=float)
    return np.asarray(
        Prediction(lk.Categorical(means.shape[1]), means[None], deviation, np.ones(len(means))).probability
    )


def several_means(number, rng):
    """Near each other, apart, and far apart."""
    return rng.normal(size=(6, number)) * np.repeat([0.3, 2.0, 8.0], 2)[:, None]


@pytest.mark.parametrize("deviation", [0.0, 0.05, 0.4, 1.0, 3.0, 10.0])
def test_three_classes_against_a_grid(deviation, rng):
    """The two differences to the first class are normal with correlation one half: a fine grid in the plane."""
    means = several_means(3, rng)
    found = probabilities(means, np.full(6, deviation))
    z = np.linspace(-8.0, 8.0, 801)
    weights = scipy.stats.norm.pdf(z) * (z[1] - z[0])
    # An orthonormal basis of the differences; a common shift changes nothing.
    basis = np.linalg.svd(np.ones((1, 3)))[2][1:]
    for mean, row in zip(means, found, strict=True):
        f = mean + deviation * (z[:, None, None] * basis[0] + z[None, :, None] * basis[1])
        expected = np.einsum("i,j,ijc->c", weights, weights, scipy.special.softmax(f, axis=-1))
        np.testing.assert_allclose(row, expected, atol=1e-5)


def by_fine_grid(mean, deviation):
    """P(V_c is the largest) for V_c = mean_c + deviation ξ + a Gumbel variable, on a grid of V."""
    z = np.linspace(-8.5, 8.5, 601)
    weights = scipy.stats.norm.pdf(z) * (z[1] - z[0])
    v = np.linspace(mean.max() - 8.0 * deviation - 8.0, mean.max() + 9.0 * deviation + 30.0, 1501)
    exponent = np.exp(np.minimum(deviation * z - (v[:, None, None] - mean[:, None]), 700.0))
    below = np.exp(-exponent) @ weights
    density = (exponent * np.exp(-exponent)) @ weights
    others = np.stack([np.prod(np.delete(below, c, axis=1), axis=1) for c in range(len(mean))], axis=1)
    return np.sum(density * others, axis=0) * (v[1] - v[0])


@pytest.mark.parametrize(("number", "deviation"), cases([5, 10], [0.1, 1.0, 10.0], slow=["5-0.1", "5-10.0", "10-0.1"]))
def test_many_classes_against_a_grid(number, deviation, rng):
    means = several_means(number, rng)
    found = probabilities(means, np.full(6, deviation))
    for n in (0, 5):
        np.testing.assert_allclose(found[n], by_fine_grid(means[n], deviation), atol=1e-5)


@pytest.mark.parametrize(("number", "deviation"), cases([3, 10], [1.0, 3.0], quick=["10-1.0"]))
def test_many_classes_against_randomised_quasi_monte_carlo(number, deviation, rng):
    """Another formula: the expectation itself, and its standard error over scramblings."""
    means = several_means(number, rng)
    found = probabilities(means, np.full(6, deviation))
    each = []
    for seed in range(8):
        z = scipy.stats.norm.ppf(scipy.stats.qmc.Sobol(number, seed=seed).random_base2(15))
        each.append([scipy.special.softmax(mean + deviation * z, axis=1).mean(axis=0) for mean in means])
    expected, error = np.mean(each, axis=0), np.std(each, axis=0) / np.sqrt(7)
    assert np.max(error) < 1e-4
    # A t distribution of seven degrees of freedom exceeds ten with a probability of 2e-5.
    assert np.all(np.abs(found - expected) < 10.0 * error + 2e-6)
    assert np.max(np.abs(found - expected)) < 3e-4


def test_two_classes_are_bernoulli_with_the_difference(rng):
    """Also probabilities far out keep their digits: logarithms agree."""
    means = np.array([[0.0, 0.3], [2.0, -3.0], [-20.0, 1.0], [35.0, 0.0]])
    for deviation in (0.0, 0.2, 1.5, 4.0):
        sd = np.full(4, deviation)
        categorical = Prediction(lk.Categorical(2), means[None], sd, np.ones(4))
        bernoulli = Prediction(lk.Bernoulli(), (means[:, 1] - means[:, 0])[None], np.sqrt(2.0) * sd, np.ones(4))
        np.testing.assert_allclose(categorical.probability[:, 1], bernoulli.probability, atol=2e-6)
        for label in (0.0, 1.0):
            y = np.full(4, label)
            np.testing.assert_allclose(categorical.log_density(y), bernoulli.log_density(y), atol=2e-4, rtol=1e-4)


def test_identities(rng):
    means, deviation = several_means(5, rng), np.linspace(0.0, 4.0, 6)
    found = probabilities(means, deviation)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(probabilities(means + 700.0, deviation), found, atol=1e-9)
    order = np.array([3, 0, 4, 2, 1])
    np.testing.assert_allclose(probabilities(means[:, order], deviation), found[:, order], atol=1e-12)
    np.testing.assert_allclose(probabilities(means, np.zeros(6)), scipy.special.softmax(means, axis=1), atol=1e-12)
    np.testing.assert_allclose(probabilities(np.zeros((1, 5)), np.array([7.0])), 0.2, rtol=1e-9)


def test_an_input_does_not_depend_on_the_others(rng):
    """Neither on how many there are, which are taken in blocks, nor on their deviations."""
    means, deviation = rng.normal(size=(20, 150, 3)), np.exp(rng.uniform(-4.0, 0.5, 150))
    whole = Prediction(lk.Categorical(3), means, deviation, np.ones(150)).probability
    for point in (0, 70, 149):
        alone = Prediction(lk.Categorical(3), means[:, [point]], deviation[[point]], np.ones(1)).probability
        np.testing.assert_allclose(whole[point], alone[0], rtol=1e-11)


def test_deviations_broadcast(rng):
    mean, rule = rng.normal(size=(4, 5, 3)), numbered_rule(3)
    with jax.enable_x64(True):
        compute = jax.jit(expected_softmax)
        full = compute(mean, np.full((4, 5), 0.6), rule)
        for deviation in (np.asarray(0.6), np.full(5, 0.6), np.full((4, 1), 0.6)):
            np.testing.assert_allclose(compute(mean, deviation, rule), full, rtol=1e-12)


# Slow ones are compiled with optimisation, which this is about.
@pytest.mark.slow
def test_it_is_quick():
    """In processor time, after compiling: below a millisecond for one input and 100 functions of three classes."""
    generator = np.random.default_rng(0)
    means, deviation = generator.normal(size=(100, 512, 3)), np.exp(generator.uniform(-4.0, 1.2, 512))
    for _ in range(2):
        start = time.process_time()
        table = Prediction(lk.Categorical(3), means, deviation, np.ones(512)).probability
        seconds = time.process_time() - start
    assert table.shape == (512, 3)
    assert seconds < 512 * 1e-3
