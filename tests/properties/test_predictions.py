"""Predictions from any mixture: quantiles in order, probabilities that are, scores and regions that fit them."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kosambi as ko
from kosambi.posterior import Prediction
from tests.cases import cases
from tests.likelihoods.table import CASES, SEVERAL
from tests.properties.data import seeds
from tests.properties.promises import assert_numbers, outcome, own_warnings_allowed

ALL = {**CASES, **SEVERAL}
WITH_CDF = [
    name
    for name, case in CASES.items()
    if case.likelihood.is_density and case.likelihood.has_cdf and case.likelihood.num_labels is None
]
LABELS = [name for name, case in ALL.items() if case.likelihood.num_labels is not None]
WITH_DENSITY = [name for name in ALL if ALL[name].likelihood.is_density]
LEVELS = [0.025, 0.25, 0.5, 0.75, 0.975]
spreads = st.sampled_from([0.0, 0.1, 1.0, 3.0])
deviations = st.sampled_from([1e-9, 0.1, 1.0, 3.0])
components = st.sampled_from([1, 3])
some = settings(max_examples=max(2, settings.default.max_examples // 6))


def prediction_of(name, seed, size, spread, deviation):
    """K components at three inputs."""
    likelihood, rng = ALL[name].likelihood, np.random.default_rng(seed)
    last = () if likelihood.num_latents == 1 else (likelihood.num_latents,)
    return Prediction(likelihood, spread * rng.normal(size=(size, 3, *last)), np.full(3, deviation), np.ones(3))


@pytest.mark.parametrize("name", cases(WITH_CDF, quick=["Gaussian", "Poisson"]))
@given(seed=seeds, size=components, spread=spreads, deviation=deviations)
@some
def test_quantiles_come_in_order_and_are_those_of_the_cdf(name, seed, size, spread, deviation):
    prediction = prediction_of(name, seed, size, spread, deviation)
    quantiles = prediction.quantile(LEVELS)
    assert_numbers(quantiles, (5, 3))
    assert (np.diff(quantiles, axis=0) >= 0).all()
    lower, upper = prediction.interval(0.5)
    np.testing.assert_array_equal([lower, upper], quantiles[[1, 3]])
    for level, values in zip(LEVELS, quantiles, strict=True):
        below = prediction._cdf(values, np.arange(3))
        if prediction.likelihood.is_discrete:
            assert (below >= level - 1e-9).all()
            assert (prediction._cdf(values - 1.0, np.arange(3)) < level + 1e-9).all()
        else:
            np.testing.assert_allclose(below, level, atol=1e-6)


@pytest.mark.parametrize("name", cases(WITH_CDF, quick=["Gaussian"]))
@given(seed=seeds, size=components, spread=spreads, deviation=deviations)
@some
def test_scores_of_what_was_observed(name, seed, size, spread, deviation):
    prediction = prediction_of(name, seed, size, spread, deviation)
    y = np.random.default_rng(seed).choice(ALL[name].y, 3)
    crps = ko.calibration.crps(prediction, y)
    assert_numbers(crps, (3,))
    assert (crps >= -1e-9).all()
    pit = ko.calibration.pit(prediction, y, jax.random.key(seed))
    assert_numbers(pit, (3,))
    assert ((pit >= -1e-9) & (pit <= 1.0 + 1e-9)).all()
    assert_numbers(prediction.log_density(y), (3,))
    region = prediction.highest_density_region(0.9)
    assert all(len(part) for part in region)
    covered = ko.calibration.coverage(prediction, y, [0.5, 0.9])
    assert ((covered.share >= 0) & (covered.share <= 1)).all()
    assert (ko.calibration.interval_width(prediction, 0.9) >= 0).all()
    with own_warnings_allowed():
        scores = ko.calibration.held_out_scores(prediction, y)
    assert np.isfinite([scores["nll"].value, scores["rmse"].value, scores["coverage"].value]).all()


@pytest.mark.parametrize("name", cases(LABELS, quick=["Bernoulli", "Categorical"]))
@given(seed=seeds, size=components, spread=spreads, deviation=deviations)
@some
def test_probabilities_of_labels_sum_to_one(name, seed, size, spread, deviation):
    prediction, likelihood = prediction_of(name, seed, size, spread, deviation), ALL[name].likelihood
    table = np.asarray(prediction._label_probabilities)
    assert_numbers(table, (3, likelihood.num_labels))
    assert (table >= 0).all()
    np.testing.assert_allclose(table.sum(axis=1), 1.0, rtol=1e-12)
    y = np.random.default_rng(seed).choice(ALL[name].y, 3)
    np.testing.assert_allclose(np.exp(prediction.log_density(y)), table[np.arange(3), y.astype(int)], atol=1e-6)
    assert_numbers(ko.calibration.crps(prediction, y), (3,))
    scores = ko.calibration.held_out_scores(prediction, y)
    assert np.isfinite([scores["log_loss"].value, scores["brier"].value]).all()
    assert all(len(labels) for labels in prediction.highest_density_region(0.9))


@pytest.mark.parametrize("name", cases(WITH_DENSITY, quick=["Gaussian", "Gamma"]))
@given(seed=seeds, size=components, spread=spreads, deviation=deviations)
@some
def test_moments_are_numbers_where_there_are_some(name, seed, size, spread, deviation):
    prediction = prediction_of(name, seed, size, spread, deviation)
    assert_numbers(prediction.mean)
    assert (prediction.variance >= 0).all()
    if prediction.likelihood.has_moments:
        assert_numbers(np.asarray(prediction.observation_mean))
        variance = np.asarray(prediction.observation_variance)
        assert_numbers(variance)
        assert (variance >= 0).all()


@given(q=st.one_of(st.floats(allow_nan=True), st.lists(st.floats(-0.5, 1.5), max_size=3), st.sampled_from([None, "a"])))
def test_bad_input_levels_are_shares_or_refused(q):
    prediction = prediction_of("Gaussian", 0, 1, 1.0, 1.0)
    found = outcome(prediction.quantile, q)
    if found is not None:
        assert_numbers(found, (*np.shape(q), 3))
    for call in (prediction.interval, prediction.latent_interval, prediction.highest_density_region):
        outcome(call, q)
