"""The estimators: tables of every form and size in, finite predictions in the user's units out, or words."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kosambi as ko
from tests.properties.data import COLUMNS, FORMS, forms, inputs, observations, scales, seeds, weights
from tests.properties.promises import assert_numbers, outcome, own_warnings_allowed

QUICK = {"hyperparameters": None, "n_inducing": 2, "n_samples": 4, "kernel": "matern52"}
# A shape that is fitted once for all examples, so that only predictions are compiled.
few = settings(max_examples=max(2, settings.default.max_examples // 6))


def assert_regressor(model, x):
    with own_warnings_allowed():
        mean, deviation = model.predict(x, return_std=True)
        assert_numbers(mean, (len(x),))
        # Student's distribution with few degrees of freedom has no variance.
        assert_numbers(deviation, (len(x),), finite=model.likelihood != "student_t")
        assert (deviation >= 0).all()
        lower, upper = model.predict_interval(x, 0.9)
        middle = model.predict_quantile(x, 0.5)
        assert (lower <= middle).all()
        assert (middle <= upper).all()
        assert np.isfinite([lower, middle, upper]).all()
        assert_numbers(model.sample_y(x, 2), (len(x), 2))
        assert_numbers(model.sample_functions(x, 2), (len(x), 2, *model.posterior_.target.shape[1:]))


@given(x=inputs(scale=scales), y_scale=scales, data=st.data())
@few
def test_bad_input_regression_of_any_rows(x, y_scale, data):
    y = data.draw(observations(len(x), scale=st.just(y_scale)))
    counts = data.draw(st.none() | weights(len(x)))
    model = outcome(ko.ProjectedLangevinRegressor(**QUICK).fit, x, y, counts)
    if model is None:
        return
    with own_warnings_allowed():
        assert_regressor(model, x)
        again = ko.ProjectedLangevinRegressor(**QUICK).fit(x, y, counts)
        np.testing.assert_array_equal(again.predict(x), model.predict(x))
        order = np.random.default_rng(0).permutation(len(x))
        other = ko.ProjectedLangevinRegressor(**QUICK).fit(
            x[order], y[order], None if counts is None else counts[order]
        )
        np.testing.assert_allclose(other.predict(x), model.predict(x), rtol=1e-6, atol=1e-9 * np.abs(y).max())


@given(x=inputs(num_rows=st.just(8)), form=forms, seed=seeds)
@few
def test_forms_of_a_table_change_no_number(x, form, seed):
    y = np.random.default_rng(seed).normal(size=8)
    with own_warnings_allowed():
        plain = ko.ProjectedLangevinRegressor(**QUICK).fit(x, y)
        other = ko.ProjectedLangevinRegressor(**QUICK).fit(FORMS[form](x), FORMS[form](y))
        np.testing.assert_array_equal(other.predict(FORMS[form](x)), plain.predict(x))


LABELS = {
    "text": np.array(["no", "yes", "perhaps"]),
    "numbers": np.array([3, 7, 11]),
    "negative": np.array([-1, 1, 2]),
    "whole floats": np.array([0.0, 1.0, 2.0]),
    "objects": np.array(["no", "yes", "perhaps"], dtype=object),
    "truth": np.array([False, True, True]),
}


@pytest.mark.slow
@given(x=inputs(scale=scales), labels=st.sampled_from(list(LABELS)), number=st.sampled_from([1, 2, 3]), data=st.data())
@settings(max_examples=40)
def test_bad_input_classification_of_any_rows(x, labels, number, data):
    which = data.draw(observations(len(x), str(number))).astype(int)
    y = LABELS[labels][which]
    counts = data.draw(st.none() | weights(len(x)))
    model = outcome(ko.ProjectedLangevinClassifier(**QUICK).fit, x, y, counts)
    if model is None:
        return
    with own_warnings_allowed():
        table = model.predict_proba(x)
        assert_numbers(table, (len(x), len(model.classes_)))
        np.testing.assert_allclose(table.sum(axis=1), 1.0, rtol=1e-9)
        assert set(model.predict(x)) <= set(y)
        assert np.isfinite(model.predict_log_proba(x)).all()
        lower, upper = model.predict_interval(x)
        assert ((lower >= 0) & (lower <= upper + 1e-12) & (upper <= 1.0 + 1e-12)).all()
        assert set(model.sample_y(x, 2).ravel()) <= set(y)


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["gaussian", "student_t", "laplace", "heteroscedastic"])
@given(x=inputs(), data=st.data(), y_scale=scales)
@settings(max_examples=6)
def test_learned_regression_of_real_numbers(likelihood, x, data, y_scale):
    y = data.draw(observations(len(x), scale=st.just(y_scale)))
    model = outcome(ko.ProjectedLangevinRegressor(likelihood, n_samples=4).fit, x, y)
    if model is not None:
        assert_regressor(model, x)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("likelihood", "kind"),
    [
        ("poisson", "counts"),
        ("negative_binomial", "counts"),
        ("zero_inflated_poisson", "counts"),
        ("gamma", "positive"),
        ("exponential", "positive"),
    ],
)
@given(x=inputs(), data=st.data())
@settings(max_examples=5)
def test_learned_regression_of_counts_and_positive_numbers(likelihood, kind, x, data):
    y = data.draw(observations(len(x), kind))
    model = outcome(ko.ProjectedLangevinRegressor(likelihood, n_samples=4).fit, x, y)
    if model is not None:
        assert_regressor(model, x)


@pytest.mark.slow
@given(x=inputs(num_columns=st.just(1)), data=st.data())
@few
def test_more_rows_by_and_by(x, data):
    start, first = np.linspace(-2.0, 2.0, 8)[:, None], np.linspace(-1.0, 1.0, 8)
    y = data.draw(observations(len(x)))
    counts = data.draw(st.none() | weights(len(x), least=0.5))
    with own_warnings_allowed():
        model = ko.ProjectedLangevinRegressor(**QUICK).fit(start, first)
        before = pickle.loads(pickle.dumps(model))
        model.partial_fit(x, y, counts)
        assert_regressor(model, x)
        np.testing.assert_array_equal(before.predict(start), pickle.loads(pickle.dumps(before)).predict(start))
        assert model.posterior_.num_particles == before.posterior_.num_particles


@given(
    far=st.sampled_from([1e149, 1e154, -1e200, 1.7e308]),
    what=st.sampled_from(["X", "y", "sample_weight", "new"]),
    row=st.integers(0, 7),
    masked=st.booleans(),
)
def test_bad_input_far_out_or_masked_anywhere(far, what, row, masked):
    x = np.linspace(-2.0, 2.0, 8)[:, None]
    given = {"X": x, "y": np.sin(x[:, 0]), "sample_weight": np.ones(8), "new": x.copy()}
    if masked:
        mask = np.zeros(given[what].shape, bool)
        mask[row] = True
        given[what] = np.ma.masked_array(given[what], mask=mask)
    else:
        given[what] = given[what].copy()
        given[what][row] = far
    new = given.pop("new")
    model = outcome(ko.ProjectedLangevinRegressor(**QUICK).fit, **given)
    if masked and what != "new":
        assert model is None
    mean = None if model is None else outcome(model.predict, new)
    if masked:
        assert mean is None
    assert mean is None or np.isfinite(mean).all()


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["gaussian", "student_t", "laplace", "heteroscedastic", "poisson", "gamma"])
def test_a_constant_target_is_predicted(likelihood):
    x = np.random.default_rng(0).normal(size=(8, 2))
    with own_warnings_allowed():
        model = ko.ProjectedLangevinRegressor(likelihood, n_samples=4).fit(x, np.full(8, 3.0))
    assert_regressor(model, x)
    lower, upper = model.predict_interval(x)
    assert ((lower <= 3.0) & (upper >= 3.0)).all()


ANY = st.sampled_from([None, "a", "auto", 0, -1, 1, 1.5, True, np.nan, [], {}, [["a"]], ko.kernels.Matern52(), "paper"])
ARGUMENTS = tuple(ko.ProjectedLangevinRegressor().get_params(deep=False))


@given(name=st.sampled_from(ARGUMENTS), value=ANY)
@settings(max_examples=2 * settings.default.max_examples)
def test_bad_input_parameters_of_any_type_are_used_or_refused(name, value):
    x = np.linspace(-2.0, 2.0, 8)[:, None]
    model = outcome(ko.ProjectedLangevinRegressor(**(QUICK | {name: value})).fit, x, np.sin(x[:, 0]))
    if model is not None:
        assert np.isfinite(model.predict(x)).all()


@given(
    table=st.sampled_from(
        [
            None,
            [],
            [[]],
            "text",
            [["a"], ["b"]],
            pd.DataFrame({"a": ["x", "y"]}),
            pd.DataFrame({"a": [1.0, None]}),
            pd.DataFrame({"a": pd.to_datetime(["2020-01-01", "2020-01-02"])}),
            pd.DataFrame({"a": [True, False]}),
            pd.DataFrame({"a": pd.Categorical(["x", "y"])}),
            pd.DataFrame({"a": pd.array([1, None], dtype="Int64")}),
            np.ma.masked_array([[1.0], [2.0]], mask=[[True], [False]]),
            np.array([[1.0 + 1.0j], [2.0]]),
            np.zeros((2, 1, 1)),
            np.zeros((2, 0)),
        ]
    ),
    method=st.sampled_from(["fit", "partial_fit", "predict", "predict_interval", "sample_y", "predict_log_density"]),
    seed=st.sampled_from(COLUMNS),
)
def test_bad_input_tables_of_any_sort(table, method, seed):
    x = np.linspace(-2.0, 2.0, 8)[:, None]
    with own_warnings_allowed():
        model = ko.ProjectedLangevinRegressor(**QUICK).fit(x, np.sin(x[:, 0]))
    y = np.arange(2.0)
    if isinstance(table, pd.DataFrame) and method != "fit":
        # scikit-learn warns of names that were not there in `fit`.
        table = table.to_numpy()
    arguments = (table, y) if method in ("fit", "partial_fit", "predict_log_density") else (table,)
    outcome(getattr(model, method), *arguments)
    if method in ("fit", "partial_fit"):
        # scikit-learn warns of a column in the place of a vector.
        table = np.ravel(table) if np.ndim(table) == 2 and not np.ma.isMaskedArray(table) else table
        outcome(getattr(model, method), x[:2], table)
        outcome(getattr(model, method), x[:2], y, table)
