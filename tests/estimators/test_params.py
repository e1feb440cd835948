"""Arguments by name, inside kernels and likelihoods too: grid searches, clones, words, and what has changed."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kosambi as ko
from kosambi import ProjectedLangevinClassifier, ProjectedLangevinRegressor

k, lk = ko.kernels, ko.likelihoods
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
F = np.sin(2.0 * X[:, 0])
Y = 5.0 + 3.0 * F + 0.3 * RNG.normal(size=60)
LABELS = np.where(F + 0.3 * RNG.normal(size=60) > 0, "up", "down")
THREE = np.digitize(F, [-0.5, 0.5])
FIXED = {"hyperparameters": None, "n_inducing": 16, "n_samples": 20}


@pytest.mark.slow
def test_a_grid_search_over_the_lengthscale():
    kernel = k.Matern52(lengthscale=1.0)
    model = ProjectedLangevinRegressor(lk.Gaussian(0.3), kernel, **FIXED)
    grid = {"kernel__lengthscale": [0.01, 0.6, [0.6, 30.0]], "likelihood__noise": [0.3, 3.0]}
    search = GridSearchCV(model, grid, cv=3, error_score="raise").fit(X, Y)
    # The second column says nothing, and the noise is small.
    assert search.best_params_ == {"kernel__lengthscale": [0.6, 30.0], "likelihood__noise": 0.3}
    best = search.best_estimator_
    np.testing.assert_array_equal(best.kernel.lengthscale, [0.6, 30.0])
    np.testing.assert_array_equal(best.posterior_.prior.kernel.lengthscale, [0.6, 30.0])
    # The object that was given is as it was.
    assert model.kernel is kernel
    assert kernel.lengthscale == 1.0


def test_parts_of_sums_and_models_inside_a_pipeline():
    model = ProjectedLangevinRegressor("gaussian", k.Matern52() + k.Linear(), **FIXED)
    pipeline = make_pipeline(StandardScaler(), model)
    name = "projectedlangevinregressor__kernel__1__variance"
    assert pipeline.get_params()[name] == 1.0
    pipeline.set_params(**{name: 0.25})
    assert repr(pipeline[-1].kernel) == "Matern52(lengthscale=1.0, variance=1.0) + Linear(variance=0.25)"
    sampler = ProjectedLangevinRegressor("poisson", sampler=ko.samplers.MALA())
    assert sampler.set_params(sampler__max_steps=30).get_params()["sampler__max_steps"] == 30


@pytest.mark.parametrize("cls", [ProjectedLangevinRegressor, ProjectedLangevinClassifier])
def test_clones_have_the_same_arguments(cls):
    model = cls(kernel=k.Matern52([1.0, 2.0]) * k.Linear() + 0.1, n_inducing="all", sampler=ko.samplers.HMC())
    copy = clone(model)
    assert copy is not model
    assert copy.get_params(deep=False) == model.get_params(deep=False)
    copy.set_params(kernel__1__variance=5.0)
    assert model.get_params()["kernel__1__variance"] == 0.1
    names = set(model.get_params())
    assert {"kernel__0__0__lengthscale", "kernel__0__1__active_dims", "kernel__1__variance"} <= names
    assert "kernel=Matern52(lengthscale=[1.0, 2.0]" in "".join(repr(model).split("\n"))
    assert model._repr_html_()


def test_what_replaces_a_kernel_comes_before_what_changes_it():
    model = ProjectedLangevinRegressor(kernel=k.Matern52())
    model.set_params(kernel__variance=2.0, kernel=k.Matern12(3.0))
    assert repr(model.kernel) == "Matern12(lengthscale=3.0, variance=2.0)"


BAD = {
    "no kernel": ({"kernel__lengthscale": 1.0}, "sets a parameter of `kernel`, which is None"),
    "a name": ({"likelihood__noise": 1.0}, "sets a parameter of `likelihood`, which is 'gaussian'"),
    "unknown": ({"kernels__lengthscale": 1.0}, "Invalid parameter 'kernels'"),
    "unknown whole": ({"kernels": 1.0}, "Invalid parameter 'kernels'"),
    "unknown inside": ({"kernel": k.Matern52(), "kernel__scale": 1.0}, "no parameter 'scale'"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_parameters(name):
    params, match = BAD[name]
    with pytest.raises(ValueError, match=match):
        ProjectedLangevinRegressor().set_params(**params)


@pytest.mark.parametrize("y", [Y, pytest.param(THREE, marks=pytest.mark.slow)], ids=["numbers", "three classes"])
def test_none_is_auto_and_all_is_every_row(y):
    cls = ProjectedLangevinRegressor if y is Y else ProjectedLangevinClassifier
    model = cls(kernel=k.Matern52(0.3), hyperparameters=None, n_samples=20)
    auto, nothing, every = (clone(model).set_params(n_inducing=word).fit(X, y) for word in ("auto", None, "all"))
    np.testing.assert_array_equal(auto.posterior_.particles.coordinates, nothing.posterior_.particles.coordinates)
    assert auto.posterior_.selection.num_inducing == auto.posterior_.basis.size
    assert every.posterior_.basis.report.num_inducing == 60
    assert every.posterior_.selection is None


def test_all_rows_while_learning():
    model = ProjectedLangevinRegressor(n_inducing="all", n_samples=20, hyperparameters="evidence").fit(X, Y)
    assert model.fit_report_.is_exact
    assert model.fit_report_.inducing_points is None
    assert model.posterior_.basis.report.num_inducing == 60


@pytest.mark.slow
def test_the_first_argument_of_both_estimators_is_the_likelihood():
    model = ProjectedLangevinClassifier(lk.Bernoulli("probit"), k.Matern52(0.7, 2.0), **FIXED).fit(X, LABELS)
    assert model.posterior_.likelihood.link == "probit"
    assert model.score(X, LABELS) > 0.85


def test_a_kernel_as_first_argument_is_still_taken_for_one():
    with pytest.warns(DeprecationWarning, match="Write `kernel=...`"):
        old = ProjectedLangevinClassifier(k.Matern52(0.7, 2.0), **FIXED).fit(X, LABELS)
    new = ProjectedLangevinClassifier(kernel=k.Matern52(0.7, 2.0), **FIXED).fit(X, LABELS)
    np.testing.assert_array_equal(old.predict_proba(X), new.predict_proba(X))
    assert new.posterior_.likelihood.link == "logit"


@pytest.mark.slow
def test_classes_that_are_a_scale():
    model = ProjectedLangevinClassifier(lk.Ordinal([-1.0, 1.0]), k.Matern52(0.7, 4.0), **FIXED).fit(X, THREE)
    table = model.predict_proba(X)
    assert model.score(X, THREE) > 0.7
    np.testing.assert_allclose(table.sum(axis=1), 1.0)
    lower, upper = model.predict_interval(X[:5], 0.9)
    assert lower.shape == (5, 3)
    assert np.all((lower <= table[:5]) & (table[:5] <= upper))
    assert set(np.unique(model.sample_y(X, 5))) <= {0, 1, 2}


WRONG = {
    "for numbers": ({"likelihood": lk.Gaussian()}, "a likelihood of labels"),
    "a name of another": ({"likelihood": "gaussian"}, '"auto" or a likelihood of labels'),
    "other classes": ({"likelihood": lk.Categorical(4)}, "for 4 labels, but y has 2 classes"),
    "two kernels": ({"likelihood": k.Matern52(), "kernel": k.Matern52()}, "beside `kernel`"),
    "unknown number": ({"n_inducing": "many"}, '`n_inducing` must be a whole number, "all", "auto" or None'),
    "no number": ({"n_inducing": 0}, "`n_inducing` must be at least 1"),
}


@pytest.mark.parametrize("name", WRONG)
def test_bad_arguments_of_the_classifier(name):
    arguments, match = WRONG[name]
    with pytest.raises(ko.errors.InputError, match=match):
        ProjectedLangevinClassifier(**arguments).fit(X, LABELS)


def test_reports_show_themselves():
    settings = {"n_inducing": 16, "n_samples": 20, "hyperparameters": "evidence"}
    report = ProjectedLangevinRegressor(**settings).fit(X, Y).fit_report_
    assert repr(report).startswith("FitReport(method='evidence', converged=True, log_evidence=")
    assert "'kernel.lengthscale': [" in repr(report)
    shown = report._repr_html_()
    assert "kernel.lengthscale" in shown
    assert "likelihood.noise" in shown
    assert "frozen" in shown
