"""Scores of held-out rows against scikit-learn and by hand; standard errors against the spread over samples."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import scipy.stats
import sklearn.metrics as skm

import kosambi as ko
from kosambi.calibration import scores as s
from kosambi.posterior import Prediction

lk = ko.likelihoods


def normal_prediction(mean, sd, noise=0.5):
    return Prediction(lk.Gaussian(noise), np.asarray(mean)[None], np.sqrt(sd**2 - noise**2), np.ones(len(mean)))


def test_scores_of_numbers_are_those_of_scikit_learn_and_scipy(rng):
    mean, sd = rng.normal(size=80), rng.uniform(0.6, 1.5, 80)
    y = mean + sd * rng.normal(size=80)
    found = ko.calibration.held_out_scores(normal_prediction(mean, sd), y)
    density = scipy.stats.norm(mean, sd).logpdf(y)
    assert found["nll"].value == pytest.approx(-density.mean(), rel=1e-10)
    assert found["nll"].standard_error == pytest.approx(density.std(ddof=1) / np.sqrt(80), rel=1e-10)
    assert found["mae"].value == pytest.approx(skm.mean_absolute_error(y, mean), rel=1e-12)
    assert found["rmse"].value == pytest.approx(skm.root_mean_squared_error(y, mean), rel=1e-12)
    assert found["r2"].value == pytest.approx(skm.r2_score(y, mean), rel=1e-12)
    assert found["coverage"].value == np.mean(np.abs(y - mean) <= scipy.stats.norm.ppf(0.975) * sd)
    assert found["width"].value == pytest.approx(2 * scipy.stats.norm.ppf(0.975) * sd.mean(), rel=1e-6)
    assert str(found["mae"]).startswith(f"{found['mae'].value:.4g} ± ")


@pytest.mark.parametrize("number", [2, 3])
def test_scores_of_labels_are_those_of_scikit_learn(rng, number):
    table = rng.dirichlet(np.ones(number), size=150)
    labels = np.array([rng.choice(number, p=row) for row in table])
    found = s.label_scores(labels, table)
    assert found["accuracy"].value == skm.accuracy_score(labels, table.argmax(axis=1))
    assert found["log_loss"].value == pytest.approx(skm.log_loss(labels, table), rel=1e-12)
    assert found["brier"].value == pytest.approx(np.mean(np.sum((table - np.eye(number)[labels]) ** 2, axis=1)))
    if number == 2:
        assert found["auc"].value == pytest.approx(skm.roc_auc_score(labels, table[:, 1]), rel=1e-12)
    else:
        expected = skm.roc_auc_score(labels, table, multi_class="ovr", average="macro")
        assert found["auc"].value == pytest.approx(expected, rel=1e-12)
        assert np.isnan(found["auc"].standard_error)


def test_labels_of_a_prediction_and_a_class_that_was_not_observed():
    means = np.array([[-2.0, 0.5, 3.0], [-1.0, 0.7, 2.0]])
    prediction = Prediction(lk.Bernoulli(), means, np.full(3, 0.1), np.ones(3))
    found = ko.calibration.held_out_scores(prediction, [0.0, 0.0, 0.0])
    assert np.isnan(found["auc"].value)
    assert found["accuracy"].value == pytest.approx(1 / 3)
    assert found["log_loss"].value == pytest.approx(-np.mean(prediction.log_density(np.zeros(3))))


def test_what_a_likelihood_cannot_give_is_left_out():
    loss = Prediction(lk.Huber(0.5), np.zeros((4, 3)), np.full(3, 0.1), np.ones(3))
    assert list(ko.calibration.held_out_scores(loss, [0.0, 1.0, 2.0])) == ["mae", "rmse", "r2"]
    unknown = Prediction(lk.Gaussian([0.1, 0.2]), np.zeros((4, 3)), np.full(3, 0.1), np.ones(3), is_noise_known=False)
    assert list(ko.calibration.held_out_scores(unknown, [0.0, 1.0, 2.0])) == ["mae", "rmse", "r2"]
    constant = ko.calibration.held_out_scores(loss, [1.0, 1.0, 1.0])
    assert np.isnan(constant["r2"].value)
    heavy = Prediction(lk.StudentT(0.8, 0.5), np.array([[1.0, 2.0]]), np.full(2, 0.1), np.ones(2))
    np.testing.assert_array_equal(s.point_prediction(heavy), [1.0, 2.0])


def test_the_standard_errors_are_those_over_many_samples(rng):
    """Relative errors of a standard deviation from 600 samples are about 1/√1200 = 3 %."""
    found = {"rmse": [], "mae": [], "coverage": [], "auc": []}
    for _ in range(600):
        y = rng.normal(size=60)
        numbers = s.number_scores(y, np.zeros(60), None, (np.full(60, -1.0), np.full(60, 1.0)))
        for name in ("rmse", "mae", "coverage"):
            found[name].append(numbers[name])
        found["auc"].append(s.two_sample_area(rng.normal(1.0, 1.0, 30), rng.normal(0.0, 1.0, 40)))
    for name, scores in found.items():
        values, errors = np.array(scores).T
        assert abs(np.sqrt(np.mean(errors**2)) / np.std(values) - 1.0) < 0.12, name
    assert s.share_score(np.ones(10, bool)).standard_error > 0.05
    assert np.isnan(s.two_sample_area(np.array([]), np.array([1.0])).value)
    assert np.isnan(s.mean_score(np.array([1.0])).standard_error)
    assert s.mean_score(np.array([1.0, np.inf])) == (np.inf, pytest.approx(np.nan, nan_ok=True))


BASELINES = {
    "normal": (lk.Gaussian(0.1), lambda y, m, v: scipy.stats.norm(m, np.sqrt(v)).logpdf(y)),
    "gamma": (lk.Gamma(2.0), lambda y, m, v: scipy.stats.gamma(m**2 / v, scale=v / m).logpdf(y)),
    "negative binomial": (lk.Poisson(), lambda y, m, v: scipy.stats.nbinom(m**2 / (v - m), m / v).logpmf(y)),
}


@pytest.mark.parametrize("name", BASELINES)
def test_the_baseline_has_the_weighted_moments_of_the_training_rows(name):
    likelihood, density = BASELINES[name]
    train, weights, y = np.array([1.0, 4.0, 9.0]), np.array([1.0, 2.0, 1.0]), np.array([2.0, 3.0])
    repeated = np.array([1.0, 4.0, 4.0, 9.0])
    found, words = s.baseline_log_density(likelihood, y, train, weights)
    np.testing.assert_allclose(found, density(y, repeated.mean(), repeated.var()), rtol=1e-12)
    assert words == f"a {name} distribution with the mean and variance of the training rows"


def test_the_baseline_of_labels_and_of_a_constant():
    found, _ = s.baseline_log_density(lk.Bernoulli(), np.array([0.0, 1.0]), np.array([0.0, 1.0, 1.0]), np.ones(3))
    np.testing.assert_allclose(found, np.log([2 / 5, 3 / 5]))
    found, words = s.baseline_log_density(lk.Gaussian(0.1), np.array([2.0]), np.full(3, 2.0), np.ones(3))
    assert np.isnan(found).all()
    assert words == "a constant"
    found, words = s.baseline_log_density(lk.Poisson(), np.array([2.0]), np.array([2.0, 3.0]), np.ones(2))
    assert "Poisson" in words
    np.testing.assert_allclose(found, scipy.stats.poisson(2.5).logpmf(2.0))


def test_page_and_command_line_show_these_scores(rng):
    """The same held-out rows through the page, the command line and scikit-learn's own `score`."""
    from kosambi.cli._metrics import regression_metrics
    from kosambi.page._scores import scores_of

    x = rng.uniform(-2, 2, (60, 1))
    y = np.sin(2 * x[:, 0]) + 0.1 * rng.normal(size=60)
    model = ko.ProjectedLangevinRegressor(n_inducing=8, hyperparameters=None, n_samples=20).fit(x[::2], y[::2])
    prediction, held_out = model.predict_distribution(x[1::2]), y[1::2]
    found = ko.calibration.held_out_scores(prediction, held_out)
    line = regression_metrics(model, x[1::2], held_out)
    page = scores_of(prediction, held_out, np.asarray(model.posterior_.target.y), np.ones(30))
    assert found["r2"].value == pytest.approx(model.score(x[1::2], held_out), rel=1e-9)
    for ours, theirs in (("nll", "nll"), ("mae", "mae"), ("rmse", "rmse"), ("r2", "r2"), ("coverage", "coverage_95")):
        assert line[theirs]["value"] == pytest.approx(found[ours].value, rel=1e-9)
        assert line[theirs]["se"] == pytest.approx(found[ours].standard_error, rel=1e-9)
    assert line["width_95"]["value"] == pytest.approx(found["width"].value, rel=1e-6)
    assert page.r_squared == pytest.approx(found["r2"].value, rel=1e-9)
    assert page.error == pytest.approx(found["rmse"].value, rel=1e-9)
    assert page.log_score == pytest.approx(-found["nll"].value, rel=1e-9)


def test_bad_input_of_scores():
    prediction = normal_prediction(np.zeros(3), np.ones(3))
    with pytest.raises(ko.errors.InputError, match="2 observations for the 3 inputs"):
        ko.calibration.held_out_scores(prediction, [0.0, 1.0])
    with pytest.raises(ko.errors.InputError, match="`prediction` must be what"):
        ko.calibration.held_out_scores(jax.random.key(0), [0.0])
    with pytest.raises(ko.errors.InputError, match="`coverage` must be a number between 0 and 1"):
        ko.calibration.held_out_scores(prediction, np.zeros(3), 95)
