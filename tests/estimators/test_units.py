"""Kernels, freezes, ties and priors of an estimator in the units of the columns and of y."""

from __future__ import annotations

import pickle

import jax
import numpy as np
import pytest
from sklearn.base import clone

import kosambi as ko
from kosambi import ProjectedLangevinClassifier, ProjectedLangevinRegressor
from kosambi.estimators._units import in_input_units

k, lk = ko.kernels, ko.likelihoods
RNG = np.random.default_rng(3)
X = np.column_stack([RNG.uniform(1900.0, 2000.0, 50), RNG.normal(-3.0, 0.01, 50)])
Y = 500.0 + 40.0 * np.sin(X[:, 0] / 15.0) + 5.0 * RNG.normal(size=50)
NEW = X[:7] + 0.5 * X.std(axis=0)
KEPT = {"hyperparameters": None, "n_inducing": "all", "n_samples": 10}
LEARNED = {"hyperparameters": "evidence", "n_inducing": "all", "n_samples": 10}
KERNELS = {
    "one lengthscale": k.Matern52(20.0, 1600.0),
    "two": k.SquaredExponential([20.0, 0.05], 900.0),
    "of one column": k.Matern32(20.0, 900.0, active_dims=[0]) + 100.0 * k.Periodic(1.0, 1.0, 11.0, active_dims=[0]),
    "lines": k.Linear([0.01, 4.0]) + 1e4 * k.Constant() + k.RationalQuadratic([30.0, 0.1], 400.0, 2.0),
}


def exact(kernel, noise, mean, x, y, new):
    """Mean and variance of an observation, by the textbook."""
    gram = kernel(x) + noise**2 * np.eye(len(x))
    cross = kernel(new, x)
    gain = np.linalg.solve(gram, cross.T).T
    return mean + gain @ (y - mean), kernel.diagonal(new) - np.sum(gain * cross, axis=1) + noise**2


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_that_is_given_is_of_the_columns_as_they_are(name):
    kernel = KERNELS[name]
    model = ProjectedLangevinRegressor(lk.Gaussian(5.0), kernel, **KEPT).fit(X, Y)
    mean, variance = exact(kernel, 5.0, Y.mean(), X, Y, NEW)
    found, sd = model.predict(NEW, return_std=True)
    # Lines have so large a variance that some points are dropped as dependent.
    np.testing.assert_allclose(found, mean, rtol=1e-4 if name == "lines" else 1e-6)
    np.testing.assert_allclose(sd**2, variance, rtol=1e-3 if name == "lines" else 1e-4)
    np.testing.assert_allclose(model.kernel_(NEW, X), kernel(NEW, X), rtol=1e-9)
    np.testing.assert_allclose(
        model.posterior_.prior.kernel(*map(model.transform_inputs, (NEW, X))), kernel(NEW, X), rtol=1e-7
    )


@pytest.mark.parametrize("name", ["one lengthscale", "of one column"])
def test_without_standardisation_the_model_is_that_of_infer(name):
    kernel = KERNELS[name]
    model = ProjectedLangevinRegressor(lk.Gaussian(5.0), kernel, standardize=False, **KEPT).fit(X, Y)
    mean, variance = exact(kernel, 5.0, 0.0, X, Y, NEW)
    found, sd = model.predict(NEW, return_std=True)
    np.testing.assert_allclose(found, mean, rtol=1e-6)
    np.testing.assert_allclose(sd**2, variance, rtol=1e-4)
    np.testing.assert_array_equal(model.transform_inputs(NEW), NEW)
    given = ko.infer(jax.random.key(0), kernel, lk.Gaussian(5.0), X, Y, num_inducing="all")
    np.testing.assert_allclose(found, given.predict(NEW).mean, rtol=1e-6)


def test_the_kernel_that_was_learned_is_shown_in_the_units_of_the_columns():
    model = ProjectedLangevinRegressor(**LEARNED).fit(X, Y)
    inside = model.posterior_.prior.kernel
    np.testing.assert_allclose(model.kernel_.lengthscale, inside.lengthscale * X.std(axis=0))
    np.testing.assert_allclose(model.kernel_(NEW, X), inside(*map(model.transform_inputs, (NEW, X))), rtol=1e-9)
    assert 5.0 < model.kernel_.lengthscale[0] < 60.0
    # The same rows in other units: the same model, in these.
    other = ProjectedLangevinRegressor(**LEARNED).fit(X * [365.25, 1e3], Y / 7.0)
    np.testing.assert_allclose(other.kernel_.lengthscale, model.kernel_.lengthscale * [365.25, 1e3], rtol=0.02)
    np.testing.assert_allclose(other.kernel_.variance, model.kernel_.variance / 49.0, rtol=0.02)


def test_kernels_of_standardised_columns_are_still_to_be_had():
    kernel = k.Matern52(0.5)
    model = ProjectedLangevinRegressor(lk.Gaussian(5.0), kernel, kernel_units="standardized", **KEPT).fit(X, Y)
    z, new = ((x - X.mean(axis=0)) / X.std(axis=0) for x in (X, NEW))
    mean, _ = exact(k.Matern52(0.5, Y.var()), 5.0, Y.mean(), z, Y, new)
    np.testing.assert_allclose(model.predict(NEW), mean, rtol=1e-6)
    np.testing.assert_allclose(model.kernel_.lengthscale, 0.5 * X.std(axis=0))
    assert in_input_units(k.Linear(), X.mean(axis=0), X.std(axis=0)) is None
    line = ProjectedLangevinRegressor(lk.Gaussian(27.0), k.Linear(0.01), kernel_units="standardized", **KEPT).fit(X, Y)
    with pytest.raises(AttributeError, match="no form in their own units"):
        _ = line.kernel_


def test_a_frozen_period_and_noise_stay_what_they_were():
    kernel = k.Matern52(20.0, 900.0, active_dims=[0]) + k.Periodic(1.0, 100.0, 11.0, active_dims=[0])
    model = ProjectedLangevinRegressor(
        lk.Gaussian(5.0), kernel, freeze=["kernel.1.period", "likelihood"], **LEARNED
    ).fit(X, Y)
    assert model.kernel_.kernels[1].period == 11.0
    assert float(model.posterior_.likelihood.noise) == pytest.approx(5.0, rel=1e-14)
    assert model.kernel_.kernels[0].lengthscale != 20.0
    assert {"kernel.1.period", "likelihood.noise"} <= set(model.fit_report_.frozen)


def test_ties_hold_in_the_units_of_the_columns():
    # One column in centimetres, the other in metres: the same length is one value only where neither is divided.
    x = np.column_stack([RNG.uniform(0.0, 300.0, 50), RNG.uniform(0.0, 30.0, 50)])
    y = np.sin(x[:, 0] / 20.0) + np.cos(x[:, 1] / 8.0) + 0.1 * RNG.normal(size=50)
    kernel = k.Matern52(10.0, active_dims=[0]) + k.Matern52(10.0, active_dims=[1])
    tie = [["kernel.0.lengthscale", "kernel.1.lengthscale"]]
    model = ProjectedLangevinRegressor(kernel=kernel, tie=tie, **LEARNED).fit(x, y)
    first, second = model.kernel_.kernels
    assert first.lengthscale == second.lengthscale != 10.0
    mixed = ProjectedLangevinRegressor(
        kernel=k.Matern52(10.0), tie=[["kernel.variance", "likelihood.noise"]], **LEARNED
    )
    with pytest.raises(ko.errors.InputError, match="Set `standardize=False`"):
        mixed.fit(x, y)


@pytest.mark.parametrize("kernel", [None, k.Matern52([10.0, 10.0])], ids=["none", "given"])
def test_priors_are_in_the_units_of_the_columns_and_of_y(kernel):
    prior = ko.hyperpriors.LogNormal
    # So narrow that they decide.
    priors = {"kernel.lengthscale": prior([33.0, 0.02], 1e-4), "likelihood.*": prior(8.0, 1e-4)}
    with pytest.warns(ko.errors.HyperparameterWarning, match="The data contradict the prior"):
        model = ProjectedLangevinRegressor(kernel=kernel, priors=priors, **LEARNED).fit(X, Y)
    np.testing.assert_allclose(model.kernel_.lengthscale, [33.0, 0.02], rtol=1e-3)
    np.testing.assert_allclose(model.posterior_.likelihood.noise, 8.0, rtol=1e-3)


def test_the_mean_of_a_target_as_it_is_is_learned():
    model = ProjectedLangevinRegressor(standardize=False, **LEARNED).fit(X, Y)
    assert 400.0 < float(model.posterior_.prior.mean) < 600.0
    np.testing.assert_array_equal(model.x_scale_, 1.0)
    assert model.score(X, Y) > 0.9
    usual = ProjectedLangevinRegressor(**LEARNED).fit(X, Y)
    np.testing.assert_allclose(model.predict(X), usual.predict(X), atol=0.2 * Y.std())


def test_classifiers_have_the_units_of_their_columns_too():
    labels = np.where(np.sin(X[:, 0] / 15.0) > 0, "up", "down")
    kernel = k.Matern52(15.0, 4.0, active_dims=[0])
    model = ProjectedLangevinClassifier(kernel=kernel, **KEPT).fit(X, labels)
    np.testing.assert_allclose(model.kernel_(NEW), kernel(NEW), rtol=1e-12)
    assert model.score(X, labels) > 0.9


def test_files_pickles_and_clones_keep_all_of_it(tmp_path):
    settings = {"freeze": ["kernel.variance"], "priors": {"likelihood.noise": ko.hyperpriors.LogNormal(5.0, 0.3)}}
    model = ProjectedLangevinRegressor(kernel=k.Matern52(20.0, 900.0), **settings, **LEARNED)
    assert clone(model).get_params(deep=False).keys() == model.get_params(deep=False).keys()
    clone(model).fit(X, Y)
    model.fit(X, Y)
    ko.save(model, tmp_path / "m.ko")
    for other in (ko.load(tmp_path / "m.ko"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.predict(NEW), model.predict(NEW))
        assert other.freeze == ["kernel.variance"]
        assert repr(other.priors) == repr(model.priors)
        assert other.kernel_units == "input"
        assert repr(other.kernel_) == repr(model.kernel_)
    assert float(model.kernel_.variance) == pytest.approx(900.0, rel=1e-12)


def test_files_of_version_7_had_kernels_of_standardised_columns():
    from kosambi.files._older import present_fields

    kept, _ = present_fields("estimators.SavedEstimator", {"n_neighbors": 0})
    assert kept["kernel_units"] == "standardized"


BAD = {
    "kept": ({"hyperparameters": None, "freeze": "kernel"}, "are for hyperparameters that are learned"),
    "no such parameter": ({"freeze": "kernel.width"}, "`freeze` names no parameter"),
    "no such prior": ({"priors": {"kernel.width": ko.hyperpriors.LogNormal(1.0, 1.0)}}, "names no parameter"),
    "one group": ({"tie": ["kernel.variance", "likelihood.noise"]}, "list of groups"),
    "units": ({"kernel_units": "feet"}, '`kernel_units` must be "input"'),
    "standardize": ({"standardize": "no"}, "`standardize` must be True or False"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments(name):
    arguments, match = BAD[name]
    with pytest.raises(ko.errors.InputError, match=match):
        ProjectedLangevinRegressor().set_params(**arguments).fit(X, Y)


def test_a_kernel_without_a_variance_takes_y_as_it_is():
    class Bell(k.AbstractKernel):
        lengthscale: np.ndarray

        def pairwise(self, x, z):
            return jax.numpy.exp(-0.5 * jax.numpy.sum(((x[:, None] - z) / self.lengthscale) ** 2, axis=-1))

        def pointwise(self, x):
            return jax.numpy.ones(len(x))

    kernel = Bell(np.asarray(20.0))
    model = ProjectedLangevinRegressor(lk.Gaussian(0.5), kernel, **KEPT).fit(X, Y / 500.0)
    mean, _ = exact(kernel, 0.5, 0.0, X, Y / 500.0, NEW)
    np.testing.assert_allclose(model.predict(NEW), mean, rtol=1e-6)
