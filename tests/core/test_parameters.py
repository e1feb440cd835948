"""The parameters of a model by name, and constructors' arguments that can be read and replaced."""

from __future__ import annotations

import equinox as eqx
import jax
import numpy as np
import pytest
from sklearn.base import clone

import kosambi as ko
from kosambi._core.parameters import parameters
from kosambi.errors import InputError
from tests.likelihoods.table import CASES, SEVERAL
from tests.tables import KERNELS, PRIORS

k, lk = ko.kernels, ko.likelihoods
LIKELIHOODS = {name: case.likelihood for name, case in {**CASES, **SEVERAL}.items()}
SAMPLERS = {
    "MALA": ko.samplers.MALA(0.6, step_size=0.5),
    "HMC": ko.samplers.HMC(),
    "EulerMaruyama": ko.samplers.EulerMaruyama(1e-3, 50),
    "Tempering": ko.samplers.Tempering(),
    "Exact": ko.samplers.Exact(),
    "StochasticGradient": ko.samplers.StochasticGradient(7, 0.2),
}
OBJECTS = {**KERNELS, **PRIORS, **LIKELIHOODS, **SAMPLERS}


def test_names_values_and_supports():
    kernel = k.Matern52([1.0, 2.0]) * k.Periodic(active_dims=0) + 0.5

    class Trend(eqx.Module):
        slope: np.ndarray

        def __call__(self, x):
            return self.slope * x[:, 0]

    found = parameters(kernel=kernel, mean=Trend(np.asarray(-1.0)), likelihood=lk.ShiftMixture(2.0, 0.3, 0.1))
    assert [(p.name, p.support) for p in found] == [
        ("kernel.0.0.lengthscale", "positive"),
        ("kernel.0.0.variance", "positive"),
        ("kernel.0.1.lengthscale", "positive"),
        ("kernel.0.1.variance", "positive"),
        ("kernel.0.1.period", "positive"),
        ("kernel.1.variance", "positive"),
        ("mean.slope", "real"),
        ("likelihood.shift", "real"),
        ("likelihood.probability", "unit"),
        ("likelihood.noise", "positive"),
    ]
    leaves = jax.tree.leaves((kernel, Trend(np.asarray(-1.0)), lk.ShiftMixture(2.0, 0.3, 0.1)))
    for p in found:
        np.testing.assert_array_equal(leaves[p.leaf], p.value)
        assert getattr(p.owner, p.field) is p.value
    (mean,) = parameters(mean=np.asarray(0.0))
    assert (mean.name, mean.support) == ("mean", "real")


def test_a_noise_for_each_observation_is_no_parameter_to_learn():
    assert [p.support for p in parameters(likelihood=lk.Gaussian([0.1, 0.2]))] == ["fixed"]
    assert [p.support for p in parameters(likelihood=lk.Gaussian(0.1))] == ["positive"]


@pytest.mark.parametrize("name", OBJECTS)
def test_an_object_is_made_again_from_its_arguments(name):
    original = OBJECTS[name]
    own = original.get_params(deep=False)
    assert set(own) <= set(original.get_params())
    again = original.set_params(**own)
    assert type(again) is type(original)
    assert jax.tree.structure(again) == jax.tree.structure(original)
    for one, other in zip(jax.tree.leaves(original), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(one, other)
    assert clone(original) is original


def test_every_array_of_a_model_can_be_set_by_its_name():
    kernel = k.Matern52([1.0, 2.0]) * k.Periodic(active_dims=0) + 0.5
    for model in (kernel, ko.GaussianProcess(kernel, 1.5), lk.StudentT(4.0, 0.3)):
        for p in parameters(model=model):
            name = p.name.removeprefix("model.").replace(".", "__")
            np.testing.assert_array_equal(model.get_params()[name], p.value)
            other = model.set_params(**{name: 3.0 * p.value})
            (found,) = (q for q in parameters(model=other) if q.name == p.name)
            np.testing.assert_array_equal(found.value, 3.0 * p.value)
            # Everything else stays, and so does the object itself.
            for before, after in zip(parameters(model=model), parameters(model=other), strict=True):
                assert before.name == p.name or np.array_equal(before.value, after.value)
            np.testing.assert_array_equal(model.get_params()[name], p.value)


def test_parts_are_replaced_before_their_parameters_are():
    changed = (k.Matern52() + k.Linear()).set_params(**{"0": k.Matern12(), "0__variance": 2.0, "1": 0.5})
    assert repr(changed) == "Matern12(lengthscale=1.0, variance=2.0) + Constant(variance=0.5)"


def test_under_a_trace():
    def value(lengthscale):
        kernel = k.Matern52(0.5).set_params(lengthscale=lengthscale)
        assert isinstance(kernel.get_params()["lengthscale"], jax.core.Tracer)
        return kernel([[0.0]], [[1.0]])[0, 0]

    with jax.enable_x64(True):
        np.testing.assert_allclose(jax.jit(value)(0.7), k.Matern52(0.7)([[0.0]], [[1.0]])[0, 0])
        assert float(jax.grad(value)(0.7)) > 0


def test_a_kernel_of_ones_own():
    class Bump(k.AbstractKernel):
        width: np.ndarray

        def pairwise(self, x, z):
            return np.ones((len(x), len(z)))

        def pointwise(self, x):
            return np.ones(len(x))

    class Forgetful(Bump):
        height: np.ndarray

        def __init__(self, half_width, height):
            self.width, self.height = np.asarray(2.0 * half_width), np.asarray(height)

    assert repr(Bump(np.asarray(1.0))) == "Bump(width=1.0)"
    wider = Bump(np.asarray(1.0)).set_params(width=3)
    # A constructor that converts nothing gets arrays, so that the number stays one that can be learned.
    assert isinstance(wider.width, np.ndarray)
    assert wider.width.dtype == np.float64
    assert repr(Forgetful(1.0, 2.0)) == "Forgetful(height=2.0)"
    with pytest.raises(InputError, match="no field for its argument 'half_width'"):
        Forgetful(1.0, 2.0).set_params(height=1.0)


BAD = {
    "unknown": (
        lambda: k.Matern52().set_params(lenghtscale=1.0),
        "'lenghtscale'. It has lengthscale, variance",
    ),
    "unknown part": (lambda: (k.Matern52() + 1.0).set_params(**{"2__variance": 1.0}), "no parameter '2'. It has 0, 1"),
    "no parts": (lambda: k.Matern52().set_params(variance__scale=1.0), "sets a parameter of `variance`"),
    "no parameters": (lambda: lk.Exponential().set_params(shape=2.0), "It has none"),
    "bad value": (lambda: k.Matern52().set_params(lengthscale=-1.0), "must be positive"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_parameters(name):
    call, match = BAD[name]
    with pytest.raises(InputError, match=match):
        call()
