"""Learning of hyperparameters and choice of points from few or degenerate rows: numbers, or words."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kosambi as ko
from kosambi._core.parameters import parameters
from tests.properties.data import inputs, keys, observations, scales, seeds, weights
from tests.properties.promises import assert_numbers, outcome
from tests.properties.test_infer import GAUSSIAN, KERNEL, KINDS

few = settings(max_examples=max(2, settings.default.max_examples // 6))


def assert_learned(found):
    kernel, likelihood, report = found
    for parameter in parameters(kernel=kernel, mean=np.zeros(()), likelihood=likelihood):
        assert np.isfinite(np.asarray(parameter.value)).all(), parameter
    assert not np.isnan(report.log_evidence)


@given(x=inputs(), seed=seeds, name=st.sampled_from(list(KINDS)), data=st.data())
@few
def test_points_are_chosen_among_the_rows(x, seed, name, data):
    kind, likelihood = KINDS[name]
    y = data.draw(observations(len(x), kind))
    counts = data.draw(st.none() | weights(len(x)))
    selection = outcome(ko.select_inducing, ko.GaussianProcess(KERNEL), likelihood, x, y, weights=counts)
    if selection is None:
        return
    assert 1 <= selection.num_inducing <= len(np.unique(x, axis=0))
    assert len(np.unique(selection.indices)) == selection.num_inducing
    assert str(selection)


@given(x=inputs(num_columns=st.just(1)), key=keys, data=st.data())
@few
def test_gaussian_hyperparameters_of_few_rows(x, key, data):
    y = data.draw(observations(len(x)))
    counts = data.draw(st.none() | weights(len(x)))
    found = outcome(ko.fit_hyperparameters, key, KERNEL, GAUSSIAN, x, y, weights=counts)
    if found is None:
        assert len(np.unique(x)) == 1 or len(np.unique(y)) == 1 or counts is not None
        return
    assert_learned(found)
    again = outcome(ko.fit_hyperparameters, key, KERNEL, GAUSSIAN, x, y, weights=counts)
    assert repr(again[0]) == repr(found[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
@given(x=inputs(), key=keys, data=st.data(), number=st.sampled_from(["auto", 1, 2, "all"]), ard=st.booleans())
@settings(max_examples=6)
def test_hyperparameters_of_every_likelihood(name, x, key, data, number, ard):
    kind, likelihood = KINDS[name]
    y = data.draw(observations(len(x), kind))
    options = {"num_inducing": number, "ard": ard}
    found = outcome(ko.fit_hyperparameters, key, KERNEL, likelihood, x, y, **options)
    if found is not None:
        assert_learned(found)


@pytest.mark.slow
@given(x=inputs(scale=scales), y_scale=scales, key=keys, seed=seeds)
@settings(max_examples=40)
def test_bad_input_hyperparameters_at_any_scale(x, y_scale, key, seed):
    y = y_scale * np.random.default_rng(seed).normal(size=len(x))
    found = outcome(ko.fit_hyperparameters, key, KERNEL, GAUSSIAN, x, y)
    if found is not None:
        assert_learned(found)


@pytest.mark.slow
@given(x=inputs(num_columns=st.just(1), num_rows=st.sampled_from([5, 8])), key=keys, number=st.sampled_from([1, 3]))
@settings(max_examples=6)
def test_averages_over_hyperparameters(x, key, number):
    y = np.sin(x[:, 0]) + np.linspace(0.0, 1.0, len(x))
    found = outcome(ko.fit_hyperparameters, key, KERNEL, GAUSSIAN, x, y, num_draws=number)
    if found is None:
        return
    posterior = outcome(ko.average, key, found[2].draws, x, y, num_particles=4)
    p = posterior.predict(x)
    assert_numbers(p.mean, (len(x),))
    assert (p.variance >= 0).all()
    lower, upper = p.interval()
    assert (lower <= upper).all()
    assert_numbers(posterior.functions(key)(x))


PRIORS = {
    "LogNormal": ("kernel.variance", ko.hyperpriors.LogNormal),
    "Normal": ("mean", ko.hyperpriors.Normal),
    "LogitNormal": ("kernel.lengthscale", ko.hyperpriors.LogitNormal),
}
values = st.one_of(
    st.floats(allow_nan=True), st.sampled_from([None, "a", [], [1.0, 2.0], [[1.0]], 1e300, 1e-300, 0.5, 10**400])
)


@given(name=st.sampled_from(list(PRIORS)), middle=values, width=values)
def test_bad_input_priors_of_hyperparameters_are_numbers_or_refused(name, middle, width):
    parameter, kind = PRIORS[name]
    prior = outcome(kind, middle, width)
    if prior is None:
        return
    assert all(np.isfinite(part).all() for part in prior.free)
    x = np.linspace(-1.0, 1.0, 5)[:, None]
    options = {"priors": {parameter: prior}, "max_iterations": 3, "num_restarts": 0}
    found = outcome(
        ko.fit_hyperparameters, jax.random.key(0), ko.GaussianProcess(KERNEL), GAUSSIAN, x, np.sin(x[:, 0]), **options
    )
    if found is not None:
        assert np.isfinite(float(found[0].kernel.variance))
        assert np.isfinite(float(found[0].mean))


ANY = st.sampled_from([None, "auto", "all", "a", 0, 1, 2, 9, -1, 1.5, True, np.nan, [], {}, ["kernel"], [["a", "b"]]])


@given(
    name=st.sampled_from(
        [
            "method",
            "num_inducing",
            "weights",
            "ard",
            "choose_family",
            "freeze",
            "tie",
            "max_rows",
            "num_restarts",
            "max_iterations",
            "priors",
            "num_draws",
            "on_interrupt",
            "key",
            "prior",
            "likelihood",
            "x",
            "y",
        ]
    ),
    value=ANY,
)
@settings(max_examples=2 * settings.default.max_examples)
def test_bad_input_arguments_of_any_type_are_used_or_refused(name, value):
    x = np.linspace(-1.0, 1.0, 5)[:, None]
    given = {"key": jax.random.key(0), "prior": KERNEL, "likelihood": GAUSSIAN, "x": x, "y": np.sin(x[:, 0])}
    found = outcome(ko.fit_hyperparameters, **(given | {"max_iterations": 3} | {name: value}))
    if found is not None:
        assert_learned(found)
