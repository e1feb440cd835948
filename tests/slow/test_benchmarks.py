"""The benchmarks keep what they promise. Timings are ratios within one run, on a machine that is otherwise idle."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def run(name: str, folder: Path) -> dict:
    out = folder / "result.json"
    subprocess.run([sys.executable, str(BENCHMARKS / f"{name}.py"), "--out", str(out)], check=True)
    result = json.loads(out.read_text())
    assert {"machine", "cores", "python", "versions"} <= set(result)
    return result


@pytest.mark.slow
def test_greedy_selection_is_as_fast_as_numpy_in_bounded_memory(tmp_path):
    result = run("greedy", tmp_path)
    assert result["same_set"]
    assert result["ratio_once_compiled"] < 1.5
    assert result["peak_gigabytes_above_start"] < 1.6


@pytest.mark.slow
def test_gradients_cost_little_more_than_their_matrix_products(tmp_path):
    result = run("potential", tmp_path)
    assert result["gradient_ratio"] < 1.3
    assert result["value_and_gradient_ratio"] < 2.3
    assert result["optimal_gradient_ratio"] < 5.0
