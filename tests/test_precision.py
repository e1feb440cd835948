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
from kosambi import precision
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


def test_the_same_float64_numbers_with_the_switch_off_and_on_in_new_processes():
    digests = set()
    for switch in ("0", "1"):
        environment = {**os.environ, "JAX_ENABLE_X64": switch, "JAX_PLATFORMS": "cpu"}
        command = [sys.executable, "-W", "error", "-c", NUMBERS]
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        digests.add(result.stdout)
    assert len(digests) == 1


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
