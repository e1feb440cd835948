"""The remainder of Laplace's approximation, row by row, is the potential that `Frame` has."""

import jax
import numpy as np
import pytest

import kosambi as ko
from kosambi._core.precision import lift
from kosambi.likelihoods import Bernoulli, Categorical, Poisson, StudentT
from kosambi.samplers import chains, normal_frames
from kosambi.samplers.normal_frames import LARGEST_ERROR
from kosambi.samplers.remainder import RemainderFrame
from kosambi.target.modes import Frame, find_modes

RNG = np.random.default_rng(3)
X = RNG.normal(size=(90, 2))
F = np.sin(2.0 * X[:, 0])
CASES = {
    "labels": (Bernoulli(), (F + RNG.logistic(size=90) > 0).astype(float), "projected"),
    "counts": (Poisson(), RNG.poisson(np.exp(1.0 + F)).astype(float), "optimal"),
    "outliers": (StudentT(degrees_of_freedom=3.0, scale=0.2), F + 0.2 * RNG.standard_t(3, size=90), "projected"),
}


def made(likelihood, y, potential, weights=None):
    basis = ko.PointBasis(ko.GaussianProcess(ko.kernels.Matern52(0.7)), X[:21])
    target = ko.Target(basis, likelihood, X, y, potential, weights=weights)
    return target, find_modes(jax.random.key(0), target)


def compared(frame, plain, num_chains=16):
    v = 1.5 * np.random.default_rng(0).normal(size=(num_chains, len(plain.mode)))
    with jax.enable_x64(True):
        both = [jax.jit(lambda v, each=each: lift(each).value_and_gradient(v)) for each in (frame, plain)]
        return tuple(tuple(map(np.asarray, value_and_gradient(v))) for value_and_gradient in both)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("values", [2**18, 400])
@pytest.mark.parametrize("use_tables", [False, True])
def test_value_gradient_and_coordinates_are_those_of_the_frame(name, values, use_tables, monkeypatch):
    monkeypatch.setattr(normal_frames, "_VALUES", values)
    monkeypatch.setattr(normal_frames, "_VALUES_QUADRATURE", values)
    target, modes = made(*CASES[name], weights=np.resize([1.0, 2.0, 0.0, 0.5], 90))
    frame, plain = chains.padded_frame(target, modes, 16, use_tables), chains.padded_frame(target, modes)
    assert isinstance(frame, RemainderFrame)
    # A cost that is no integral is as fast as its polynomial.
    assert frame.is_tabulated == (use_tables and name == "counts")
    assert frame.is_single
    assert isinstance(plain, Frame)
    # In several blocks, the last of which has rows added to it.
    assert (frame.rows[0].psi.shape[0] > 1) == (values == 400)
    (w, value, gradient), (right_w, right_value, right_gradient) = compared(frame, plain)
    np.testing.assert_allclose(w, right_w, atol=1e-5)
    np.testing.assert_allclose(value, right_value, atol=LARGEST_ERROR if frame.is_tabulated else 1e-4)
    np.testing.assert_allclose(gradient, right_gradient, atol=LARGEST_ERROR if frame.is_tabulated else 1e-3)


def test_products_in_float64_have_all_digits(monkeypatch):
    monkeypatch.setattr(normal_frames, "LARGEST_ERROR", 1e-9)
    target, modes = made(*CASES["labels"])
    frame = chains.padded_frame(target, modes, 16)
    assert not frame.is_single
    assert not frame.is_tabulated
    (_, value, gradient), (_, right_value, right_gradient) = compared(frame, chains.padded_frame(target, modes))
    np.testing.assert_allclose(value, right_value, atol=1e-9)
    np.testing.assert_allclose(gradient, right_gradient, atol=1e-8)


def test_a_curvature_that_is_not_that_of_the_root_is_found_out():
    target, modes = made(*CASES["labels"])
    wrong = type(modes)(**{**vars(modes), "roots": 1.3 * np.asarray(modes.roots)})
    assert normal_frames.remainder_frame(target, wrong, 24, 16) is None
    assert 0 < LARGEST_ERROR < 0.1


def test_several_latent_functions_and_float32_keep_the_frame():
    target, modes = made(Categorical(3), np.resize([0, 1, 2], 90), "projected")
    assert isinstance(chains.padded_frame(target, modes, 16), Frame)


def test_draws_have_all_digits_of_their_coordinates():
    target, _ = made(*CASES["labels"])
    particles, report = ko.sample(jax.random.key(0), target, num_particles=64)
    assert report.converged
    energy = np.mean(0.5 * np.sum(np.square(particles.whitened), axis=1))
    assert np.isfinite(energy)
    again = np.asarray(target.whiten(particles.coordinates))
    np.testing.assert_allclose(again, particles.whitened, atol=1e-9)
