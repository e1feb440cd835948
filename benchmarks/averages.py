"""Averages over hyperparameters beside the most probable ones: coverage on simulated data, scores on real ones.

python -m benchmarks.averages --out averages.json [--tables simulated data] [--replications 200] [--jobs 2]

* simulated: hyperparameters drawn from their prior, a function from the process (Matérn-5/2, a lengthscale for each of
  D columns), N observations with Gaussian noise; learned with the same prior. Shares of 50 new observations that 50 %
  and 95 % intervals hold, with standard errors over replications, and mean log densities, of the average, of the most
  probable hyperparameters, and of those that made the data.
* data: the estimators with `hyperparameters="evidence"` and `"average"` on five splits of data of the paper: test NLL
  (log loss), coverage of 95 % intervals, seconds in a new process with nothing compiled.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np

import kosambi as ko
from reproduction.comparison.data import load, read
from reproduction.store import describe

SIZES, COLUMNS, NEW = (20, 50, 100, 300), (1, 4, 8), 50
LEVELS = (0.5, 0.95)
DATA = [(name, "gaussian") for name in ("boston", "concrete", "energy_cooling", "energy_heating", "mcycle")]
DATA += [(name, "labels") for name in ("breast", "diabetes", "heart", "ionosphere")] + [("coal_yearly", "poisson")]
ALONE = ("mcycle", "coal_yearly")
"""Data without splits of the paper, of which a random tenth is left out."""


def hyperpriors(num_columns: int) -> dict[str, Any]:
    """What hyperparameters are drawn from, and what is known of them."""
    return {
        "kernel.lengthscale": ko.hyperpriors.LogNormal(np.full(num_columns, np.sqrt(num_columns)), 0.5),
        "kernel.variance": ko.hyperpriors.LogNormal(1.0, 0.5),
        "likelihood.noise": ko.hyperpriors.LogNormal(0.3, 0.5),
    }


def simulated(num_rows: int, num_columns: int, seed: int) -> dict[str, list[float]]:
    """Coverage at `LEVELS` and mean log density of new observations, by who predicts."""
    generator = np.random.default_rng([num_rows, num_columns, seed])
    priors = hyperpriors(num_columns)
    length, variance, noise = (
        np.exp(mean + width * generator.normal(size=np.shape(mean)))
        for mean, width in (p.free for p in priors.values())
    )
    kernel, gaussian = ko.kernels.Matern52(length, variance), ko.likelihoods.Gaussian(noise)
    x = generator.normal(size=(num_rows + NEW, num_columns))
    gram = np.asarray(kernel(x)) + 1e-9 * variance * np.eye(len(x))
    y = np.linalg.cholesky(gram) @ generator.normal(size=len(x)) + noise * generator.normal(size=len(x))
    rows, new = (x[:num_rows], y[:num_rows]), (x[num_rows:], y[num_rows:])
    start = ko.kernels.Matern52(np.full(num_columns, np.sqrt(num_columns)))
    key_learn, key_average, key_truth = jax.random.split(jax.random.key(seed), 3)
    with warnings.catch_warnings():
        # Chains that do not agree are part of what is measured.
        warnings.simplefilter("ignore")
        report = ko.fit_hyperparameters(
            key_learn, start, ko.likelihoods.Gaussian(0.3), *rows, priors=priors, num_draws=20
        )[2]
        averaged = ko.average(key_average, report.draws, *rows)
    truth = ko.infer(key_truth, kernel, gaussian, *rows, num_inducing=0, num_neighbors=num_rows)
    found = {}
    for name, posterior in (("average", averaged), ("best", averaged.point), ("truth", truth)):
        prediction = posterior.predict(new[0])
        inside = [np.mean((low <= new[1]) & (new[1] <= high)) for low, high in map(prediction.interval, LEVELS)]
        found[name] = [*map(float, inside), float(np.mean(prediction.log_density(new[1])))]
    found["r_hat"] = [report.draws.r_hat]
    return found


def real(name: str, likelihood: str, seed: int, hyperparameters: str) -> dict[str, Any]:
    """Scores and seconds of one fit."""
    if name in ALONE:
        x, y = read(name)
        order, number = np.random.default_rng(seed).permutation(len(y)), int(0.9 * len(y))
        train, test = (x[order[:number]], y[order[:number]]), (x[order[number:]], y[order[number:]])
    else:
        split = load(name, seed)
        train, test = (split.train.x, split.train.y), (split.test.x, split.test.y)
    model: Any = (
        ko.ProjectedLangevinClassifier(hyperparameters=hyperparameters)
        if likelihood == "labels"
        else ko.ProjectedLangevinRegressor(likelihood, hyperparameters=hyperparameters)
    )
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(*train)
    found = {
        "rows": len(train[1]),
        "seconds": time.perf_counter() - began,
        "warnings": [str(w.message) for w in caught],
    }
    found["nll"] = -float(np.mean(model.predict_log_density(*test)))
    if likelihood == "gaussian":
        found["nll"] -= float(np.log(np.std(train[1])))
    if likelihood != "labels":
        low, high = model.predict_interval(test[0], 0.95)
        found["coverage"] = float(np.mean((low <= test[1]) & (test[1] <= high)))
    if (draws := model.fit_report_.draws) is not None:
        found |= {"r_hat": draws.r_hat, "evaluations": draws.evaluations}
    return found


def in_new_process(*case: object) -> Any:
    """On one core, with nothing compiled and no cache on disk."""
    command = [sys.executable, "-m", "benchmarks.averages", "--one", *map(str, case)]
    environment = os.environ | {"KOSAMBI_COMPILATION_CACHE": "off"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def one(case: list[str]) -> Any:
    """What a new process measures."""
    if case[0] == "simulated":
        num_rows, num_columns, first, last = map(int, case[1:])
        return [simulated(num_rows, num_columns, seed) for seed in range(first, last)]
    return real(case[1], case[2], int(case[3]), case[4])


def print_coverage(num_rows: int, num_columns: int, found: list[dict[str, list[float]]]) -> None:
    """One line for each who predicts."""
    truth = np.array([each["truth"] for each in found])
    for name in ("average", "best", "truth"):
        values = np.array([each[name] for each in found])
        error = np.std(values, axis=0, ddof=1) / np.sqrt(len(values))
        shares = ", ".join(f"{values[:, k].mean():.3f} ± {error[k]:.3f}" for k in range(len(LEVELS)))
        loss = np.mean(truth[:, -1] - values[:, -1])
        print(
            f"N {num_rows:>4} D {num_columns}  {name:<8} 50 % and 95 % hold {shares}; {loss:.3f} nats lost", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--tables", nargs="+", default=["simulated", "data"], choices=["simulated", "data"])
    parser.add_argument("--replications", type=int, default=200)
    parser.add_argument("--rows", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--columns", type=int, nargs="+", default=list(COLUMNS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.one)))
        return
    result: dict[str, Any] = describe() | {"simulated": {}, "data": {}}
    with ThreadPoolExecutor(options.jobs) as pool:
        if "simulated" in options.tables:
            ends = np.linspace(0, options.replications, 9).round().astype(int)
            for num_columns in options.columns:
                for num_rows in options.rows:
                    cases = [("simulated", num_rows, num_columns, *ends[k : k + 2]) for k in range(8)]
                    parts = pool.map(lambda case: in_new_process(*case), cases)
                    found = [each for part in parts for each in part]
                    result["simulated"][f"{num_rows} {num_columns}"] = found
                    print_coverage(num_rows, num_columns, found)
        if "data" in options.tables:
            for name, likelihood in DATA:
                both = {}
                for how in ("evidence", "average"):
                    both[how] = [in_new_process("data", name, likelihood, seed, how) for seed in range(5)]
                    means = {key: np.mean([each[key] for each in both[how]]) for key in ("nll", "seconds")}
                    covered = np.mean([each.get("coverage", np.nan) for each in both[how]])
                    print(
                        f"{name:<16}{likelihood:<10}{how:<10}NLL {means['nll']:8.4f}  coverage {covered:.3f}  "
                        f"{means['seconds']:.1f} s, {max(each['seconds'] for each in both[how]):.1f} s at most",
                        flush=True,
                    )
                result["data"][f"{name} {likelihood}"] = both
    if options.out:
        options.out.write_text(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
