"""Repairs of predictions by held-out rows, from one row on: factors, sets and reports that are numbers."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kosambi as ko
from kosambi import calibration
from kosambi.posterior import Prediction
from tests.cases import cases
from tests.likelihoods.table import CASES, SEVERAL
from tests.properties.data import EDGES, seeds
from tests.properties.promises import assert_numbers, outcome

ALL = {**CASES, **SEVERAL}
QUICK = ("Gaussian", "Bernoulli")
few = settings(max_examples=max(2, settings.default.max_examples // 6))
sizes = st.sampled_from([1, 2, 30])


def held_out(name, seed, number, spread):
    likelihood, rng = ALL[name].likelihood, np.random.default_rng(seed)
    last = () if likelihood.num_latents == 1 else (likelihood.num_latents,)
    means = spread * rng.normal(size=(2, number, *last))
    y = rng.choice(ALL[name].y, number)
    return Prediction(likelihood, means, np.full(number, 0.5), np.ones(number)), y


@pytest.mark.parametrize("name", cases(ALL, quick=QUICK))
@given(seed=seeds, number=sizes, spread=st.sampled_from([0.0, 1.0]))
@few
def test_tempering(name, seed, number, spread):
    prediction, y = held_out(name, seed, number, spread)
    found = outcome(calibration.temper, prediction, y)
    if found is None:
        assert not prediction.likelihood.is_density
        return
    assert 0.0 < found.factor < np.inf
    assert found.nll_after <= found.nll_before + 1e-9
    tempered = found.apply(prediction)
    assert_numbers(tempered.log_density(y), (number,))
    if prediction.likelihood.num_labels is not None:
        table = calibration.checks.label_probabilities(tempered)
        np.testing.assert_allclose(table.sum(axis=1), 1.0, rtol=1e-9)
    elif prediction.likelihood.has_cdf:
        lower, middle, upper = tempered.quantile([0.1, 0.5, 0.9])
        assert_numbers(np.stack([lower, middle, upper]))
        assert (lower <= middle).all()
        assert (middle <= upper).all()


@pytest.mark.parametrize("name", cases(ALL, quick=QUICK))
@given(seed=seeds, number=sizes, coverage=st.sampled_from([0.5, 0.9, 0.95]))
@few
def test_conformal_sets_hold_what_they_were_made_from(name, seed, number, coverage):
    prediction, y = held_out(name, seed, number, 1.0)
    found = outcome(calibration.conformal, prediction, y, coverage)
    if found is None:
        assert number < 30 or not prediction.likelihood.is_density or not prediction.likelihood.has_cdf
        return
    if prediction.likelihood.num_labels is not None:
        inside = found.sets(prediction)[np.arange(number), y.astype(int)]
    else:
        lower, upper = found.interval(prediction)
        assert_numbers(np.stack([lower, upper]))
        inside = (lower <= y) & (y <= upper)
    assert np.mean(inside) >= coverage - 1e-9


@pytest.mark.parametrize("name", cases(ALL, quick=["Bernoulli"]))
@given(seed=seeds, number=sizes)
@few
def test_reports(name, seed, number):
    prediction, y = held_out(name, seed, number, 1.0)
    report = outcome(calibration.calibration_report, prediction, y, jax.random.key(0))
    if report is not None:
        assert np.isfinite([report.crps, report.nll]).all()
        assert str(report)
        assert report.verdict


@given(
    y=st.lists(st.one_of(st.sampled_from(EDGES), st.floats(allow_nan=True)), min_size=0, max_size=4),
    name=st.sampled_from(["Gaussian", "StudentT", "Laplace", "Poisson", "Bernoulli"]),
)
def test_bad_input_observations_at_the_edge(y, name):
    prediction, _ = held_out(name, 0, 3, 1.0)
    for call in (calibration.crps, calibration.held_out_scores, calibration.coverage, calibration.temper):
        with np.errstate(over="ignore", invalid="ignore"):
            found = outcome(call, prediction, y)
        if isinstance(found, np.ndarray):
            assert not np.isnan(found).any()
        elif isinstance(found, dict):
            assert not np.isnan(found.get("nll", found.get("log_loss")).value)
    pit = outcome(calibration.pit, prediction, y, jax.random.key(0))
    assert pit is None or np.isfinite(pit).all()


@given(
    value=st.sampled_from([None, "a", 0.0, 1.0, -1.0, 2.0, np.nan, [], [0.5], [[0.5]], [0.0, 0.5], True]),
    other=st.sampled_from([None, "a", 1.0, ko.kernels.Matern52(), ko.likelihoods.Gaussian()]),
)
def test_bad_input_levels_and_predictions(value, other):
    prediction, y = held_out("Gaussian", 0, 3, 1.0)
    outcome(calibration.coverage, prediction, y, value)
    outcome(calibration.interval_width, prediction, value)
    outcome(calibration.conformal, prediction, y, value)
    outcome(calibration.held_out_scores, prediction, y, value)
    for call in (calibration.crps, calibration.temper, calibration.conformal, calibration.coverage, calibration.pit):
        assert outcome(call, other, y) is None
