"""The scikit-learn estimators with their defaults on real data: errors, and seconds from a cold start.

python -m benchmarks.estimators --out estimators.json [--tables errors time classes counts] [--splits 5]

* errors: `ProjectedLangevinRegressor()` beside an exact Gaussian process with the same kernel (Matérn-5/2, a
  lengthscale for each column) fitted by its marginal likelihood; five 80/10/10 splits of the protocol, NLL and MAE of
  the standardised target.
* time: a first fit (compilation included), a second one of the same shape, concrete and kin8nm.
* classes: digits and iris, a fifth held out, beside scikit-learn's logistic regression and Gaussian process.
* counts: coal_yearly and bike_hour (2,000 rows), a fifth held out: mean log probability of a count.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import kosambi as ko
from benchmarks import problems
from benchmarks.hyperparameters import PROCESS, errors, split
from kosambi import ProjectedLangevinClassifier, ProjectedLangevinRegressor
from reproduction.store import describe


def regression(name: str, seed: int) -> dict[str, Any]:
    x, y, x_new, y_new = split(name, seed)
    began = time.perf_counter()
    model = ProjectedLangevinRegressor(random_state=seed).fit(x, y)
    seconds = time.perf_counter() - began
    density = model.predict_log_density(x_new, y_new)
    kernel, noise, _ = ko.fit_hyperparameters(
        jax.random.key(seed), ko.kernels.Matern52(np.ones(x.shape[1])), ko.likelihoods.Gaussian(), x, y, method="paper"
    )
    exact = ko.infer(jax.random.key(seed), kernel, noise, x, y, inducing_points=x)
    return {
        "kosambi": (-float(np.mean(density)), float(np.mean(np.abs(model.predict(x_new) - y_new)))),
        "exact": errors(exact, x_new, y_new),
        "M": model.posterior_.basis.size,
        "N": len(y),
        "seconds": seconds,
        "coverage": float(np.mean(_covered(model, x_new, y_new))),
    }


def _covered(model: ProjectedLangevinRegressor, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    lower, upper = model.predict_interval(x, 0.95)
    return (lower <= y) & (y <= upper)


def timing(name: str) -> dict[str, Any]:
    seconds, compiling = [], []
    for seed in (0, 1):
        x, y, x_new, y_new = split(name, seed)
        began = time.perf_counter()
        model = ProjectedLangevinRegressor().fit(x, y)
        seconds.append(time.perf_counter() - began)
        compiling.append(model.fit_report_.compile_seconds + model.report_.compile_seconds)
    score = -float(np.mean(model.predict_log_density(x_new, y_new)))
    return {"seconds": seconds, "compiling": compiling, "M": model.posterior_.basis.size, "nll": score}


def classes(name: str) -> dict[str, Any]:
    from sklearn import datasets
    from sklearn.gaussian_process import GaussianProcessClassifier
    from sklearn.gaussian_process.kernels import RBF
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss
    from sklearn.model_selection import train_test_split
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    data = getattr(datasets, f"load_{name}")()
    x, x_new, y, y_new = train_test_split(data.data, data.target, test_size=0.2, random_state=0, stratify=data.target)
    start = RBF(np.sqrt(x.shape[1]))
    models: dict[str, Callable[[], Any]] = {
        "kosambi": ProjectedLangevinClassifier,
        "logistic regression": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
        "scikit-learn's Gaussian process": lambda: make_pipeline(
            StandardScaler(), GaussianProcessClassifier(1.0 * start, random_state=0)
        ),
    }
    found = {}
    for label, make in models.items():
        began = time.perf_counter()
        model = make().fit(x, y)
        seconds = time.perf_counter() - began
        table = model.predict_proba(x_new)
        found[label] = {
            "accuracy": float(np.mean(model.classes_[np.argmax(table, axis=1)] == y_new)),
            "log_loss": float(log_loss(y_new, table)),
            "seconds": seconds,
        }
    return found


def counts(name: str) -> dict[str, Any]:
    from scipy import stats
    from sklearn.model_selection import train_test_split

    x, y = problems.read(name)
    rows = np.random.default_rng(0).permutation(len(x))[:2000]
    x, x_new, y, y_new = train_test_split(x[rows], y[rows], test_size=0.2, random_state=0)
    found: dict[str, Any] = {"constant rate": float(np.mean(stats.poisson.logpmf(y_new, y.mean())))}
    for likelihood in ("poisson", "negative_binomial"):
        began = time.perf_counter()
        model = ProjectedLangevinRegressor(likelihood).fit(x, y)
        found[likelihood] = {
            "log_probability": float(np.mean(model.predict_log_density(x_new, y_new))),
            "coverage": float(np.mean(_covered(model, x_new, y_new))),
            "seconds": time.perf_counter() - began,
            "M": model.posterior_.basis.size,
            "converged": model.report_.converged,
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--tables", nargs="+", default=["time", "errors", "classes", "counts"])
    parser.add_argument("--splits", type=int, default=5)
    arguments = parser.parse_args()
    results: dict[str, Any] = {"machine": describe("scikit-learn")}
    runs: dict[str, tuple[tuple[str, ...], Callable[[str], Any]]] = {
        "time": (("concrete", "kin8nm"), timing),
        "errors": (PROCESS, lambda name: [regression(name, seed) for seed in range(arguments.splits)]),
        "classes": (("iris", "digits"), classes),
        "counts": (("coal_yearly", "bike_hour"), counts),
    }
    for table in arguments.tables:
        names, run = runs[table]
        for name in names:
            if table != "classes" and not problems.is_available(name):
                print(problems.where_to_get(name))
                continue
            results.setdefault(table, {})[name] = found = run(name)
            if table == "errors":
                means = {c: np.mean([f[c] for f in found], axis=0) for c in ("kosambi", "exact")}
                gaps = [f["kosambi"][0] - f["exact"][0] for f in found]
                print(
                    f"{name:15s} kosambi {means['kosambi'][0]:.3f}/{means['kosambi'][1]:.3f}  exact "
                    f"{means['exact'][0]:.3f}/{means['exact'][1]:.3f}  gap {np.mean(gaps):.3f} (to {max(gaps):.3f})"
                    f"  M {[f['M'] for f in found]}  coverage {np.mean([f['coverage'] for f in found]):.3f}",
                    flush=True,
                )
            else:
                print(table, name, json.dumps(found), flush=True)
            if arguments.out is not None:
                arguments.out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
