"""MALA and HMC draw from the posterior itself: joint laws of 5,000 particles against quadrature on a grid."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kosambi as ko
from tests.cases import cases
from tests.samplers.grids import grid_of, p_values, small_target

lk = ko.likelihoods
CASES = {
    "Bernoulli": (lk.Bernoulli(), [0.0, 0.0, 1.0, 1.0, 1.0, 1.0]),
    "StudentT": (lk.StudentT(3.0, 0.4), [-0.5, 0.1, 0.4, 3.0, 0.9]),
    "Poisson, exp": (lk.Poisson(link="exp"), [0.0, 0.0, 1.0, 0.0, 3.0, 5.0]),
    "Poisson, square": (lk.Poisson(link="square"), [4.0, 6.0, 5.0, 8.0, 6.0, 9.0]),
    "Gamma": (lk.Gamma(1.5), [0.2, 0.1, 0.9, 2.0]),
    "Ordinal": (lk.Ordinal([-1.0, 0.5]), [0.0, 1.0, 1.0, 2.0, 2.0]),
}
SAMPLERS = {"mala": ko.samplers.MALA, "hmc": ko.samplers.HMC}
NUM_PARTICLES = 5000


def particles_of(sampler, target, name, key=0):
    """Whitened coordinates; those of a squared link with one sign."""
    if name != "Poisson, square":
        particles, report = ko.sample(jax.random.key(key), target, sampler, NUM_PARTICLES)
        assert report.converged
        return particles.whitened
    # Both signs of f are equally good, and no step passes between them: that is said, and not a failure here.
    with pytest.warns(ko.errors.ConvergenceWarning, match="separate modes"):
        particles, report = ko.sample(jax.random.key(key), target, sampler, NUM_PARTICLES)
    assert not report.converged
    assert report.basins == 2
    f = particles.whitened @ target.term.psi.T
    assert np.all(np.abs(np.sign(f).sum(axis=1)) == f.shape[1])
    return particles.whitened * np.sign(f[:, :1])


def one_basin(target, name):
    if name != "Poisson, square":
        return lambda w: np.ones(len(w), bool)
    return lambda w: np.all(w @ target.term.psi.T > 0, axis=1)


@pytest.mark.parametrize(("sampler", "name"), cases(["mala", "hmc"], CASES, quick=["mala-Bernoulli"]))
def test_joint_law_with_two_coordinates(sampler, name):
    target = small_target(*CASES[name])
    limit = {"max_steps": 150} if name == "Poisson, square" else {}
    w = particles_of(SAMPLERS[sampler](**limit), target, name)
    found = p_values(w, grid_of(target, one_basin(target, name)))
    assert min(found) > 1e-3, found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Bernoulli", "StudentT", "Gamma"])
def test_law_with_one_coordinate(name):
    target = small_target(*CASES[name], size=1)
    w = particles_of(ko.samplers.MALA(), target, name, key=1)
    assert min(p_values(w, grid_of(target))) > 1e-3


class Longer(ko.samplers.MALA):
    """Always three substeps."""

    def retuned(self, state):
        tuning = state.tuning
        return None if int(tuning.substeps) == 3 else state._replace(tuning=tuning._replace(substeps=np.asarray(3)))


class Careless(Longer):
    """The same without a decision at the end, and with an angle that is not adapted."""

    def _step(self, key, frame, state):
        return super()._step(key, frame, state._replace(potential=jnp.full_like(state.potential, jnp.inf)))

    def adapt(self, frame, state, info):
        del frame, info
        return state

    def needs_more_adaptation(self, acceptance, step_size):
        del acceptance, step_size
        return False


@pytest.mark.parametrize("name", cases(["Gamma", "Poisson, exp"], slow=["Poisson, exp"]))
def test_the_law_with_several_substeps(name):
    target = small_target(*CASES[name])
    w = particles_of(Longer(), target, name, key=2)
    assert min(p_values(w, grid_of(target))) > 1e-3


@pytest.mark.slow
def test_several_substeps_without_a_decision_are_rejected():
    target = small_target(*CASES["Gamma"])
    w = ko.sample(jax.random.key(0), target, Careless(step_size=1.0), NUM_PARTICLES)[0].whitened
    assert min(p_values(w, grid_of(target))) < 1e-6


class TooLoud(ko.samplers.MALA):
    """The same steps with noise 1.1 times too large, and no correction."""

    def step(self, key, frame, state):
        noise = 1.1 * jax.random.normal(key, state.v.shape, dtype=state.v.dtype)
        angle = 0.5
        v = np.cos(angle) * state.v - (1.0 - np.cos(angle)) * state.gradient + np.sin(angle) * noise
        _, value, gradient = frame.value_and_gradient(v)
        info = ko.samplers.Info(jnp.ones_like(value), value != value, jnp.asarray(1))
        return state._replace(v=v, potential=value, gradient=gradient - v), info


def test_a_wrong_law_is_rejected():
    target = small_target(*CASES["Bernoulli"])
    w = ko.sample(jax.random.key(0), target, TooLoud(), NUM_PARTICLES)[0].whitened
    assert min(p_values(w, grid_of(target))) < 1e-6


def test_the_laplace_law_is_rejected():
    """The starting law itself would not do: the chain has to move."""
    target = small_target(*CASES["Poisson, exp"])
    modes = ko.target.find_modes(jax.random.key(0), target)
    noise = np.random.default_rng(0).normal(size=(NUM_PARTICLES, 2))
    assert min(p_values(modes.positions[0] + noise @ modes.roots[0].T, grid_of(target))) < 1e-6
