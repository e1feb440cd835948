"""Measures and priors: weights that sum to one, covariances that are, draws that are functions."""

from __future__ import annotations

import jax
import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import kosambi as ko
from tests.properties.data import FORMS, edges, forms, inputs, keys, rows, scales, seeds
from tests.properties.promises import assert_covariance, assert_numbers, outcome, own_warnings_allowed
from tests.tables import PRIORS

half = settings(max_examples=max(4, settings.default.max_examples // 3))


@given(
    x=inputs(scale=scales),
    values=st.lists(st.one_of(edges, st.floats(0.0, 2.0), st.just(np.nan)), min_size=8, max_size=8),
    form=forms,
)
def test_bad_input_weights_become_shares_or_are_refused(x, values, form):
    weights = np.array(values)[: len(x)]
    measure = outcome(ko.measures.points, x, FORMS[form](weights))
    if measure is None:
        assert not (np.isfinite(weights) & (weights >= 0)).all() or not weights.any()
        return
    assert_numbers(measure.weights, (len(x),))
    assert (measure.weights >= 0).all()
    np.testing.assert_allclose(measure.weights.sum(), 1.0, rtol=1e-12)


@given(x=inputs(num_columns=st.just(1)), seed=seeds, shares=st.lists(st.floats(0.0, 1e300), min_size=3, max_size=3))
def test_bad_input_mixtures_have_weights_that_sum_to_one(x, seed, shares):
    parts = [ko.measures.empirical(x), ko.measures.gaussian([0.0], [[1.0]]), ko.measures.points([[1.0]], [2.0])]
    found = outcome(ko.measures.mixture, parts, shares)
    if found is not None:
        np.testing.assert_allclose(np.sum(found.weights), 1.0, rtol=1e-12)
        assert np.isfinite(found.weights).all()


@given(scale=st.sampled_from([1e-300, 1e-150, 1.0, 1e150, 1e300]), seed=seeds, size=st.sampled_from([1, 2]))
def test_bad_input_normal_measures_have_covariances(scale, seed, size):
    root = np.random.default_rng(seed).normal(size=(size, size))
    covariance = scale * (root @ root.T)
    measure = outcome(ko.measures.gaussian, np.zeros(size), covariance)
    if measure is not None:
        np.testing.assert_array_equal(measure.covariance, covariance)
        drawn = outcome(measure.sample, jax.random.key(seed), 4)
        assert drawn is None or np.isfinite(drawn.points).all()


@given(x=inputs(), size=st.integers(-1, 9), key=keys)
def test_bad_input_subsamples_are_rows(x, size, key):
    found = outcome(ko.measures.subsample, key, x, size)
    assert (found is None) == (not 1 <= size <= len(x))
    if found is not None:
        assert found.points.shape == (size, x.shape[1])
        assert {row.tobytes() for row in found.points} <= {row.tobytes() for row in np.ascontiguousarray(x)}


@given(name=st.sampled_from(list(PRIORS)), x=inputs(num_columns=st.just(3)), seed=seeds)
@half
def test_covariances_of_priors(name, x, seed):
    prior = PRIORS[name]
    covariance, order = prior.covariance(x), np.random.default_rng(seed).permutation(len(x))
    assert_covariance(covariance, len(x))
    variance = prior.variance(x)
    assert_numbers(variance, (len(x),))
    np.testing.assert_allclose(np.diag(covariance), variance, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(prior.covariance(x[order], x), covariance[order], rtol=1e-9, atol=1e-12)
    assert_numbers(np.array(prior.mean_at(x)), (len(x),))


@given(name=st.sampled_from(list(PRIORS)), x=inputs(num_columns=st.just(3)), key=keys, number=st.sampled_from([1, 3]))
@half
def test_draws_are_functions(name, x, key, number):
    prior = PRIORS[name]
    draw = lambda: prior.draw(key, number, **({"num_columns": 3} if prior.num_columns is None else {}))
    draws = draw()
    with own_warnings_allowed():
        values = draws(x)
        assert_numbers(values, (number, len(x)))
        np.testing.assert_array_equal(draw()(x), values)
        scale = np.abs(values).max() + 1.0
        np.testing.assert_allclose(draws(x[:1]), values[:, :1], rtol=0, atol=1e-9 * scale)
        np.testing.assert_allclose(draws(x[::-1]), values[:, ::-1], rtol=0, atol=1e-9 * scale)
        np.testing.assert_allclose(draws[number - 1](x), values[-1:], rtol=0, atol=1e-9 * scale)


@given(x=inputs(num_columns=st.just(2), scale=scales), measure=inputs(num_columns=st.just(2), scale=scales), n=rows)
@half
def test_random_elements_at_any_scale(x, measure, n):
    assume(len(measure) in (1, 5))
    prior = ko.GaussianRandomElement(ko.kernels.Matern52(), ko.measures.empirical(measure))
    covariance = outcome(prior.covariance, x)
    if covariance is not None:
        assert_covariance(covariance, len(x))
    background = outcome(prior.with_background, 0.1)
    if background is not None:
        variance = outcome(background.variance, x)
        assert variance is None or (np.isfinite(variance).all() and (variance >= 0).all())


@given(
    number=st.one_of(st.integers(-1, 3), st.sampled_from([None, 1.5, "a", True])),
    columns=st.one_of(st.integers(-1, 3), st.sampled_from([None, 1.5, "a", True])),
    features=st.sampled_from([1, 8, 0, None, 2.5]),
)
@half
def test_bad_input_numbers_of_draws_are_counts_or_refused(number, columns, features):
    prior = ko.GaussianProcess(ko.kernels.Matern52())
    draws = outcome(prior.draw, jax.random.key(0), number, num_columns=columns, num_features=features)
    if draws is not None:
        assert_numbers(draws(np.zeros((2, draws.num_columns))), (number, 2))


@given(mean=st.one_of(st.floats(allow_nan=True), st.sampled_from([None, "a", [1.0], [[1.0]], 1j, 10**400, True])))
def test_bad_input_means_are_numbers_or_refused(mean):
    prior = outcome(ko.GaussianProcess, ko.kernels.Matern52(), mean)
    if prior is not None:
        assert_numbers(np.array(prior.mean_at([[0.0]])), (1,))
