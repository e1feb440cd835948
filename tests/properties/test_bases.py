"""Inducing points and bases: rows that differ, residuals that are variances, coordinates there and back."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kosambi as ko
from tests.cases import cases
from tests.properties.data import columns, inputs, keys, scales
from tests.properties.promises import assert_covariance, assert_numbers, outcome

BASES = {
    "point": ko.PointBasis,
    "ritz": ko.RitzBasis,
    "nystrom": ko.NystromBasis,
    "inducing": ko.InducingBasis,
}
KERNELS = {
    "smooth": ko.kernels.SquaredExponential(),
    "rough": ko.kernels.Matern12(0.3, 2.0),
    "straight": ko.kernels.Linear(),
    "level": ko.kernels.Constant(2.0),
    "sum": ko.kernels.Matern52() + ko.kernels.Linear() + 0.5,
}
kernels = st.sampled_from(list(KERNELS))
half = settings(max_examples=max(4, settings.default.max_examples // 3))


@given(x=inputs(scale=scales), number=st.integers(-1, 9), kernel=kernels)
def test_bad_input_greedy_points_are_different_rows(x, number, kernel):
    found = outcome(ko.inducing.greedy_path, KERNELS[kernel], x, number)
    if found is None:
        return
    assert 1 <= len(found.indices) <= number
    assert len(np.unique(found.indices)) == len(found.indices)
    assert len(np.unique(x[found.indices], axis=0)) == len(found.indices)
    assert np.isfinite(found.residual_trace).all()
    assert (found.residual_trace >= 0).all()
    assert (np.diff(found.largest_residual) <= 1e-9 * np.abs(found.largest_residual[:-1])).all()
    again = outcome(ko.inducing.greedy_variance, KERNELS[kernel], x, number)
    np.testing.assert_array_equal(again, found.indices)


@given(x=inputs(scale=scales), number=st.integers(-1, 9), key=keys, how=st.sampled_from(["uniform", "kmeans"]))
@half
def test_bad_input_random_points_are_different_rows(x, number, key, how):
    choose = getattr(ko.inducing, how)
    found = outcome(choose, key, x, number)
    if found is None:
        assert not 1 <= number <= len(x) or np.abs(x).max() > 1e149
        return
    assert len(found) == min(number, len(np.unique(x, axis=0)))
    assert len(np.unique(x[found], axis=0)) == len(found)
    np.testing.assert_array_equal(outcome(choose, key, x, number), found)


def based(name, kernel, x, z):
    """A basis of the points, or None where that is refused."""
    prior = ko.GaussianProcess(KERNELS[kernel])
    if name != "point":
        prior = ko.GaussianRandomElement(KERNELS[kernel], ko.measures.empirical(x))
    return outcome(BASES[name], prior, z)


@pytest.mark.parametrize("name", cases(BASES, quick=["point"]))
@given(data=st.data(), kernel=kernels, d=columns, scale=st.sampled_from([1e-150, 1.0, 1.0, 1.0, 1e150]))
@half
def test_coordinates_explain_part_of_the_variance(name, data, kernel, d, scale):
    x = data.draw(inputs(num_rows=st.just(5), num_columns=st.just(d), scale=st.just(scale)))
    z = data.draw(inputs(num_rows=st.sampled_from([1, 2]), num_columns=st.just(d), scale=st.just(scale)))
    basis = based(name, kernel, x, z)
    if basis is None:
        return
    size = basis.size
    assert 1 <= size <= len(z)
    assert_covariance(np.asarray(basis.covariance), size)
    residual, variance = outcome(basis.residual_variance, x), outcome(basis.prior.variance, x)
    for call in (basis.evaluate, basis.conditional_mean, basis.whitened_mean):
        found = outcome(call, x)
        if found is not None:
            assert_numbers(found, (5, size))
    if residual is not None and variance is not None:
        assert_numbers(residual, (5,))
        assert (residual >= 0).all()
        if basis.is_conditional:
            assert (residual <= variance * (1.0 + 1e-6) + 1e-300).all()
    u = np.random.default_rng(0).normal(size=(3, size))
    np.testing.assert_allclose(basis.whiten(basis.colour(u)), u, rtol=1e-4, atol=1e-4)


@given(
    x=inputs(num_rows=st.just(5), num_columns=st.just(1)),
    z=st.sampled_from([[], [[]], [[0.0, 1.0]], [[np.nan]], None, "a", [[0.0]], [[1e308], [-1e308]], [[0.0], [1e-320]]]),
    tolerance=st.sampled_from([None, -1.0, 0.0, 1e-300, 0.5, 1.0, 2.0, np.nan, "a"]),
    name=st.sampled_from(list(BASES)),
)
def test_bad_input_points_and_tolerances(x, z, tolerance, name):
    prior = ko.GaussianRandomElement(ko.kernels.Matern32(), ko.measures.empirical(x))
    options = {} if tolerance is None else {"tolerance": tolerance}
    basis = outcome(BASES[name], prior, z, **options)
    if basis is not None:
        assert_numbers(basis.residual_variance(x), (5,))


@given(x=inputs(num_rows=st.just(5), num_columns=st.just(1)), key=keys)
@half
def test_bad_input_finished_parts_that_do_not_fit(x, key):
    basis = based("point", "rough", x, x[:1])
    other = ko.GaussianProcess(ko.kernels.Matern52())
    outcome(ko.infer, key, other, ko.likelihoods.Gaussian(), x, x[:, 0], basis=basis)
    for bad in (None, "a", 3, jax.random.key(0)):
        assert outcome(ko.PointBasis, bad, x) is None
        assert outcome(ko.Target, bad, ko.likelihoods.Gaussian(), x, x[:, 0]) is None
        assert outcome(ko.Target, basis, bad, x, x[:, 0]) is None
