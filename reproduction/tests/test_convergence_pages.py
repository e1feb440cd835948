"""Tables and figures of `convergence` and `optimal` from what cells have kept."""

from __future__ import annotations

import json

import numpy as np
import pytest

from kosambi._core.writing import as_json
from reproduction import convergence, optimal
from reproduction._optimal_pages import entries, verdicts
from reproduction._rates import theory
from reproduction.experiment import Scale


def _rate_cell(order, prior):
    sizes = [8, 16, 32, 64]
    remainder = [float(np.exp(theory(prior, order) * (s if order is None else np.log(s)))) for s in sizes]
    best = [0.5 * value for value in remainder]
    return {
        "prior": prior,
        "order": order,
        "sizes": sizes,
        "remainder": remainder,
        "best": best,
        "clean": [True] * 4,
        "prior_variance": 1.0,
    }


def _divergence_cell(likelihood, divergence):
    row = {"remainder": 0.1, "standard_error": 0.001, "theorem": 5.0, "lipschitz": 1.0, "curvature": 0.5}
    rows = [
        row | {"M": m, "remainder": 0.1 / m, "divergence": divergence / m**2, "full_bound": None} for m in (4, 8, 16)
    ]
    if likelihood == "gaussian":
        rows = [r | {"full_gap": 1.0 / r["M"], "full_bound": 3.0 / r["M"], "theorem": None} for r in rows]
    return {"likelihood": likelihood, "prior": "rough_element", "num_rows": 120, "rows": rows}


@pytest.fixture
def found():
    slow = [{"steps": 10, "seconds": 1.0, "distance": 0.5}, {"steps": 20, "seconds": 2.0, "distance": 0.3}]
    fast = [{"steps": 10, "gradients": 10, "seconds": 0.1, "distance": 0.011}]
    race = {
        "problem": "bernoulli",
        "noise_floor": 0.01,
        "noise_limit": 0.02,
        "reference": {"r_hat": 1.001, "ess": 900.0, "divergences": 0},
        "coordinates": 20,
        "smallest_eigenvalue": 1e-6,
        "curves": {
            "MALA": {"points": fast, "compile_seconds": 2.0},
            "Euler-Maruyama": {"points": slow, "compile_seconds": 1.0},
        },
    }
    variational = {"problem": "bernoulli", "curves": {"SVGP": {"points": slow, "compile_seconds": 0.0}}}
    return as_json(
        {
            "rate-element-1": _rate_cell(1, "element"),
            "rate-process-0": _rate_cell(0, "process"),
            "rate-process-squared_exponential": _rate_cell(None, "process"),
            "divergence-rough_element-bernoulli": _divergence_cell("bernoulli", 0.1),
            "divergence-rough_element-gaussian": _divergence_cell("gaussian", 0.0),
            "race-bernoulli": race,
            "variational-bernoulli": variational,
        }
    )


def test_table_of_convergence_says_what_the_numbers_say(found):
    text = convergence.EXPERIMENT.table(found)
    assert "| Matérn-3/2 | as k, `GaussianRandomElement` | 8 to 64 | -7.00 |" in text
    assert "within 0.0 % of theory" in text
    assert "falls faster than the paper's bound M^{−3(l+1)} for Matérn-3/2" in text
    assert "the least bound holds for every M" in text
    assert "the divergence falls as R_M to the power 2.00" in text
    assert "MALA arrives first, after 0.1 s; not within the time: Euler-Maruyama (30 times the floor)" in text
    # A bound below the divergence must be called by its name.
    broken = found | {"divergence-rough_element-bernoulli": as_json(_divergence_cell("bernoulli", 20.0))}
    assert "FAILS for 1 of 3" in convergence.EXPERIMENT.table(broken)


def test_pages_of_convergence_cope_with_missing_cells(found, tmp_path):
    figures = convergence.EXPERIMENT.draw(found, tmp_path)
    assert [path.name for path in figures] == [
        "convergence-rates.png",
        "convergence-divergence.png",
        "convergence-seconds.png",
    ]
    assert all(path.stat().st_size < 200_000 for path in figures)
    for name in found:
        rest = {other: cell for other, cell in found.items() if other != name}
        assert convergence.EXPERIMENT.table(rest)
        assert convergence.EXPERIMENT.table({name: found[name]})
        assert len(convergence.EXPERIMENT.draw({name: found[name]}, tmp_path)) == 1
    assert convergence.EXPERIMENT.table({}) == "Nothing has been computed yet."
    assert convergence.EXPERIMENT.draw({}, tmp_path) == []


def _optimal_cell(problem, seed, gain, optimal_distance=0.1):
    potential = {"log_density": -1.0, "distance": 0.2, "mean_error": 0.1, "deviation_error": 0.2}
    row = {
        "M": 4,
        "projected": potential,
        "optimal": potential | {"distance": optimal_distance, "log_density": -1.0 + gain},
        "nats": 0.4,
        "nats_error": 0.01,
        "pareto_k": 0.1,
        "residual_share": 0.3,
        "gain": gain,
        "gain_error": 0.003,
        "monte_carlo": 0.004,
        "distance_error": 0.02,
    }
    return {
        "problem": problem,
        "seed": seed,
        "num_rows": 100,
        "num_test": 50,
        "full_log_density": -0.9,
        "noise_floor": 0.01,
        "rows": [row],
    }


def test_table_of_optimal_counts_who_wins(tmp_path):
    found = {
        "bernoulli-0": _optimal_cell("bernoulli", 0, 0.02),
        "bernoulli-1": _optimal_cell("bernoulli", 1, 0.03),
        "poisson-0": _optimal_cell("poisson", 0, -0.05, 0.205),
        "breast-0": _optimal_cell("breast", 0, 0.001),
    }
    first, second, third = entries(found)
    assert (first.splits, first.better, first.closer) == (2, "optimal", "optimal")
    # Two splits: errors of held-out data and draws, 0.005 each.
    assert first.error == pytest.approx(0.005 / np.sqrt(2))
    assert (second.better, second.closer, third.better) == ("projected", "neither", "neither")
    said = verdicts([first, second, third])
    assert "optimal is better in 1 of 3 cases, projected in 1" in said[0]
    assert "The largest gain in log density is +0.0250" in said[2]
    assert "The largest loss is -0.0500" in said[3]
    assert "| Bernoulli, 1-D | 4 | 2 |" in optimal.EXPERIMENT.table(found)
    assert [path.name for path in optimal.EXPERIMENT.draw(found, tmp_path)] == ["optimal-gain.png"]
    assert optimal.EXPERIMENT.table({}) == "Nothing has been computed yet."
    assert optimal.EXPERIMENT.draw({}, tmp_path) == []


def test_three_splits_give_their_own_error():
    gains = (0.01, 0.02, 0.06)
    (entry,) = entries({f"boston-{i}": _optimal_cell("boston", i, gain) for i, gain in enumerate(gains)})
    assert entry.error == pytest.approx(np.std(gains, ddof=1) / np.sqrt(3))


@pytest.mark.parametrize("experiment", [convergence.EXPERIMENT, optimal.EXPERIMENT])
def test_cells_have_names_of_their_own_and_plain_arguments(experiment):
    for quick in (True, False):
        cells = experiment.cells(Scale(quick=quick))
        assert len({cell.name for cell in cells}) == len(cells)
        for cell in cells:
            assert json.loads(json.dumps(cell.arguments)) == cell.arguments
