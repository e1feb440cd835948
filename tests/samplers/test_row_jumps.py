"""Jumps of single rows leave the posterior as it is, and lead from one mode to another."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import ks_2samp, kstest

import kosambi as ko
from kosambi._core.precision import lift
from kosambi.likelihoods import StudentT
from kosambi.samplers import chains, row_jumps
from kosambi.samplers.normal_frames import mean_curvatures
from kosambi.samplers.remainder import RemainderFrame
from kosambi.target.modes import find_modes
from tests.cases import cases

KEY = jax.random.key(0)
# The last observation may be followed or ignored: it is far from what the others lead to, and has heavy tails.
X = np.array([[-0.5], [-0.5], [-0.5], [0.45]])
Y = np.array([0.05, -0.05, 0.0, 3.0])
NUM_DRAWS = 20_000


def contradicting(scale=0.15, last=3.0):
    basis = ko.PointBasis(ko.GaussianProcess(ko.kernels.Matern52(1.0)), X[[0, 3]])
    return ko.Target(basis, StudentT(1.5, scale), X, np.append(Y[:3], last), "projected")


def on_grid(frame, generator):
    """Independent draws of v from exp(−V), V on a fine grid; within a cell they are spread evenly."""
    side = np.linspace(-14.0, 14.0, 1201)
    cells = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    filled = np.pad(cells, ((0, 0), (0, len(frame.mode) - 2)))
    with jax.enable_x64(True):
        potential = np.asarray(jax.jit(lambda v: lift(frame).potential(v))(filled))
    share = np.exp(potential.min() - potential)
    chosen = generator.choice(len(cells), NUM_DRAWS, p=share / share.sum())
    v = cells[chosen] + (generator.random((NUM_DRAWS, 2)) - 0.5) * (side[1] - side[0])
    return np.concatenate([v, generator.normal(size=(NUM_DRAWS, len(frame.mode) - 2))], axis=1)


def moved(frame, v):
    with jax.enable_x64(True):
        lifted = lift(frame)
        return np.asarray(jax.jit(lambda v: lifted.jumped(KEY, v))(jnp.asarray(v)))


def test_the_posterior_stays_what_it_is_and_a_wrong_rule_would_change_it(monkeypatch):
    target = contradicting()
    frame = chains.padded_frame(target, find_modes(KEY, target), 64)
    assert isinstance(frame, RemainderFrame)
    assert frame.jumps is not None
    v, fresh = (on_grid(frame, np.random.default_rng(seed)) for seed in (1, 2))
    after = moved(frame, v)
    # Most have moved, and many from one mode to another.
    assert np.mean(np.any(after != v, axis=1)) > 0.5

    def p_values(draws):
        turned = np.array([[1.0, 0.0], [0.0, 1.0], [0.8, 0.6], [0.6, -0.8]])
        return [ks_2samp(draws[:, :2] @ way, fresh[:, :2] @ way).pvalue for way in turned]

    assert min(p_values(after)) > 1e-3
    # Added coordinates stay standard normal.
    assert kstest(after[:, 2], "norm").pvalue > 1e-3
    # As if all bins were equally wide.
    monkeypatch.setattr(row_jumps.jnp, "diff", lambda edges: jnp.ones(len(edges) - 1))
    assert min(p_values(moved(frame, v))) < 1e-3


def test_rows_that_are_like_normal_ones_have_no_jumps():
    basis = ko.PointBasis(ko.GaussianProcess(ko.kernels.Matern52(1.0)), X[[0, 3]])
    target = ko.Target(basis, StudentT(30.0, 0.5), X, np.sin(X[:, 0]), "projected")
    frame = chains.padded_frame(target, find_modes(KEY, target), 64)
    assert isinstance(frame, RemainderFrame)
    assert frame.jumps.number == 0
    v = np.random.default_rng(0).normal(size=(64, len(frame.mode)))
    np.testing.assert_array_equal(moved(frame, v), v)


def test_mean_curvatures_are_second_derivatives_and_never_negative():
    target = contradicting()
    w = np.random.default_rng(0).normal(size=(5, 2))
    f = np.asarray(target.term.offset) + w @ np.asarray(target.term.psi).T
    cost = target.likelihood.cost
    second = np.mean([(cost(Y, g + 1e-4) - 2.0 * cost(Y, g) + cost(Y, g - 1e-4)) / 1e-8 for g in f], axis=0)
    assert np.any(second < 0.0)
    np.testing.assert_allclose(mean_curvatures(target, w), np.maximum(second, 0.0), atol=1e-3 * np.abs(second).max())


@pytest.mark.parametrize("potential", cases(["projected", "optimal"], slow=["optimal"]))
def test_another_curvature_is_another_frame_of_the_same_potential(potential):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(90, 2))
    basis = ko.PointBasis(ko.GaussianProcess(ko.kernels.Matern52(0.7)), x[:21])
    target = ko.Target(basis, StudentT(3.0, 0.2), x, np.sin(x[:, 0]) + 0.2 * rng.standard_t(3, size=90), potential)
    modes = find_modes(KEY, target)
    w = np.asarray(modes.positions[0]) + 0.3 * rng.normal(size=(16, 21))
    at_mode, among = (chains.padded_frame(target, modes, 16, True, h) for h in (None, mean_curvatures(target, w)))
    assert isinstance(among, RemainderFrame)
    assert not np.allclose(among.root, at_mode.root)
    right = np.asarray(target.whitened_potential(w))
    with jax.enable_x64(True):
        filled = np.pad(w, ((0, 0), (0, len(among.mode) - 21)))
        lifted = lift(among)
        found = np.asarray(jax.jit(lambda w: lifted.potential(lifted.inverse(w)))(filled))
    np.testing.assert_allclose(found, right, atol=0.01)


@pytest.mark.slow
def test_particles_pass_between_modes_that_steps_alone_do_not_join(monkeypatch):
    target = contradicting(0.1, 2.5)
    sampler = ko.samplers.MALA(max_steps=600)
    _, report = ko.sample(KEY, target, sampler, 256)
    assert report.converged
    monkeypatch.setattr(row_jumps, "LEAST", np.inf)
    with pytest.warns(ko.errors.ConvergenceWarning):
        _, alone = ko.sample(KEY, target, sampler, 256)
    assert not alone.converged
    assert alone.r_hat > 1.01
