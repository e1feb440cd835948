"""Tempering against its definition, conformal coverage against its theory and MAPIE, each with power."""

from __future__ import annotations

import importlib
import pickle

import jax
import numpy as np
import pytest
import scipy.stats

import kosambi as ko
from kosambi import calibration as cal
from kosambi.errors import HyperparameterWarning, InputError
from kosambi.posterior import Prediction
from tests.calibration.predictions import DEVIATION, KEY, MEANS, many, prediction_of, simulated
from tests.cases import cases

# The module; the package has the function of the same name.
_crps = importlib.import_module("kosambi.calibration.crps")

lk = ko.likelihoods
LEVEL = 1e-3


def test_temper_of_one_normal_law_has_its_closed_form():
    rng = np.random.default_rng(0)
    mean, deviation, noise = rng.normal(size=(1, 300)), rng.uniform(0.1, 2.0, 300), 0.3
    prediction = prediction_of(lk.Gaussian(noise), mean, deviation)
    for spread in (0.05, 1.0, 7.0):
        y = mean[0] + spread * prediction.observation_variance**0.5 * rng.normal(size=300)
        found = cal.temper(prediction, y)
        ratio = np.mean((y - mean[0]) ** 2 / prediction.observation_variance)
        np.testing.assert_allclose(found.factor, ratio, rtol=1e-6)
        variance = ratio * prediction.observation_variance
        known = -np.mean(scipy.stats.norm.logpdf(y, mean[0], np.sqrt(variance)))
        np.testing.assert_allclose(found.nll_after, known, rtol=1e-9)
        # The published code multiplies by twice the optimum.
        published = cal.StretchedPrediction(prediction, 2.0 * ratio)
        assert -np.mean(published.log_density(y)) > found.nll_after + 0.05


TEMPERED = {
    "mixture of normal laws": (lk.Gaussian(0.4), "observation"),
    "StudentT": (lk.StudentT(4.0, 0.3), "observation"),
    "HeteroscedasticGaussian": (lk.HeteroscedasticGaussian(), "observation"),
    "Bernoulli": (lk.Bernoulli(), "temperature"),
    "Categorical": (lk.Categorical(3), "temperature"),
    "Ordinal": (lk.Ordinal([-1.0, 0.5, 2.0]), "temperature"),
    "Poisson": (lk.Poisson(), "latent"),
    "Gamma": (lk.Gamma(3.0), "latent"),
}


def from_tempered(law, seed=5):
    """Observations of a tempered law, by its quantiles or probabilities."""
    rng = np.random.default_rng(seed)
    if isinstance(law, Prediction):
        return simulated(law)
    if law.likelihood.num_labels is None:
        base, root = law.prediction, np.sqrt(law.factor)
        return law.observation_mean + root * (simulated(base) - base.observation_mean)
    table = law.probability if law.probability.ndim == 2 else np.stack([1 - law.probability, law.probability], axis=1)
    return np.sum(rng.uniform(size=len(table))[:, None] > np.cumsum(table, axis=1)[:, :-1], axis=1).astype(float)


@pytest.mark.parametrize("name", cases(TEMPERED, quick=["mixture of normal laws", "Bernoulli", "Poisson"]))
def test_temper_finds_the_factor_of_the_data(name):
    likelihood, kind = TEMPERED[name]
    prediction, truth = many(likelihood), 2.5
    proper = cal.Tempering(truth, 0.0, 0.0, kind, 1, False, type(likelihood).__name__).apply(prediction)
    y = from_tempered(proper)
    found = cal.temper(prediction, y)
    assert found.kind == kind
    assert not found.is_at_bound

    def losses(logarithm):
        return (
            -found.__class__(float(np.exp(logarithm)), 0.0, 0.0, kind, 1, False, type(likelihood).__name__)
            .apply(prediction)
            .log_density(y)
        )

    t, step = np.log(found.factor), 1e-2
    left, middle, right = (losses(t + by) for by in (-step, 0.0, step))
    assert middle.mean() < min(left.mean(), right.mean())
    np.testing.assert_allclose(middle.mean(), found.nll_after, rtol=1e-12)
    # As an estimate by maximum likelihood it has the error of one: sandwich of scores and curvature.
    scores, curvature = (right - left) / (2 * step), (left + right - 2 * middle).mean() / step**2
    error = scores.std() / (curvature * np.sqrt(len(y)))
    assert abs(t - np.log(truth)) < scipy.stats.norm.isf(LEVEL / (2 * len(TEMPERED))) * error
    # And it can tell: no tempering would be far off.
    assert t > 3 * error
    assert found.nll_after < found.nll_before


def test_temper_never_makes_it_worse_and_says_when_it_is_at_its_bound():
    prediction = many(lk.Gaussian(0.4))
    with pytest.warns(HyperparameterWarning, match="where the search ends"):
        found = cal.temper(prediction, prediction.observation_mean)
    assert found.is_at_bound
    assert found.factor < 2e-4
    assert "bound" in str(found)
    same = cal.temper(prediction, simulated(prediction))
    assert same.nll_after <= same.nll_before


@pytest.mark.slow
def test_stretched_law_is_one_law():
    """Density, distribution, quantiles, moments and CRPS of the stretched law agree with each other."""
    base = prediction_of(lk.StudentT(5.0, 0.6))
    law = cal.StretchedPrediction(base, 3.0)
    points, y = np.arange(3), np.array([0.4, 1.5, -2.0])
    np.testing.assert_allclose(law._cdf(law.quantile(0.3), points), 0.3, rtol=1e-6)
    np.testing.assert_allclose(law.interval(0.9)[1], law.quantile(0.95))
    for n in range(3):
        grid = np.linspace(-100.0, 100.0, 4001)
        one = Prediction(base.likelihood, MEANS[:, [n] * len(grid)], np.full(len(grid), DEVIATION[n]), grid * 0 + 1)
        density = np.exp(cal.StretchedPrediction(one, 3.0).log_density(grid))
        assert abs(np.trapezoid(density, grid) - 1.0) < 1e-6
        mean = np.trapezoid(density * grid, grid)
        np.testing.assert_allclose(law.observation_mean[n], mean, rtol=1e-5)
        # With tails of the order −6, what lies beyond the grid is about 10⁻⁵ of the variance.
        variance = np.trapezoid(density * (grid - mean) ** 2, grid)
        np.testing.assert_allclose(law.observation_variance[n], variance, rtol=1e-4)
    np.testing.assert_allclose(cal.crps(law, y), _crps._by_integration(law, y), rtol=1e-6)
    no_mean = cal.StretchedPrediction(prediction_of(lk.StudentT(0.9, 0.6)), 3.0)
    np.testing.assert_allclose(no_mean.quantile(0.5), no_mean.prediction.quantile(0.5))


@pytest.mark.slow
def test_tempered_laws_can_be_judged():
    for likelihood in (lk.Gaussian(0.4), lk.Bernoulli(), lk.Categorical(3), lk.Ordinal([-1.0, 0.5]), lk.Poisson()):
        prediction = many(likelihood, 60)
        y = simulated(prediction)
        tempered = cal.temper(prediction, y).apply(prediction)
        report = cal.calibration_report(tempered, y, KEY)
        assert np.isfinite([report.nll, report.crps]).all()
        assert tempered.mean.shape == prediction.mean.shape
        assert tempered.observation_variance.shape == prediction.observation_variance.shape
        one = cal.Tempering(1.0, 0.0, 0.0, cal.temper(prediction, y).kind, 1, False, type(likelihood).__name__)
        same = one.apply(prediction)
        np.testing.assert_allclose(same.log_density(y), prediction.log_density(y), rtol=1e-6)
        np.testing.assert_allclose(same.observation_mean, prediction.observation_mean, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(same.observation_variance, prediction.observation_variance, rtol=1e-6, atol=1e-7)
        if likelihood.num_latents == 1:
            np.testing.assert_allclose(same.quantile([0.2, 0.6]), prediction.quantile([0.2, 0.6]), rtol=1e-6)
            np.testing.assert_allclose(cal.pit(same, y, KEY), cal.pit(prediction, y, KEY), atol=1e-6)


def test_conformal_has_its_coverage_where_the_law_has_not():
    """Over many splits the mean coverage is ⌈(n + 1)p⌉/(n + 1), whatever the law; that of the plain law is not."""
    n, splits, coverage = 39, 300, 0.9
    right, wrong = (many(lk.Gaussian(0.4), 2 * n * splits, scale=scale) for scale in (1.0, 0.3))
    y, ends = simulated(right), np.array(wrong.interval(coverage))

    class Known:
        """Intervals that were computed before, at some inputs."""

        likelihood, quantile, log_density, num_points = wrong.likelihood, None, None, n

        def __init__(self, part):
            self.part = part

        def interval(self, _):
            return ends[:, self.part]

    inside, plain = [], []
    for split in range(splits):
        known, new = (slice(2 * n * split + part * n, 2 * n * split + (part + 1) * n) for part in (0, 1))
        found = cal.conformal(Known(known), y[known], coverage)
        for (low, high), shares in ((found.interval(Known(new)), inside), (ends[:, new], plain)):
            shares.append(np.mean((low <= y[new]) & (y[new] <= high)))
    expected, limit = np.ceil((n + 1) * coverage) / (n + 1), scipy.stats.norm.isf(LEVEL / 2) / np.sqrt(splits)
    assert abs(np.mean(inside) - expected) < limit * np.std(inside)
    assert abs(np.mean(plain) - expected) > limit * np.std(plain)
    np.testing.assert_allclose(found.standard_error(n), np.sqrt(0.9 * 0.1 * 2 / n))


def test_conformal_intervals_are_those_of_mapie():
    mapie = pytest.importorskip("mapie.regression", reason="MAPIE is not installed")
    sklearn_base = pytest.importorskip("sklearn.base")
    prediction = many(lk.StudentT(4.0, 0.3), 300)
    y = simulated(many(lk.StudentT(4.0, 0.3), 300, scale=1.5))
    rows = np.arange(300.0)[:, None]

    class Quantile(sklearn_base.RegressorMixin, sklearn_base.BaseEstimator):
        def __init__(self, q=0.5):
            self.q = q

        fitted_ = True

        def fit(self, *_):
            return self

        def predict(self, x):
            return np.asarray(prediction.quantile(self.q))[x[:, 0].astype(int)]

    three = [Quantile(q) for q in (0.05, 0.95, 0.5)]
    theirs = mapie.ConformalizedQuantileRegressor(three, confidence_level=0.9, prefit=True)
    theirs.conformalize(rows[:120], y[:120])
    intervals = theirs.predict_interval(rows[120:], symmetric_correction=True)[1][:, :, 0]
    means, deviation = prediction.component_means, prediction.component_deviation
    known, new = (
        Prediction(prediction.likelihood, means[:, part], deviation[part], np.ones(len(deviation[part])))
        for part in (slice(0, 120), slice(120, 300))
    )
    ours = np.stack(cal.conformal(known, y[:120], 0.9).interval(new), axis=1)
    np.testing.assert_allclose(ours, intervals, rtol=1e-9)


@pytest.mark.parametrize("likelihood", [lk.Bernoulli(), lk.Categorical(3)], ids=["Bernoulli", "Categorical"])
def test_conformal_sets_cover_labels(likelihood):
    known, new = many(likelihood, 1000, seed=1), many(likelihood, 1000, seed=2)
    found = cal.conformal(known, simulated(known), 0.9)
    sets, y = found.apply(new), simulated(new, seed=9).astype(int)
    assert sets.shape == (1000, likelihood.num_labels)
    limit = scipy.stats.norm.isf(LEVEL / 2) * found.standard_error(1000)
    assert abs(sets[np.arange(1000), y].mean() - 0.9) < limit
    # Labels that have nothing to do with the prediction are covered less often.
    assert abs(sets[np.arange(1000), np.roll(y, 1)].mean() - 0.9) > limit


def test_conformal_intervals_of_counts_are_whole_and_possible():
    prediction = many(lk.Poisson(), 500)
    lower, upper = cal.conformal(prediction, simulated(prediction) + 3.0).interval(prediction)
    assert np.all(lower == np.round(lower))
    assert np.all(upper == np.round(upper))
    assert lower.min() >= 0.0


def test_conformal_intervals_that_would_cross_are_at_the_median():
    prediction = prediction_of(lk.Gaussian(0.01), np.array([[0.0, 0.0]]), np.array([8.0, 0.1]))
    wide = prediction_of(lk.Gaussian(0.01), np.zeros((1, 99)), np.full(99, 5.0))
    found = cal.conformal(wide, np.zeros(99))
    assert found.correction < -9.0
    lower, upper = found.interval(prediction)
    assert upper[0] > lower[0]
    np.testing.assert_allclose((lower[1], upper[1]), 0.0, atol=1e-8)


def test_results_survive_pickle():
    prediction = many(lk.Gaussian(0.4), 100)
    y = simulated(prediction)
    for result in (cal.temper(prediction, y), cal.conformal(prediction, y), cal.calibration_report(prediction, y)):
        again = pickle.loads(pickle.dumps(result))
        assert str(again) == str(result)
        with pytest.raises(AttributeError):
            again.coverage = 0.5
    tempered = pickle.loads(pickle.dumps(cal.temper(prediction, y).apply(prediction)))
    assert np.all(np.isfinite(tempered.quantile(0.5)))


def test_the_least_number_of_held_out_data():
    for coverage, least in ((0.95, 19), (0.9, 9), (0.5, 1), (0.99, 99)):
        prediction = prediction_of(lk.Gaussian(0.4), np.zeros((1, least)), np.ones(least))
        assert cal.conformal(prediction, np.arange(float(least)), coverage).num_observations == least
    fewer = prediction_of(lk.Gaussian(0.4), np.zeros((1, 18)), np.ones(18))
    with pytest.raises(InputError, match="at least 19"):
        cal.conformal(fewer, np.zeros(18))


def test_tempering_does_not_make_something_of_rounding():
    x = np.linspace(-2.0, 2.0, 100)[:, None]
    labels = (np.sin(3.0 * x[:, 0]) > 0).astype(float)
    posterior = ko.infer(
        jax.random.key(0), ko.kernels.Matern52(), ko.likelihoods.Bernoulli(), x, labels, num_inducing=5
    )
    # Far away all probabilities are one half, whatever the temperature.
    assert ko.calibration.temper(posterior.predict(x + 1e4), labels).factor == 1.0
