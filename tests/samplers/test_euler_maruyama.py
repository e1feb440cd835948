from __future__ import annotations

import jax
import numpy as np
import pytest
import scipy.linalg

import kosambi as ko
from tests.laws import joint_normal_p_value
from tests.samplers.grids import grid_of, p_values

X = np.linspace(-1.0, 1.0, 40)[:, None]
Z = np.array([[-0.8], [-0.1], [0.3], [0.9]])
PRIOR = ko.GaussianRandomElement(ko.kernels.Matern32(lengthscale=0.5), ko.measures.empirical(X))
BASES = {
    "Nystrom": (ko.NystromBasis, None),
    "Ritz": (ko.RitzBasis, None),
    "Inducing": (ko.InducingBasis, None),
    "Point": (ko.PointBasis, None),
    "Point, preconditioned": (ko.PointBasis, True),
}


def sigmoid(f):
    return 1.0 / (1.0 + np.exp(-f))


@pytest.mark.parametrize("name", BASES)
def test_one_step_is_the_papers_formula(name, rng, x64):
    kind, preconditioned = BASES[name]
    basis = kind(PRIOR, Z)
    y = (X[:, 0] > 0.1).astype(float)
    target = ko.Target(basis, ko.likelihoods.Bernoulli(), X, y, "projected")
    u, noise, h = rng.normal(size=(7, 4)), rng.normal(size=(7, 4)), 0.013
    found = ko.samplers.EulerMaruyama(h, 1, preconditioned=preconditioned).step(target, u, noise)
    gram = PRIOR.kernel(Z)
    if name == "Inducing":
        # Appendix "PLS for other inducing functions", in its own terms.
        weights = np.linalg.solve(gram, PRIOR.kernel(Z, X))
        drift = (sigmoid(u @ weights) - y) @ PRIOR.kernel(X, Z) + 4 * np.linalg.solve(gram, u.T).T
        spread = scipy.linalg.sqrtm(gram).real
    else:
        phi = basis.conditional_mean(X)
        drift = (sigmoid(u @ phi.T) - y) @ phi + np.linalg.solve(basis.covariance, u.T).T
        spread = np.eye(4)
        if preconditioned:
            drift, spread = drift @ basis.covariance, scipy.linalg.sqrtm(basis.covariance).real
    expected = u - h * drift + np.sqrt(2 * h) * noise @ spread
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())


def linear_case(kind):
    basis = kind(PRIOR, Z[:3])
    return ko.Target(basis, ko.likelihoods.Gaussian(0.3), X, np.sin(3 * X[:, 0]))


@pytest.mark.slow
def test_particles_follow_the_law_of_the_discretised_diffusion():
    """On a quadratic V with Hessian H: covariance (H(I − hH/2))⁻¹, and not H⁻¹."""
    target = linear_case(ko.NystromBasis)
    hessian = target.curvature(np.zeros(3))
    h = 0.3 * 2.0 / np.linalg.eigvalsh(hessian)[-1]
    mode = -np.linalg.solve(hessian, target.gradient(np.zeros(3)))
    sampler = ko.samplers.EulerMaruyama(h, 4000)
    particles, report = ko.sample(jax.random.key(3), target, sampler, 4000)
    assert report.converged
    assert report.step_size == pytest.approx(h)
    stationary = np.linalg.inv(hessian @ (np.eye(3) - 0.5 * h * hessian))
    assert joint_normal_p_value(particles.coordinates, stationary, mode) > 1e-3
    assert joint_normal_p_value(particles.coordinates, np.linalg.inv(hessian), mode) < 1e-6


def test_inducing_functions_tend_to_their_stated_law():
    """exp(−Σc − (M/2)uᵀk(Z,Z)⁻²u) in the limit of small steps, with an error proportional to the step."""
    target = linear_case(ko.InducingBasis)
    gram = PRIOR.kernel(Z[:3])
    weights = np.linalg.solve(gram, PRIOR.kernel(Z[:3], X))
    inverse = np.linalg.inv(gram)
    law = np.linalg.inv(weights @ weights.T / 0.3**2 + 3 * inverse @ inverse)
    limit = ko.samplers.EulerMaruyama(1.0, 1).stable_limit(target, np.zeros(3))
    errors = []
    for h in (0.02 * limit, 0.01 * limit, 0.0001 * limit):
        step = ko.samplers.EulerMaruyama(h, 1).step
        origin = step(target, np.zeros((1, 3)), np.zeros((1, 3)))
        # The step is affine, so unit vectors give its matrices, and a Lyapunov equation its stationary law.
        move = (step(target, np.eye(3), np.zeros((3, 3))) - origin).T
        noise = (step(target, np.zeros((3, 3)), np.eye(3)) - origin).T
        stationary = scipy.linalg.solve_discrete_lyapunov(move, noise @ noise.T)
        errors.append(np.abs(stationary - law).max() / np.abs(law).max())
    assert errors[0] / errors[1] == pytest.approx(2.0, rel=0.02)
    assert errors[2] < 1e-4


@pytest.mark.slow
def test_a_posterior_that_is_not_normal():
    basis = ko.InducingBasis(PRIOR, Z[[0, 3]])
    target = ko.Target(basis, ko.likelihoods.Bernoulli(), X[::4], (X[::4, 0] > -0.5).astype(float), "projected")
    limit = ko.samplers.EulerMaruyama(1.0, 1).stable_limit(target, np.zeros(2))
    particles, report = ko.sample(
        jax.random.key(0), target, ko.samplers.EulerMaruyama(0.005 * limit, 4000, initial="laplace"), 5000
    )
    assert report.converged
    grid = grid_of(target)
    assert min(p_values(particles.whitened, grid)) > 1e-3
    coarse = ko.samplers.EulerMaruyama(0.7 * limit, 2000)
    particles, _ = ko.sample(jax.random.key(0), target, coarse, 5000)
    assert min(p_values(particles.whitened, grid)) < 1e-6


def test_the_stable_limit_separates_stable_from_unstable():
    target = linear_case(ko.RitzBasis)
    limit = ko.samplers.EulerMaruyama(1.0, 1).stable_limit(target, np.zeros(3))
    assert limit == pytest.approx(2.0 / np.linalg.eigvalsh(target.curvature(np.zeros(3)))[-1])
    with pytest.warns(ko.errors.StepSizeWarning, match="stable limit"), pytest.raises(ko.errors.DivergenceError) as bad:
        ko.sample(jax.random.key(0), target, ko.samplers.EulerMaruyama(1.1 * limit, 100_000), 100)
    assert f"{limit:.3g}" in str(bad.value)
    assert "auto" in str(bad.value)
    ko.sample(jax.random.key(0), target, ko.samplers.EulerMaruyama(0.9 * limit, 3000), 400)


def test_energy_trace_and_duration():
    target = linear_case(ko.NystromBasis)
    start = np.full((400, 3), 3.0)
    sampler = ko.samplers.EulerMaruyama(1e-4, duration=1.3, initial=start)
    _, report = ko.sample(jax.random.key(0), target, sampler, 400)
    assert report.steps == 13_000
    assert report.gradient_evaluations == 13_000
    assert report.energy_steps[0] == 0
    assert report.energy_steps[-1] == 13_000
    assert report.energy[0] == pytest.approx(target.potential(start).mean())
    assert report.energy[-1] < 0.1 * report.energy[0]


def test_a_short_run_says_that_it_has_not_converged():
    target = linear_case(ko.NystromBasis)
    with pytest.warns(ko.errors.ConvergenceWarning, match="Not converged"):
        _, report = ko.sample(jax.random.key(0), target, ko.samplers.EulerMaruyama(1e-7, 5000), 100)
    assert not report.converged
    assert report.r_hat > 1.1


def test_the_default_step_is_stable():
    _, report = ko.sample(jax.random.key(0), linear_case(ko.RitzBasis), "euler_maruyama", 400)
    assert report.converged


@pytest.mark.parametrize("initial", ["normal", "prior", "laplace"])
def test_initial_laws(initial):
    target = linear_case(ko.NystromBasis)
    sampler = ko.samplers.EulerMaruyama(1e-12, 1, initial=initial)
    with pytest.warns(ko.errors.ConvergenceWarning):
        u = ko.sample(jax.random.key(0), target, sampler, 5000)[0].coordinates
    hessian = target.curvature(np.zeros(3))
    law = {
        "normal": (np.eye(3), 0.0),
        "prior": (target.basis.covariance, 0.0),
        "laplace": (np.linalg.inv(hessian), -np.linalg.solve(hessian, target.gradient(np.zeros(3)))),
    }
    for name, (covariance, mean) in law.items():
        assert (joint_normal_p_value(u, covariance, mean) > 1e-3) == (name == initial)
