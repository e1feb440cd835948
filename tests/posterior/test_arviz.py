"""The export to ArviZ, of either generation: what it holds, and that ArviZ can work with it."""

from __future__ import annotations

import sys
import warnings

import jax
import matplotlib as mpl
import numpy as np
import pytest

import kosambi as ko
from kosambi.errors import InputError
from kosambi.samplers import Particles

with warnings.catch_warnings():
    # 0.23 announces 1.x once a day.
    warnings.simplefilter("ignore", FutureWarning)
    arviz = pytest.importorskip("arviz", reason="ArviZ is not installed: pip install kosambi[arviz]")

mpl.use("Agg")
import matplotlib.pyplot as plt

X = np.linspace(-1.0, 1.0, 40)[:, None]
BASIS = ko.PointBasis(ko.GaussianProcess(ko.kernels.Matern52()), X[::7])


def with_particles(likelihood, y, num_particles=24, **keywords):
    target = ko.Target(BASIS, likelihood, X, y, "projected", **keywords)
    u = 0.5 * np.random.default_rng(0).normal(size=(num_particles, *target.shape))
    return ko.Posterior(target, Particles.from_coordinates(target, u))


@pytest.fixture(scope="module")
def counts():
    y = np.random.default_rng(0).poisson(np.exp(np.sin(3.0 * X[:, 0]))).astype(float)
    target = ko.Target(BASIS, ko.likelihoods.Poisson(), X, y, "projected")
    return ko.Posterior(target, *ko.sample(jax.random.key(0), target, num_particles=1000))


def test_what_it_holds(counts):
    data = counts.to_arviz()
    u = data["posterior"]["u"]
    assert u.dims == ("chain", "draw", "coordinate")
    assert u.shape == (4, 250, 6)
    # Particle j is draw j // 4 of chain j mod 4.
    np.testing.assert_array_equal(u.values[3, 7], counts.particles.coordinates[4 * 7 + 3])
    np.testing.assert_array_equal(data["posterior"]["w"].values[1, 2], counts.particles.whitened[9])
    potential = counts.target.potential(counts.particles.coordinates)
    np.testing.assert_allclose(data["sample_stats"]["lp"].values[2, 5], -potential[22])
    acceptance = data["sample_stats"]["acceptance_rate"].values
    np.testing.assert_allclose(acceptance[2, 5], counts.report.acceptance_by_particle[22])
    np.testing.assert_array_equal(data["observed_data"]["y"].values, counts.target.y)
    assert data["constant_data"]["x"].dims == ("obs", "column")
    assert data["log_likelihood"]["y"].dims == ("chain", "draw", "obs")
    attributes = data.attrs
    assert attributes["inference_library"] == "kosambi"
    assert attributes["inference_library_version"] == ko.__version__
    assert attributes["sampler"] == "mala"
    assert (attributes["converged"], attributes["num_data"], attributes["num_coordinates"]) == (1, 40, 6)
    assert data["posterior"].attrs["sampler"] == "mala"


# ArviZ 0.23 calls what newer releases of matplotlib announce to remove.
@pytest.mark.filterwarnings("ignore::matplotlib.MatplotlibDeprecationWarning")
def test_arviz_can_work_with_it(counts, tmp_path):
    data = counts.to_arviz()
    table = arviz.summary(data, var_names=["u"], round_to="none")
    assert list(table.index) == [f"u[{m}]" for m in range(6)]
    np.testing.assert_allclose(table["mean"].astype(float), counts.particles.coordinates.mean(axis=0), rtol=1e-6)
    # 250 draws of 4 chains; the run has converged, and ArviZ sees that too.
    assert table["r_hat"].astype(float).max() < 1.03
    # 1.x draws the traces alone with the one, beside densities with the other.
    for name in {"plot_trace", "plot_trace_dist"} & set(dir(arviz)):
        getattr(arviz, name)(data, var_names=["u"])
        plt.savefig(tmp_path / "trace.png")
        plt.close("all")
    assert (tmp_path / "trace.png").stat().st_size > 10_000


def test_r_hat_sees_a_start_that_was_not_forgotten(counts):
    """Particles that began together, j mod 8, are in one chain."""
    u = counts.particles.coordinates + 0.0
    u[0::8] += 2.0 * u.std(axis=0)
    stuck = ko.Posterior(counts.target, Particles.from_coordinates(counts.target, u))
    r_hat = arviz.summary(stuck.to_arviz(), var_names=["u"], round_to="none")["r_hat"].astype(float)
    assert r_hat.min() > 1.05


def test_log_likelihood_is_the_predictive_density_of_each_particle(counts):
    found = counts.to_arviz(1)["log_likelihood"]["y"].values[0]
    alone = [
        ko.Posterior(counts.target, Particles.from_coordinates(counts.target, u)).log_predictive_density(
            X, counts.target.y
        )
        for u in counts.particles.coordinates[:3, None]
    ]
    np.testing.assert_allclose(found[:3], alone, rtol=1e-8)


def test_loo_is_leaving_one_out():
    """ArviZ's estimate against posteriors that were computed without the datum."""
    y = np.sin(3.0 * X[:, 0]) + 0.3 * np.random.default_rng(0).normal(size=40)
    fine = ko.PointBasis(BASIS.prior, X[::3])

    def fitted(rows):
        target = ko.Target(fine, ko.likelihoods.Gaussian(0.3), X[rows], y[rows])
        return ko.Posterior(target, *ko.sample(jax.random.key(0), target, num_particles=4000))

    every, left_out = np.arange(40), [0, 17, 39]
    posterior = fitted(every)
    result = arviz.loo(posterior.to_arviz(), pointwise=True)
    found = np.asarray(getattr(result, "loo_i", getattr(result, "elpd_i", None)))[left_out]
    inside = posterior.log_predictive_density(X[left_out], y[left_out])
    exact = [fitted(np.delete(every, n)).log_predictive_density(X[[n]], y[[n]])[0] for n in left_out]
    # The data at the ends matter to themselves, and most of that is taken out.
    assert np.max(np.abs(found - exact)) < 0.25 * np.max(np.abs(inside - exact))


@pytest.mark.parametrize(
    ("num_particles", "num_chains", "chains"), [(24, 4, 4), (50, 4, 2), (7, 4, 1), (6, 50, 2), (1, 4, 1)]
)
def test_chains_divide_the_particles(num_particles, num_chains, chains):
    posterior = with_particles(ko.likelihoods.Gaussian(0.3), X[:, 0], num_particles)
    assert posterior.to_arviz(num_chains)["posterior"]["u"].shape == (chains, num_particles // chains, 6)


def groups(data):
    return set(data.children) if hasattr(data, "children") else set(data.groups())


def test_several_latent_functions_losses_noises_and_weights():
    classes = with_particles(ko.likelihoods.Categorical(3), np.arange(40.0) % 3).to_arviz()
    assert classes["posterior"]["u"].dims == ("chain", "draw", "coordinate", "latent")
    assert classes["log_likelihood"]["y"].shape == (4, 6, 40)
    assert "acceptance_rate" not in classes["sample_stats"]
    assert "log_likelihood" not in groups(with_particles(ko.likelihoods.Huber(0.3), X[:, 0]).to_arviz())
    plain = with_particles(ko.likelihoods.Gaussian(0.3), X[:, 0])
    assert "log_likelihood" not in groups(plain.to_arviz(log_likelihood=False))
    value = plain.to_arviz()["log_likelihood"]["y"].values
    noises = with_particles(ko.likelihoods.Gaussian(np.full(40, 0.3)), X[:, 0]).to_arviz()
    np.testing.assert_allclose(noises["log_likelihood"]["y"].values, value)
    weighted = with_particles(ko.likelihoods.Gaussian(0.3), X[:, 0], weights=np.full(40, 2.0)).to_arviz()
    np.testing.assert_allclose(weighted["log_likelihood"]["y"].values, 2.0 * value)


def test_log_likelihoods_come_in_blocks(monkeypatch, counts):
    from kosambi.posterior import _arviz

    whole = _arviz.log_likelihoods(counts.target, counts.particles)
    monkeypatch.setattr(_arviz, "_VALUES_AT_ONCE", 7 * 1000)
    np.testing.assert_allclose(_arviz.log_likelihoods(counts.target, counts.particles), whole, rtol=1e-10)


def test_bad_input_and_a_missing_package(counts, monkeypatch):
    with pytest.raises(InputError, match=r"`num_chains` must be at least 1. Got 0"):
        counts.to_arviz(0)
    with pytest.raises(InputError, match="`num_chains` must be a whole number"):
        counts.to_arviz(2.5)
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match=r"pip install kosambi\[arviz\]"):
        counts.to_arviz()
