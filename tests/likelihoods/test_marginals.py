"""−log E exp(−c) and its derivatives: each likelihood against a fine sum, weights, narrow and far-off integrands."""

import jax
import numpy as np
import pytest

import kosambi as ko
from kosambi._core.precision import compiled
from kosambi.likelihoods.marginals import Marginal, Site
from tests.likelihoods.table import CASES

lk = ko.likelihoods
SINGLE = {
    name: case
    for name, case in CASES.items()
    # Those with two signs or two shifts are refused, and have poles or humps.
    if not case.likelihood.is_even and name != "Gaussian"
}
DEVIATIONS = np.array([0.05, 0.4, 1.1])


def brute(likelihood, y, weight, mean, deviation):
    """By even steps, wherever the integrand is."""
    f = mean + deviation * np.linspace(-30.0, 30.0, 40_001)
    cost = weight * np.asarray(likelihood.cost(np.full(len(f), y), f)) if weight else 0.0
    logs = -0.5 * np.square((f - mean) / deviation) - 0.5 * np.log(2.0 * np.pi) - cost
    top = np.max(logs)
    return -(top + np.log(np.sum(np.exp(logs - top))) + np.log(60.0 / 40_000))


def site_of(likelihood, y, count, mean, deviation):
    """Where Newton's steps for the tilted density end."""
    f = mean.copy()
    for _ in range(50):
        slope, second = count * likelihood.derivative(y, f), count * likelihood.curvature(y, f)
        f = f - 0.5 * (slope + (f - mean) / deviation**2) / (second + 1.0 / deviation**2)
    precision = np.maximum(count * likelihood.curvature(y, f), 1e-8)
    return Site(precision, f - count * likelihood.derivative(y, f) / precision)


@compiled
def _marginal(likelihood, y, weights, mean, deviation, site, rule):
    if rule is None:
        return likelihood.raw_closed_marginal(y, weights, mean, deviation)
    return likelihood.raw_marginal(y, weights, mean, deviation, site, rule)


def marginal(likelihood, y, weights, mean, deviation, site):
    is_closed = likelihood.has_closed_marginal(weights is None)
    rule = None if is_closed else likelihood.marginal_rule(deviation, site)
    with jax.enable_x64(True):
        return Marginal(*map(np.asarray, _marginal(likelihood, y, weights, mean, deviation, site, rule)))


@pytest.mark.parametrize("name", SINGLE)
def test_marginal_cost_against_a_fine_sum(name):
    case = SINGLE[name]
    likelihood = case.likelihood
    y, mean, deviation = (
        part.ravel() for part in np.meshgrid(case.y, 0.5 * case.f, case.scale * DEVIATIONS, indexing="ij")
    )
    for weights in (None, np.where(np.arange(len(y)) % 3, 2.0, 0.0)):
        count = np.ones(len(y)) if weights is None else weights
        site = site_of(likelihood, y, count, mean, deviation) if likelihood.is_convex else None
        found = marginal(likelihood, y, weights, mean, deviation, site)
        wanted = np.array([brute(likelihood, *row) for row in zip(y, count, mean, deviation, strict=True)])
        np.testing.assert_allclose(found.cost, wanted, atol=5e-5, rtol=1e-5)
        h = 1e-3 * case.scale
        below, above = (marginal(likelihood, y, weights, mean + sign * h, deviation, site).cost for sign in (-1, 1))
        scale = 1.0 + np.abs(found.slope)
        np.testing.assert_allclose(found.slope / scale, (above - below) / (2 * h) / scale, atol=2e-3)
        second = (above - 2.0 * found.cost + below) / h**2
        scale = 1.0 + np.abs(second)
        if name != "Huber":
            np.testing.assert_allclose(found.second / scale, second / scale, atol=2e-2)
        assert np.all(found.positive >= 0)


@pytest.mark.parametrize("y", [200.0, 1000.0])
def test_counts_that_are_far_narrower_than_the_residual(y):
    likelihood, one = lk.Poisson("exp"), np.ones(1)
    site = Site(np.array([y]), np.log([y]))
    mean = np.array([np.log(y) - 1.5])
    found = marginal(likelihood, np.array([y]), None, mean, one, site)
    assert float(found.cost[0]) == pytest.approx(brute(likelihood, y, 1.0, mean[0], 1.0), abs=1e-4)


def test_an_outlier_under_a_wide_residual():
    likelihood, y = lk.StudentT(4.0, 0.05), np.array([3.0])
    found = marginal(likelihood, y, None, np.zeros(1), np.array([0.7]), None)
    assert float(found.cost[0]) == pytest.approx(brute(likelihood, 3.0, 1.0, 0.0, 0.7), abs=1e-4)


def test_without_a_residual_it_is_the_cost():
    y, mean = np.array([0.0, 1.0]), np.array([0.3, -0.8])
    site = Site(np.full(2, 0.2), np.zeros(2))
    found = marginal(lk.Bernoulli(), y, None, mean, np.zeros(2), site)
    np.testing.assert_allclose(found.cost, lk.Bernoulli().cost(y, mean), rtol=1e-12)
    np.testing.assert_allclose(found.slope, lk.Bernoulli().derivative(y, mean), rtol=1e-12)
    np.testing.assert_allclose(found.second, lk.Bernoulli().second_derivative(y, mean), rtol=1e-9)


@pytest.mark.parametrize("weight", [0.02, 0.3, 3.0])
def test_observations_of_students_noise_that_count_for_little(weight):
    likelihood, mean = lk.StudentT(4.0, 0.3), np.array([-1.5, -0.2, 0.4, 2.0])
    y, deviation, weights = np.zeros(4), np.full(4, 0.4), np.full(4, weight)
    found = marginal(likelihood, y, weights, mean, deviation, None)
    step = 1e-3
    for i in range(4):
        below, at, above = (brute(likelihood, 0.0, weight, mean[i] + d, 0.4) for d in (-step, 0.0, step))
        assert found.cost[i] == pytest.approx(at, abs=1e-5)
        assert found.slope[i] == pytest.approx((above - below) / (2.0 * step), abs=1e-3 * weight)
