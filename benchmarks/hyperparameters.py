"""Learned hyperparameters on real data: test errors and seconds, beside an exact process and the paper's recipe.

python -m benchmarks.hyperparameters --out hyperparameters.json [--tables process element time] [--splits 5]

* process: `GaussianProcess`, Matérn-5/2, a lengthscale for each column, 300 inducing points; beside it an exact
  Gaussian process with the same kernel.
* element: `GaussianRandomElement` with the empirical measure, squared exponential, √N inducing points, fitted by the
  evidence and by the paper's recipe.
* time: a first fit (compilation included) and a second one, on concrete and kin8nm.

80/10/10 splits as in the public code of the paper (the validation tenth is not used); inputs and target standardised
with the training rows. NLL is the mean negative log predictive density of the test rows, MAE that of the predictive
mean; "greedy" is the same model with rows of the data as inducing points. Data as in problems.py.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

import kosambi as ko
from benchmarks import problems
from reproduction.store import describe

PROCESS = ("energy_cooling", "boston", "concrete", "energy_heating")
ELEMENT = ("energy_cooling", "concrete", "boston")


def split(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    from sklearn.model_selection import train_test_split

    x, y = problems.read(name)
    rest, test = train_test_split(np.arange(len(x)), test_size=0.1, random_state=seed)
    train, _ = train_test_split(rest, test_size=1.0 / 9.0, random_state=seed)
    x = (x - x[train].mean(0)) / np.where(x[train].std(0) > 0, x[train].std(0), 1.0)
    y = (y - y[train].mean()) / y[train].std()
    return x[train], y[train], x[test], y[test]


def errors(posterior: ko.Posterior, x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    nll = -float(np.mean(posterior.log_predictive_density(x, y)))
    return nll, float(np.mean(np.abs(y - posterior.predict(x).observation_mean)))


def process(name: str, seed: int) -> dict[str, Any]:
    x, y, x_new, y_new = split(name, seed)
    kernel, noise = ko.kernels.Matern52(np.ones(x.shape[1])), ko.likelihoods.Gaussian()
    key = jax.random.key(seed)
    prior, likelihood, report = ko.fit_hyperparameters(
        key, ko.GaussianProcess(kernel), noise, x, y, num_inducing=min(300, len(x))
    )
    fitted = ko.infer(key, prior, likelihood, x, y, inducing_points=report.inducing_points)
    greedy = ko.infer(key, prior, likelihood, x, y, num_inducing=min(300, len(x)))
    exact_kernel, exact_noise, _ = ko.fit_hyperparameters(key, kernel, noise, x, y, method="paper")
    exact = ko.infer(key, exact_kernel, exact_noise, x, y, inducing_points=x)
    return {
        "evidence": errors(fitted, x_new, y_new),
        "greedy": errors(greedy, x_new, y_new),
        "exact": errors(exact, x_new, y_new),
        "seconds": report.seconds,
        "converged": report.converged,
        "evaluations": report.evaluations,
        "noise": [float(likelihood.noise), float(exact_noise.noise)],
    }


def element(name: str, seed: int) -> dict[str, Any]:
    x, y, x_new, y_new = split(name, seed)
    measure, number = ko.measures.empirical(x), int(np.sqrt(len(x)))
    prior = ko.GaussianRandomElement(ko.kernels.SquaredExponential(np.ones(x.shape[1])), measure)
    key, found = jax.random.key(seed), {}
    for method in ("evidence", "paper"):
        options = {"num_inducing": number} if method == "evidence" else {}
        learned, likelihood, report = ko.fit_hyperparameters(
            key, prior, ko.likelihoods.Gaussian(), x, y, method=method, **options
        )
        points = (
            {"num_inducing": number} if report.inducing_points is None else {"inducing_points": report.inducing_points}
        )
        found[method] = errors(ko.infer(key, learned, likelihood, x, y, **points), x_new, y_new)
        greedy = ko.infer(key, learned, likelihood, x, y, num_inducing=number)
        found[f"{method}_greedy"] = errors(greedy, x_new, y_new)
        found[f"{method}_seconds"] = report.seconds
    return found


def timing(name: str) -> dict[str, Any]:
    x, y, x_new, y_new = split(name, 0)
    key, seconds = jax.random.key(0), []
    for target in (y, y[::-1].copy()):
        began = time.perf_counter()
        prior, likelihood, report = ko.fit_hyperparameters(
            key,
            ko.GaussianProcess(ko.kernels.Matern52(np.ones(x.shape[1]))),
            ko.likelihoods.Gaussian(),
            x,
            target,
            num_inducing=300,
        )
        seconds.append((time.perf_counter() - began, report.compile_seconds))
        if target is y:
            fitted = ko.infer(key, prior, likelihood, x, y, inducing_points=report.inducing_points)
            scores = errors(fitted, x_new, y_new)
    return {"cold": seconds[0], "second_data_set": seconds[1], "errors": scores}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--tables", nargs="+", default=["time", "process", "element"])
    parser.add_argument("--splits", type=int, default=5)
    arguments = parser.parse_args()
    results: dict[str, Any] = {"machine": describe()}
    if "time" in arguments.tables:
        for name in ("concrete", "kin8nm"):
            if not problems.is_available(name):
                print(problems.where_to_get(name))
                continue
            results.setdefault("time", {})[name] = found = timing(name)
            print(
                f"{name:15s} cold {found['cold'][0]:.1f} s ({found['cold'][1]:.1f} s compiling), second data set "
                f"{found['second_data_set'][0]:.1f} s ({found['second_data_set'][1]:.1f} s compiling), "
                f"NLL {found['errors'][0]:.3f}, MAE {found['errors'][1]:.3f}",
                flush=True,
            )
    for table, names, run, columns in (
        ("process", PROCESS, process, ("evidence", "greedy", "exact")),
        ("element", ELEMENT, element, ("evidence", "evidence_greedy", "paper")),
    ):
        for name in names if table in arguments.tables else ():
            if not problems.is_available(name):
                print(problems.where_to_get(name))
                continue
            found = [run(name, seed) for seed in range(arguments.splits)]
            results.setdefault(table, {})[name] = found
            shown = "  ".join(
                f"{column} {np.mean([f[column][0] for f in found]):.3f}/{np.mean([f[column][1] for f in found]):.3f}"
                for column in columns
            )
            took = np.mean([f.get("seconds", f.get("evidence_seconds")) for f in found])
            print(f"{table} {name:15s} {shown}  ({took:.1f} s a fit)", flush=True)
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
