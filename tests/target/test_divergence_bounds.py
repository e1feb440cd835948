"""Bounds on the divergence between the two potentials, against quadrature with one coordinate."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import kosambi as ko

k, lk = ko.kernels, ko.likelihoods


def kl_on_a_grid(basis, likelihood, x, y):
    """KL(Π_∞, Π*) for M = 1 by quadrature over w."""
    w = np.linspace(-9.0, 9.0, 20_001)[:, None]
    u = basis.colour(w)
    projected, optimal = (ko.Target(basis, likelihood, x, y, kind).potential(u) for kind in ("projected", "optimal"))
    log_p, log_q = -projected, -optimal
    log_p = log_p - scipy.special.logsumexp(log_p)
    log_q = log_q - scipy.special.logsumexp(log_q)
    return float(np.sum(np.exp(log_p) * (log_p - log_q)))


@pytest.mark.parametrize("name", ["Bernoulli", "Laplace"])
def test_the_bounds_on_the_divergence_need_the_constant_of_the_whole_loss(name):
    """KL ≤ ½(Σκ²) tr Σ; with one datum's constant, ½κ² tr Σ, the Laplace cost breaks it."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 1.0, (100, 1))
    prior = ko.GaussianProcess(k.SquaredExponential(3.0))
    basis = ko.PointBasis(prior, [[0.0]])
    likelihood = lk.Bernoulli() if name == "Bernoulli" else lk.Laplace(0.05)
    y = np.ones(100) if name == "Bernoulli" else np.where(np.arange(100) % 2, 1.0, -1.0) * 0.02
    divergence = kl_on_a_grid(basis, likelihood, x, y)
    trace = basis.residual_variance(x).sum()
    kappa = likelihood.lipschitz
    assert 0 < divergence <= 0.5 * 100 * kappa**2 * trace
    if name == "Bernoulli":
        bound = 0.5 * likelihood.curvature_bound * trace
        assert divergence <= min(bound, bound**2 / 8)


def test_one_datums_constant_is_not_enough():
    """Many data at one input, with a residual there: the loss is N times as steep as one datum's."""
    x = np.full((100, 1), 1.0)
    basis = ko.PointBasis(ko.GaussianProcess(k.SquaredExponential(3.0)), [[0.0]])
    likelihood = lk.Laplace(10.0)
    divergence = kl_on_a_grid(basis, likelihood, x, np.zeros(100))
    trace, kappa = basis.residual_variance(x).sum(), likelihood.lipschitz
    assert divergence <= 0.5 * 100 * kappa**2 * trace
    assert divergence > 0.5 * kappa**2 * trace


@pytest.mark.parametrize(("likelihood", "ways"), [(lk.Bernoulli(), 1.0), (lk.StudentT(4.0, 0.3), 2.0)])
def test_bounds_from_the_slope_by_their_formulas(likelihood, ways):
    """½κ²Σw² Σσ², and min(b, b²/8) of b = κ√(2/π) Σwσ, twice that where the cost is not convex."""
    deviation, weights, kappa = np.array([0.1, 0.2, 0.5]), np.array([1.0, 2.0, 1.0]), likelihood.lipschitz
    found = ko.target.divergence_bounds(likelihood, np.ones(3), deviation**2, weights)
    reach = ways * kappa * np.sqrt(2.0 / np.pi) * (0.1 + 2.0 * 0.2 + 0.5)
    assert found.lipschitz == pytest.approx(min(reach, reach**2 / 8.0), rel=1e-12)
    assert found.theorem == pytest.approx(0.5 * kappa**2 * 6.0 * 0.3, rel=1e-12)
