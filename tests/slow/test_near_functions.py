"""Functions with neighbours where the residual is a small part of the prior: 5,000 rows and little noise."""

import jax
import numpy as np
import pytest

import kosambi as ko
from tests.laws import grouped_normal_p_value

ROWS, POINTS, NEIGHBORS, DRAWS, NEW = 5000, 10, 30, 20_000, 15
NOISE, LEVEL = np.sqrt(1e-3), 1e-3


def moments(posterior, x, has_noise=True):
    """Mean and covariance of draws at the rows of `x` together, from the weights of their neighbours."""
    rows, prior, basis = posterior.target.neighborhood, posterior.prior, posterior.target.basis
    near = rows.nearest(x)
    local = rows.local(basis, x, near).weights
    used, places = np.unique(near.rows, return_inverse=True)
    weights, shares = np.zeros((len(x), len(used))), np.zeros((len(x), len(used)))
    at = np.arange(len(x))[:, None], places.reshape(near.rows.shape)
    weights[at], shares[at] = local, near.share
    features, psi = basis.whitened_mean(x), rows.psi[used]
    among = prior.covariance(rows.x[used]) - psi @ psi.T
    cross = prior.covariance(x, rows.x[used]) - features @ psi.T
    scaled = np.where(shares > 0, weights / np.sqrt(np.where(shares > 0, shares, 1.0) * rows.precision[used]), 0.0)
    given, known = features - weights @ psi, posterior.particles.distribution
    mean = prior.mean_at(x) + weights @ (rows.location - rows.mean)[used] + given @ known.mean
    covariance = prior.covariance(x) - features @ features.T - weights @ cross.T - cross @ weights.T
    covariance += weights @ among @ weights.T + (given @ known.root) @ (given @ known.root).T
    return mean, covariance + (scaled @ scaled.T if has_noise else 0.0)


@pytest.mark.slow
def test_joint_distribution_where_little_is_left_of_the_prior():
    generator = np.random.default_rng(0)
    x, new = generator.uniform(-1.0, 1.0, (ROWS, 2)), generator.uniform(-1.0, 1.0, (NEW, 2))
    prior = ko.GaussianProcess(ko.kernels.Matern32(0.35, 1.0))
    f = prior.draw(jax.random.key(5), num_columns=2)(x)[0]
    y = f + NOISE * generator.normal(size=ROWS)
    basis = ko.PointBasis(prior, x[:POINTS])
    target = ko.Target(basis, ko.likelihoods.Gaussian(NOISE), x, y, "neighbors", num_neighbors=NEIGHBORS)
    posterior = ko.Posterior(target, *ko.sample(jax.random.key(0), target, num_particles=DRAWS))
    p = posterior.predict(new)
    assert np.max(p.variance) < 2e-3
    mean, covariance = moments(posterior, new)
    np.testing.assert_allclose(p.mean, mean, atol=1e-8)
    np.testing.assert_allclose(p.variance, np.diag(covariance), rtol=1e-6)

    draws = posterior.functions(jax.random.key(1))
    # Draws of a list share the frequencies of the residual's tail, and are not independent of each other.
    lists = max(part.frequencies.shape[0] for part in draws.parts if hasattr(part, "frequencies"))
    values = draws(new)
    without = moments(posterior, new, has_noise=False)[1]
    laws = {"right": covariance, "no noise of neighbours": without, "5 % too wide": 1.05 * covariance}
    found = {name: grouped_normal_p_value(values, lists, matrix, mean) for name, matrix in laws.items()}
    print(f"joint distribution of {DRAWS} draws in {lists} lists at {NEW} points: p = {found}")
    assert found.pop("right") > LEVEL
    assert max(found.values()) < LEVEL

    # Given its frequencies, a list has a variance of its own, near that of the posterior.
    each = np.square(values - mean).reshape(lists, -1, NEW).mean(axis=1) / p.variance
    chance = np.sqrt(2.0 * lists / DRAWS)
    spread = np.sqrt(max(0.0, np.mean(np.var(each, axis=0, ddof=1)) - chance**2))
    print(f"variance given the frequencies over D: median {np.median(each):.3f}, deviation {spread:.3f}")
    assert abs(np.median(each) - 1.0) < 0.03
    assert spread < 0.12
