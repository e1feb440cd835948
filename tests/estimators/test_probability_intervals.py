"""Intervals of the probabilities of several classes, and log densities of rows in blocks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, softmax

import kosambi as ko
from kosambi.estimators.classifier import _normal_points, _probability_interval
from kosambi.posterior import Prediction


@pytest.mark.parametrize("size", [1, 3, 5])
def test_the_points_of_the_residual_are_a_standard_normal_distribution_without_a_seed(size):
    points = _normal_points(6, (size,))
    # Sixty-four random draws would have means that are off by an eighth.
    np.testing.assert_allclose(points.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(points.std(axis=0), 1.0, atol=0.02)
    many = _normal_points(12, (size,))
    np.testing.assert_allclose(many.T @ many / 4096, np.eye(size), atol=0.01)


LIKELIHOODS = {
    "Categorical": (ko.likelihoods.Categorical(3), lambda f: softmax(f, axis=-1), (3,)),
    "Ordinal": (
        ko.likelihoods.Ordinal([-1.0, 0.5]),
        lambda f: np.diff(expit(np.array([-np.inf, -1.0, 0.5, np.inf]) - f[..., None]), axis=-1),
        (),
    ),
}


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_intervals_of_class_probabilities_against_simulation(name, rng):
    likelihood, link, shape = LIKELIHOODS[name]
    means, deviation = rng.normal(size=(300, 4, *shape)), np.array([0.0, 0.3, 0.8, 1.5])
    prediction = Prediction(likelihood, means, deviation, np.ones(4))
    found = _probability_interval(prediction, 0.9)
    for point in range(4):
        f = means[:, point] + deviation[point] * rng.normal(size=(400, 300, *shape))
        expected = np.quantile(link(f).reshape(-1, 3), [0.05, 0.95], axis=0)
        np.testing.assert_allclose(found[:, point], expected, atol=0.01)


def test_log_densities_of_an_estimator_come_in_blocks(monkeypatch, rng):
    x = rng.uniform(-2, 2, (40, 1))
    y = rng.poisson(np.exp(np.sin(2 * x[:, 0])))
    model = ko.ProjectedLangevinRegressor("poisson", n_inducing=6, hyperparameters=None, n_samples=50).fit(x, y)
    whole = model.predict_log_density(x, y)
    np.testing.assert_allclose(whole, model.predict_distribution(x).log_density(y.astype(float)), rtol=1e-12)
    sizes = []
    original = Prediction.log_density

    def seen(self, y):
        sizes.append(self.num_points)
        return original(self, y)

    monkeypatch.setattr(Prediction, "log_density", seen)
    monkeypatch.setattr("kosambi.estimators._base._VALUES_AT_ONCE", 50 * 15)
    # Quadrature has as many nodes as the widest row of a block needs, for eight digits.
    np.testing.assert_allclose(model.predict_log_density(x, y), whole, rtol=1e-8)
    assert sizes == [15, 15, 10]
