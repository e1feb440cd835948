"""The certificate against quadrature on a grid (one or two coordinates) and against dense linear algebra."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import scipy.stats

import kosambi as ko
from kosambi.errors import ConvergenceWarning, InputError, WeightWarning
from kosambi.posterior.certificate import certify, divergence_estimate
from kosambi.posterior.importance import smoothed_weights
from tests.cases import cases
from tests.samplers.grids import grid_of, small_target

lk = ko.likelihoods
RNG = np.random.default_rng(11)
Y = {
    "Bernoulli": (lk.Bernoulli(), RNG.integers(0, 2, 60).astype(float)),
    "StudentT": (lk.StudentT(4.0, 0.4), np.sin(6.0 * np.linspace(0, 1, 12)) + 0.3 * RNG.standard_t(4, 12)),
    "Poisson": (lk.Poisson(), RNG.poisson(2.0, 12).astype(float)),
    "Laplace": (lk.Laplace(0.5), RNG.normal(size=12)),
    "NegativeBinomial": (lk.NegativeBinomial(0.5), RNG.poisson(2.0, 20).astype(float)),
    "ShiftMixture": (lk.ShiftMixture(2.0, 0.4, 0.7), RNG.normal(size=12)),
}


def expected_cost(likelihood, y, f, deviation):
    """E c(y, f + deviation·ξ) by a plain sum over equal steps of ξ: f (G,), one y."""
    nodes = np.linspace(-8.0, 8.0, 161)
    weights = np.exp(-0.5 * nodes**2)
    values = f[:, None] + deviation * nodes
    return likelihood.cost(np.full_like(values, y), values) @ (weights / weights.sum())


def delta_on(target, w):
    """Δ at whitened coordinates w (G, M), per observation, from the residual variance by dense linear algebra."""
    z, x = target.basis.inducing_points, target.x
    kernel = target.basis.prior.kernel
    cross, gram = kernel(x, z), kernel(z)
    # At an inducing point it is zero, up to rounding.
    residual = np.maximum(np.diag(kernel(x) - cross @ np.linalg.solve(gram, cross.T)), 0.0)
    weights = cross @ np.linalg.inv(np.linalg.cholesky(gram)).T
    total = np.zeros(len(w))
    for n in range(len(x)):
        f = w @ weights[n]
        plain = target.likelihood.cost(np.full_like(f, target.y[n]), f)
        total += expected_cost(target.likelihood, target.y[n], f, np.sqrt(residual[n])) - plain
    return total


def true_divergence(target, count):
    """KL(Π_∞, Π*) and Δ by quadrature on a grid."""
    grid = grid_of(target, count=count)
    heavy = grid.weights > 1e-13 * grid.weights.max()
    points, weights = grid.points[heavy], grid.weights[heavy] / grid.weights[heavy].sum()
    delta = delta_on(target, points)
    return float(weights @ delta + np.log(weights @ np.exp(-delta)))


@pytest.mark.parametrize(("name", "size"), cases(["Bernoulli", "StudentT", "Poisson"], [1, 2], quick=[]))
def test_divergence_against_quadrature_on_a_grid(name, size):
    target = small_target(*Y[name], size)
    particles, report = ko.sample(jax.random.key(3), target, num_particles=4000)
    assert report.converged
    certificate = ko.Posterior(target, particles, report).certificate()
    truth = true_divergence(target, count=60)
    assert abs(certificate.divergence - truth) < 3.0 * certificate.standard_error
    # The estimate has power: an error of three tenths would be seen.
    assert certificate.standard_error < 0.1 * truth
    for bound in (certificate.bound, certificate.bounds.theorem, certificate.bounds.lipschitz):
        assert bound is None or truth <= bound
    assert (certificate.bound is None) == (name == "Poisson")
    assert bool(certificate.bounds.reason) == (name == "Poisson")
    assert not certificate.notes


@pytest.mark.parametrize("name", cases(["Laplace", "NegativeBinomial", "ShiftMixture"], quick=["ShiftMixture"]))
def test_bounds_hold_and_are_ordered(name):
    target = small_target(*Y[name], 2)
    residual = target.basis.residual_variance(target.x)
    bounds = ko.target.divergence_bounds(target.likelihood, target.y, residual)
    truth = true_divergence(target, count=60)
    assert 0.0 < truth <= bounds.smallest
    if bounds.theorem is not None:
        assert bounds.lipschitz <= bounds.theorem


def test_with_the_constant_of_one_datum_the_theorem_would_be_false():
    # A thousand observations of f(0.6) through the coordinate f(0): each says little, and all say the same.
    prior = ko.GaussianProcess(ko.kernels.SquaredExponential(0.5, 1.0))
    basis = ko.PointBasis(prior, [[0.0]])
    target = ko.Target(basis, lk.Laplace(250.0), np.full((1000, 1), 0.6), np.zeros(1000), "projected")
    residual = basis.residual_variance(target.x)
    bounds = ko.target.divergence_bounds(target.likelihood, target.y, residual)
    grid = grid_of(target)
    f, sd = grid.points[:, 0] * basis.whitened_mean([[0.6]])[0, 0], np.sqrt(residual[0])
    # E|f + σξ| − |f|, the mean of a folded normal law.
    folded = sd * np.sqrt(2 / np.pi) * np.exp(-0.5 * (f / sd) ** 2) + f * (1 - 2 * scipy.stats.norm.cdf(-f / sd))
    delta = 1000 / 250.0 * (folded - np.abs(f))
    truth = grid.mean(delta) + np.log(grid.mean(np.exp(-delta)))
    one_datum = 0.5 * target.likelihood.lipschitz**2 * residual.sum()
    assert one_datum < truth <= bounds.smallest <= bounds.theorem
    np.testing.assert_allclose(one_datum, bounds.theorem / 1000)


def test_weights_count_in_the_bounds():
    target = small_target(*Y["Bernoulli"])
    residual = target.basis.residual_variance(target.x)
    counts = np.arange(60) % 3.0
    rows = np.repeat(np.arange(60), counts.astype(int))
    by_weight = ko.target.divergence_bounds(target.likelihood, target.y, residual, counts)
    by_row = ko.target.divergence_bounds(target.likelihood, target.y[rows], residual[rows])
    np.testing.assert_allclose(by_weight.curvature, by_row.curvature)
    np.testing.assert_allclose(by_weight.lipschitz, by_row.lipschitz)


def dense_gaussian(prior, x, y, z, noise):
    """log p(y), the collapsed bound, and the distance from the full posterior of f at x, by dense linear algebra."""
    r = prior.covariance(x)
    cross = prior.covariance(x, z)
    q = cross @ np.linalg.solve(prior.covariance(z), cross.T)
    mean, s = np.full(len(x), prior.mean), np.diag(np.broadcast_to(noise, len(x)) ** 2)
    evidence = scipy.stats.multivariate_normal(mean, r + s).logpdf(y)
    trace = np.sum(np.diag(r - q) / np.diag(s))
    return evidence, scipy.stats.multivariate_normal(mean, q + s).logpdf(y) - 0.5 * trace, q, s, trace


@pytest.mark.parametrize("noise", cases([0.3, "a noise for each"], slow=["0.3"]))
@pytest.mark.parametrize("sort", ["process", "element"])
def test_gaussian_bound_against_dense_linear_algebra(sort, noise):
    x = RNG.uniform(-3.0, 3.0, (150, 1))
    y = np.sin(2.0 * x[:, 0]) + 0.3 * RNG.normal(size=150)
    kernel = ko.kernels.Matern52(0.7, 1.3)
    element = ko.GaussianRandomElement(kernel, ko.measures.empirical(x), 0.2)
    prior = ko.GaussianProcess(kernel, 0.2) if sort == "process" else element
    noise = np.linspace(0.1, 0.5, 150) if noise == "a noise for each" else noise
    gaps = []
    for number in (4, 12, 30):
        posterior = ko.infer(jax.random.key(0), prior, lk.Gaussian(noise), x, y, num_inducing=number)
        certificate = posterior.certificate()
        z = posterior.basis.inducing_points
        evidence, bound, q, s, trace = dense_gaussian(prior, x, y, z, noise)
        error = y - 0.2
        upper = -0.5 * np.linalg.slogdet(2.0 * np.pi * (q + s))[1]
        upper -= 0.5 * error @ np.linalg.solve(q + (1.0 + trace) * s, error)
        np.testing.assert_allclose(certificate.full_bound, upper - bound, rtol=1e-6)
        assert 0.0 <= evidence - bound <= certificate.full_bound
        assert certificate.divergence == certificate.bound == 0.0
        dense = prior.covariance(x) - q
        np.testing.assert_allclose(certificate.residual_trace, np.trace(dense), rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(certificate.remainder, np.trace(dense) / 150, rtol=1e-6, atol=1e-9)
        share = np.trace(dense) / np.trace(prior.covariance(x))
        np.testing.assert_allclose(certificate.residual_share, share, rtol=1e-6, atol=1e-9)
        gaps.append(certificate.full_bound)
    assert gaps[0] > gaps[1] > gaps[2]


def test_gaussian_bound_with_weights_is_that_of_repeated_rows():
    x = RNG.uniform(-3.0, 3.0, (60, 1))
    y, counts = np.sin(2.0 * x[:, 0]), np.arange(60) % 3
    rows = np.repeat(np.arange(60), counts)
    basis = ko.PointBasis(ko.GaussianProcess(ko.kernels.Matern52()), x[::8])
    found = []
    for target in (
        ko.Target(basis, lk.Gaussian(0.3), x, y, weights=counts.astype(float)),
        ko.Target(basis, lk.Gaussian(0.3), x[rows], y[rows]),
    ):
        particles, _ = ko.sample(jax.random.key(0), target, num_particles=10)
        found.append(certify(target, particles).full_bound)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)


@pytest.mark.slow
def test_divergence_against_dense_computation_with_many_data():
    x = RNG.uniform(-3.0, 3.0, (200, 1))
    y = (np.sin(2.0 * x[:, 0]) + RNG.logistic(size=200) > 0).astype(float)
    prior = ko.GaussianProcess(ko.kernels.SquaredExponential(0.6, 2.0))
    posterior = ko.infer(
        jax.random.key(1), prior, lk.Bernoulli(), x, y, num_inducing=7, potential="projected", num_particles=1000
    )
    certificate = posterior.certificate()
    delta = delta_on(posterior.target, posterior.particles.whitened)
    expected = np.mean(delta) + np.log(np.mean(np.exp(-delta)))
    np.testing.assert_allclose(certificate.divergence, expected, rtol=1e-6)
    influence = delta + np.exp(-delta) / np.mean(np.exp(-delta))
    np.testing.assert_allclose(certificate.standard_error, np.std(influence, ddof=1) / np.sqrt(1000), rtol=1e-6)
    assert certificate.divergence + 5.0 * certificate.standard_error < certificate.bound
    assert "no probability differs by more than" in str(certificate)
    assert certificate.largest_error == np.sqrt((certificate.divergence + 2.0 * certificate.standard_error) / 2.0)


@pytest.mark.slow
def test_several_latent_functions():
    x = RNG.uniform(-2.0, 2.0, (20, 1))
    y = RNG.integers(0, 3, 20).astype(float)
    kernel = ko.kernels.SquaredExponential(0.8, 1.5)
    posterior = ko.infer(jax.random.key(1), kernel, lk.Categorical(3), x, y, num_inducing=4, num_particles=60)
    certificate = posterior.certificate()
    assert 0.0 < certificate.divergence < certificate.bound < certificate.bounds.theorem
    assert certificate.weights.shape == (60,)


def test_squared_link_has_no_standard_error():
    x = np.linspace(-1.0, 1.0, 30)[:, None]
    counts = RNG.poisson(2.0, 30).astype(float)
    target = ko.Target(
        ko.PointBasis(ko.GaussianProcess(ko.kernels.Matern52(0.5), 1.5), x[::10]), lk.Poisson(link="square"), x, counts
    )
    particles = ko.samplers.Particles.from_whitened(target, np.random.default_rng(0).normal(size=(200, 3)))
    certificate = certify(target, particles)
    assert np.isnan(certificate.standard_error)
    assert np.isfinite(certificate.divergence)
    assert any("without a standard error" in note for note in certificate.notes)
    assert certificate.bound is None
    # Counts of zero leave f = 0 possible.
    empty = ko.Target(target.basis, lk.Poisson(link="square"), x, np.zeros(30))
    assert np.isfinite(certify(empty, particles).standard_error)


@pytest.mark.slow
def test_reweighted_draws_follow_the_optimal_law():
    target = small_target(*Y["StudentT"], 1)
    grid, best = grid_of(target), grid_of(target.with_potential("optimal"))
    order = np.argsort(grid.points[:, 0])
    along, cdf = grid.points[order, 0], np.cumsum(grid.weights[order])
    w = np.interp(RNG.uniform(size=20_000), cdf, along)[:, None]
    particles = ko.samplers.Particles.from_coordinates(target, target.basis.colour(w))
    posterior = ko.Posterior(target, particles).reweighted(jax.random.key(5))
    found = posterior.particles.whitened[:, 0]
    # So many draws of equal weight would be as good, and so many the test takes them for.
    count = certify(target, particles).effective_draws
    assert count > 1000
    for draws, is_right in ((found, True), (w[:, 0], False)):
        distance = scipy.stats.kstest(draws, best.cdf(np.ones(1))).statistic
        assert (scipy.stats.kstwobign.sf(np.sqrt(count) * distance) > 1e-3) == is_right
    assert posterior.target.kind == "optimal"
    assert posterior.certificate().divergence == 0.0


def test_a_warning_where_weights_are_too_uneven():
    target = small_target(*Y["Poisson"], 2)
    assert smoothed_weights(RNG.standard_cauchy(500))[1] > 0.7
    assert smoothed_weights(0.1 * RNG.normal(size=500))[1] < 0.5
    # Beside the first draw, where the residual costs little, the others have no weight.
    u = np.concatenate([np.zeros((1, 2)), np.full((9, 2), 3.0)])
    few = ko.Posterior(target, ko.samplers.Particles.from_coordinates(target, u))
    with pytest.warns(WeightWarning, match="optimal"):
        again = few.reweighted(jax.random.key(0))
    # It does not forget where its draws come from.
    assert any("taken from others by weight" in note for note in again.certificate().notes)
    assert any("25 particles or more" in note for note in few.certificate().notes)
    assert any("without a report" in note for note in few.certificate().notes)


def test_a_sampler_that_has_not_converged_is_noted():
    target = small_target(*Y["Bernoulli"])
    slow = ko.samplers.EulerMaruyama(step_size=1e-4, num_steps=5)
    with pytest.warns(ConvergenceWarning):
        particles, report = ko.sample(jax.random.key(0), target, slow, num_particles=40)
    certificate = ko.Posterior(target, particles, report).certificate()
    assert any("has not converged" in note for note in certificate.notes)


def test_what_cannot_be_estimated_is_not_a_number():
    target = small_target(*Y["Poisson"])
    one = ko.Posterior(target, ko.samplers.Particles.from_coordinates(target, np.zeros((1, 2)))).certificate()
    assert np.isnan(one.divergence)
    assert "how far is not known" in str(one)
    far = ko.samplers.Particles.from_coordinates(target, np.array([[1e4, 1e4], [0.0, 0.0], [0.1, 0.0]]))
    certificate = ko.Posterior(target, far).certificate()
    assert np.isnan(certificate.divergence)
    assert any("not finite" in note for note in certificate.notes)
    np.testing.assert_allclose(np.sum(certificate.weights), 1.0)


def test_nearly_equal_weights_are_never_too_uneven():
    target = small_target(*Y["Bernoulli"])
    close = ko.samplers.Particles.from_coordinates(target, 1e-3 * np.random.default_rng(0).normal(size=(30, 2)))
    assert ko.Posterior(target, close).certificate().can_reweight


def test_estimate_of_a_normal_difference():
    # Δ ~ N(a, s²): KL = s²/2 exactly.
    delta = 40.0 + 0.8 * RNG.normal(size=200_000)
    value, error = divergence_estimate(delta)
    assert abs(value - 0.32) < 3.0 * error < 0.02
    shifted, _ = divergence_estimate(delta + 1e6)
    np.testing.assert_allclose(shifted, value, rtol=1e-6)


def test_same_numbers_with_the_switch_off_and_on(x64):
    target = small_target(*Y["Bernoulli"])
    particles = ko.samplers.Particles.from_coordinates(target, np.linspace(-1.0, 1.0, 60).reshape(30, 2))
    certificate = certify(target, particles)
    with jax.enable_x64(not x64):
        other = certify(target, particles)
    assert certificate.weights.dtype == np.float64
    assert (certificate.divergence, certificate.standard_error) == (other.divergence, other.standard_error)
    np.testing.assert_array_equal(certificate.weights, other.weights)


def at_zero(target):
    """A posterior whose particles are all zero: nobody drew them."""
    return ko.Posterior(target, ko.samplers.Particles.from_coordinates(target, np.zeros((30, target.basis.size))))


def test_bad_input():
    x = np.linspace(-1.0, 1.0, 40)[:, None]
    element = ko.GaussianRandomElement(ko.kernels.Matern52(), ko.measures.empirical(x))
    y = (x[:, 0] > 0).astype(float)
    nystrom = ko.Target(ko.NystromBasis(element, x[::8]), lk.Bernoulli(), x, y, "projected")
    with pytest.raises(InputError, match=r"NystromBasis.*RitzBasis"):
        at_zero(nystrom).certificate()
    joint = lk.CustomJoint(lambda y, f: ((y - f) ** 2).sum())
    with pytest.raises(InputError, match="does not split over observations"):
        at_zero(ko.Target(ko.RitzBasis(element, x[::8]), joint, x, y, "projected")).certificate()
    gaussian = ko.infer(jax.random.key(0), ko.kernels.Matern52(), lk.Gaussian(), x, y, num_inducing=5)
    with pytest.raises(InputError, match="`num_nodes` must be at least 1"):
        gaussian.certificate(num_nodes=-3)
