"""Every public object goes through the same suite: pytree, jit, vmap, gradients, precision, pickle."""

from __future__ import annotations

import pickle

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kosambi as ko
from tests.cases import cases
from tests.tables import BASES, KERNELS, MEASURES, PRIORS, X3, Z3

KEY = jax.random.key(3)
OBJECTS = {**KERNELS, **MEASURES, **PRIORS, **BASES}


def calls(thing):
    """The public calls of an object with concrete arguments, by name."""
    if isinstance(thing, ko.kernels.AbstractKernel):
        return {"gram": lambda t: t(X3, Z3), "diagonal": lambda t: t.diagonal(X3)}
    if isinstance(thing, ko.priors.AbstractPrior):
        draw = lambda t: t.draw(KEY, 4, **({"num_columns": 3} if t.num_columns is None else {}))
        return {
            "covariance": lambda t: t.covariance(X3, Z3),
            "variance": lambda t: t.variance(X3),
            "mean": lambda t: t.mean_at(X3),
            "draws": lambda t: draw(t)(X3),
        }
    if isinstance(thing, ko.basis.AbstractBasis):
        return {
            "evaluate": lambda t: t.evaluate(X3),
            "conditional_mean": lambda t: t.conditional_mean(X3),
            "whitened_mean": lambda t: t.whitened_mean(X3),
            "residual_variance": lambda t: t.residual_variance(X3),
            "covariance": lambda t: t.covariance,
            "whiten": lambda t: t.whiten(t.colour(np.ones((2, t.size)))),
        }
    return {"columns": lambda t: np.asarray(float(t.num_columns))}


def traced_calls(thing):
    """The plain JAX parts of an object, as functions of the inputs."""
    if isinstance(thing, ko.basis.AbstractBasis):
        return [thing.evaluate, thing.conditional_mean, thing.whitened_mean, thing.residual_variance]
    if isinstance(thing, ko.priors.AbstractPrior):
        return [thing.covariance, thing.variance]
    return [thing, thing.diagonal]


@pytest.mark.parametrize("name", OBJECTS)
def test_at_rest_arrays_are_contiguous_float64(name):
    for leaf in jax.tree.leaves(eqx.filter(OBJECTS[name], eqx.is_array)):
        assert isinstance(leaf, np.ndarray)
        assert leaf.flags.c_contiguous
        assert leaf.dtype in (np.float64, np.int64)


@pytest.mark.parametrize("name", OBJECTS)
def test_pickle_is_bit_identical_with_the_switch_off(name):
    assert not jax.config.jax_enable_x64
    original = OBJECTS[name]
    copy = pickle.loads(pickle.dumps(original))
    assert jax.tree.structure(copy) == jax.tree.structure(original)
    for a, b in zip(jax.tree.leaves(original), jax.tree.leaves(copy), strict=True):
        assert type(a) is type(b)
        assert a.dtype == b.dtype
        assert a.tobytes() == b.tobytes()
    for call in calls(original).values():
        assert call(original).tobytes() == call(copy).tobytes()


@pytest.mark.parametrize("name", OBJECTS)
def test_concrete_calls_give_numpy_float64_whatever_the_switch(name, x64):
    for call in calls(OBJECTS[name]).values():
        value = call(OBJECTS[name])
        assert isinstance(value, np.ndarray)
        assert value.dtype == np.float64


@pytest.mark.parametrize("name", OBJECTS)
def test_the_switch_changes_no_number(name):
    for call in calls(OBJECTS[name]).values():
        with jax.enable_x64(False):
            off = call(OBJECTS[name])
        with jax.enable_x64(True):
            on = call(OBJECTS[name])
        assert off.tobytes() == on.tobytes()


@pytest.mark.parametrize("name", OBJECTS)
def test_concrete_calls_inside_a_trace_keep_float64(name):
    seen = []

    def outer(t):
        for call in calls(OBJECTS[name]).values():
            seen.append(call(OBJECTS[name]))
        return t

    jax.jit(outer)(1.0)
    for value, call in zip(seen, calls(OBJECTS[name]).values(), strict=True):
        np.testing.assert_array_equal(value, call(OBJECTS[name]))


def at_once(thing):
    """All traceable calls of an object as one function of the inputs, so that tests compile once."""
    return lambda x: tuple(call(x) for call in traced_calls(thing))


# Every object with the switch on; off, where it is the same program with shorter numbers, one of each kind.
SHORT = ("Matern32", "GaussianProcess", "RitzBasis | GaussianRandomElement")


@pytest.mark.parametrize(
    ("name", "x64"),
    cases(
        [*KERNELS, *PRIORS, *BASES],
        [False, True],
        slow=[f"{name}-False" for name in [*KERNELS, *PRIORS, *BASES] if name not in SHORT],
    ),
    indirect=["x64"],
)
def test_jit_and_vmap_agree_with_a_direct_call(name, x64):
    tolerance, dtype = (1e-10, jnp.float64) if x64 else (2e-3, jnp.float32)
    function = at_once(OBJECTS[name])
    jitted = jax.jit(function)(X3)
    batched = jax.jit(jax.vmap(function))(jnp.stack([jnp.asarray(X3[:5]), jnp.asarray(X3[5:10])]))
    for traced, one_of_two, direct, part in zip(jitted, batched, function(X3), function(X3[5:10]), strict=True):
        scale = tolerance * np.abs(direct).max()
        np.testing.assert_allclose(traced, direct, rtol=0, atol=scale)
        np.testing.assert_allclose(one_of_two[1], part, rtol=0, atol=scale)
        assert traced.dtype == dtype


@pytest.mark.parametrize("name", [*KERNELS, *PRIORS, *BASES])
def test_gradients_against_finite_differences(name):
    direction, step = np.random.default_rng(1).normal(size=X3.shape), 1e-5
    function = at_once(OBJECTS[name])
    summed = lambda x: sum(jnp.sum(jnp.sin(value)) for value in function(x))
    with jax.enable_x64(True):
        forward = jax.jit(lambda x, v: jax.jvp(summed, (x,), (v,))[1])(X3, direction)
        backward = jnp.vdot(jax.jit(jax.grad(summed))(X3), direction)
        numeric = (summed(X3 + step * direction) - summed(X3 - step * direction)) / (2 * step)
    np.testing.assert_allclose(forward, numeric, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(backward, forward, rtol=1e-9)


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_are_differentiable_in_their_parameters(name):
    kernel, step = KERNELS[name], 1e-6
    with jax.enable_x64(True):
        value = lambda kernel: jnp.sum(jnp.sin(kernel(X3, Z3)))
        gradient = jax.jit(jax.grad(value))(kernel)
        parameters, structure = jax.tree.flatten(kernel)
        for i, parameter in enumerate(parameters):
            shifted = [
                value(structure.unflatten([p + (j == i) * sign * step for j, p in enumerate(parameters)]))
                for sign in (1.0, -1.0)
            ]
            analytic = np.sum(jax.tree.leaves(gradient)[i])
            np.testing.assert_allclose(analytic, (shifted[0] - shifted[1]) / (2 * step), rtol=1e-5, atol=1e-7)
            assert parameter.shape == jax.tree.leaves(gradient)[i].shape


def test_kernels_are_vmappable_over_their_parameters(x64):
    lengthscales = np.array([0.5, 1.0, 2.0])
    stack = jax.vmap(lambda value: ko.kernels.Matern52(lengthscale=value)(X3))(lengthscales)
    for value, gram in zip(lengthscales, stack, strict=True):
        np.testing.assert_allclose(gram, ko.kernels.Matern52(lengthscale=value)(X3), atol=1e-6)


@pytest.mark.parametrize("name", KERNELS)
def test_gram_matrices_are_positive_semi_definite(name, rng):
    x = rng.normal(size=(80, 3))
    x[40:50] = x[:10]
    gram = KERNELS[name](x)
    np.testing.assert_allclose(gram, gram.T, rtol=0, atol=1e-14 * gram.max())
    assert np.linalg.eigvalsh(gram)[0] > -1e-12 * gram.max()


def test_one_compilation_for_all_parameters_and_data_of_a_shape():
    traces = []

    class Counting(ko.kernels.Matern52):
        def pairwise(self, x, z):
            traces.append(x.shape)
            return super().pairwise(x, z)

    for seed, lengthscale in enumerate((0.5, 1.0, 2.0)):
        Counting(lengthscale)(np.random.default_rng(seed).normal(size=(7, 2)))
    assert len(traces) == 1


def test_the_tables_hold_every_public_class():
    def concrete(module, base):
        # By the name of the class, since a module may have an alias of it.
        found = {v.__name__ for v in vars(module).values() if isinstance(v, type) and issubclass(v, base)}
        return {name for name in found if not name.startswith("Abstract")}

    assert concrete(ko.kernels, ko.kernels.AbstractKernel) == set(KERNELS)
    assert concrete(ko.measures, ko.measures.AbstractMeasure) == set(MEASURES)
    assert concrete(ko.priors, ko.priors.AbstractPrior) == {name.split(",")[0] for name in PRIORS}
    assert concrete(ko.basis, ko.basis.AbstractBasis) == {name.split(" |")[0] for name in BASES}
