"""Coordinates are added to the loop of a sampler, and change nothing but the random numbers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kosambi as ko
from kosambi import likelihoods as lk
from kosambi.samplers.chains import padded_frame, padded_start
from kosambi.target import find_modes

X = np.linspace(-2.0, 2.0, 33)[:, None]
LABELS = (np.sin(2.0 * X[:, 0]) > 0).astype(float)
PRIOR = ko.GaussianProcess(ko.kernels.Matern32(0.5, variance=2.0))
MODELS = {
    "one function": (lk.Bernoulli(), LABELS),
    "three functions": (lk.Categorical(3), np.arange(33.0) // 12),
    "quadratic": (lk.Gaussian(0.3), np.sin(2.0 * X[:, 0])),
    "of all data": (lk.CustomJoint(lambda y, f: jnp.sum((y - f) ** 2)), np.sin(2.0 * X[:, 0])),
}


@pytest.mark.parametrize("name", MODELS)
def test_added_coordinates_are_standard_normal_and_alone(name, rng):
    likelihood, y = MODELS[name]
    target = ko.Target(ko.PointBasis(PRIOR, X[::3]), likelihood, X, y)
    modes = find_modes(jax.random.key(0), target)
    frame = padded_frame(target, modes)
    size = int(np.prod(target.shape))
    assert target.shape[0] == 11
    assert frame.shape == (16, *target.shape[1:])
    w = padded_start(jax.random.key(1), rng.normal(size=(5, size)), frame)
    with jax.enable_x64(True):
        v = jax.jit(lambda w: frame.inverse(w))(w)
        back, value, gradient = jax.jit(lambda v: frame.value_and_gradient(v))(v)
        expected = jax.jit(lambda w: target.whitened_potential(w))(w[:, :size].reshape(5, *target.shape))
        plain = jax.jit(jax.grad(lambda u: jnp.sum(frame.potential(u))))(v)
    v, back, value, gradient, expected, plain = map(np.asarray, (v, back, value, gradient, expected, plain))
    np.testing.assert_allclose(back, w, atol=1e-10)
    np.testing.assert_allclose(value, expected + 0.5 * np.sum(w[:, size:] ** 2, axis=1), rtol=1e-10)
    np.testing.assert_allclose(gradient, plain, atol=1e-8)
    np.testing.assert_allclose(gradient[:, size:], v[:, size:], atol=1e-12)


def test_a_size_that_is_compiled_for_stays():
    target = ko.Target(ko.PointBasis(PRIOR, X[:8]), lk.Bernoulli(), X, LABELS)
    modes = find_modes(jax.random.key(0), target)
    frame = padded_frame(target, modes)
    assert frame.mode is modes.positions[0] or np.array_equal(frame.mode, modes.positions[0])
    assert frame.shape == target.shape


@pytest.mark.slow
def test_one_loop_serves_several_sizes_kernels_and_columns(monkeypatch):
    traced, step = [], ko.samplers.MALA.step
    monkeypatch.setattr(ko.samplers.MALA, "step", lambda *args: (traced.append(0), step(*args))[1])
    wide = np.column_stack([X, X[::-1] ** 2])
    other = ko.GaussianProcess(ko.kernels.SquaredExponential(0.3), mean=0.1)
    counts = []
    for prior, x, points in ((PRIOR, X, X[:20]), (PRIOR, X, X[:23]), (other, wide, wide[:22])):
        target = ko.Target(ko.PointBasis(prior, points), lk.Bernoulli(), x, LABELS, "projected")
        assert 16 < target.basis.size <= 24
        particles, report = ko.sample(jax.random.key(0), target, "mala", 70)
        assert particles.whitened.shape == (70, target.basis.size)
        assert report.r_hat_by_coordinate.shape == (target.basis.size,)
        counts.append(len(traced))
    assert counts[0] == counts[1] == counts[2] > 0
