"""Simulation-based calibration of some cells of `benchmarks.sbc`, and of wrong ones, with fewer replications."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from scipy import stats

import kosambi as ko
from benchmarks.sbc_cells import CELLS, WRONG
from benchmarks.sbc_models import MODELS, huber_noise
from benchmarks.sbc_ranks import NUM_DRAWS, holm, p_values, run
from kosambi.samplers.run import BY_NAME

REPLICATIONS = 100
RIGHT = (
    "exact: Gaussian",
    "exact: 4 points, all rows near",
    "mala: Gamma",
    "mala: Categorical",
    "mala: CustomJoint",
    "mala: near inputs, nystrom basis, Bernoulli",
    "hmc: Exponential",
    "tempering: Poisson, square",
)
FULL_SIZE = ("noise 1.3 times too large, Student t", "normal approximation at the mode")
"""Wrong draws that take more replications to be seen."""


def of_normal(deviation: float, shift: float = 0.0) -> np.ndarray:
    """Ranks of 300 standard normal truths among normal draws."""
    generator = np.random.default_rng(0)
    truth, draws = generator.normal(size=(300, 5)), generator.normal(shift, deviation, size=(NUM_DRAWS, 300, 5))
    return np.sum(draws < truth, axis=0)


def test_uniform_ranks_pass_and_others_do_not():
    assert holm(p_values("", of_normal(1.0))).min() > 1e-3
    assert p_values("", of_normal(0.7)).max() < 1e-3
    assert p_values("", of_normal(1.0, 0.4)).min(axis=1).max() < 1e-3
    assert p_values("", of_normal(1.0, -0.4)).min(axis=1).max() < 1e-3


def test_correction_for_many_tests():
    np.testing.assert_allclose(holm(np.array([[0.01, 0.04], [np.nan, 0.02]])), [[0.03, 0.04], [np.nan, 0.04]])


def test_every_likelihood_and_every_sampler_has_a_cell():
    kinds = {kind for _, kind in inspect.getmembers(ko.likelihoods, inspect.isclass) if not inspect.isabstract(kind)}
    assert {type(model.likelihood) for model in MODELS.values()} == kinds - {ko.likelihoods.AbstractLikelihood}
    assert {name for name in MODELS if not any(cell.endswith(f": {name}") for cell in CELLS)} == set()
    assert {cell.split(":")[0] for cell in CELLS} == set(BY_NAME) | {"auto"}


def test_noise_of_the_huber_loss_has_its_density():
    def density(z):
        return np.exp(-ko.likelihoods.Huber(1.0, 0.8).cost(z, 0.0))

    grid = np.linspace(-30.0, 30.0, 60_001)
    cdf = np.cumsum(density(grid)) * 1e-3
    drawn = huber_noise(np.random.default_rng(0), 20_000, 0.8)
    assert stats.kstest(drawn, lambda z: np.interp(z, grid, cdf / cdf[-1])).pvalue > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_ranks_are_uniform(name):
    found = run(name, CELLS[name], REPLICATIONS)
    p = p_values(name, found.ranks)
    assert np.nanmin(holm(p)) * len(RIGHT) > 1e-3, p
    # Two visits of each chain are a short run for tempering, so R̂ is not always within its limit.
    assert found.converged.mean() > (0.7 if name.startswith("tempering") else 0.98)
    # Particles with a common start are no more alike than others.
    assert abs(found.between.mean() - 1.0) < 0.4


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in WRONG if name not in FULL_SIZE])
def test_wrong_draws_are_rejected(name):
    p = p_values(name, run(name, WRONG[name], REPLICATIONS).ranks)
    assert np.nanmin(p) * p.size < 1e-3, p
