"""Estimators that learn from a source of rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import kosambi as ko
from kosambi.errors import InputError
from kosambi.sources import ArraySource, BlockSource

RNG = np.random.default_rng(0)
X = np.column_stack([5.0 + 2.0 * RNG.normal(size=900), 1e4 * RNG.normal(size=900)])
X = X[np.argsort(X[:, 0])]
F = np.sin(X[:, 0]) + 1e-4 * X[:, 1]
Y = 100.0 + 10.0 * F + RNG.normal(size=900)
KERNEL = ko.kernels.Matern52(lengthscale=[2.0, 2e4], variance=50.0)


@pytest.mark.parametrize("likelihood", ["gaussian", pytest.param("student_t", marks=pytest.mark.slow)])
def test_a_source_is_learned_from_as_the_same_rows_are(likelihood):
    """With hyperparameters that are kept, and rows in the order that a fit gives them, by which greedy points go."""
    options = {"kernel": KERNEL, "hyperparameters": None, "n_inducing": 30, "n_neighbors": 0}
    streamed, plain = (ko.ProjectedLangevinRegressor(likelihood, **options) for _ in range(2))
    streamed.fit(ArraySource(X, Y), max_memory="8GB")
    plain.fit(X, Y)
    # A stream's are rounded to 2⁻⁴⁰ of a deviation, so that they do not depend on blocks.
    assert np.all(np.abs(streamed.x_mean_ - plain.x_mean_) < 1e-12 * np.std(X, axis=0))
    np.testing.assert_allclose(streamed.x_scale_, plain.x_scale_, rtol=1e-12)
    mean, deviation = streamed.predict(X[:50], return_std=True)
    right, spread = plain.predict(X[:50], return_std=True)
    is_exact = likelihood == "gaussian"
    # Means of 100 draws each, within 4.5 of their standard errors.
    error = np.sqrt(plain.predict_distribution(X[:50]).variance * 2.0 / 100)
    assert np.all(np.abs(mean - right) < (1e-6 if is_exact else 4.5 * error))
    np.testing.assert_allclose(deviation, spread, rtol=1e-6 if is_exact else 0.1)
    assert streamed.report_.stream.num_rows == 900


@pytest.mark.slow
def test_a_regressor_learns_hyperparameters_from_the_sample(tmp_path):
    model = ko.ProjectedLangevinRegressor(n_inducing=40).fit(BlockSource(lambda: iter([(X, Y)]), columns=["a", "b"]))
    assert model.feature_names_in_.tolist() == ["a", "b"]
    error = model.predict(pd.DataFrame(X, columns=["a", "b"])) - (100.0 + 10.0 * F)
    assert np.sqrt(np.mean(error**2)) < 0.6
    ko.save(model, tmp_path / "model")
    new = pd.DataFrame(X[:5], columns=["a", "b"])
    np.testing.assert_array_equal(ko.load(tmp_path / "model").predict(new), model.predict(new))


@pytest.mark.slow
def test_a_classifier_has_the_values_of_y_as_classes():
    y = np.where(F > 0.3, 7.0, np.where(F > -0.3, 3.0, 2.0))
    options = {"kernel": KERNEL, "hyperparameters": None, "n_inducing": 20}
    model = ko.ProjectedLangevinClassifier(**options).fit(ArraySource(X, y))
    assert model.classes_.tolist() == [2, 3, 7]
    assert np.mean(model.predict(X) == y) > 0.9


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_neighbors": 5}, "near rows would have to be in memory"),
        ({"n_inducing": "all"}, "cannot be had with a source"),
        ({"hyperparameters": "average"}, "a source has many"),
    ],
)
def test_what_a_source_cannot_have_is_refused(options, words):
    with pytest.raises(InputError, match=words):
        ko.ProjectedLangevinRegressor(**options).fit(ArraySource(X, Y))


def test_what_a_source_has_is_not_given_twice():
    source = ArraySource(X, Y)
    with pytest.raises(InputError, match="`y` cannot be given"):
        ko.ProjectedLangevinRegressor().fit(source, Y)
    with pytest.raises(InputError, match="`max_memory` is for a source"):
        ko.ProjectedLangevinRegressor().fit(X, Y, max_memory="2GB")
    with pytest.raises(InputError, match="one class only"):
        ko.ProjectedLangevinClassifier().fit(ArraySource(X, np.ones(900)))
    with pytest.raises(InputError, match=r"row 3 .*Poisson"):
        ko.ProjectedLangevinRegressor("poisson").fit(ArraySource(X, np.r_[np.ones(3), -1.0, np.ones(896)]))
