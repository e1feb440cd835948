"""Estimators that learn from a source of rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import kosambi as ko
from kosambi.errors import InputError
from kosambi.sources import ArraySource, BlockSource
from kosambi.streaming import held

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


@pytest.mark.parametrize(
    "options", [{"n_neighbors": 8, "n_inducing": 10}, {"n_inducing": "auto"}], ids=["near", "open"]
)
@pytest.mark.parametrize(
    "weights", [None, pytest.param(np.arange(300) % 3.0, marks=pytest.mark.slow)], ids=["", "weights"]
)
def test_rows_that_are_held_are_learned_from_as_arrays_are(options, weights):
    model, plain = (ko.ProjectedLangevinRegressor(hyperparameters="evidence", n_samples=10, **options) for _ in "ab")
    whole = (X[:300], Y[:300]) if weights is None else (X[:300], Y[:300], weights)
    halves = [tuple(array[part] for array in whole) for part in (slice(0, 170), slice(170, 300))]
    model.fit(BlockSource(lambda: iter(halves), columns=["a", "b"]))
    plain.fit(X[:300], Y[:300], weights)
    np.testing.assert_array_equal(model.predict(pd.DataFrame(X[:20], columns=["a", "b"])), plain.predict(X[:20]))
    np.testing.assert_array_equal(model.x_mean_, plain.x_mean_)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    assert model.report_.stream.is_held


def labelled():
    y = np.where(F > 0.0, 7.0, 3.0)[:120]
    options = {"kernel": KERNEL, "hyperparameters": None, "n_inducing": 4, "n_neighbors": 3, "n_samples": 8}
    return y, lambda: ko.ProjectedLangevinClassifier(**options)


@pytest.mark.slow
def test_labels_of_rows_that_are_held():
    y, new = labelled()
    model, plain = new().fit(ArraySource(X[:120], y)), new().fit(X[:120], y)
    assert model.classes_.tolist() == [3, 7]
    np.testing.assert_array_equal(model.predict_proba(X[:9]), plain.predict_proba(X[:9]))


@pytest.mark.slow
def test_labels_by_name_and_labels_with_a_limit_of_memory():
    y, new = labelled()
    source = ArraySource(X[:120], (y > 5).astype(float))
    source.labels = ("few", "many")
    assert set(new().fit(source).predict(X[:9])) == {"few", "many"}
    limited, plain = new().fit(X[:120], y.astype(int), max_memory="64GB"), new().fit(X[:120], y)
    np.testing.assert_array_equal(limited.predict_proba(X[:9]), plain.predict_proba(X[:9]))
    assert limited.report_.stream.is_held


def test_arrays_with_too_little_memory_are_read_in_blocks(monkeypatch):
    """The same model with coordinates alone, from the sample, which is all rows here."""
    options = {"kernel": KERNEL, "hyperparameters": None, "n_samples": 10}
    monkeypatch.setattr(held, "_MATRICES", 10**9)
    model = ko.ProjectedLangevinRegressor(**options).fit(X, Y, max_memory="8GB")
    assert not model.report_.stream.is_held
    assert "in memory they would take" in model.report_.stream.reason
    right = ko.ProjectedLangevinRegressor(**options, n_neighbors=0).fit(ArraySource(X, Y), max_memory="8GB")
    np.testing.assert_allclose(model.predict(X[:9]), right.predict(X[:9]), rtol=1e-9)


def test_a_limit_of_memory_with_rows_that_occur_twice_and_with_a_warm_start():
    options = {"kernel": KERNEL, "hyperparameters": None, "n_samples": 10}
    twice = np.repeat(X[:40], 2, axis=0)
    model = ko.ProjectedLangevinRegressor(**options, warm_start=True).fit(twice, np.repeat(Y[:40], 2), max_memory="8GB")
    assert model.report_.stream.num_rows == model.report_.stream.sample_rows == 80
    assert len(model.posterior_.target.y) == 40
    with pytest.raises(InputError, match=r"`warm_start=True` is for rows that are held .*: coordinates were asked for"):
        model.set_params(n_inducing=5).fit(X[:40], Y[:40], max_memory="8GB")


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
        ({"n_inducing": "all"}, "cannot be had where rows are read in blocks"),
        ({"hyperparameters": "average", "n_inducing": 5}, "are read in blocks"),
    ],
)
def test_what_a_source_cannot_have_is_refused(options, words):
    with pytest.raises(InputError, match=words):
        ko.ProjectedLangevinRegressor(**options).fit(ArraySource(X, Y))


def test_what_a_source_has_is_not_given_twice():
    source = ArraySource(X, Y)
    with pytest.raises(InputError, match="`y` cannot be given"):
        ko.ProjectedLangevinRegressor().fit(source, Y)
    with pytest.raises(InputError, match="`max_memory` is for one output"):
        ko.ProjectedLangevinRegressor().fit(X, np.column_stack([Y, Y]), max_memory="2GB")
    with pytest.raises(InputError, match="one class only"):
        ko.ProjectedLangevinClassifier().fit(ArraySource(X, np.ones(900)))
    with pytest.raises(InputError, match=r"`y` of the source has 0\.5, and classes are whole numbers"):
        ko.ProjectedLangevinClassifier().fit(ArraySource(X, np.arange(900) % 3 / 2.0))
    with pytest.raises(InputError, match=r"row 3 .*Poisson"):
        ko.ProjectedLangevinRegressor("poisson").fit(ArraySource(X, np.r_[np.ones(3), -1.0, np.ones(896)]))
