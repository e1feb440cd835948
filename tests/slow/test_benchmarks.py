"""The benchmarks keep what they promise. Timings are ratios within one run, on a machine that is otherwise idle."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(name: str, folder: Path, *options: str) -> dict:
    out = folder / "result.json"
    command = [sys.executable, "-m", f"benchmarks.{name}", "--out", str(out), *options]
    subprocess.run(command, check=True, cwd=ROOT)
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


@pytest.mark.slow
def test_steps_are_timed_and_their_growth_is_plotted(tmp_path):
    result = run("steps", tmp_path, "--seconds", "0.2", "--plot", str(tmp_path / "growth.png"))
    assert [step["precision"] for step in result["steps"]] == ["float64", "float32"] * 4
    assert all(step["kosambi_microseconds"] > 0 for step in result["steps"])
    assert {"N", "M", "J"} == set(result["growth"])
    assert (tmp_path / "growth.png").stat().st_size > 10_000


@pytest.mark.slow
def test_steps_are_compared_with_their_products(tmp_path):
    result = run("roofline", tmp_path, "--shape", "100,10,100", "--shape", "2048,32,64", "--parts", "--seconds", "0.1")
    assert [row["precision"] for row in result["rows"]] == ["tf32", "float32", "float64"] * 2
    assert all(row["products"] > 0 and min(row["ratios"].values()) > 0 for row in result["rows"])
    assert set(result["parts"]) == {"tf32", "float32", "float64"}


@pytest.mark.slow
def test_posteriors_in_few_digits_are_near(tmp_path):
    result = run("precisions", tmp_path, "--particles", "2048", "--rows", "300", "--inducing", "8")
    other, *rows = result["rows"]
    for row in rows:
        assert row["mean_rms"] < 3.0 * other["mean_rms"]
        assert row["deviation_rms"] < 3.0 * other["deviation_rms"]
        assert row["potential_nats"] < 0.05


@pytest.mark.slow
def test_auto_needs_a_fraction_of_the_gradients_of_the_papers_sampler(tmp_path):
    result = run("convergence", tmp_path, "--problems", "synthetic", "--budget", "30")
    (row,) = result["results"]
    assert row["auto"]["agreed"] >= row["auto"]["runs"] - 1
    assert row["ratios"]["gradients"] > 10


@pytest.mark.slow
def test_function_draws_are_linear_in_time_and_bounded_in_memory(tmp_path):
    result = run("functions", tmp_path)
    assert result["memory"]["beyond_result_gigabytes"] < 2.0
    speedups = {row["kernel"]: row["speedup"] for row in result["cholesky"]}
    assert speedups["SquaredExponential"] > 20
    # 13 to 21 were measured for it, 25 to 36 for the squared exponential.
    assert speedups["Matern52"] > 10
    assert all(row["ratio"] < 12 for row in result["growth"])
