"""What objects show of themselves, and that Python gives the same object back from it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kosambi as ko
from kosambi._core.representation import shown_value
from tests.likelihoods.table import CASES, SEVERAL
from tests.tables import BASES, KERNELS, MEASURES, PRIORS, X3

k, lk = ko.kernels, ko.likelihoods
NAMES = {**vars(k), **vars(lk), **vars(ko.samplers), **vars(ko.priors), **vars(ko.measures)}
LIKELIHOODS = {name: case.likelihood for name, case in {**CASES, **SEVERAL}.items()}
SAMPLERS = {
    "MALA": ko.samplers.MALA(0.6, step_size=0.5, max_steps=300),
    "HMC": ko.samplers.HMC(),
    "Exact": ko.samplers.Exact(),
    "EulerMaruyama": ko.samplers.EulerMaruyama(1e-3, duration=2.0),
    "Tempering": ko.samplers.Tempering(),
    "StochasticGradient": ko.samplers.StochasticGradient(7, metropolis=True),
}


def same(a, b):
    assert type(a) is type(b)
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", [*KERNELS, *SAMPLERS, *(name for name in LIKELIHOODS if name != "Custom")])
def test_the_text_gives_the_same_object_back(name):
    original = {**KERNELS, **SAMPLERS, **LIKELIHOODS}[name]
    again = eval(repr(original), NAMES)
    same(original, again)
    assert repr(again) == repr(original)


def test_texts():
    texts = {
        "Matern52(lengthscale=[0.57, 14.8], variance=1.0)": k.Matern52(lengthscale=[0.57, 14.8]),
        "Linear(variance=1.0, active_dims=(0, 2))": k.Linear(active_dims=[0, 2]),
        "Matern12(lengthscale=1.0, variance=1.0) + Constant(variance=0.1)": k.Matern12() + 0.1,
        "(Constant(variance=1.0) + Linear(variance=1.0)) * Constant(variance=2.0)": (k.Constant() + k.Linear()) * 2.0,
        "Constant(variance=1.0) * Linear(variance=1.0) + Constant(variance=2.0)": k.Constant() * k.Linear() + 2.0,
        "Sum(Constant(variance=3.0))": k.Sum(k.Constant(3.0)),
        "Matern32(lengthscale=0.333333, variance=1e-09)": k.Matern32(1.0 / 3.0, 1e-9),
        "Matern32(lengthscale=[1.0, 2.0, 3.0, ..., 20.0], variance=1.0)": k.Matern32(np.arange(1.0, 21.0)),
        "Bernoulli(link='probit')": lk.Bernoulli("probit"),
        "Exponential()": lk.Exponential(),
        "Custom(cost=<function sin>, is_density=False, is_convex=True)": lk.Custom(jnp.sin, is_convex=True),
        "GaussianProcess(kernel=Constant(variance=1.0), mean=0.5)": ko.GaussianProcess(k.Constant(), 0.5),
        "GaussianProcess(kernel=Constant(variance=1.0), mean=<function sin>)": ko.GaussianProcess(
            k.Constant(), jnp.sin
        ),
        "PointMeasure(points=[[0.0], [1.0]])": ko.measures.empirical([[0.0], [1.0]]),
        "PointMeasure(points=float64[12, 3])": ko.measures.empirical(X3),
        "PointMeasure(points=[[0.0], [1.0]], weights=[0.25, 0.75])": ko.measures.points([[0.0], [1.0]], [1.0, 3.0]),
    }
    for text, thing in texts.items():
        assert repr(thing) == text


@pytest.mark.parametrize("name", [*MEASURES, *PRIORS, *BASES])
def test_large_objects_are_short(name):
    thing = {**MEASURES, **PRIORS, **BASES}[name]
    assert repr(thing).startswith(f"{type(thing).__name__}(")
    assert len(repr(thing)) < 400
    assert "\n" not in repr(thing)


@pytest.mark.parametrize("name", [*KERNELS, *PRIORS, *BASES])
def test_under_a_trace_there_are_shapes_in_place_of_numbers(name):
    thing, seen = {**KERNELS, **PRIORS, **BASES}[name], []

    def look(leaves, structure):
        seen.append(repr(jax.tree.unflatten(structure, leaves)))
        return leaves

    leaves, structure = jax.tree.flatten(thing)
    jax.jit(look, static_argnums=1)(leaves, structure)
    assert "float32[" in seen[0]
    # What `jax.tree.map` makes of a tree need not be numbers.
    assert type(thing).__name__ in repr(jax.tree.map(lambda leaf: None, thing)) or isinstance(thing, (k.Sum, k.Product))
    assert repr(jax.eval_shape(lambda: jax.tree.unflatten(structure, jax.tree.map(jnp.asarray, leaves))))


def test_values_of_other_kinds():
    assert shown_value(jax.random.key(0)).startswith("key<")
    assert shown_value(np.array([True, False])) == "[True, False]"
    assert shown_value((1,)) == "(1,)"
    assert shown_value(np.float32(0.1)) == "0.1"
    assert shown_value(float("nan")) == "nan"
    assert len(shown_value(dict.fromkeys(range(1000), "text"))) < 200
    donated = jnp.arange(3.0)
    donated.delete()
    assert shown_value(donated) == "float32[3]"
