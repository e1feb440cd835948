"""The precision policy: float64 whatever JAX's switch says, and the switch itself untouched."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import jax
import numpy as np
import pytest

import kosambi as ko
from kosambi._core import precision
from kosambi.errors import PrecisionWarning

NUMBERS = """
import hashlib, pickle, jax, numpy as np
before = jax.config.jax_enable_x64
import kosambi as ko
assert jax.config.jax_enable_x64 == before, "the import moved the switch"
x = np.random.default_rng(0).uniform(-3.0, 3.0, (60, 2))
kernel = 1.3 * ko.kernels.Matern52([0.7, 1.4]) + ko.kernels.SquaredExponential(0.5) * ko.kernels.Periodic(period=2.0)
found = [kernel(x), kernel.diagonal(x)]
element = ko.GaussianRandomElement(kernel, ko.measures.subsample(jax.random.key(1), x, 50), mean=0.3)
process = ko.GaussianProcess(kernel, mean=0.1)
z = x[ko.inducing.greedy_variance(kernel, x, 12)]
for prior in (element, process):
    found += [prior.covariance(x), prior.variance(x)]
    found += [prior.draw(jax.random.key(2), 3, **({} if prior is element else {"num_columns": 2}))(x)]
for basis in (ko.RitzBasis(element, z), ko.PointBasis(process, z)):
    basis = pickle.loads(pickle.dumps(basis))
    found += [basis.covariance, basis.evaluate(x), basis.conditional_mean(x), basis.residual_variance(x)]
assert jax.config.jax_enable_x64 == before, "a call moved the switch"
assert all(value.dtype == np.float64 for value in found)
print(hashlib.sha256(b"".join(np.ascontiguousarray(value).tobytes() for value in found)).hexdigest())
"""


@pytest.mark.slow
def test_the_same_float64_numbers_with_the_switch_off_and_on_in_new_processes():
    digests = set()
    for switch in ("0", "1"):
        environment = {**os.environ, "JAX_ENABLE_X64": switch, "JAX_PLATFORMS": "cpu"}
        command = [sys.executable, "-W", "error", "-c", NUMBERS]
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        digests.add(result.stdout)
    assert len(digests) == 1


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["draw", "evaluate"])
def test_a_draw_traced_with_the_switch_off_warns_once(mode, monkeypatch):
    monkeypatch.setattr(precision, "_warned", set())
    prior = ko.GaussianProcess(ko.kernels.Matern52())
    draws = prior.draw(jax.random.key(0), 2)
    x = np.linspace(0.0, 1.0, 4)[:, None]
    call = (lambda: jax.jit(draws)(x)) if mode == "evaluate" else (lambda: jax.jit(prior.draw)(jax.random.key(0)))
    with pytest.warns(PrecisionWarning, match="x64 switch is off"):
        call()
    jax.clear_caches()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call()
    monkeypatch.setattr(precision, "_warned", set())
    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("error")
        call()


def test_parameters_given_as_single_precision_are_kept_as_double():
    kernel = ko.kernels.Matern52(lengthscale=np.float32(0.1))
    assert kernel.lengthscale.dtype == np.float64
    assert float(kernel.lengthscale) == float(np.float32(0.1))


def test_strided_and_fortran_ordered_inputs_give_the_same_numbers(rng):
    x = rng.normal(size=(40, 6))
    kernel = ko.kernels.Matern52()
    expected = kernel(np.ascontiguousarray(x[::2, ::2]))
    np.testing.assert_array_equal(kernel(x[::2, ::2]), expected)
    np.testing.assert_array_equal(kernel(np.asfortranarray(x[::2, ::2])), expected)
    measure = ko.measures.empirical(np.asfortranarray(x))
    assert measure.points.flags.c_contiguous


def test_a_live_jitted_method_does_not_poison_direct_calls():
    """JAX caches, by identity, how it converted the arrays that a jitted function closes over."""
    x = np.linspace(-1.0, 1.0, 9)[:, None]
    basis = ko.PointBasis(ko.GaussianProcess(ko.kernels.SquaredExponential(0.5)), x)
    before = basis.conditional_mean([[0.3]])
    alive = jax.jit(basis.conditional_mean)
    alive(np.array([[0.3]]))
    np.testing.assert_array_equal(basis.conditional_mean([[0.3]]), before)
    np.testing.assert_array_equal(basis.prior.kernel(x), ko.kernels.SquaredExponential(0.5)(x))
    assert alive(np.array([[0.3]])).dtype == np.float32


def test_objects_do_not_share_memory_with_what_they_were_made_from(rng):
    x, lengthscale = rng.normal(size=(20, 2)), np.array([1.0, 2.0])
    kernel, measure = ko.kernels.Matern52(lengthscale), ko.measures.empirical(x)
    prior = ko.GaussianRandomElement(kernel, measure)
    bases = [basis(prior, x) for basis in (ko.NystromBasis, ko.RitzBasis, ko.InducingBasis, ko.PointBasis)]
    for thing in (kernel, measure, prior, *bases):
        for leaf in jax.tree.leaves(thing):
            assert not np.shares_memory(leaf, x)
            assert not np.shares_memory(leaf, lengthscale)


def test_owners_of_a_callable_mean_cross_a_jit_boundary(rng):
    x = rng.normal(size=(6, 1))
    prior = ko.GaussianProcess(ko.kernels.Matern52(), mean=lambda v: v[:, 0])
    draws = prior.draw(jax.random.key(0), 2)
    with jax.enable_x64(True):
        np.testing.assert_allclose(jax.jit(lambda d, v: d(v))(draws, x), draws(x), atol=1e-12)
        np.testing.assert_allclose(
            jax.jit(prior.draw)(jax.random.key(0))(x), prior.draw(jax.random.key(0))(x), atol=1e-9
        )
        basis = ko.PointBasis(prior, x)
        np.testing.assert_allclose(
            jax.jit(lambda b, v: b.conditional_mean(v))(basis, x), basis.conditional_mean(x), atol=1e-9
        )
