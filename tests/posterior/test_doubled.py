"""The certificate with neighbours: KL between m and 2m, against dense linear algebra and quadrature, and the scores."""

import jax
import numpy as np
import pytest

import kosambi as ko
from kosambi.likelihoods import Bernoulli, Gaussian, Huber, Poisson
from kosambi.posterior import doubled

RNG = np.random.default_rng(0)
X = RNG.uniform(-1.0, 1.0, (150, 2))
F = np.sin(4.0 * X[:, 0]) + X[:, 1]
PRIOR = ko.GaussianProcess(ko.kernels.Matern32(0.4, 1.5))


def posterior_of(likelihood, y, num_neighbors, num_points=8, num_particles=1000):
    basis = ko.PointBasis(PRIOR, X[:num_points])
    target = ko.Target(basis, likelihood, X, y, "neighbors", num_neighbors=num_neighbors)
    particles, report = ko.sample(jax.random.key(0), target, num_particles=num_particles)
    return ko.Posterior(target, particles, report)


def test_gaussian_divergence_is_that_of_its_draws():
    posterior = posterior_of(Gaussian(0.2), F + 0.2 * RNG.normal(size=150), 4)
    found = posterior.certificate()
    assert found.num_neighbors == 4
    assert found.standard_error == 0.0
    more = doubled.with_doubled_neighbors(posterior.target)
    u = posterior.particles.coordinates
    delta = np.asarray(more.potential(u)) - np.asarray(posterior.target.potential(u))
    estimate, error = ko.posterior.divergence_estimate(delta)
    assert found.divergence > 0
    assert abs(found.divergence - estimate) < 4.0 * error
    # All rows as neighbours cannot be doubled.
    every = posterior_of(Gaussian(0.2), F, 150).certificate()
    assert abs(every.divergence) < 1e-8


@pytest.mark.parametrize(
    "likelihood", [Bernoulli(), pytest.param(Poisson(), marks=pytest.mark.slow)], ids=["labels", "counts"]
)
@pytest.mark.slow
def test_divergence_of_one_coordinate_against_quadrature(likelihood):
    y = (F > 0).astype(float) if isinstance(likelihood, Bernoulli) else RNG.poisson(np.exp(F)).astype(float)
    posterior = posterior_of(likelihood, y, 3, num_points=1, num_particles=250)
    found = posterior.certificate()
    grid = np.linspace(-6.0, 6.0, 1001)
    more = doubled.with_doubled_neighbors(posterior.target)
    values = []
    for target in (posterior.target, more):
        v = np.asarray(target.potential(target.basis.colour(grid[:, None])))
        density = np.exp(-(v - v.min()))
        values.append(density / np.trapezoid(density, grid))
    one, other = values
    right = np.trapezoid(one * np.log(np.maximum(one, 1e-300) / np.maximum(other, 1e-300)), grid)
    assert abs(found.divergence - right) < 4.0 * found.standard_error + 1e-4
    assert right > 4.0 * found.standard_error
    assert found.bound is None


@pytest.mark.slow
def test_more_nodes_integrate_better():
    posterior = posterior_of(Poisson(), RNG.poisson(np.exp(F)).astype(float), 3, num_points=1, num_particles=64)
    few, many = posterior.certificate(num_nodes=13), posterior.certificate(num_nodes=64)
    assert many.quadrature_error < 0.1 * few.quadrature_error
    with pytest.raises(ValueError, match="num_nodes"):
        posterior.certificate(num_nodes=5)


def test_scores_say_that_neighbours_help_and_that_more_hardly_do():
    y = F + 0.2 * RNG.normal(size=150)
    posterior = posterior_of(Gaussian(0.2), y, 12, num_points=4)
    found = posterior.certificate()
    (none, without), (m, with_m), (more, with_more) = found.scores
    assert (none, m, more) == (0, 12, 24)
    assert with_m > without + 0.5
    assert abs(with_more - with_m) < 0.1
    words = str(found)
    assert "12 neighbours" in words
    assert "nats from the one with 24" in words
    # Leave-one-out of the full process, in closed form.
    gram = np.asarray(PRIOR.kernel(X)) + 0.04 * np.eye(150)
    inverse = np.linalg.inv(gram)
    variance = 1.0 / np.diagonal(inverse)
    error = (inverse @ y) * variance
    right = np.mean(-0.5 * np.log(2.0 * np.pi * variance) - 0.5 * np.square(error) / variance)
    assert abs(with_more - right) < 0.05


def test_draws_with_neighbours_are_not_reweighted():
    posterior = posterior_of(Gaussian(0.2), F, 4, num_particles=50)
    with pytest.raises(ValueError, match="cannot be reweighted"):
        posterior.reweighted(jax.random.key(1))


def test_no_neighbours_are_compared_with_two():
    found = posterior_of(Gaussian(0.2), F, 0, num_particles=50).certificate()
    assert (found.num_neighbors, found.num_compared) == (0, 2)
    assert found.scores[:, 0].tolist() == [0, 0, 2]
    assert "nats from the one with 2" in str(found)


@pytest.mark.slow
def test_a_loss_without_a_density_has_no_scores():
    found = posterior_of(Huber(), F, 4, num_particles=50).certificate()
    assert found.scores is None
    assert found.divergence > 0
    assert "not known without a density" in str(found)


def test_few_draws_say_so():
    found = posterior_of(Bernoulli(), (F > 0).astype(float), 3, num_points=1, num_particles=10).certificate()
    assert any("10 particles" in note for note in found.notes)
    assert any("25 particles or more" in note for note in found.notes)


def test_weights_carry_draws_over_to_twice_as_many():
    posterior = posterior_of(Gaussian(0.2), F + 0.2 * RNG.normal(size=150), 8)
    found = posterior.certificate()
    more = doubled.with_doubled_neighbors(posterior.target)
    right, _ = ko.sample(jax.random.key(5), more, num_particles=4000)
    mean = np.asarray(found.weights) @ posterior.particles.whitened
    error = right.whitened.std(axis=0) * np.sqrt(1.0 / found.effective_draws + 1.0 / 4000)
    assert np.all(np.abs(mean - right.whitened.mean(axis=0)) < 4.5 * error)
