"""Numbers at the edge of floating point, and masks: right, or refused with the row."""

from __future__ import annotations

import numpy as np
import pytest

import kosambi as ko
from kosambi.errors import InputError, NumericalError
from kosambi.estimators._inputs import check_units, refuse_masked, standardised
from kosambi.estimators._rows import extreme_cells, location_and_scale

X = np.random.default_rng(0).normal(size=(30, 2))
Y = np.sin(X[:, 0])
QUICK = {"hyperparameters": None, "n_inducing": 5, "n_samples": 5}


@pytest.fixture(scope="module")
def model():
    return ko.ProjectedLangevinRegressor(**QUICK).fit(X, Y)


@pytest.mark.parametrize("size", [1e-300, 1e-200, 1e154, 1e200, 1e300])
def test_scales_of_any_size(size):
    mean, scale = location_and_scale(X, np.ones(30))
    np.testing.assert_array_equal(scale, np.std(X, axis=0))
    found = location_and_scale(size * X, np.ones(30))
    np.testing.assert_allclose(found[0] / size, mean, rtol=1e-12)
    np.testing.assert_allclose(found[1] / size, scale, rtol=1e-12)
    np.testing.assert_allclose(standardised(size * X, *found), (X - mean) / scale, rtol=1e-10)
    assert extreme_cells(size * X) is None


def test_a_row_far_out_is_predicted_by_the_prior_and_leaves_others_alone(model):
    alone = model.predict(X[:3])
    found = model.predict([*X[:3], [1e20, 0.0], [0.0, -1e149]])
    np.testing.assert_allclose(found[:3], alone, rtol=1e-9)
    np.testing.assert_allclose(found[3:], Y.mean(), rtol=1e-9)


@pytest.mark.parametrize("size", [1e154, 1e300, -1.7e308])
def test_bad_input_too_far_to_be_computed(model, size):
    new = np.array([[0.0, 1.0], [1.0, size], [size, 0.0]])
    for call in (model.predict, model.predict_interval, model.sample_functions, model.predict_distribution):
        with pytest.raises(InputError, match=r"in row 1, column 1, more than .* 1 more rows are as far out. Correct"):
            call(new)


def test_bad_input_numbers_that_are_none_are_not_handed_over(model):
    linear = ko.GaussianProcess(ko.kernels.Linear())
    target = ko.Target(ko.PointBasis(linear, X[:2]), ko.likelihoods.Gaussian(0.1), X, Y)
    particles = ko.samplers.Particles.from_coordinates(target, np.ones((3, *target.shape)))
    with np.errstate(all="ignore"), pytest.raises(NumericalError, match=r"at 1 of 2 inputs; the first is row 1, \["):
        ko.Posterior(target, particles).predict([[1.0, 1.0], [1e200, 1e200]])


@pytest.mark.parametrize("size", [1e154, 1e300, 1e-200])
def test_bad_input_observations_without_a_variance(size):
    with pytest.raises(InputError, match=r"`y` has values of the size .* Divide y by"):
        ko.ProjectedLangevinRegressor(**QUICK).fit(X, size * Y)
    check_units(np.zeros(3), 1.0)


def test_bad_input_masks(model):
    masked = np.ma.masked_array(X, mask=X > 1.0)
    rows = int(np.argmax((X > 1.0).any(axis=1)))
    with pytest.raises(InputError, match=rf"`X` has .* masked entries .rows {rows}, .* `X.filled"):
        ko.ProjectedLangevinRegressor(**QUICK).fit(masked, Y)
    with pytest.raises(InputError, match=r"`y` has 1 masked entry .row 2"):
        ko.ProjectedLangevinClassifier(**QUICK).fit(X, np.ma.masked_array(Y > 0, mask=np.arange(30) == 2))
    with pytest.raises(InputError, match="`sample_weight` has"):
        ko.ProjectedLangevinRegressor(**QUICK).fit(X, Y, np.ma.masked_array(np.ones(30), mask=np.arange(30) < 3))
    with pytest.raises(InputError, match="`X` has"):
        model.predict(masked)
    refuse_masked("X", np.ma.masked_array(X))
    np.testing.assert_array_equal(model.predict(np.ma.masked_array(X)), model.predict(X))


def test_equal_observations_say_nothing_of_noise_that_varies():
    with pytest.warns(ko.errors.HyperparameterWarning) as caught:
        model = ko.ProjectedLangevinRegressor("heteroscedastic", n_inducing=5, n_samples=5).fit(X, np.full(30, 3.0))
    assert "`y` is 3 in all 30 rows" in str(caught[0].message)
    assert isinstance(model.posterior_.likelihood, ko.likelihoods.Gaussian)
    np.testing.assert_allclose(model.predict(X[:3]), 3.0)
