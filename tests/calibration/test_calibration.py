"""Scores of predictions against simulation and closed forms, with laws that the same tests reject."""

from __future__ import annotations

import importlib

import jax
import matplotlib as mpl
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

import kosambi as ko
from kosambi import calibration as cal
from kosambi.errors import InputError
from kosambi.posterior import Prediction
from tests.calibration.predictions import DEVIATION, KEY, MEANS, many, prediction_of, simulated
from tests.cases import cases
from tests.likelihoods.table import CASES, SEVERAL

# The module; the package has the function of the same name.
_crps = importlib.import_module("kosambi.calibration.crps")

mpl.use("Agg")
lk = ko.likelihoods
LEVEL = 1e-3
TABLE = {name: case.likelihood for name, case in (CASES | SEVERAL).items() if case.likelihood.is_density}
SCORED = {name: model for name, model in TABLE.items() if name != "Custom"}


def distance(likelihood, a, b):
    return (a != b).astype(float) if likelihood.num_labels and likelihood.num_latents > 1 else np.abs(a - b)


def simulated_crps(prediction, y, size=20_000):
    """E|Y − y| − ½ E|Y − Y'| from draws, with its standard error."""
    draws, others = simulated(prediction, size, seed=2), simulated(prediction, size, seed=3)[::-1]
    likelihood = prediction.likelihood
    terms = distance(likelihood, draws, y) - 0.5 * distance(likelihood, draws, others)
    return terms.mean(axis=0), terms.std(axis=0) / np.sqrt(size)


@pytest.mark.parametrize(
    "name",
    cases(SCORED, quick=["Gaussian", "Bernoulli", "Laplace", "Poisson", "Ordinal", "Categorical"]),
)
def test_crps_against_simulation(name):
    prediction = prediction_of(SCORED[name])
    y = simulated(prediction, seed=11)
    limit = scipy.stats.norm.isf(LEVEL / (2 * 3 * len(SCORED)))
    expected, error = simulated_crps(prediction, y)
    assert np.all(np.abs(cal.crps(prediction, y) - expected) < limit * np.maximum(error, 1e-12))
    # The same test sees a law whose f is somewhat elsewhere.
    other = Prediction(SCORED[name], prediction.component_means + 0.3, DEVIATION, np.ones(3))
    if prediction.component_means.ndim == 2:
        assert np.any(np.abs(cal.crps(other, y) - expected) > limit * error)


def test_crps_of_one_normal_law_is_closed():
    mean, deviation, noise = np.array([[0.3, -2.0, 5.0]]), np.array([0.4, 1e-9, 2.0]), 0.3
    y = np.array([0.1, 3.0, 5.0])
    s = np.hypot(deviation, noise)
    z = (y - mean[0]) / s
    known = s * (z * (2 * scipy.stats.norm.cdf(z) - 1) + 2 * scipy.stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
    found = cal.crps(prediction_of(lk.Gaussian(noise), mean, deviation), y)
    np.testing.assert_allclose(found, known, rtol=1e-12)


@pytest.mark.parametrize("values_at_once", [1, 2**22])
def test_crps_of_normal_laws_is_the_integral(monkeypatch, values_at_once):
    monkeypatch.setattr(_crps, "_VALUES_AT_ONCE", values_at_once)
    prediction, y = prediction_of(lk.Gaussian(0.2)), np.array([0.0, 2.0, -3.0])
    found = cal.crps(prediction, y)
    for n in range(3):
        s = np.hypot(0.2, DEVIATION[n])

        def squared(t):
            return (np.mean(scipy.stats.norm.cdf((t - MEANS[:, n]) / s)) - (y[n] <= t)) ** 2

        known = sum(scipy.integrate.quad(squared, *ends, limit=400)[0] for ends in ((-12, y[n]), (y[n], 12)))
        np.testing.assert_allclose(found[n], known, rtol=1e-7)
    np.testing.assert_allclose(_crps._by_integration(prediction, y), found, rtol=1e-6)


def test_crps_far_away_is_the_distance():
    """By then only the spread ½ E|Y − Y'| is taken off, for which the score at the median knows the rest."""
    for likelihood in (lk.StudentT(3.5, 0.6), lk.Laplace(0.9)):
        prediction = prediction_of(likelihood)
        near, far = (cal.crps(prediction, np.full(3, value)) for value in (1e3, 2e3))
        np.testing.assert_allclose(far - near, 1e3, rtol=1e-5)


@pytest.mark.slow
def test_crps_of_many_counts_by_some_of_them(monkeypatch):
    prediction = prediction_of(lk.Poisson(), np.log([[300.0, 1e4]]), np.array([0.2, 0.5]))
    y = np.array([250.0, 17000.0])
    some = cal.crps(prediction, y)
    monkeypatch.setattr(_crps, "_MOST_COUNTS", 10**6)
    np.testing.assert_allclose(some, cal.crps(prediction, y), rtol=1e-4)


UNIFORM = {
    "Gaussian": (lk.Gaussian(0.4), 1.4),
    "StudentT": (lk.StudentT(4.0, 0.3), 1.5),
    "Gamma": (lk.Gamma(3.0), 2.0),
    "Poisson": (lk.Poisson(), 2.5),
    "HeteroscedasticGaussian": (lk.HeteroscedasticGaussian(), 2.5),
}


@pytest.mark.parametrize("name", UNIFORM)
def test_pit_is_uniform_for_the_right_law_only(name):
    likelihood, scale = UNIFORM[name]
    right, wrong = many(likelihood), many(likelihood, scale=scale)
    y = simulated(right)
    key = KEY if likelihood.is_discrete else None
    assert scipy.stats.kstest(cal.pit(right, y, key), "uniform").pvalue > LEVEL
    assert scipy.stats.kstest(cal.pit(wrong, y, key), "uniform").pvalue < LEVEL


@pytest.mark.parametrize("likelihood", [lk.Bernoulli(), lk.Ordinal([-1.0, 0.5, 2.0])], ids=["Bernoulli", "Ordinal"])
def test_pit_of_labels(likelihood):
    right = many(likelihood, 4000)
    y = simulated(right)
    wrong = Prediction(likelihood, right.component_means + 0.4, right.component_deviation, right.support)
    assert scipy.stats.kstest(cal.pit(right, y, KEY), "uniform").pvalue > LEVEL
    assert scipy.stats.kstest(cal.pit(wrong, y, KEY), "uniform").pvalue < LEVEL


@pytest.mark.parametrize(
    "likelihood",
    [
        lk.Gaussian(0.4),
        pytest.param(lk.Poisson(), marks=pytest.mark.slow),
        lk.Bernoulli(),
        lk.Categorical(3),
        lk.Ordinal([-1.0, 0.5, 2.0]),
    ],
    ids=lambda likelihood: type(likelihood).__name__,
)
def test_coverage_is_what_is_expected(likelihood):
    prediction = many(likelihood)
    y = simulated(prediction)
    found = cal.coverage(prediction, y)
    limit = scipy.stats.norm.isf(LEVEL / (2 * 4 * 5))
    assert np.all(np.abs(found.share - found.expected) < limit * found.standard_error)
    assert np.all(found.expected > found.levels - 1e-9)
    if not likelihood.is_discrete:
        np.testing.assert_allclose(found.expected, found.levels)
        wide = cal.coverage(many(likelihood, scale=2.0), y)
        assert np.all(wide.share - wide.expected > limit * wide.standard_error)
        lower, upper = prediction.interval(0.8)
        np.testing.assert_allclose(cal.interval_width(prediction, 0.8), upper - lower)
    elif likelihood.num_labels is not None:
        sets = prediction.highest_density_region(0.8)
        np.testing.assert_array_equal(cal.interval_width(prediction, 0.8), [len(labels) for labels in sets])


@pytest.mark.slow
def test_report_says_what_is_wrong(tmp_path):
    right = many(lk.Gaussian(0.4))
    y = simulated(right)
    good = cal.calibration_report(right, y)
    assert good.verdict.startswith("Calibrated")
    assert good.p_value > LEVEL
    np.testing.assert_allclose(good.crps, cal.crps(right, y).mean())
    narrow = Prediction(lk.Gaussian(0.1), right.component_means, 0.5 * right.component_deviation, right.support)
    assert "too narrow" in str(cal.calibration_report(narrow, y))
    assert "too wide" in str(cal.calibration_report(many(lk.Gaussian(1.5)), y))
    tails = y + 0.5 * np.random.default_rng(4).standard_t(1.5, size=len(y))
    shape = cal.calibration_report(many(lk.Gaussian(1.0)), tails, levels=[0.5, 0.99])
    assert shape.verdict == "Wrong shape: 50 % intervals are too wide, 99 % intervals too narrow."
    moved = Prediction(lk.Gaussian(0.4), right.component_means + 0.12, right.component_deviation, right.support)
    assert "place or shape" in str(cal.calibration_report(moved, y, levels=[0.5, 0.9]))
    labels = cal.calibration_report(many(lk.Categorical(3)), simulated(many(lk.Categorical(3))))
    assert labels.pit is None
    assert "mean labels" in str(labels)
    for report in (good, labels):
        axes = ko.plots.calibration(report)
        axes.figure.savefig(tmp_path / "calibration.png")
        mpl.pyplot.close(axes.figure)


@pytest.mark.parametrize(
    "function", [cal.coverage, cal.crps, cal.pit, cal.temper, cal.conformal, cal.calibration_report]
)
def test_bad_input_to_every_function(function):
    prediction = prediction_of(lk.Gaussian(0.4))
    with pytest.raises(InputError, match=r"must be what `posterior.predict\(x_new\)` returns. Got ndarray"):
        function(np.zeros(3), np.zeros(3))
    with pytest.raises(InputError, match="`y` has 2 observations for the 3 inputs"):
        function(prediction, np.zeros(2))
    with pytest.raises(InputError, match="`y` must be finite"):
        function(prediction, [0.0, np.nan, 1.0])
    with pytest.raises(InputError, match="needs y of shape"):
        function(prediction, np.zeros((3, 1)))
    with pytest.raises(InputError, match="at least one observation"):
        function(prediction, [])
    with pytest.raises(InputError, match="needs y in"):
        function(prediction_of(lk.Bernoulli()), [0.0, 2.0, 1.0])
    with pytest.raises(InputError, match="Huber"):
        function(prediction_of(lk.Huber()), np.zeros(3))
    unknown = Prediction(lk.Gaussian(np.ones(5)), MEANS, DEVIATION, np.ones(3), is_noise_known=False)
    with pytest.raises(InputError, match=r"predict\(x_new, noise=...\)"):
        function(unknown, np.zeros(3))


def test_bad_input_to_one_function():
    prediction, labels = prediction_of(lk.Gaussian(0.4)), prediction_of(lk.Categorical(3))
    with pytest.raises(InputError, match="`levels` must be numbers between 0 and 1"):
        cal.coverage(prediction, np.zeros(3), levels=[0.5, 95])
    with pytest.raises(InputError, match="`level` must be a number between 0 and 1"):
        cal.interval_width(prediction, 95)
    with pytest.raises(InputError, match=r"Pass `key=jax.random.key\(0\)`"):
        cal.pit(prediction_of(lk.Poisson()), np.zeros(3))
    with pytest.raises(InputError, match="have no order"):
        cal.pit(labels, np.zeros(3), KEY)
    with pytest.raises(InputError, match="has no cdf of an observation"):
        cal.crps(prediction_of(CASES["Custom"].likelihood), np.zeros(3))
    with pytest.raises(
        InputError, match=r"3 held-out observations, too few for intervals that cover 95 %. Give at least 19"
    ):
        cal.conformal(prediction, np.zeros(3))
    with pytest.raises(InputError, match="`coverage` must be a number"):
        cal.conformal(prediction, np.zeros(3), 95)
    found = cal.conformal(prediction, np.zeros(3), 0.5)
    with pytest.raises(InputError, match="Use `interval`"):
        found.sets(prediction)
    with pytest.raises(InputError, match="`Categorical` likelihood, but the correction was found for `Gaussian`"):
        found.interval(labels)
    with pytest.raises(InputError, match="Use `sets`"):
        cal.conformal(labels, np.zeros(3), 0.5).interval(labels)
    with pytest.raises(InputError, match="`Categorical` likelihood, but the factor was found for `Gaussian`"):
        cal.temper(prediction, np.ones(3)).apply(labels)
    with pytest.raises(InputError, match="no quantiles"):
        cal.TemperedLabels(labels, 2.0).quantile(0.5)
    with pytest.raises(InputError, match=r"`plots.calibration` needs a `Calibration`"):
        ko.plots.calibration(prediction)


@pytest.mark.slow
def test_sets_that_hold_all_labels_are_no_surprise():
    x = np.linspace(-1.0, 1.0, 60)[:, None]
    labels = (np.random.default_rng(0).uniform(size=60) < 0.5).astype(float)
    posterior = ko.infer(
        jax.random.key(0), ko.kernels.Matern52(), ko.likelihoods.Bernoulli(), x, labels, num_inducing=5
    )
    report = ko.calibration.calibration_report(posterior.predict(x), labels)
    assert np.all(report.coverage.share[-2:] == 1.0)
    assert report.verdict.startswith("Calibrated")
    few = ko.calibration.calibration_report(posterior.predict(x[:3]), labels[:3])
    assert "too few" in few.verdict
