from __future__ import annotations

import gc
import os
from pathlib import Path

import jax
import jaxtyping
import numpy as np
import pytest

import kosambi as ko
from kosambi._core import programs

# Processes that tests start leave nothing in the user's cache folder.
os.environ["KOSAMBI_COMPILATION_CACHE"] = "off"
# Programs that one worker has compiled are read by the others, and by the next run. Processes that tests start have no
# part in it: one that is killed while writing would leave half a program.
if jax.config.jax_compilation_cache_dir is None:
    jax.config.update("jax_compilation_cache_dir", str(Path(__file__).parents[1] / ".pytest_cache" / "compiled"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
# Memory maps of a process above which compiled programs are thrown away: at 65,530 the compiler crashes.
MOST_MAPS = 30_000
# Later than a user's process does, since tests come back to the same shapes again and again.
programs.MAX_MAPS = 20_000
# Examples that fit and sample for more than two seconds, of things that tests beside them check closely.
SLOW_EXAMPLES = (
    "kosambi._core.checkpoints.Checkpoint",
    "kosambi.acquisition.drawn.DrawnImprovement",
    "kosambi.acquisition.drawn.thompson",
    "kosambi.acquisition.improvement.ExpectedImprovement",
    "kosambi.acquisition.knowledge.KnowledgeGradient",
    "kosambi.acquisition.optimise.maximize",
    "kosambi.averaging.average",
    "kosambi.estimators.classifier.ProjectedLangevinClassifier",
    "kosambi.learning.drawn.HyperparameterDraws.quantile",
    "kosambi.plots._labels.roc",
    "kosambi.plots._labels.reliability",
    "kosambi.posterior.base.AbstractPosterior.by_mode",
    "kosambi.posterior.base.AbstractPosterior.certificate",
    "kosambi.posterior.base.AbstractPosterior.modes",
    "kosambi.posterior.base.AbstractPosterior.reweighted",
    "kosambi.posterior.posterior.Posterior.log_predictive_density",
    "kosambi.samplers.convergence.effective_sample_size",
    "kosambi.samplers.euler_maruyama.EulerMaruyama",
    "kosambi.samplers.tempering.Tempering",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if isinstance(item, pytest.DoctestItem) and item.name in SLOW_EXAMPLES:
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish():
    """Modules and tests stay to the end: garbage is not looked for among them, and not after every 700 objects."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(autouse=True, scope="module")
def room_for_the_compiler():
    """Every compiled program holds memory maps, of which a process may have only so many."""
    yield
    maps = Path("/proc/self/maps")
    if maps.is_file() and len(maps.read_text().splitlines()) > MOST_MAPS:
        jax.clear_caches()


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
