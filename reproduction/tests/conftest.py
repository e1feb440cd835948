from __future__ import annotations

import jaxtyping
import numpy as np
import pytest


@pytest.fixture(autouse=True)
def users_messages(request):
    """Tests of bad input see what users see: the run-time type checks of the test suite are off in them."""
    if not request.node.name.startswith("test_bad_input"):
        yield
        return
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def rng():
    return np.random.default_rng(20240229)
