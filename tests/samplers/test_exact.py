from __future__ import annotations

import jax
import numpy as np
import pytest

import kosambi as ko
from kosambi.samplers import run
from kosambi.target import least_squares
from tests.laws import joint_normal_p_value

X = np.random.default_rng(3).uniform(-2.0, 2.0, (60, 1))
Y = np.sin(2 * X[:, 0]) + 0.3
NOISE = {"one": 0.25, "one a datum": np.linspace(0.1, 0.6, 60)}
PRIOR = ko.GaussianProcess(ko.kernels.Matern52(lengthscale=0.7), mean=0.3)
BASIS = ko.PointBasis(PRIOR, X[:5])


@pytest.mark.parametrize("kind", ["projected", "optimal"])
@pytest.mark.parametrize("noise", NOISE)
def test_exact_is_the_closed_form_and_the_optimum_of_a_sparse_variational_gp(noise, kind, x64):
    """Titsias (2009): q(u) = N(Kzz S Kzx y/σ², Kzz S Kzz) with S = (Kzz + Kzx Kxz/σ²)⁻¹."""
    target = ko.Target(BASIS, ko.likelihoods.Gaussian(NOISE[noise]), X, Y, potential=kind)
    particles, report = ko.sample(jax.random.key(0), target, "exact", 20_000)
    z = BASIS.inducing_points
    kzz, kzx = PRIOR.kernel(z), PRIOR.kernel(z, X)
    precision = np.broadcast_to(1.0 / np.square(NOISE[noise]), 60)
    inner = np.linalg.inv(kzz + (kzx * precision) @ kzx.T)
    mean, covariance = kzz @ inner @ (kzx * precision) @ (Y - 0.3), kzz @ inner @ kzz
    np.testing.assert_allclose(BASIS.colour(particles.distribution.mean), mean, atol=1e-8)
    root = BASIS.colour(particles.distribution.root.T)
    np.testing.assert_allclose(root.T @ root, covariance, atol=1e-8)
    assert joint_normal_p_value(particles.coordinates, covariance, mean) > 1e-3
    assert joint_normal_p_value(particles.coordinates, 1.05 * covariance, mean) < 1e-3
    assert (report.steps, report.r_hat, report.converged, report.warnings) == (0, 1.0, True, ())


def test_mala_agrees_with_exact_and_auto_takes_the_closed_form():
    target = ko.Target(BASIS, ko.likelihoods.Gaussian(0.25), X, Y)
    law = ko.sample(jax.random.key(0), target)[0].distribution
    particles, report = ko.sample(jax.random.key(1), target, "mala", 10_000)
    assert report.converged
    # The Gaussian part of the dynamics is solved exactly, so nothing is ever rejected.
    assert report.acceptance == pytest.approx(1.0, abs=1e-9)
    covariance = law.root @ law.root.T
    assert joint_normal_p_value(particles.whitened, covariance, law.mean) > 1e-3
    assert joint_normal_p_value(particles.whitened, 1.05 * covariance, law.mean) < 1e-3


def test_wide_data_and_tiny_noise_lose_no_digits():
    target = ko.Target(BASIS, ko.likelihoods.Gaussian(1e-6), X[:5], Y[:5])
    law = ko.sample(jax.random.key(0), target, "exact", 10)[0].distribution
    np.testing.assert_allclose(BASIS.colour(law.mean), Y[:5] - 0.3, rtol=1e-6)


@pytest.mark.parametrize("number", [5, 40])
def test_many_coordinates_by_cholesky_are_those_by_orthogonal_factors(number, monkeypatch):
    basis = ko.PointBasis(PRIOR, X[:number])
    noise = ko.likelihoods.Gaussian(NOISE["one a datum"])
    slow = ko.Target(basis, noise, X, Y)
    expected = ko.sample(jax.random.key(0), slow)[0].distribution
    monkeypatch.setattr(least_squares, "MANY", 1)
    monkeypatch.setattr(run, "MANY", 1)
    fast = ko.Target(basis, noise, X, Y)
    # Rows are kept as they are where there are hardly more of them than coordinates.
    assert fast.term.root.shape == ((60, basis.size) if number == 40 else (5, 5))
    u = np.random.default_rng(0).normal(size=(3, basis.size))
    np.testing.assert_allclose(fast.potential(u), slow.potential(u), rtol=1e-9)
    found = ko.sample(jax.random.key(0), fast)[0].distribution
    np.testing.assert_allclose(found.mean, expected.mean, atol=1e-9)
    np.testing.assert_allclose(found.root @ found.root.T, expected.root @ expected.root.T, atol=1e-9)
    # Where digits would be lost to squaring it is not used.
    monkeypatch.setattr(run, "LARGEST_TRACE", 1.0)
    exact = ko.sample(jax.random.key(0), slow)[0].distribution
    np.testing.assert_array_equal(exact.mean, expected.mean)


def test_bad_input_exact_needs_a_gaussian_likelihood():
    target = ko.Target(BASIS, ko.likelihoods.StudentT(4.0, 0.3), X, Y, "projected")
    with pytest.raises(ko.errors.InputError, match=r"needs a `Gaussian` likelihood.*`StudentT`.*auto"):
        ko.sample(jax.random.key(0), target, "exact")
    with pytest.raises(ko.errors.InputError, match="`initial` has no meaning"):
        ko.sample(jax.random.key(0), ko.Target(BASIS, ko.likelihoods.Gaussian(0.1), X, Y), "exact", initial="prior")
