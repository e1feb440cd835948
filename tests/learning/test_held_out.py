"""Scale and noise by rows that were kept out: the formula, what it repairs, weights."""

import numpy as np
import pytest
import scipy.stats

import kosambi as ko
from kosambi.learning.held_out import kept_out, last_word

RNG = np.random.default_rng(4)
X = RNG.uniform(-3.0, 3.0, (400, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] + 0.2 * RNG.normal(size=400)
PRIOR = ko.GaussianProcess(ko.kernels.Matern52([1.0, 2.0], 1.3), 0.1)
POINTS, HELD = X[::10], np.arange(5, 400, 10)


def predicted(prior, noise, weights):
    """Mean log density of the rows kept out by dense linear algebra: the deterministic training conditional."""
    used = np.setdiff1d(np.flatnonzero(weights), HELD)
    inner = prior.covariance(POINTS) + 1e-8 * np.mean(prior.variance(POINTS)) * np.eye(len(POINTS))
    cross, at = prior.covariance(POINTS, X[used]), prior.covariance(POINTS, X[HELD])
    explained = cross.T @ np.linalg.solve(inner, cross) + np.diag(noise**2 / weights[used])
    between = at.T @ np.linalg.solve(inner, cross)
    mean = 0.1 + between @ np.linalg.solve(explained, Y[used] - 0.1)
    variance = prior.variance(X[HELD]) - np.sum(between * np.linalg.solve(explained, between.T).T, axis=1) + noise**2
    return np.average(scipy.stats.norm.logpdf(Y[HELD], mean, np.sqrt(variance)), weights=weights[HELD])


@pytest.mark.parametrize("weights", [np.ones(400), np.resize([1.0, 2.0, 3.0], 400)], ids=["once", "weights"])
def test_the_score_is_that_of_dense_linear_algebra(weights):
    found = last_word(PRIOR, 0.5, X, Y, weights, POINTS, HELD)
    assert found.before == pytest.approx(predicted(PRIOR, 0.5, weights), abs=1e-6)
    scaled = ko.GaussianProcess(ko.kernels.Matern52([1.0, 2.0], 1.3 * found.scale), 0.1)
    assert found.score == pytest.approx(predicted(scaled, found.noise["noise"], weights), abs=1e-6)
    assert found.score > found.before
    for scale, noise in ((1.3, 1.0), (1.0 / 1.3, 1.0), (1.0, 1.2), (1.0, 1.0 / 1.2)):
        other = ko.GaussianProcess(ko.kernels.Matern52([1.0, 2.0], 1.3 * found.scale * scale), 0.1)
        assert predicted(other, found.noise["noise"] * noise, weights) < found.score + 1e-9


@pytest.mark.parametrize("noise", [0.002, 5.0])
def test_a_noise_that_is_far_off_is_repaired(noise):
    found = last_word(PRIOR, noise, X, Y, np.ones(400), POINTS, HELD)
    assert 0.6 < found.square < 1.5
    assert found.score > found.constant
    assert found.score > found.before + 0.5


def test_rows_kept_out_are_few():
    candidates = np.arange(0, 1000, 2)
    rows = kept_out(np.random.default_rng(0), candidates)
    assert len(rows) == len(np.unique(rows)) == 50
    assert np.all(np.isin(rows, candidates))
    assert len(kept_out(np.random.default_rng(0), np.arange(10**5))) == 2000
