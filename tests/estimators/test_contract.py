"""scikit-learn's own checks, and the tools that a user of it puts around an estimator."""

from __future__ import annotations

import warnings

import jaxtyping
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.estimator_checks import estimator_checks_generator

import kosambi as ko
from kosambi import ProjectedLangevinClassifier, ProjectedLangevinRegressor

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
F = np.sin(2.0 * X[:, 0])
Y = 5.0 + 3.0 * F + 0.3 * RNG.normal(size=60)
LABELS = np.where(F + 0.3 * RNG.normal(size=60) > 0, "up", "down")
# Data that a check makes: a handful of rows, all targets equal, a noise that vanishes. The user is told, and must be.
DOUBTFUL = (ko.errors.HyperparameterWarning, ko.errors.ConvergenceWarning, ko.errors.TruncationWarning)


@pytest.fixture(autouse=True)
def without_type_checks():
    """Checks of scikit-learn pass values of any type, and look at what users would see."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def checks(estimator):
    return [
        pytest.param(estimator, check, id=f"{type(estimator).__name__}-{check.func.__name__}-{number}")
        for number, (_, check) in enumerate(estimator_checks_generator(estimator, legacy=True))
    ]


# Nearly every check has shapes of its own, for which the search for hyperparameters is compiled again.
@pytest.mark.parametrize(("estimator", "check"), checks(ProjectedLangevinRegressor(hyperparameters=None)))
def test_regressor_with_given_hyperparameters_passes_every_check_of_scikit_learn(estimator, check):
    _run(estimator, check)


@pytest.mark.slow
@pytest.mark.parametrize(("estimator", "check"), checks(ProjectedLangevinRegressor()))
def test_regressor_passes_every_check_of_scikit_learn(estimator, check):
    _run(estimator, check)


# Checks whose targets are no counts, which the regressor must refuse with `likelihood="poisson"`.
WITH_OTHER_NUMBERS = (
    "check_fit_check_is_fitted",
    "check_fit_idempotent",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_regressor_data_not_an_array",
    "check_regressors_no_decision_function",
    "check_regressors_train",
)


# Each class of shapes compiles a sampler, so the whole list takes minutes; the quick ones are those without a fit.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "check"), [*checks(ProjectedLangevinClassifier()), *checks(ProjectedLangevinRegressor("poisson"))]
)
def test_classifier_and_counts_pass_every_check_of_scikit_learn(estimator, check):
    if isinstance(estimator, ProjectedLangevinRegressor) and check.func.__name__ in WITH_OTHER_NUMBERS:
        with pytest.raises(ko.errors.InputError, match="needs y to be counts"):
            _run(estimator, check)
    else:
        _run(estimator, check)


QUICK = ("unfitted", "clone", "get_params", "set_params", "mixin", "repr", "no_attributes_set", "one_label")


@pytest.mark.parametrize(
    ("estimator", "check"), [p for p in checks(ProjectedLangevinClassifier()) if any(q in p.id for q in QUICK)]
)
def test_classifier_passes_checks_that_need_no_fit(estimator, check):
    _run(estimator, check)


def _run(estimator, check):
    if check.func.__name__ == "check_array_api_input":
        pytest.skip("SciPy's array interface must be switched on before SciPy is imported")
    with warnings.catch_warnings():
        # Checks of scikit-learn raise warnings of their own, on purpose.
        warnings.simplefilter("default")
        for kind in DOUBTFUL:
            warnings.simplefilter("ignore", kind)
        check(clone(estimator))


@pytest.mark.slow
def test_in_a_pipeline_a_search_and_a_cross_validation():
    model = make_pipeline(
        PolynomialFeatures(1, include_bias=False), ProjectedLangevinRegressor(hyperparameters="evidence")
    )
    grid = {"projectedlangevinregressor__kernel": [None, ko.kernels.SquaredExponential()]}
    search = GridSearchCV(model, grid, cv=3, error_score="raise").fit(X, Y)
    assert search.best_score_ > 0.8
    assert (
        cross_val_score(ProjectedLangevinRegressor(hyperparameters="evidence"), X, Y, cv=3, error_score="raise").min()
        > 0.7
    )


@pytest.mark.slow
def test_probabilities_can_be_calibrated():
    model = CalibratedClassifierCV(ProjectedLangevinClassifier(hyperparameters="evidence"), cv=2).fit(X, LABELS)
    assert model.score(X, LABELS) > 0.85


def test_mapie_makes_conformal_intervals():
    mapie = pytest.importorskip("mapie.regression", reason="needs MAPIE: pip install mapie")
    model = mapie.SplitConformalRegressor(ProjectedLangevinRegressor(), confidence_level=0.8, prefit=False)
    model.fit(X[:30], Y[:30]).conformalize(X[30:], Y[30:])
    _, interval = model.predict_interval(X[30:])
    assert np.mean((interval[:, 0, 0] <= Y[30:]) & (Y[30:] <= interval[:, 1, 0])) >= 0.8


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_of_either_library(library):
    frames = pytest.importorskip(library)
    frame = frames.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    model = ProjectedLangevinRegressor(hyperparameters="evidence").fit(frame, Y)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    np.testing.assert_array_equal(
        model.predict(frame), ProjectedLangevinRegressor(hyperparameters="evidence").fit(X, Y).predict(X)
    )
    renamed = frames.DataFrame({"c": X[:, 0], "b": X[:, 1]})
    with pytest.raises(ValueError, match="feature names"):
        model.predict(renamed)
