"""Potentials: numbers at every u, whatever the likelihood, the kind and the weights; weight two is the row twice."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kosambi as ko
from tests.cases import cases
from tests.likelihoods.table import CASES, SEVERAL
from tests.properties.data import inputs, seeds, weights
from tests.properties.promises import assert_covariance, assert_numbers, outcome

ALL = {**CASES, **SEVERAL}
POINTS = np.array([[-0.7], [0.4]])
BASIS = ko.PointBasis(ko.GaussianProcess(ko.kernels.Matern32(0.8, 1.5)), POINTS)
POTENTIALS = st.sampled_from(["auto", "projected", "optimal"])
few = settings(max_examples=max(2, settings.default.max_examples // 6))
five = inputs(num_rows=st.just(5), num_columns=st.just(1))


def coordinates(target, seed, count=3):
    return np.random.default_rng(seed).normal(size=(count, *target.shape))


QUICK = ("Gaussian", "Bernoulli", "Categorical")


@pytest.mark.parametrize("name", cases(ALL, quick=QUICK))
@given(x=five, seed=seeds, potential=POTENTIALS, counts=weights(5))
@few
def test_potentials_are_numbers_and_so_are_their_slopes(name, x, seed, potential, counts):
    likelihood = ALL[name].likelihood
    y = np.random.default_rng(seed).choice(ALL[name].y, 5)
    target = outcome(ko.Target, BASIS, likelihood, x, y, potential, weights=counts)
    if target is None:
        assert potential == "optimal"
        assert likelihood.num_latents > 1 or not likelihood.is_density
        return
    u = coordinates(target, seed)
    value, gradient = target.value_and_gradient(u)
    assert_numbers(value, (3,))
    assert_numbers(gradient, u.shape)
    np.testing.assert_allclose(target.potential(u[1]), value[1], rtol=1e-9)
    np.testing.assert_allclose(target.gradient(u[1]), gradient[1], rtol=1e-6, atol=1e-9 * np.abs(gradient).max())
    assert_covariance(target.curvature(u[0]), int(np.prod(target.shape)))


@given(x=five, seed=seeds, potential=POTENTIALS, name=st.sampled_from(["Gaussian", "Bernoulli", "StudentT", "Poisson"]))
@few
def test_a_row_of_weight_two_is_the_row_twice(x, seed, potential, name):
    rng = np.random.default_rng(seed)
    y, counts = rng.choice(ALL[name].y, 5), rng.integers(0, 3, 5)
    twice = np.repeat(np.arange(5), counts)
    if not len(twice):
        return
    potential = "projected" if potential == "auto" else potential
    weighted = ko.Target(BASIS, ALL[name].likelihood, x, y, potential, weights=counts)
    repeated = ko.Target(BASIS, ALL[name].likelihood, x[twice], y[twice], potential)
    u = coordinates(weighted, seed)
    np.testing.assert_allclose(weighted.potential(u), repeated.potential(u), rtol=1e-9)
    order = rng.permutation(5)
    other = ko.Target(BASIS, ALL[name].likelihood, x[order], y[order], potential, weights=counts[order])
    np.testing.assert_allclose(weighted.potential(u), other.potential(u), rtol=1e-9)


@given(
    counts=st.lists(st.sampled_from([0.0, 1.0, 1e-300, 1e300, -1.0, np.nan, np.inf]), min_size=0, max_size=6),
    y=st.lists(st.sampled_from([0.0, 1.0, 1e-300, 1e100, 1e200, 1.7e308, np.nan]), min_size=0, max_size=6),
)
def test_bad_input_data_of_any_size_give_numbers_or_words(counts, y):
    x = np.linspace(-1.0, 1.0, 5)[:, None]
    target = outcome(ko.Target, BASIS, ko.likelihoods.Gaussian(0.5), x, y, "projected", weights=counts)
    if target is not None:
        value = outcome(target.potential, np.zeros(target.shape))
        assert value is None or np.isfinite(value)


@given(
    u=st.sampled_from([np.zeros(2), np.zeros((3, 2)), np.zeros(3), np.zeros((2, 3)), np.zeros((0, 2)), 0.0, "a", None])
    | st.lists(st.floats(allow_nan=True), min_size=2, max_size=2)
)
def test_bad_input_coordinates(u):
    x = np.linspace(-1.0, 1.0, 5)[:, None]
    for likelihood in (ko.likelihoods.Gaussian(0.5), ko.likelihoods.Bernoulli()):
        target = ko.Target(BASIS, likelihood, x, [0.0, 1.0, 0.0, 1.0, 1.0], "projected")
        for call in (target.potential, target.gradient):
            found = outcome(call, u)
            assert found is None or not np.isnan(found).any()


@given(x=five, seed=seeds, number=st.sampled_from([1, 2, 5]), name=st.sampled_from(["Gaussian", "Bernoulli"]))
@few
def test_neighbours_give_numbers(x, seed, number, name):
    y = np.random.default_rng(seed).choice(ALL[name].y, 5)
    target = outcome(ko.Target, BASIS, ALL[name].likelihood, x, y, "neighbors", num_neighbors=number)
    if target is not None:
        u = coordinates(target, seed)
        assert_numbers(target.potential(u), (3,))
        assert_numbers(target.gradient(u), u.shape)


@pytest.mark.parametrize(
    "name", cases(["Gaussian", "Bernoulli", "Poisson", "StudentT", "Categorical"], quick=QUICK[:2])
)
@given(x=five, seed=seeds, number=st.sampled_from([1, 3]), key=seeds.map(jax.random.key))
@settings(max_examples=max(1, settings.default.max_examples // 12))
def test_particles_are_numbers_and_those_of_their_key(name, x, seed, number, key):
    y = np.random.default_rng(seed).choice(ALL[name].y, 5)
    target = ko.Target(BASIS, ALL[name].likelihood, x, y, "projected")
    drawn = outcome(ko.sample, key, target, num_particles=number)
    again = outcome(ko.sample, key, target, num_particles=number)
    assert_numbers(drawn[0].coordinates, (number, *target.shape))
    np.testing.assert_array_equal(drawn[0].coordinates, again[0].coordinates)
    assert np.isfinite(drawn[1].energy).all()
