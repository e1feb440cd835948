"""The last word on scale and noise where noise has heavy tails, on rows that were kept out."""

import jax
import numpy as np
import pytest
import scipy.stats

import kosambi as ko
from kosambi.learning import held_out_near, held_out_tails
from kosambi.learning.held_out_tails import has_last_word, last_word_tails

lk = ko.likelihoods
RNG = np.random.default_rng(0)
X = RNG.uniform(-3.0, 3.0, (450, 1))
KERNEL = ko.kernels.Matern52(0.6)
F = np.sin(2.0 * X[:, 0])
HELD = np.arange(2, 450, 4)
ONES = np.ones(450)


def noisy(likelihood, seed=1):
    return np.asarray(likelihood.draw(jax.random.key(seed), F))


def told(likelihood, y, kernel=KERNEL, **options):
    return last_word_tails(ko.GaussianProcess(kernel), likelihood, X, y, ONES, 20, HELD, **options)


@pytest.mark.parametrize("number", [1, 5, 10, 13])
def test_features_of_some_rows_are_found_a_few_at_a_time(number, monkeypatch):
    monkeypatch.setattr(held_out_near, "_ROWS_AT_ONCE", 5)
    basis, rows = ko.PointBasis(ko.GaussianProcess(KERNEL), X[:7]), HELD[:number]
    found = held_out_near._features(basis, X, rows)
    np.testing.assert_allclose(found, basis.whitened_mean(X[rows]), rtol=1e-12, atol=1e-14)


def test_the_score_is_that_of_dense_predictions_given_all_sites():
    y, likelihood = noisy(lk.Laplace(0.3)), lk.Laplace(0.3)
    found = told(likelihood, y)
    # Sites of all other rows, and the process given them.
    used = np.setdiff1d(np.arange(len(y)), HELD)
    posterior = ko.infer(jax.random.key(0), KERNEL, likelihood, X[used], y[used], num_inducing=0, num_neighbors=20)
    site, prior = posterior.target.neighborhood, ko.GaussianProcess(KERNEL)
    gram = prior.covariance(X[used]) + np.diag(1.0 / np.asarray(site.precision))
    cross = prior.covariance(X[HELD], X[used])
    mean = cross @ np.linalg.solve(gram, np.asarray(site.location))
    variance = 1.0 - np.sum(cross * np.linalg.solve(gram, cross.T).T, axis=1)
    density = likelihood.log_predictive_density(y[HELD], mean, np.sqrt(variance))
    assert found.before == pytest.approx(np.mean(density), abs=0.01)
    # The right model gains nothing, and stays as it is.
    assert (found.scale, found.noise["scale"]) == (1.0, 0.3)
    assert found.score == found.before > found.constant


@pytest.mark.slow
def test_noise_that_is_far_off_is_repaired():
    y = noisy(lk.StudentT(3.0, 0.3))
    found = told(lk.StudentT(30.0, 0.02), y)
    assert found.score > found.before + 0.3
    assert 0.2 < found.noise["scale"] < 0.45
    assert found.noise["degrees_of_freedom"] < 15.0


@pytest.mark.slow
def test_intervals_hold_what_they_say_of_noise_that_is_of_no_family(monkeypatch):
    # Next to nothing for four rows in five, and much for the fifth.
    spread = np.where(RNG.uniform(size=450) < 0.8, 0.01, 1.0)
    y = F + spread * RNG.normal(size=450)
    given = lk.StudentT(2.0, 0.05)

    def covered(found):
        noise = lk.StudentT(**found.noise)
        half = scipy.stats.t.ppf(0.975, noise.degrees_of_freedom) * noise.scale
        return np.mean(np.abs(y - F) < half)

    calibrated = told(given, y)
    assert 0.9 < covered(calibrated) < 0.99
    monkeypatch.setattr(held_out_tails, "NEAR_COVERAGE", 1.0)
    probable = told(given, y)
    assert calibrated.score > probable.score - held_out_tails.CALIBRATION
    assert abs(covered(calibrated) - 0.95) <= abs(covered(probable) - 0.95) + 0.01


def test_which_noise_has_a_last_word():
    assert has_last_word(lk.Laplace())
    assert not any(has_last_word(one) for one in (lk.Bernoulli(), lk.Huber(), lk.Gaussian(np.ones(3))))


@pytest.mark.slow
def test_the_regressor_asks_rows_that_were_kept_out(monkeypatch):
    from kosambi.learning import num_neighbors

    monkeypatch.setattr(num_neighbors, "NEAR_ROWS", 500)
    monkeypatch.setattr(num_neighbors, "NEAR_POINTS", 16)
    monkeypatch.setattr(held_out_tails, "KEPT_OUT", 80)
    x = RNG.uniform(-3.0, 3.0, (1500, 2))
    f = np.sin(6.0 * x[:, 0]) * np.cos(6.0 * x[:, 1])
    y = 10.0 + f + np.where(RNG.uniform(size=1500) < 0.8, 0.02, 1.0) * RNG.normal(size=1500)
    model = ko.ProjectedLangevinRegressor("student_t", "matern52").fit(x[:1000], y[:1000])
    low, high = model.predict_interval(x[1000:], 0.95)
    assert 0.91 < np.mean((low <= y[1000:]) & (y[1000:] <= high)) < 0.98
    assert model.fit_report_.parameters["likelihood.scale"] > 0.0
