"""The samplers at full size: against a long NUTS run, on all data sets of the paper, and their benchmarks."""

from __future__ import annotations

import os
import time
from pathlib import Path

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kosambi as ko

DATA = Path(os.environ.get("KOSAMBI_DATA", Path(__file__).parents[2].parent / "shared" / "data"))
CLASSIFICATION = ("breast", "diabetes", "heart", "ionosphere", "mushrooms", "rice", "wine_colour", "yeast")
REGRESSION = ("boston", "concrete", "energy_cooling", "energy_heating", "kin8nm", "wine_quality")


def bernoulli_problem():
    rng = np.random.default_rng(0)
    x = rng.uniform(-3.0, 3.0, (1000, 1))
    f = 2.0 * np.sin(0.35 * np.pi * x[:, 0] ** 2)
    y = (rng.uniform(size=1000) < 1.0 / (1.0 + np.exp(-f))).astype(float)
    kernel = ko.kernels.SquaredExponential(lengthscale=0.35, variance=4.0)
    z = ko.inducing.greedy_variance(kernel, x, num_inducing=32)
    basis = ko.PointBasis(ko.GaussianProcess(kernel), x[z])
    return ko.Target(basis, ko.likelihoods.Bernoulli(), x, y, "projected")


@pytest.mark.slow
def test_auto_converges_within_a_hundred_gradients_and_six_seconds():
    target = bernoulli_problem()
    jax.clear_caches()
    start = time.perf_counter()
    _, report = ko.sample(jax.random.key(0), target)
    seconds = time.perf_counter() - start
    assert report.converged
    assert report.r_hat <= 1.01
    assert report.gradient_evaluations <= 100
    assert seconds < 6.0


@pytest.mark.slow
def test_auto_agrees_with_a_long_run_of_nuts():
    target = bernoulli_problem()
    particles, _ = ko.sample(jax.random.key(1), target, num_particles=2000)
    with jax.enable_x64(True):
        root = jnp.asarray(target.basis.colour(np.eye(32)))
        u = np.asarray(_nuts(jax.random.key(2), target, root))
    ess = blackjax.diagnostics.effective_sample_size(jnp.asarray(u))
    assert float(ess.min()) >= 4000
    mean, deviation = u.mean(axis=(0, 1)), u.std(axis=(0, 1))
    gap = np.abs(particles.coordinates.mean(axis=0) - mean) / deviation
    assert gap.max() < 0.15, gap
    np.testing.assert_allclose(particles.coordinates.std(axis=0), deviation, rtol=0.1)
    # Also as functions: latent values at the data.
    psi = target.term.psi
    ours, theirs = particles.whitened @ psi.T, target.basis.whiten(u.reshape(-1, 32)) @ psi.T
    assert (np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) / theirs.std(axis=0)).max() < 0.15
    np.testing.assert_allclose(ours.std(axis=0), theirs.std(axis=0), rtol=0.1)


def _nuts(key, target, root, num_chains=4, num_steps=1500):
    """NUTS on `target.potential`, in u = w @ root with its own window adaptation; nothing of our samplers."""

    def log_density(w):
        return -target.potential(w @ root)

    warm_key, run_key = jax.random.split(key)
    adaptation = blackjax.window_adaptation(blackjax.nuts, log_density, is_mass_matrix_diagonal=False)

    @jax.jit
    def run():
        (state, parameters), _ = adaptation.run(warm_key, jnp.zeros(root.shape[0]), 1500)
        kernel = blackjax.nuts(log_density, **parameters)

        def chain(key):
            return jax.lax.scan(
                lambda s, k: (lambda new: (new, new.position))(kernel.step(k, s)[0]),
                state,
                jax.random.split(key, num_steps),
            )[1]

        return jax.vmap(chain)(jax.random.split(run_key, num_chains))

    return run() @ root


def load(name):
    path = DATA / f"{name}.csv.gz"
    if not path.exists():
        pytest.skip(f"{path.name} is not in {DATA.name}: set KOSAMBI_DATA to the folder with the benchmark data sets")
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    return table[:, :-1], table[:, -1]


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", CLASSIFICATION + REGRESSION)
def test_nothing_needs_tuning(name):
    x, y = load(name)
    deviation = x.std(axis=0)
    x = (x - x.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    likelihood = ko.likelihoods.Bernoulli()
    if name in REGRESSION:
        y, likelihood = (y - y.mean()) / y.std(), ko.likelihoods.StudentT(4.0, 0.3)
    kernel = ko.kernels.SquaredExponential(lengthscale=np.sqrt(x.shape[1]), variance=1.0)
    z = ko.inducing.greedy_variance(kernel, x, num_inducing=int(np.sqrt(len(x))))
    target = ko.Target(ko.PointBasis(ko.GaussianProcess(kernel), x[z]), likelihood, x, y, "projected")
    _, report = ko.sample(jax.random.key(0), target)
    assert report.converged
    assert report.warnings == ()
