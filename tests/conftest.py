from __future__ import annotations

import jax
import jaxtyping
import numpy as np
import pytest

import kosambi as ko


@pytest.fixture(autouse=True)
def users_messages(request):
    """Tests of bad input see what users see: the run-time type checks of the test suite are off in them."""
    if not request.node.name.startswith("test_bad_input"):
        yield
        return
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(params=[False, True], ids=["x64_off", "x64_on"])
def x64(request):
    """Run a test with JAX's global switch off and on."""
    with jax.enable_x64(request.param):
        yield request.param


@pytest.fixture
def rng():
    return np.random.default_rng(20240229)


@pytest.fixture
def curve_inputs():
    """300 inputs on [-3, 3], as in the paper's one-dimensional examples."""
    return np.random.default_rng(1).uniform(-3.0, 3.0, (300, 1))


@pytest.fixture
def curve_prior(curve_inputs):
    kernel = ko.kernels.SquaredExponential(lengthscale=0.6, variance=1.5)
    return ko.GaussianRandomElement(kernel, ko.measures.empirical(curve_inputs))
