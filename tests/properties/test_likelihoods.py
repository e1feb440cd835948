"""Every likelihood: costs, slopes, draws and predictive densities of any observation that it lets pass."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kosambi as ko
from tests.likelihoods.table import CASES, SEVERAL
from tests.properties.data import EDGES, FORMS, forms, keys, moderate, seeds
from tests.properties.promises import assert_numbers, outcome, raised

ALL = {**CASES, **SEVERAL}
SCALAR = st.sampled_from(list(CASES))
NAMES = st.sampled_from(list(ALL))
SIZE = 4


def latent(likelihood, values):
    """Values of f for four observations."""
    several = likelihood.num_latents
    return np.resize(values, (SIZE,) if several == 1 else (SIZE, several))


values = st.lists(moderate, min_size=5, max_size=5)


@given(name=NAMES, f=values, seed=seeds)
def test_costs_and_their_slopes_are_numbers(name, f, seed):
    likelihood = ALL[name].likelihood
    y = np.random.default_rng(seed).choice(ALL[name].y, SIZE)
    f = latent(likelihood, f)
    assert_numbers(likelihood.check(y), (SIZE,))
    assert_numbers(likelihood.cost(y, f), (SIZE,))
    assert_numbers(likelihood.derivative(y, f), f.shape)
    curvature = likelihood.curvature(y, f)
    wide = f.shape if likelihood.num_latents == 1 else (*f.shape, likelihood.num_latents)
    assert_numbers(likelihood.second_derivative(y, f), wide)
    assert_numbers(curvature, wide)
    if likelihood.num_latents == 1:
        assert (curvature >= 0).all()
    else:
        assert (np.linalg.eigvalsh(curvature) > -1e-9 * (1.0 + np.abs(curvature).max())).all()
    if likelihood.is_density:
        np.testing.assert_array_equal(likelihood.log_density(y, f), -likelihood.cost(y, f))


@given(name=NAMES, f=st.lists(st.sampled_from([-1e300, -1e30, -800.0, -40.0, 40.0, 800.0, 1e30, 1e300]), min_size=4))
def test_far_out_costs_are_never_nan(name, f):
    likelihood = ALL[name].likelihood
    for y in ALL[name].y:
        found = likelihood.cost(np.full(SIZE, y), latent(likelihood, f))
        assert found.dtype == np.float64
        assert not np.isnan(found).any()
        assert not (found == -np.inf).any()


@given(name=NAMES, f=values, key=keys)
def test_what_is_drawn_can_be_observed(name, f, key):
    likelihood = ALL[name].likelihood
    f = latent(likelihood, f)
    drawn = outcome(likelihood.draw, key, f)
    if drawn is None:
        assert not likelihood.is_density or name == "Custom"
        return
    assert_numbers(drawn, (SIZE,))
    np.testing.assert_array_equal(likelihood.check(drawn), drawn)
    np.testing.assert_array_equal(likelihood.draw(key, f), drawn)
    assert_numbers(likelihood.cost(drawn, f), (SIZE,))
    assert_numbers(likelihood.observation_mean(f), finite=False)
    assert not np.isnan(likelihood.observation_mean(f)).any() or "StudentT" in name
    assert (likelihood.observation_variance(f) >= 0).all()


deviations = st.sampled_from([0.0, 1e-150, 1e-9, 0.1, 1.0, 3.0, 30.0])


@given(name=SCALAR, f=values, deviation=deviations, seed=seeds)
def test_predictive_densities_are_numbers(name, f, deviation, seed):
    likelihood = ALL[name].likelihood
    y, mean = np.random.default_rng(seed).choice(ALL[name].y, SIZE), latent(likelihood, f)
    found = outcome(likelihood.log_predictive_density, y, mean, np.full(SIZE, deviation))
    if found is None:
        assert not likelihood.is_density
        return
    assert_numbers(found, (SIZE,))
    if likelihood.is_discrete:
        assert (found <= 1e-9).all()
    if deviation < 1e-6:
        np.testing.assert_allclose(found, likelihood.log_density(y, mean), rtol=1e-5, atol=1e-5)


@given(name=SCALAR, f=values, deviation=deviations, seed=seeds)
def test_expected_costs_are_numbers_and_no_less_than_at_the_mean(name, f, deviation, seed):
    likelihood = ALL[name].likelihood
    y, mean = np.random.default_rng(seed).choice(ALL[name].y, SIZE), latent(likelihood, f)
    found = outcome(likelihood.expected_cost, y, mean, np.full(SIZE, deviation))
    if found is None:
        return
    assert_numbers(found, (SIZE,))
    if likelihood.is_convex:
        # Jensen's inequality.
        cost = likelihood.cost(y, mean)
        assert (found >= cost - 1e-6 * (1.0 + np.abs(cost))).all()


observations = st.lists(
    st.one_of(st.floats(allow_nan=True, allow_infinity=True), st.sampled_from(EDGES), st.integers(-3, 9).map(float)),
    max_size=5,
)


@given(name=NAMES, y=observations, form=forms)
def test_bad_input_observations_are_possible_or_refused(name, y, form):
    likelihood = ALL[name].likelihood
    checked = outcome(likelihood.check, FORMS[form](np.array(y, dtype=float)))
    if checked is None:
        return
    assert_numbers(checked, (len(y),))
    np.testing.assert_array_equal(checked, np.array(y) + 0.0)
    several = () if likelihood.num_latents == 1 else (likelihood.num_latents,)
    assert not np.isnan(likelihood.cost(checked, np.zeros((len(y), *several)))).any()


SHAPES = st.sampled_from([(), (1,), (2,), (3,), (2, 1), (2, 3), (0,), (3, 2, 1)])


@pytest.mark.parametrize("call", ["cost", "derivative", "second_derivative", "curvature", "log_density"])
@given(name=NAMES, y_shape=SHAPES, f_shape=SHAPES)
@settings(max_examples=max(4, settings.default.max_examples // 10))
def test_bad_input_shapes_go_together_or_are_refused(call, name, y_shape, f_shape):
    likelihood = ALL[name].likelihood
    found = outcome(getattr(likelihood, call), np.full(y_shape, 1.0), np.full(f_shape, 0.5))
    assert found is None or np.isfinite(found).all()


@pytest.mark.parametrize("name", ALL)
def test_bad_input_deviations_are_refused(name):
    likelihood = ALL[name].likelihood
    y, f = ALL[name].y[:1], latent(likelihood, [0.5])[:1]
    for deviation in (-1.0, np.nan, np.inf):
        for call in (likelihood.log_predictive_density, likelihood.expected_cost):
            raised(call, y, f, [deviation])
    for nonsense in ("a", 1j, 10**400):
        raised(likelihood.cost, y, np.full(f.shape, nonsense, dtype=object))


CONSTRUCTORS = {
    "Gaussian": lambda v: ko.likelihoods.Gaussian(v),
    "StudentT, degrees": lambda v: ko.likelihoods.StudentT(v, 1.0),
    "StudentT, scale": lambda v: ko.likelihoods.StudentT(3.0, v),
    "Laplace": lambda v: ko.likelihoods.Laplace(v),
    "Huber": lambda v: ko.likelihoods.Huber(v),
    "Huber, threshold": lambda v: ko.likelihoods.Huber(1.0, v),
    "NegativeBinomial": lambda v: ko.likelihoods.NegativeBinomial(v),
    "ZeroInflatedPoisson": lambda v: ko.likelihoods.ZeroInflatedPoisson(v),
    "Gamma": lambda v: ko.likelihoods.Gamma(v),
    "Ordinal": lambda v: ko.likelihoods.Ordinal([v, 1.0]),
    "ShiftMixture, shift": lambda v: ko.likelihoods.ShiftMixture(v, 0.3, 1.0),
    "ShiftMixture, share": lambda v: ko.likelihoods.ShiftMixture(1.0, v, 1.0),
    "ShiftMixture, noise": lambda v: ko.likelihoods.ShiftMixture(1.0, 0.3, v),
    "Categorical": lambda v: ko.likelihoods.Categorical(v),
    "Bernoulli": lambda v: ko.likelihoods.Bernoulli(link=v),
    "Poisson": lambda v: ko.likelihoods.Poisson(link=v),
}


@given(
    name=st.sampled_from(list(CONSTRUCTORS)),
    value=st.one_of(
        st.floats(allow_nan=True, allow_infinity=True),
        st.integers(-3, 5),
        st.sampled_from([None, "one", [], [[1.0]], True, 1j, [1.0, np.nan]]),
    ),
)
def test_bad_input_parameters_are_possible_or_refused(name, value):
    likelihood = outcome(CONSTRUCTORS[name], value)
    if likelihood is not None and likelihood.num_rows is None:
        f = np.full(1, 0.3) if likelihood.num_latents == 1 else np.full((1, likelihood.num_latents), 0.3)
        cost = likelihood.cost([1.0], f)
        assert not np.isnan(cost).any()
