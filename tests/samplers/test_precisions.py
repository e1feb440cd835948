"""The three precisions: what a product is made from, what V is summed up in, and what is refused."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kosambi as ko
from kosambi.samplers import chains, diffusion, segments
from kosambi.samplers.normal_frames import lifted
from kosambi.samplers.precisions import PRECISIONS, as_precision
from kosambi.samplers.remainder import RemainderFrame
from tests.cases import cases

X = np.random.default_rng(0).uniform(-2.0, 2.0, (40, 1))
Y = (X[:, 0] > 0.2).astype(float)
PRIOR = ko.GaussianProcess(ko.kernels.Matern52(variance=3.0))
TARGET = ko.Target(ko.PointBasis(PRIOR, X[:4]), ko.likelihoods.Bernoulli(), X, Y, "projected")
KEY = jax.random.key(0)


def products(function, *arguments) -> list[str]:
    """The digits that each product of a program asks for, by what the compiler is given."""
    text = jax.jit(function).lower(*arguments).as_text()
    return [line.split("precision = [")[1].split("]")[0] for line in text.splitlines() if "dot_general" in line]


@pytest.mark.parametrize(("name", "digits"), [("float32", "HIGHEST, HIGHEST"), ("tf32", "DEFAULT, DEFAULT")])
def test_products_have_the_digits_that_were_asked_for(name, digits):
    precision = as_precision(name)
    with jax.enable_x64(True), precision.entered():
        frame = chains.padded_frame(TARGET, ko.target.find_modes(KEY, TARGET), 64, precision=precision)
        assert isinstance(frame, RemainderFrame)
        work = lifted(frame, precision)
        v = jnp.zeros((8, len(frame.mode)), jnp.float32)
        found = products(lambda v: work.value_and_gradient(v)[1:], v)
        # One product is with a vector, in the precision of everything around it.
        assert len(found) == 3
        assert set(found) == {digits}
        moving = ko._core.precision.lift(diffusion.of_target(TARGET, None), jnp.float32)
        assert set(products(moving.gradient, jnp.zeros((8, 4), jnp.float32))) == {digits}


@pytest.mark.parametrize("name", ["float32", "tf32"])
def test_particles_are_in_float32_and_v_is_summed_in_float64(name, rng):
    precision = PRECISIONS[name]
    with jax.enable_x64(True):
        frame = chains.padded_frame(TARGET, ko.target.find_modes(KEY, TARGET), 64, precision=precision)
        plain = chains.padded_frame(TARGET, ko.target.find_modes(KEY, TARGET))
        v = rng.normal(size=(16, len(frame.mode)))
        _, value, gradient = lifted(frame, precision).value_and_gradient(jnp.asarray(v, jnp.float32))
        _, right, right_gradient = plain.value_and_gradient(jnp.asarray(v.astype(np.float32), jnp.float64))
    assert value.dtype == jnp.float64
    assert gradient.dtype == jnp.float32
    np.testing.assert_allclose(value, right, atol=2e-5)
    np.testing.assert_allclose(gradient, right_gradient, atol=2e-5)


@pytest.mark.parametrize("sampler", cases(["mala", "euler_maruyama"], slow=["euler_maruyama"]))
@pytest.mark.filterwarnings("ignore::kosambi.errors.ConvergenceWarning")
@pytest.mark.slow
def test_on_a_cpu_tf32_is_float32(sampler):
    if jax.default_backend() != "cpu":
        pytest.skip("products differ here")
    chosen = ko.samplers.EulerMaruyama(num_steps=50) if sampler == "euler_maruyama" else sampler
    one, other = (ko.sample(KEY, TARGET, chosen, 64, precision=name)[0] for name in ("float32", "tf32"))
    np.testing.assert_array_equal(one.whitened, other.whitened)


@pytest.mark.slow
def test_jumps_of_rows_in_float32():
    y = np.sin(2 * X[:, 0])
    y[3] += 6.0
    target = ko.Target(ko.PointBasis(PRIOR, X[:4]), ko.likelihoods.StudentT(2.0, 0.2), X, y, "projected")
    particles, report = ko.sample(KEY, target, "mala", 400, precision="float32")
    other = ko.sample(jax.random.key(1), target, "mala", 400)[0]
    assert report.converged
    deviation = other.whitened.std(axis=0)
    assert np.max(np.abs(particles.whitened.mean(axis=0) - other.whitened.mean(axis=0)) / deviation) < 0.3


@pytest.mark.parametrize("count", [0, 5, 16])
def test_a_loop_of_known_length_ends_where_it_should(count):
    def one(i, a):
        return 0.5 * a + i

    expected = segments.repeated(one, jnp.asarray(count), 16, jnp.ones(3), None)
    found = segments.repeated(one, jnp.asarray(count), 16, jnp.ones(3), 4)
    np.testing.assert_array_equal(found, expected)


def test_bad_input_names_the_three():
    with pytest.raises(ko.errors.InputError, match=r"or \"tf32\"\. Got 'half'"):
        ko.sample(KEY, TARGET, precision="half")
    with pytest.raises(ko.errors.InputError, match='Leave out `precision="tf32"`'):
        ko.sample(KEY, TARGET, "tempering", precision="tf32")
