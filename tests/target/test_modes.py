from __future__ import annotations

import jax
import numpy as np
import pytest
import scipy.optimize

import kosambi as ko
from tests.samplers.grids import small_target

lk = ko.likelihoods
KEY = jax.random.key(0)


@pytest.mark.parametrize(
    ("likelihood", "y"),
    [
        (lk.Bernoulli(), [0.0, 0.0, 1.0, 1.0]),
        (lk.Poisson(), [0.0, 2.0, 1.0, 30.0]),
        (lk.Gamma(2.0), [0.01, 5.0, 0.3, 80.0]),
    ],
)
def test_the_mode_is_where_an_optimiser_finds_it(likelihood, y):
    target = small_target(likelihood, y)
    modes = ko.target.find_modes(KEY, target)
    colour = target.basis.colour
    best = scipy.optimize.minimize(lambda w: float(target.potential(colour(w))), np.zeros(2), tol=1e-12)
    np.testing.assert_allclose(modes.positions[0], best.x, atol=1e-5)
    assert modes.potentials[0] <= best.fun + 1e-10
    assert modes.converged.all()
    # A Aᵀ is the inverse of the Hessian, here by differences.
    root = target.basis.colour(np.eye(2))
    hessian = root @ target.curvature(colour(modes.positions[0])) @ root.T
    np.testing.assert_allclose(modes.roots[0] @ modes.roots[0].T, np.linalg.inv(hessian), rtol=1e-6)


def test_all_modes_of_a_squared_link_are_found_with_their_weights():
    target = small_target(lk.Poisson(link="square"), [4.0, 6.0, 5.0, 8.0])
    modes = ko.target.find_modes(KEY, target)
    np.testing.assert_allclose(modes.positions[0], -modes.positions[1], atol=1e-5)
    np.testing.assert_allclose(modes.weights[:2], 0.5, atol=1e-2)
    assert modes.weights.sum() == pytest.approx(1.0)


def test_a_bimodal_posterior_is_reported():
    """One outlying datum that a heavy-tailed cost may or may not follow: two basins far apart."""
    x = np.zeros((8, 1))
    prior = ko.GaussianProcess(ko.kernels.SquaredExponential(1.0, 100.0))
    y = np.array([-10.0, -10.1, -9.9, -10.0, 10.0, 10.1, 9.9, 10.0])
    target = ko.Target(ko.PointBasis(prior, [[0.0]]), lk.StudentT(2.0, 0.1), x, y, "projected")
    with pytest.warns(ko.errors.ConvergenceWarning, match="basins of 2"):
        particles, report = ko.sample(KEY, target, ko.samplers.MALA(max_steps=200))
    assert report.basins == 2
    assert not report.converged
    # Both halves are equally probable, and so are starts.
    assert 0.25 < np.mean(particles.coordinates > 0) < 0.75


def test_a_potential_without_a_finite_value_is_an_error():
    broken = lk.Custom(lambda y, f: f + np.nan)
    with pytest.raises(ko.errors.NumericalError, match="not finite around any"):
        ko.target.find_modes(KEY, small_target(broken, [0.0, 1.0]))


def test_a_cost_with_a_kink():
    target = small_target(lk.Laplace(0.3), [-1.0, 0.0, 0.5, 2.0])
    particles, report = ko.sample(KEY, target)
    assert report.converged
    assert np.isfinite(particles.coordinates).all()
