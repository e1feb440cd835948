"""Hyperparameters with defaults, at any size and for any likelihood: what a fit takes, and how well it predicts.

python -m benchmarks.learning --out learning.json [--tables small large] [--rows 300]

* small: a fit of the estimators in a new process each, once cold and once more with other rows of the same number:
  seconds in all, of learning and of compilation, test NLL (log loss), that of a constant distribution, the share of
  wrong labels or the RMSE, coverage of 95 % intervals, the highest memory, warnings.
* large: kin40k, protein and covtype (two classes), nine tenths of the rows (`default_rng(0).permutation`).

NLL is that of the standardised target. Data are read from `reproduction/data`, or the folder in `KOSAMBI_DATA`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import nbinom, poisson

from kosambi import ProjectedLangevinClassifier, ProjectedLangevinRegressor
from kosambi.likelihoods import Ordinal
from reproduction.comparison.data import read
from reproduction.store import describe

SMALL = (
    ("boston", "gaussian"),
    ("boston", "student_t"),
    ("concrete", "student_t"),
    ("energy_cooling", "student_t"),
    ("mcycle", "student_t"),
    ("breast", "labels"),
    ("diabetes", "labels"),
    ("coal_yearly", "poisson"),
    ("bike_hour", "poisson"),
    ("bike_hour", "negative_binomial"),
    ("wine_quality", "ordinal"),
    ("iris", "labels"),
)
USUAL = 0.01
"""The share of rows that a grade has at least."""
LARGE = (("kin40k", "gaussian"), ("protein", "gaussian"), ("covtype", "labels"))


def rows_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name == "iris":
        from sklearn.datasets import load_iris

        return load_iris(return_X_y=True)
    return read(name)


def measure(
    name: str, likelihood: str, number: int, repeats: int = 2, n_neighbors: str | int = "auto"
) -> list[dict[str, Any]]:
    """Fits of `number` rows each, one after the other in this process."""
    x, y = rows_of(name)
    if likelihood == "ordinal":
        # Without grades that some draws of rows have and others have not, so that fits are of one shape.
        grades, times = np.unique(y, return_counts=True)
        is_usual = np.isin(y, grades[times >= USUAL * len(y)])
        x, y = x[is_usual], y[is_usual]
    found = []
    for seed in range(repeats):
        order = np.random.default_rng(seed).permutation(len(y))
        number = min(number, int(0.9 * len(y)))
        train, test = order[:number], order[number : number + 4000]
        model: Any
        if likelihood == "labels":
            model = ProjectedLangevinClassifier(n_neighbors=n_neighbors)
        elif likelihood == "ordinal":
            grade = Ordinal(np.linspace(-1.0, 1.0, len(np.unique(y)) - 1))
            model = ProjectedLangevinClassifier(grade, n_neighbors=n_neighbors)
        else:
            model = ProjectedLangevinRegressor(likelihood, n_neighbors=n_neighbors)
        began = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(x[train], y[train])
        seconds = time.perf_counter() - began
        report = model.fit_report_
        found.append(
            {
                "data": name,
                "likelihood": likelihood,
                "rows": len(train),
                "seconds": seconds,
                "learning": report.seconds,
                "compiling": report.compile_seconds + model.report_.compile_seconds,
                "strategy": report.strategy,
                "points": model.posterior_.basis.size,
                "neighbors": getattr(model.posterior_.target.neighborhood, "num_neighbors", 0),
                "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
                "converged": bool(report.converged and model.report_.converged),
                "warnings": [str(warning.message) for warning in caught],
                **scores(model, likelihood, x[test], y[train], y[test]),
            }
        )
    return found


def scores(model: Any, likelihood: str, x: np.ndarray, seen: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Test NLL at x and y, and that of a constant distribution of what was `seen`."""
    if likelihood in ("labels", "ordinal"):
        known = np.isin(y, model.classes_)
        where = np.searchsorted(model.classes_, y[known])
        chances = model.predict_proba(x[known])[np.arange(known.sum()), where]
        shares = np.array([np.mean(seen == label) for label in model.classes_])
        return {
            "nll": -float(np.mean(np.log(chances))),
            "constant": -float(np.mean(np.log(shares[where]))),
            "error": float(np.mean(model.predict(x[known]) != y[known])),
        }
    density = -float(np.mean(model.predict_log_density(x, y)))
    if likelihood in ("poisson", "negative_binomial"):
        rate, spread = float(np.mean(seen)), float(np.var(seen))
        if spread <= rate:
            return {"nll": density, "constant": -float(np.mean(poisson.logpmf(y, rate)))}
        size = rate**2 / (spread - rate)
        return {"nll": density, "constant": -float(np.mean(nbinom.logpmf(y, size, size / (size + rate))))}
    scale, mean = float(np.std(seen)), float(np.mean(seen))
    constant = 0.5 * np.log(2.0 * np.pi) + 0.5 * float(np.mean(np.square((y - mean) / scale)))
    lower, upper = model.predict_interval(x, 0.95)
    return {
        "nll": density - float(np.log(scale)),
        "constant": constant,
        "error": float(np.sqrt(np.mean(np.square(y - model.predict(x))))) / scale,
        "coverage": float(np.mean((lower <= y) & (y <= upper))),
    }


def in_new_process(name: str, likelihood: str, number: int, repeats: int) -> list[dict[str, Any]]:
    """So that nothing is compiled yet; the cache on disk is off."""
    command = [sys.executable, "-m", "benchmarks.learning", "--one", name, likelihood, str(number), str(repeats)]
    environment = os.environ | {"KOSAMBI_COMPILATION_CACHE": "off"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--tables", nargs="+", default=["small", "large"], choices=["small", "large"])
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, likelihood, number, repeats = options.one
        print(json.dumps(measure(name, likelihood, int(number), int(repeats))))
        return
    result: dict[str, Any] = describe() | {"fits": []}
    plan = [(*case, options.rows, 2) for case in SMALL] if "small" in options.tables else []
    plan += [(*case, 10**9, 1) for case in LARGE] if "large" in options.tables else []
    for case in plan:
        for number, found in enumerate(in_new_process(*case)):
            result["fits"].append(found)
            print(
                f"{found['data']:<15}{found['likelihood']:<18}{found['rows']:>6} rows, "
                f"{'second' if number else 'first '} fit {found['seconds']:6.1f} s (learning {found['learning']:.1f}, "
                f"compiling {found['compiling']:.1f}), NLL {found['nll']:.4f}, constant {found['constant']:.4f}, "
                f"error {found.get('error', np.nan):.4f}, coverage {found.get('coverage', np.nan):.3f}, "
                f"M {found['points']}, m {found['neighbors']}, {found['strategy']}, {found['gigabytes']:.1f} GB, "
                f"{'converged' if found['converged'] else 'NOT converged'}"
                + "".join(f"\n    {text}" for text in found["warnings"]),
                flush=True,
            )
    if options.out:
        options.out.write_text(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
