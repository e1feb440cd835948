"""What `test_mesh_rows` runs in a process with eight devices: one case, on several meshes and without any.

It prints, for each mesh, by how much numbers differ from those without a mesh and from those of the first mesh.
"""

from __future__ import annotations

import json
import sys
import warnings

import jax
import numpy as np

import kosambi as ko
from kosambi.basis.local import LocalSystems
from kosambi.target import device_rounds, sites

MESHES = ((1, 1), (8, 1), (4, 2), (3, 2))
PRIOR = ko.GaussianProcess(ko.kernels.Matern52())


def rows(number):
    """Inputs, values of a function at them, and unequal weights."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(number, 2))
    return x, np.sin(2.0 * x[:, 0]) + x[:, 1] + 0.1 * generator.normal(size=number), np.linspace(0.5, 2.0, number)


def drawn(likelihood, x, y, size, mesh, sampler="auto", **options):
    """Particles and potentials of one target."""
    basis = ko.PointBasis(PRIOR, x[:size])
    target = ko.Target(basis, likelihood, x, y, mesh=mesh, **options)
    particles, report = ko.sample(jax.random.key(0), target, sampler, 24, mesh=mesh)
    near = target.neighborhood
    sites = [] if near is None else [near.precision, near.location, near.psi]
    at = basis.colour(np.random.default_rng(1).normal(size=(5, basis.size))) if size else np.zeros((1, 0))
    return [particles.whitened], [target.potential(at), *sites], report.steps


def exact(number):
    """Closed form, with a noise and a weight for each row; fewer rows than devices where there are five."""
    x, y, weights = rows(number)
    likelihood = ko.likelihoods.Gaussian(np.linspace(0.1, 0.3, number))
    return lambda mesh: drawn(likelihood, x, y, min(9, number), mesh, weights=weights)


def euler(number):
    """Steps of the diffusion, for a sum over rows and for a quadratic."""
    x, y, weights = rows(number)
    sampler = ko.samplers.EulerMaruyama(step_size=2e-3, num_steps=200)
    cases = ((ko.likelihoods.Bernoulli(), (y > 0) * 1.0), (ko.likelihoods.Gaussian(0.3), y))

    def run(mesh):
        found = [drawn(likelihood, x, own, 4, mesh, sampler, weights=weights) for likelihood, own in cases]
        return [each[0][0] for each in found], [each[1][0] for each in found], sum(each[2] for each in found)

    return run


def chains(number):
    """Steps of `MALA` on the quadratic that Gaussian noise leaves, which every device has."""
    x, y, _ = rows(number)
    return lambda mesh: drawn(ko.likelihoods.Gaussian(0.3), x, y, 4, mesh, "mala")


def near_gaussian(number):
    """Neighbours beside points, and neighbours alone."""
    x, y, weights = rows(number)
    options = {"potential": "neighbors", "num_neighbors": 4, "weights": weights}

    def run(mesh):
        found = [drawn(ko.likelihoods.Gaussian(0.3), x, y, size, mesh, **options) for size in (6, 0)]
        return [found[0][0][0]], found[0][1] + found[1][1], 0

    return run


def near_sites(number):
    """Neighbours by sites, with a closed marginal cost that knows no weights."""
    x, y, _ = rows(number)
    likelihood = ko.likelihoods.Bernoulli(link="probit")
    return lambda mesh: drawn(likelihood, x, (y > 0) * 1.0, 4, mesh, "mala", potential="neighbors", num_neighbors=4)


def near_rounds(number):
    """Neighbours as accelerators have them: whole systems and rounds of sites on the devices."""
    sites.has_room = lambda *_: True
    device_rounds._BLOCK = 4 * (4 + 4) * 8
    LocalSystems._platform = "an accelerator"
    return near_sites(number)


def estimator(number):
    """The regressor, with hyperparameters that are kept."""
    x, y, weights = rows(number)

    def run(mesh):
        model = ko.ProjectedLangevinRegressor(kernel=ko.kernels.Matern52(), hyperparameters=None, n_inducing=5)
        model.fit(x, y, weights, mesh=mesh)
        return [model.posterior_.particles.whitened, *model.predict(x[:7], return_std=True)], [np.zeros(1)], 0

    return run


def average(number):
    """A classifier that averages over hyperparameters, whose models take steps on the mesh one after the other."""
    x, y, _ = rows(number)

    def run(mesh):
        model = ko.ProjectedLangevinClassifier(hyperparameters="average", n_inducing=4, n_samples=24)
        model.fit(x, y > 0, mesh=mesh)
        draws = np.concatenate([part.particles.whitened for part in model.posterior_.components])
        return [draws, model.predict_proba(x[:7])], [np.zeros(1)], 0

    return run


def main(case, number):
    """Print the differences."""
    warnings.simplefilter("ignore")
    assert len(jax.devices()) == 8
    run = globals()[case](number)
    alone, first, found = run(None), None, []
    for shape in MESHES:
        now = run(ko.parallel.mesh(*shape))
        first = now if first is None else first
        found.append(
            {
                "draws": _apart(now[0], alone[0]),
                "numbers": _apart(now[1], alone[1]),
                "draws between meshes": _apart(now[0], first[0]),
                "has the same steps": now[2] == first[2],
                "deviation of draws": float(np.std(now[0][0])),
            }
        )
    print(json.dumps(found))


def _apart(some, others):
    return max(float(np.max(np.abs(a - b), initial=0.0)) for a, b in zip(some, others, strict=True))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
