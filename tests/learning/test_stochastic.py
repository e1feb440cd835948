"""All rows in random batches: the bound that is climbed, weights, the same key, and what rows beyond a subset teach."""

import jax
import numpy as np
import pytest

import kosambi as ko
from kosambi.learning import stochastic, with_points
from kosambi.learning.layout import Model, lay_out
from kosambi.learning.points import PointEvaluator
from kosambi.learning.search import Record, minimise

k, lk = ko.kernels, ko.likelihoods
RNG = np.random.default_rng(2)
X = RNG.uniform(-3.0, 3.0, (3000, 1))
Y = (np.sin(3.0 * X[:, 0]) * 2.0 + RNG.logistic(size=3000) > 0).astype(float)


@pytest.fixture
def few_rows(monkeypatch):
    for name, value in (("MAX_ROWS", 300), ("_AT_ONCE", 1.0), ("CLUSTERED", 600)):
        monkeypatch.setattr(with_points, name, value)
    monkeypatch.setattr(stochastic, "BATCH", 256)
    monkeypatch.setattr(stochastic, "STEPS", 160)


def learned(y=Y, weights=None, seed=0):
    prior = ko.GaussianProcess(k.SquaredExponential(1.0, 1.0), 0.0)
    return ko.fit_hyperparameters(
        jax.random.key(seed), prior, lk.Bernoulli(), X, y, num_inducing=16, num_restarts=0, weights=weights
    )


@pytest.mark.usefixtures("few_rows")
@pytest.mark.slow
def test_batches_reach_the_best_bound_of_all_rows_and_the_same_key_gives_the_same():
    prior, likelihood, report = learned()
    assert (report.strategy, report.num_rows, report.inducing_points.shape) == ("points", 3000, (16, 1))
    given = Model(prior.kernel, prior.mean, likelihood)
    layout = lay_out(given)
    with jax.enable_x64(True):
        whole = PointEvaluator(layout, given, prior, X, Y, None, None)
        begun = layout.vector(given)
        whole(begun, report.inducing_points)
        evidence = whole.evidence
        wide = np.full(3, 5.0)
        best = minimise(
            lambda v: whole(v, report.inducing_points)[:2], begun, begun - wide, begun + wide, 100, Record()
        )
    # The report's is an estimate from batches.
    assert report.log_evidence == pytest.approx(evidence, abs=0.01 * 3000)
    # What is left to gain is less than a thousandth of a nat for each row.
    assert -best.value - evidence < 3.0
    again, _, _ = learned()
    assert float(again.kernel.lengthscale) == float(prior.kernel.lengthscale)


@pytest.mark.slow
@pytest.mark.usefixtures("few_rows")
def test_rows_that_count_twice_are_two_rows_and_those_of_weight_zero_are_not_looked_at():
    counts = np.where(np.arange(3000) % 2 == 0, 2.0, 0.0)
    spoiled = np.where(counts > 0, Y, 1.0 - Y)
    first, _, report = learned(weights=counts)
    second, _, _ = learned(spoiled, weights=counts)
    assert float(first.kernel.lengthscale) == float(second.kernel.lengthscale)
    assert report.num_rows == 1500
    prior = ko.GaussianProcess(first.kernel, first.mean)
    given = Model(prior.kernel, prior.mean, lk.Bernoulli())
    with jax.enable_x64(True):
        whole = PointEvaluator(lay_out(given), given, prior, X, Y, counts, None)
        whole(lay_out(given).vector(given), report.inducing_points)
    assert report.log_evidence == pytest.approx(whole.evidence, abs=0.02 * 3000)


@pytest.mark.usefixtures("few_rows")
def test_rows_that_clusters_are_made_of_are_learned_from_in_batches_too(monkeypatch):
    monkeypatch.setattr(with_points, "CLUSTERED", 10_000)
    monkeypatch.setattr(stochastic, "STEPS", 20)
    _, _, report = learned()
    assert (report.strategy, report.num_rows) == ("points", 3000)


def test_with_every_row_a_point_all_rows_are_learned_from(monkeypatch):
    monkeypatch.setattr(with_points, "START_ROWS", 60)
    prior = ko.GaussianProcess(k.SquaredExponential(1.0, 1.0), 0.0)
    _, _, report = ko.fit_hyperparameters(
        jax.random.key(0), prior, lk.Bernoulli(), X[:90], Y[:90], num_inducing=90, num_restarts=0
    )
    assert report.num_rows == 90
    assert report.converged
