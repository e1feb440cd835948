from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kosambi as ko
from kosambi.errors import InputError
from kosambi.learning.layout import Model, from_free, lay_out, to_free

k, lk = ko.kernels, ko.likelihoods
SUM = k.SquaredExponential([1.0, 2.0]) * k.Periodic(active_dims=0) + k.Linear() + k.Constant()


def names(layout):
    return [[p.name for p in group] for group in layout.groups]


def test_names_say_where_a_parameter_is():
    layout = lay_out(Model(SUM, np.asarray(0.0), lk.StudentT()))
    assert [group[0] for group in names(layout)] == [
        "kernel.0.0.lengthscale",
        "kernel.0.0.variance",
        "kernel.0.1.lengthscale",
        "kernel.0.1.variance",
        "kernel.0.1.period",
        "kernel.1.variance",
        "kernel.2.variance",
        "mean",
        "likelihood.degrees_of_freedom",
        "likelihood.scale",
    ]
    assert layout.size == 11
    assert [p.entry(i) for p, i in layout.entries()][:2] == ["kernel.0.0.lengthscale[0]", "kernel.0.0.lengthscale[1]"]


@pytest.mark.parametrize(
    ("support", "value"),
    [
        ("positive", np.array([1e-5, 0.3, 7e4])),
        ("unit", np.array([1e-3, 0.5, 0.999])),
        ("real", np.array([-3.0, 0.0, 5.0])),
        ("increasing", np.array([-2.0, -1.999, 4.0])),
    ],
)
def test_free_numbers_and_back(support, value):
    with jax.enable_x64(True):
        back = np.asarray(from_free(support, jnp.asarray(to_free(support, value))))
        np.testing.assert_allclose(back, value, rtol=1e-12)
        # Any numbers give values that the parameter can take.
        wild = np.asarray(from_free(support, jnp.asarray([-3.0, 2.0, -0.5])))
    assert {
        "positive": np.all(wild > 0),
        "unit": np.all((wild > 0) & (wild < 1)),
        "real": True,
        "increasing": np.all(np.diff(wild) > 0),
    }[support]


def test_vector_and_model_are_inverse():
    model = Model(SUM, np.asarray(0.4), lk.ShiftMixture(-2.0, 0.3, 0.7))
    layout = lay_out(model)
    with jax.enable_x64(True):
        back = layout.model(jnp.asarray(layout.vector(model)), model)
    for ours, theirs in zip(jax.tree.leaves(back), jax.tree.leaves(model), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_frozen_and_tied():
    model = Model(k.SquaredExponential(2.0) + k.Matern52(3.0), np.asarray(0.0), lk.Gaussian())
    layout = lay_out(model, ["mean", "kernel.*.variance"], [["kernel.*.lengthscale"]])
    assert names(layout) == [["kernel.0.lengthscale", "kernel.1.lengthscale"], ["likelihood.noise"]]
    assert [p.name for p in layout.frozen] == ["kernel.0.variance", "kernel.1.variance", "mean"]
    with jax.enable_x64(True):
        moved = layout.model(jnp.log(jnp.asarray([5.0, 0.1])), model)
    assert float(moved.kernel.kernels[0].lengthscale) == float(moved.kernel.kernels[1].lengthscale)
    np.testing.assert_allclose(moved.kernel.kernels[0].lengthscale, 5.0)
    assert float(moved.kernel.kernels[1].variance) == 1.0
    assert names(lay_out(Model(k.Matern52(), np.asarray(0.0), lk.Bernoulli()), ["likelihood", "mean"]))
    assert names(lay_out(model, "kernel")) == [["mean"], ["likelihood.noise"]]


def test_what_is_never_learned():
    noises = lay_out(Model(k.Matern52(), np.asarray(0.0), lk.Gaussian(np.ones(5))))
    assert "likelihood.noise" in [p.name for p in noises.frozen]
    assert "likelihood.shape" in [p.name for p in lay_out(Model(k.Matern52(), 0.0, lk.Exponential())).frozen]


def test_parameters_of_a_mean_that_is_a_module():
    class Slope(eqx.Module):
        slope: np.ndarray

        def __call__(self, x):
            return x @ self.slope

    layout = lay_out(Model(k.Matern52(), Slope(np.array([1.0, -2.0])), lk.Gaussian()))
    found = {p.name: p.support for group in layout.groups for p in group}
    assert found["mean.slope"] == "real"


class Own(k.AbstractKernel):
    supports = {"level": "real"}  # noqa: RUF012
    level: np.ndarray
    width: np.ndarray

    def pairwise(self, x, z):
        return jnp.exp(self.level) * jnp.exp(-jnp.abs(x[:, :1] - z[:, :1].T) / self.width)

    def pointwise(self, x):
        return jnp.broadcast_to(jnp.exp(self.level), (x.shape[0],))


def test_a_kernel_of_ones_own_says_what_its_parameters_can_be():
    layout = lay_out(Model(Own(np.asarray(0.1), np.asarray(2.0)), np.asarray(0.0), lk.Gaussian()))
    assert {p.name: p.support for group in layout.groups for p in group} == {
        "kernel.level": "real",
        "kernel.width": "positive",
        "mean": "real",
        "likelihood.noise": "positive",
    }


def test_bad_input_names():
    model = Model(k.Matern52([1.0, 2.0]) + k.Linear(), np.asarray(0.0), lk.Gaussian())
    with pytest.raises(InputError, match=r"names no parameter: 'kernel.lengthscale'.*kernel.0.lengthscale"):
        lay_out(model, "kernel.lengthscale")
    with pytest.raises(InputError, match="list of groups"):
        lay_out(model, tie=["kernel.0.variance", "kernel.1.variance"])
    with pytest.raises(InputError, match="same shape"):
        lay_out(model, tie=[["kernel.0.lengthscale", "kernel.0.variance"]])
    with pytest.raises(InputError, match=r"mean .., real"):
        lay_out(model, tie=[["kernel.0.variance", "mean"]])
    with pytest.raises(InputError, match=r"`kernel\.width` is -1\.0, but it is learned as positive"):
        lay_out(Model(Own(np.asarray(0.1), np.asarray(-1.0)), np.asarray(0.0), lk.Gaussian()))
    with pytest.raises(InputError, match="two parameters or more"):
        lay_out(model, tie=[["mean"]])
    with pytest.raises(InputError, match="frozen or tied already"):
        lay_out(model, "kernel.0", [["kernel.0.variance", "kernel.1.variance"]])
    with pytest.raises(InputError, match="names of parameters"):
        lay_out(model, [3])
    wrong = Model(type("Wrong", (Own,), {"supports": {"level": "odd"}})(np.ones(()), np.ones(())), 0.0, lk.Gaussian())
    with pytest.raises(InputError, match="must be one of positive, real"):
        lay_out(wrong)
