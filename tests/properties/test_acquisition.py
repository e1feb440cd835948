"""Acquisition functions: finite scores in any box, and a maximum that lies in it."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kosambi import acquisition as acq
from tests.properties.data import EDGES, inputs, keys, moderate
from tests.properties.promises import assert_numbers, outcome
from tests.properties.test_posteriors import X, posterior_of

few = settings(max_examples=max(2, settings.default.max_examples // 6))
KINDS = ("improvement", "bound", "knowledge", "drawn", "function")
numbers = st.one_of(moderate, st.sampled_from(EDGES))


def made(kind, posterior, key):
    if kind == "improvement":
        return acq.ExpectedImprovement(posterior)
    if kind == "bound":
        return acq.UpperConfidenceBound(posterior)
    if kind == "knowledge":
        return acq.KnowledgeGradient(posterior)
    draws = posterior.functions(key)
    return acq.DrawnImprovement(draws, X) if kind == "drawn" else acq.DrawnFunction(draws, X)


@given(kind=st.sampled_from(KINDS), x=inputs(num_columns=st.just(1), num_rows=st.sampled_from([1, 5])), key=keys)
def test_values_are_numbers_and_rows_are_alone(kind, x, key):
    acquisition = made(kind, posterior_of("Gaussian"), key)
    values = outcome(acquisition, x)
    assert_numbers(values, (len(x),))
    if kind in ("improvement", "knowledge", "drawn"):
        assert (values >= -1e-12).all()
    np.testing.assert_allclose(outcome(acquisition, x[:1]), values[:1], rtol=1e-9, atol=1e-12)


@given(
    mean=numbers,
    deviation=st.sampled_from([1e-300, 1e-9, 1.0, 1e9, 1e150, 1e300, 0.0, -1.0, np.nan]),
    best=numbers,
)
def test_bad_input_expected_improvement_is_a_number(mean, deviation, best):
    value = outcome(acq.expected_improvement, mean, deviation, best)
    logarithm = outcome(acq.log_expected_improvement, mean, deviation, best)
    assert (value is None) == (logarithm is None)
    if value is not None:
        assert value >= 0
        assert not np.isnan(value)
        assert not np.isnan(logarithm)
        if 1e-300 < value < 1e300:
            np.testing.assert_allclose(np.exp(logarithm), value, rtol=1e-6)


@given(
    a=st.lists(moderate, min_size=3, max_size=3),
    b=st.lists(st.one_of(moderate, st.just(0.0)), min_size=3, max_size=3),
)
def test_the_expected_maximum_is_at_least_the_largest_mean(a, b):
    value = acq.expected_maximum(a, b)
    assert value >= max(a) - 1e-9
    np.testing.assert_allclose(acq.expected_maximum(a[::-1], b[::-1]), value, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(acq.expected_maximum(np.add(a, 3.0), b), value + 3.0, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@given(
    kind=st.sampled_from(["improvement", "bound"]),
    low=numbers,
    width=st.sampled_from([1e-300, 1e-9, 1.0, 1e9]),
    key=keys,
)
@few
def test_bad_input_the_maximum_lies_in_the_box(kind, low, width, key):
    acquisition = made(kind, posterior_of("Gaussian"), key)
    options = {"num_candidates": 16, "num_starts": 2, "num_steps": 4}
    with np.errstate(over="ignore"):
        box = [[low], [low + width]]
    top = outcome(acq.maximize, key, acquisition, box, **options)
    if top is None:
        return
    assert box[0][0] <= top.x[0] <= box[1][0]
    assert np.isfinite(top.value)
    again = outcome(acq.maximize, key, acquisition, box, **options)
    assert again.x == top.x


@given(
    box=st.sampled_from([None, "a", [], [[0.0]], [[1.0], [0.0]], [[0.0], [0.0]], [[np.nan], [1.0]], [[0.0, 1.0]]]),
    number=st.sampled_from([0, -1, 1.5, "a", None, True, 1, 99]),
)
def test_bad_input_boxes_and_numbers(box, number):
    posterior, key = posterior_of("Gaussian"), jax.random.key(0)
    assert outcome(acq.maximize, key, acq.UpperConfidenceBound(posterior), box) is None
    assert outcome(acq.thompson, key, posterior, box) is None
    outcome(acq.maximize, key, acq.UpperConfidenceBound(posterior), [[0.0], [1.0]], num_candidates=number)
    outcome(acq.maximize, key, acq.UpperConfidenceBound(posterior), [[0.0], [1.0]], num_starts=number)
    outcome(acq.UpperConfidenceBound, posterior, number)
    outcome(acq.ExpectedImprovement, posterior, number)
    outcome(acq.ExpectedImprovement, box)
    outcome(acq.KnowledgeGradient, posterior, box)
    outcome(acq.DrawnImprovement, posterior.functions(key), X, box)
