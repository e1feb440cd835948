"""Data that count several times, in the evidence and in the search; and kernels for classes."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy import stats

import kosambi as ko
from kosambi.learning.exact import ExactEvaluator
from kosambi.learning.layout import Model, lay_out
from kosambi.learning.rows import Block
from tests.cases import cases

RNG = np.random.default_rng(3)
X = RNG.normal(size=(30, 2))
F = np.sin(2.0 * X[:, 0])
WEIGHTS = RNG.integers(0, 4, 30).astype(float)
PRIOR = ko.GaussianProcess(ko.kernels.Matern52(lengthscale=[1.0, 2.0]), mean=0.3)
LIKELIHOODS = {
    "Gaussian": (ko.likelihoods.Gaussian(0.2), F + 0.1 * RNG.normal(size=30)),
    "StudentT": (ko.likelihoods.StudentT(4.0, 0.2), F + 0.1 * RNG.normal(size=30)),
    "Bernoulli": (ko.likelihoods.Bernoulli(), (F > 0).astype(float)),
    "Categorical": (ko.likelihoods.Categorical(3), np.digitize(F, [-0.5, 0.5]).astype(float)),
}


def repeated(y):
    number = WEIGHTS.astype(int)
    return np.repeat(X, number, axis=0), np.repeat(y, number)


@pytest.mark.parametrize("name", cases(LIKELIHOODS, quick=["Gaussian"]))
def test_weights_stand_for_repetitions(name):
    likelihood, y = LIKELIHOODS[name]
    x_long, y_long = repeated(y)
    weighted = ko.log_evidence(PRIOR, likelihood, X, y, X[:9], weights=WEIGHTS)
    assert weighted == pytest.approx(float(ko.log_evidence(PRIOR, likelihood, x_long, y_long, X[:9])), rel=1e-9)
    assert abs(weighted - ko.log_evidence(PRIOR, likelihood, X, y, X[:9])) > 0.1


def test_exact_evidence_with_weights_against_the_density_of_repeated_data():
    likelihood, y = LIKELIHOODS["Gaussian"]
    x_long, y_long = repeated(y)
    covariance = np.asarray(PRIOR.kernel(x_long, x_long)) + 0.04 * np.eye(len(y_long))
    expected = stats.multivariate_normal.logpdf(y_long, np.full(len(y_long), 0.3), covariance)
    assert float(ko.log_evidence(PRIOR, likelihood, X, y, weights=WEIGHTS)) == pytest.approx(expected)


def test_value_and_gradient_on_the_host():
    with jax.enable_x64(True):
        _check_value_and_gradient()


def _check_value_and_gradient():
    y = RNG.normal(size=30)
    model = Model(PRIOR.kernel, PRIOR.mean, ko.likelihoods.Gaussian(0.4))
    layout = lay_out(model)
    evaluate = ExactEvaluator(layout, model, PRIOR, [Block(X, y, WEIGHTS, model.likelihood)])
    vector = layout.vector(model)
    value, slope = evaluate(vector)
    number = WEIGHTS.astype(int)
    x_long = np.repeat(X, number, axis=0)
    covariance = np.asarray(PRIOR.kernel(x_long, x_long)) + 0.16 * np.eye(len(x_long))
    expected = stats.multivariate_normal.logpdf(np.repeat(y, number), np.full(len(x_long), 0.3), covariance)
    assert value == pytest.approx(-expected, rel=1e-9)
    for i in range(len(vector)):
        step = np.eye(len(vector))[i] * 1e-5
        difference = (evaluate(vector + step)[0] - evaluate(vector - step)[0]) / 2e-5
        assert slope[i] == pytest.approx(difference, rel=1e-6, abs=1e-6)


def test_rows_of_weight_zero_are_not_looked_at():
    likelihood, y = LIKELIHOODS["StudentT"]
    spoiled = np.where(WEIGHTS > 0, y, 1e3)
    key, points = jax.random.key(0), X[:9]
    values = [float(ko.log_evidence(PRIOR, likelihood, X, v, points, weights=WEIGHTS)) for v in (y, spoiled)]
    assert values[0] == pytest.approx(values[1], rel=1e-9)
    with pytest.raises(ko.errors.InputError, match="All 2 observations are 1"):
        ko.fit_hyperparameters(key, PRIOR, ko.likelihoods.Gaussian(), X[:3], [1.0, 1.0, 2.0], weights=[1.0, 3.0, 0.0])


def test_the_number_of_points_can_be_left_to_infer():
    likelihood, y = LIKELIHOODS["Gaussian"]
    _, _, report = ko.fit_hyperparameters(jax.random.key(0), PRIOR, likelihood, X, y, num_inducing="auto")
    assert report.is_exact
    assert report.converged


@pytest.mark.slow
def test_a_kernel_for_classes_finds_the_column_that_matters():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    y = np.digitize(np.sin(2.0 * x[:, 0]) + 0.2 * rng.normal(size=200), [-0.5, 0.5]).astype(float)
    start = ko.GaussianProcess(ko.kernels.Matern52(np.ones(3)))
    key, classes = jax.random.key(0), ko.likelihoods.Categorical(3)
    prior, _, report = ko.fit_hyperparameters(key, start, classes, x, y, freeze="mean", num_restarts=0)
    assert report.converged
    assert report.strategy == "sites"
    lengthscale = np.asarray(prior.kernel.lengthscale)
    assert lengthscale[0] < 0.5 * lengthscale[1:].min()
    assert 1.0 < float(prior.kernel.variance) < 300.0


def test_the_old_name_of_the_method_for_classes_warns():
    likelihood, y = LIKELIHOODS["Gaussian"]
    with pytest.warns(DeprecationWarning, match='now part of "evidence"'):
        ko.fit_hyperparameters(jax.random.key(0), PRIOR, likelihood, X, y, method="indicators", num_restarts=0)


def test_bad_input_methods_and_weights():
    likelihood, y = LIKELIHOODS["Gaussian"]
    key = jax.random.key(0)
    for options, text in (
        ({"method": "paper", "weights": WEIGHTS}, "does not know weights"),
        ({"num_inducing": "many"}, '`num_inducing` must be a whole number, "all", "auto" or None'),
        ({"weights": WEIGHTS[:5]}, "`weights` must have shape"),
        ({"weights": -WEIGHTS}, "not negative"),
    ):
        with pytest.raises(ko.errors.InputError, match=text):
            ko.fit_hyperparameters(key, PRIOR, likelihood, X, y, **options)
