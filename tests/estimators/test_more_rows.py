"""`partial_fit` equals conditioning and a fit of all rows; `warm_start` begins where the last fit ended."""

from __future__ import annotations

import pickle

import jax
import numpy as np
import pytest

import kosambi as ko
from kosambi import ProjectedLangevinClassifier, ProjectedLangevinRegressor
from kosambi.estimators import _fit

RNG = np.random.default_rng(3)
X = RNG.normal(size=(44, 2)) * [1.0, 30.0] + [0.0, 5.0]
F = np.sin(2.0 * X[:, 0]) + 0.02 * X[:, 1]
Y = 50.0 + 8.0 * F + 0.8 * RNG.normal(size=44)
LABELS = np.array(["no", "perhaps", "yes"])[np.digitize(F + 0.3 * RNG.normal(size=44), [-0.4, 0.4])]
FIRST, SECOND = slice(0, 30), slice(30, 44)
NEW = X[::7] + 0.1


def in_closed_form(posterior, x, y, new):
    """Mean and variance of f at `new`, in the posterior's units, by the formula of the full process."""
    prior, noise = posterior.prior, float(posterior.likelihood.noise)
    system, cross = np.asarray(prior.covariance(x)) + noise**2 * np.eye(len(x)), np.asarray(prior.covariance(new, x))
    mean = np.asarray(prior.mean) + cross @ np.linalg.solve(system, y - np.asarray(prior.mean))
    return mean, np.asarray(prior.variance(new)) - np.einsum("ij,ji->i", cross, np.linalg.solve(system, cross.T))


@pytest.fixture(scope="module")
def averaged():
    model = ProjectedLangevinRegressor(kernel="matern52").fit(X[FIRST], Y[FIRST])
    return model, pickle.loads(pickle.dumps(model)).partial_fit(X[SECOND], Y[SECOND])


@pytest.mark.slow
def test_partial_fit_equals_the_full_process_of_all_rows(averaged):
    """Every model of the average, with its own hyperparameters, and the standardisation of the first fit."""
    early, model = averaged
    np.testing.assert_array_equal(model.x_mean_, early.x_mean_)
    x, new = model.transform_inputs(X), model.transform_inputs(NEW)
    assert len(model.posterior_.components) == 50
    for before, part in zip(early.posterior_.components, model.posterior_.components, strict=True):
        assert repr(part.prior.kernel) == repr(before.prior.kernel)
        mean, variance = in_closed_form(part, x, Y, new)
        found = part.predict(new)
        np.testing.assert_allclose(found.mean, mean, atol=1e-7)
        np.testing.assert_allclose(found.variance, variance, atol=1e-7)
    assert model.posterior_.num_particles == early.posterior_.num_particles
    assert early.posterior_.target.num_rows == 30


@pytest.mark.slow
def test_a_file_goes_on(averaged, tmp_path):
    early, model = averaged
    ko.save(early, tmp_path / "early.kosambi")
    loaded = ko.load(tmp_path / "early.kosambi").partial_fit(X[SECOND], Y[SECOND])
    for one, other in zip(loaded.predict(NEW, return_std=True), model.predict(NEW, return_std=True), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)


def test_partial_fit_is_condition_and_the_first_call_is_fit():
    options = {"kernel": "matern52", "hyperparameters": None, "n_inducing": "all"}
    model = ProjectedLangevinRegressor(**options).partial_fit(X[FIRST], Y[FIRST])
    np.testing.assert_array_equal(
        model.predict(NEW), ProjectedLangevinRegressor(**options).fit(X[FIRST], Y[FIRST]).predict(NEW)
    )
    early = model.posterior_
    weights = np.concatenate([np.zeros(1), np.full(13, 2.0)])
    model.partial_fit(X[SECOND], Y[SECOND], weights)
    rows = model.transform_inputs(X[SECOND])[1:]
    right = early.condition(jax.random.key(5), rows, Y[SECOND][1:], weights=np.full(13, 2.0))
    new = model.transform_inputs(NEW)
    np.testing.assert_allclose(model.posterior_.predict(new).mean, right.predict(new).mean, atol=1e-10)
    assert model.report_ is model.posterior_.report
    assert model.posterior_.target.num_rows == 43


def test_warm_start_begins_at_the_last_hyperparameters(monkeypatch):
    """In the units of the new rows, and without a choice of the kernel's family."""
    asked, learn = [], _fit.learned
    monkeypatch.setattr(
        _fit,
        "learned",
        lambda key, settings, *rest: (asked.append((settings, rest[0])), learn(key, settings, *rest))[1],
    )
    model = ProjectedLangevinRegressor(
        "gaussian", "matern52", n_inducing="all", hyperparameters="evidence", warm_start=True
    )
    model.fit(X[FIRST], Y[FIRST])
    last = model.posterior_
    model.fit(X, 1000.0 * Y)
    settings, likelihood = asked[-1]
    scale = 1000.0 * np.std(Y)
    np.testing.assert_allclose(settings.kernel.variance, last.prior.kernel.variance / scale**2, rtol=1e-12)
    np.testing.assert_allclose(settings.kernel.lengthscale, last.prior.kernel.lengthscale, rtol=1e-12)
    np.testing.assert_allclose(likelihood.noise, last.likelihood.noise / scale, rtol=1e-12)
    assert settings.initial is last
    # Without learning they are kept, and the fit is one of all rows at the same hyperparameters.
    kept = model.posterior_
    model.set_params(hyperparameters=None).fit(X, 1000.0 * Y)
    np.testing.assert_allclose(model.posterior_.prior.kernel.lengthscale, kept.prior.kernel.lengthscale, rtol=1e-12)
    np.testing.assert_allclose(
        model.predict(NEW),
        in_closed_form(kept, model.transform_inputs(X), 1000.0 * Y, model.transform_inputs(NEW))[0],
        rtol=1e-5,
    )
    # Another kernel that was asked for since is where the search begins.
    model.set_params(kernel="rbf").fit(X, Y)
    assert isinstance(model.posterior_.prior.kernel, ko.kernels.SquaredExponential)
    assert asked[-1][0].kernel == "rbf"
    assert asked[-1][0].initial is None


@pytest.mark.slow
def test_labels_come_in_parts():
    options = {"kernel": "matern52", "hyperparameters": None, "n_samples": 400}
    few = np.flatnonzero(LABELS[FIRST] != "perhaps")
    model = ProjectedLangevinClassifier(**options).partial_fit(X[few], LABELS[few], classes=["yes", "no", "perhaps"])
    assert model.classes_.tolist() == ["no", "perhaps", "yes"]
    rest = np.setdiff1d(np.arange(44), few)
    model.partial_fit(X[rest], LABELS[rest])
    assert model.report_.converged
    # At the same standardisation: the columns of the first rows.
    rows = np.concatenate([few, rest])
    right = ko.infer(
        jax.random.key(1),
        model.posterior_.prior,
        model.posterior_.likelihood,
        model.transform_inputs(X[rows]),
        np.searchsorted(model.classes_, LABELS[rows]).astype(float),
        basis=model.posterior_.basis,
        potential=model.posterior_.target.kind,
        num_particles=400,
    )
    found, wanted = model.predict_proba(NEW), right.predict(model.transform_inputs(NEW)).probability
    # Monte Carlo error of 400 draws of probabilities.
    np.testing.assert_allclose(found, wanted, atol=5.0 * 0.5 / np.sqrt(400))
    model.set_params(warm_start=True).fit(X, LABELS)
    assert model.report_.converged


def test_bad_input():
    model = ProjectedLangevinRegressor(kernel="matern52", hyperparameters=None).fit(X, Y)
    with pytest.raises(ko.errors.InputError, match="takes rows as arrays"):
        model.partial_fit(ko.sources.ArraySource(X, Y), None)
    with pytest.raises(ko.errors.InputError, match="`warm_start` must be True or False"):
        ProjectedLangevinRegressor(warm_start="yes").fit(X, Y)
    with pytest.raises(ValueError, match="has 1 features, but"):
        model.partial_fit(X[:, :1], Y)
    labelled = ProjectedLangevinClassifier()
    labelled.classes_, labelled.posterior_, labelled.n_features_in_ = np.array([0, 1]), model.posterior_, 2
    with pytest.raises(ko.errors.InputError, match="label 2, which is none of the classes"):
        labelled.partial_fit(X[:3], [0, 1, 2])
    with pytest.raises(ko.errors.InputError, match=r"`classes` are \[0, 2\], but were \[0, 1\]"):
        labelled.partial_fit(X[:2], [0, 1], classes=[0, 2])
