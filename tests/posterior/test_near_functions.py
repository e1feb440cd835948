"""Functions with neighbours: their joint distribution, consistency, continuity, JAX, files."""

import functools
import pickle
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kosambi as ko
from kosambi.posterior._arviz import log_likelihoods

lk = ko.likelihoods
RNG = np.random.default_rng(0)
N, M = 50, 5
X = RNG.uniform(-1.0, 1.0, (N, 2))
Y = np.sin(3.0 * X[:, 0]) + X[:, 1] + 0.2 * RNG.normal(size=N)
NEW = RNG.uniform(-1.0, 1.0, (6, 2))
ELEMENT = ko.GaussianRandomElement(ko.kernels.Matern32(0.5, 2.0), ko.measures.empirical(X), 0.3)
PROCESS = ko.GaussianProcess(ko.kernels.Matern32(0.5, 1.5), 0.3)


def posterior_of(prior, likelihood=None, y=Y, number=9, draws=100):
    basis = ko.PointBasis(prior, X[:M])
    target = ko.Target(basis, likelihood or lk.Gaussian(0.2), X, y, "neighbors", num_neighbors=number)
    return ko.Posterior(target, *ko.sample(jax.random.key(0), target, num_particles=draws))


@functools.cache
def labelled():
    return posterior_of(PROCESS, lk.Bernoulli(), (Y > 0).astype(float), draws=300)


def formula(posterior, x, has_noise=True):
    """Mean and covariance of draws at several inputs together."""
    target, rows, prior = posterior.target, posterior.target.neighborhood, posterior.prior
    near = rows.nearest(x)
    weights = np.zeros((len(x), N))
    local = rows.local(target.basis, x, near).weights
    for i in range(len(x)):
        weights[i, near.rows[i]] = local[i]
    shares = np.zeros((len(x), N))
    np.put_along_axis(shares, near.rows, near.share, axis=1)
    psi, at = rows.psi, target.basis.whitened_mean(x)
    among, cross = prior.covariance(X) - psi @ psi.T, prior.covariance(x, X) - at @ psi.T
    scaled = np.where(shares > 0, weights / np.sqrt(np.where(shares > 0, shares, 1.0) * rows.precision), 0.0)
    given = at - weights @ psi
    known = posterior.particles.distribution
    mean = prior.mean_at(x) + weights @ (rows.location - rows.mean) + given @ known.mean
    covariance = prior.covariance(x) - at @ at.T - weights @ cross.T - cross @ weights.T + weights @ among @ weights.T
    covariance += (scaled @ scaled.T if has_noise else 0.0) + (given @ known.root) @ (given @ known.root).T
    return mean, covariance


def distance(values, mean, covariance):
    """Of sample moments from those of a formula, in standard errors: the largest over means and covariances."""
    number, deviation = len(values), np.sqrt(np.diag(covariance))
    error = np.abs(values.mean(axis=0) - mean) / deviation * np.sqrt(number)
    z = (values - mean) / deviation
    wanted = covariance / np.outer(deviation, deviation)
    spread = np.sqrt((1.0 + wanted**2) / number)
    return max(np.max(error), np.max(np.abs(z.T @ z / number - wanted) / spread))


def test_joint_distribution_and_its_power():
    posterior = posterior_of(ELEMENT, draws=4000)
    values = posterior.functions(jax.random.key(1))(NEW)
    mean, covariance = formula(posterior, NEW)
    # Of 27 comparisons the largest is below 4.2 with a probability of 0.999.
    assert distance(values, mean, covariance) < 4.2
    assert distance(values, *formula(posterior, NEW, has_noise=False)) > 20.0
    p = posterior.predict(NEW)
    np.testing.assert_allclose(p.mean, mean, atol=1e-9)
    np.testing.assert_allclose(p.variance, np.diag(covariance), atol=1e-9)


@pytest.mark.slow
def test_draws_of_a_process_with_features():
    posterior = posterior_of(PROCESS, draws=400)
    values = posterior.functions(jax.random.key(1))(NEW)
    assert distance(values, *formula(posterior, NEW)) < 5.0


@pytest.mark.parametrize("is_wide", [False, True], ids=["x32", "x64"])
def test_the_same_at_every_call_and_from_any_batch(is_wide, tmp_path):
    with jax.enable_x64(is_wide):
        draws = posterior_of(PROCESS, draws=20).functions(jax.random.key(1))
        values = draws(NEW)
        np.testing.assert_allclose(np.concatenate([draws(NEW[:2]), draws(NEW[2:])], axis=1), values, atol=1e-9)
        np.testing.assert_allclose(draws[3:5](NEW), values[3:5], atol=1e-9)
        np.testing.assert_allclose(draws(NEW[::-1])[:, ::-1], values, atol=1e-9)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(draws))(NEW), values)
        ko.save(draws, tmp_path / "draws.kosambi")
        np.testing.assert_array_equal(ko.load(tmp_path / "draws.kosambi")(NEW), values)


@pytest.mark.parametrize("prior", [PROCESS, ELEMENT], ids=["process", "element"])
def test_under_jit(prior):
    draws = posterior_of(prior, draws=3).functions(jax.random.key(1))
    with jax.enable_x64(True):
        np.testing.assert_allclose(jax.jit(lambda x: draws(x))(NEW), draws(NEW), atol=1e-8)


@pytest.mark.parametrize("prior", [PROCESS, pytest.param(ELEMENT, marks=pytest.mark.slow)], ids=["process", "element"])
def test_derivative_against_a_difference(prior):
    draws = posterior_of(prior, draws=2).functions(jax.random.key(1))
    with jax.enable_x64(True):
        slope = jax.jit(jax.grad(lambda x: draws[0](x)[0, 0]))(jnp.asarray(NEW[:1]))
    h = 1e-5
    moved = [draws[0](NEW[:1] + sign * h * np.eye(2)[0])[0, 0] for sign in (-1, 1)]
    assert slope[0, 0] == pytest.approx((moved[1] - moved[0]) / (2 * h), rel=1e-3, abs=1e-4)


def test_no_jumps_where_neighbors_change():
    posterior = posterior_of(PROCESS, draws=4)
    line = np.linspace([-0.9, -0.5], [0.9, 0.6], 4001)
    near = posterior.target.neighborhood.nearest(line).rows
    assert len({tuple(sorted(row)) for row in near.tolist()}) > 10
    values, p = posterior.functions(jax.random.key(1))(line), posterior.predict(line)
    steps = np.abs(np.diff(values, axis=1)) / np.sqrt(p.variance[1:])
    # Far below a tenth of a standard deviation from one input to the next, in all places alike.
    assert np.max(steps) < 0.05
    assert np.max(np.abs(np.diff(p.variance)) / p.variance[1:]) < 0.02


@pytest.mark.slow
def test_labels_have_functions_too():
    posterior = labelled()
    values = posterior.functions(jax.random.key(1))(NEW)
    p = posterior.predict(NEW)
    error = (values.mean(axis=0) - p.mean) / np.sqrt(p.variance / 300)
    assert np.max(np.abs(error)) < 4.5


@pytest.mark.parametrize("name", ["gaussian", "labels"])
def test_log_likelihoods_add_up_to_the_potential(name):
    posterior = posterior_of(PROCESS, draws=20) if name == "gaussian" else labelled()
    w, u = posterior.particles.whitened, posterior.particles.coordinates
    total = np.sum(log_likelihoods(posterior.target, posterior.particles), axis=1)
    np.testing.assert_allclose(-total, posterior.target.potential(u) - 0.5 * np.sum(w**2, axis=1), rtol=1e-4)


def test_the_rule_of_the_paper_knows_no_neighbors():
    with pytest.raises(ValueError, match="knows no neighbours"):
        posterior_of(PROCESS, draws=2).functions(jax.random.key(0), method="matheron")


def test_all_rows_as_neighbors():
    posterior = posterior_of(PROCESS, number=N, draws=5)
    draws = posterior.functions(jax.random.key(1))
    with jax.enable_x64(True):
        np.testing.assert_allclose(jax.jit(lambda x: draws(x))(NEW), draws(NEW), atol=1e-8)


def test_single_precision_far_from_zero_and_with_little_noise():
    far = X + 500.0
    basis = ko.PointBasis(ko.GaussianProcess(ko.kernels.Matern52(0.5)), far[:M])
    for noise in (0.1, 1e-4):
        target = ko.Target(basis, lk.Gaussian(noise), far, Y, "neighbors", num_neighbors=12)
        posterior = ko.Posterior(target, *ko.sample(jax.random.key(0), target, num_particles=5))
        draws = posterior.functions(jax.random.key(1))
        with jax.enable_x64(False), warnings.catch_warnings():
            # Said once in a process.
            warnings.simplefilter("ignore", ko.errors.PrecisionWarning)
            found = np.asarray(jax.jit(lambda x: draws(x))(jnp.asarray(NEW + 500.0)))
        assert np.all(np.isfinite(found))
        if noise == 0.1:
            np.testing.assert_allclose(found, draws(NEW + 500.0), atol=0.1)
