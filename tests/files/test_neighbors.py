"""Posteriors with neighbours come back from files and pickles bit for bit, with JAX's switch off and on."""

import pickle

import jax
import numpy as np
import pytest

import kosambi as ko

X = np.random.default_rng(0).uniform(-1.0, 1.0, (40, 2))
MODELS = {
    "gaussian": (ko.likelihoods.Gaussian(0.2), np.sin(3.0 * X[:, 0])),
    "labels": (ko.likelihoods.Bernoulli(), (X[:, 0] > 0).astype(float)),
    "heavy": (ko.likelihoods.StudentT(4.0, 0.2), np.sin(3.0 * X[:, 0])),
}


def posterior_of(name):
    likelihood, y = MODELS[name]
    basis = ko.PointBasis(ko.GaussianProcess(ko.kernels.Matern32(0.5)), X[:5])
    target = ko.Target(basis, likelihood, X, y, "neighbors", num_neighbors=7)
    w = 0.3 * np.random.default_rng(1).normal(size=(10, 5))
    return ko.Posterior(target, ko.samplers.Particles.from_coordinates(target, basis.colour(w)))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("is_wide", [False, True], ids=["x32", "x64"])
def test_round_trip(name, is_wide, tmp_path):
    new = np.random.default_rng(2).uniform(-1.0, 1.0, (6, 2))
    with jax.enable_x64(is_wide):
        posterior = posterior_of(name)
        posterior.save(tmp_path / "p.kosambi")
        wanted = posterior.predict(new)
        for again in (ko.load(tmp_path / "p.kosambi"), pickle.loads(pickle.dumps(posterior))):
            assert again.target.num_neighbors == 7
            assert again.target.neighborhood.report == posterior.target.neighborhood.report
            found = again.predict(new)
            np.testing.assert_array_equal(found.mean, wanted.mean)
            np.testing.assert_array_equal(found.variance, wanted.variance)
            u = posterior.particles.coordinates
            np.testing.assert_array_equal(again.target.potential(u), posterior.target.potential(u))
