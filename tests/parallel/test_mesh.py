"""Rows and particles on several devices: the same sums and the same draws as on one."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import jax
import numpy as np
import pytest

import kosambi as ko
from kosambi.errors import InputError
from kosambi.parallel import spread


def problem(likelihood, number=53):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(number, 2))
    y = generator.poisson(np.exp(0.5 * x[:, 0])).astype(float)
    basis = ko.PointBasis(ko.GaussianProcess(ko.kernels.Matern52()), x[:8])
    return ko.Target(basis, likelihood, x, y, weights=np.linspace(0.5, 2.0, number)), generator


def test_one_device_has_the_sums_of_the_plain_term():
    """And both have those of the cost itself, with NumPy: Σ weight (e^f − y f) + constants of y."""
    target, generator = problem(ko.likelihoods.Poisson())
    target = ko.Target(target.basis, target.likelihood, target.x, target.y, "projected", weights=target.weights)
    w = generator.normal(size=(8, 8))
    with jax.enable_x64(True):
        sharded = spread(target.term, ko.parallel.mesh(rows=1))
        value, gradient = (np.asarray(part) for part in sharded.value_and_gradient(jax.numpy.asarray(w)))
        alone = np.asarray(sharded.value(jax.numpy.asarray(w)))
        curvature = np.asarray(sharded.curvature(jax.numpy.asarray(w[0])))
    psi, f = np.asarray(target.term.psi), w @ np.asarray(target.term.psi).T
    slope = target.weights * (np.exp(f) - target.y)
    np.testing.assert_allclose(gradient, slope @ psi, rtol=1e-12, atol=1e-12)
    cost = np.sum(target.weights * (np.exp(f) - target.y * f), axis=1)
    np.testing.assert_allclose(value - value[0], cost - cost[0], rtol=1e-10)
    np.testing.assert_allclose(alone, value, rtol=1e-13)
    np.testing.assert_allclose(curvature, (psi * (target.weights * np.exp(f[0]))[:, None]).T @ psi, rtol=1e-10)


def test_what_does_not_run_on_a_mesh_is_refused():
    target, _ = problem(ko.likelihoods.Poisson())
    mesh, key = ko.parallel.mesh(rows=1), jax.random.key(0)
    with pytest.raises(InputError, match="needs 4096 devices"):
        ko.parallel.mesh(rows=4096)
    with pytest.raises(InputError, match=r"kosambi.parallel.mesh"):
        ko.sample(key, target, mesh="all")
    for name in ("Tempering", "StochasticGradient"):
        with pytest.raises(InputError, match=rf"`{name}` runs on one device"):
            ko.sample(key, target, getattr(ko.samplers, name)(), mesh=mesh)
    with pytest.raises(InputError, match="float64"):
        ko.sample(key, target, mesh=mesh, precision="float32")
    joint = ko.likelihoods.CustomJoint(lambda y, f: 0.5 * jax.numpy.sum((y - f) ** 2))
    with pytest.raises(InputError, match="does not split over data, so `mesh` has no meaning"):
        ko.Target(target.basis, joint, target.x, target.y, mesh=mesh)
    with pytest.raises(InputError, match="joint costs are no such sum"):
        ko.sample(key, ko.Target(target.basis, joint, target.x, target.y), mesh=mesh)
    gaussian = ko.likelihoods.Gaussian(0.1)
    with pytest.raises(InputError, match="all 53 rows are neighbours of each other"):
        ko.Target(target.basis, gaussian, target.x, target.y, "neighbors", num_neighbors=53, mesh=mesh)
    source, model = ko.sources.ArraySource(target.x, target.y), (target.basis.prior, target.likelihood)
    with pytest.raises(InputError, match="`mesh` cannot be given where rows are read in blocks"):
        ko.infer(key, *model, source, num_inducing=5, mesh=mesh)


DRAWS = """
import json, sys, warnings
import jax, numpy as np, kosambi as ko
warnings.simplefilter("ignore")
assert len(jax.devices()) == 8
generator = np.random.default_rng(0)
x = generator.normal(size=(101, 2))
f = np.sin(2.0 * x[:, 0]) + x[:, 1]
cases = {
    "bernoulli": (ko.likelihoods.Bernoulli(), (f > 0).astype(float), "mala"),
    "poisson": (ko.likelihoods.Poisson(), generator.poisson(np.exp(0.5 * f)).astype(float), "hmc"),
    # Not convex: what rounding does grows from step to step, and is seen after some hundreds of them.
    "student": (
        ko.likelihoods.StudentT(4.0, 0.1),
        f + 0.1 * generator.standard_t(4.0, size=101),
        ko.samplers.MALA(max_steps=128),
    ),
    "classes": (ko.likelihoods.Categorical(3), np.clip(np.floor(f + 1.5), 0.0, 2.0), "mala"),
}
likelihood, y, sampler = cases[sys.argv[1]]
prior, found = ko.GaussianProcess(ko.kernels.Matern52()), {}
for rows, particles in ((1, 1), (8, 1), (1, 8), (4, 2)):
    mesh = ko.parallel.mesh(rows, particles)
    posterior = ko.infer(
        jax.random.key(0), prior, likelihood, x, y, num_inducing=9, num_particles=20, sampler=sampler, mesh=mesh
    )
    found[rows, particles] = np.asarray(posterior.particles.whitened), posterior.report.steps
first, steps = found[1, 1]
print(json.dumps([
    [float(np.max(np.abs(draws - first))), number == steps, float(np.std(first))] for draws, number in found.values()
]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("case", ["bernoulli", "poisson", "student", "classes"])
def test_eight_devices_draw_what_one_does(case):
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    child = subprocess.run([sys.executable, "-c", DRAWS, case], capture_output=True, text=True, env=environment)
    assert child.returncode == 0, child.stderr
    for difference, same_steps, spread_of_draws in json.loads(child.stdout):
        assert difference < 1e-8
        assert same_steps
        assert spread_of_draws > 0.1
