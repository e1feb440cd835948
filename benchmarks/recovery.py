"""Are the hyperparameters found that data were simulated from? Errors in units of their standard errors.

python -m benchmarks.recovery --out recovery.json [--rows 1000] [--seeds 10] [--only student_t poisson]

x is uniform on the unit square, f is drawn from a Matérn-5/2 process, and y from each likelihood; N = 1000. The
standard error of a parameter is from the curvature of what was maximised, by central differences of its gradient in the
free numbers (logarithms of positive parameters), without the weak prior. A seed counts as found when every lengthscale,
and every parameter of the likelihood that is like a noise, lies within 2.5 standard errors of the truth.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np

import kosambi as ko
from kosambi._core.progress import Progress
from kosambi.learning.layout import Model, lay_out
from kosambi.learning.search import Record
from kosambi.learning.task import Task
from kosambi.learning.without_points import WithoutPoints
from reproduction.store import describe

lk = ko.likelihoods
LENGTHSCALES, LIMIT = (0.15, 0.4), 2.5
# Another start than the truth, so that nothing is found because it was given.
CASES: dict[str, tuple[Any, Any, float]] = {
    "gaussian": (lk.Gaussian(0.3), lk.Gaussian(1.0), 1.0),
    "student_t": (lk.StudentT(4.0, 0.3), lk.StudentT(6.0, 1.0), 1.0),
    "laplace": (lk.Laplace(0.3), lk.Laplace(1.0), 1.0),
    "bernoulli": (lk.Bernoulli(), lk.Bernoulli(), 4.0),
    "probit": (lk.Bernoulli(link="probit"), lk.Bernoulli(link="probit"), 4.0),
    "poisson": (lk.Poisson(), lk.Poisson(), 1.0),
    "negative_binomial": (lk.NegativeBinomial(0.3), lk.NegativeBinomial(1.0), 1.0),
    "zero_inflated": (lk.ZeroInflatedPoisson(0.3), lk.ZeroInflatedPoisson(0.1), 1.0),
    "gamma": (lk.Gamma(4.0), lk.Gamma(1.0), 1.0),
    "ordinal": (lk.Ordinal([-1.0, 0.0, 1.0]), lk.Ordinal([-2.0, 0.0, 2.0]), 4.0),
    "categorical": (lk.Categorical(3), lk.Categorical(3), 4.0),
    "heteroscedastic": (lk.HeteroscedasticGaussian(), lk.HeteroscedasticGaussian(), 1.0),
}


def simulate(name: str, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, Model]:
    """Inputs, observations, and what they were drawn from."""
    truth, _, variance = CASES[name]
    generator = np.random.default_rng(seed)
    x = generator.uniform(size=(rows, 2))
    kernel = ko.kernels.Matern52(np.array(LENGTHSCALES), variance)
    root = np.linalg.cholesky(np.asarray(kernel(x)) + 1e-9 * variance * np.eye(rows))
    f = root @ generator.normal(size=(rows, truth.num_latents))
    y = truth.draw(jax.random.key(seed), f[:, 0] if truth.num_latents == 1 else f)
    return x, np.asarray(y), Model(kernel, np.asarray(0.0), truth)


def errors(name: str, rows: int, seed: int) -> dict[str, Any]:
    """Each free number that was learned, minus the truth, over its standard error."""
    x, y, truth = simulate(name, rows, seed)
    start = ko.kernels.Matern52(np.array([1.0, 1.0]), 1.0)
    began = time.perf_counter()
    kernel, likelihood, report = ko.fit_hyperparameters(jax.random.key(seed), start, CASES[name][1], x, y)
    seconds = time.perf_counter() - began
    model = Model(kernel, np.asarray(0.0), likelihood)
    layout = lay_out(model, ["mean"])
    with jax.enable_x64(True), Progress(False) as show:
        prior = ko.GaussianProcess(kernel)
        record = Record(show=show)
        task = Task(np.random.default_rng(seed), prior, likelihood, x, y, None, layout, 100, 2, record, show)
        strategy = WithoutPoints(task)
        objective = strategy.evaluator(strategy.rows(model), model, None)
        free, true = layout.vector(model), layout.vector(truth)
        curvature = second_derivatives(objective, free)
    # A direction in which the evidence is flat has no standard error: it counts as found.
    values, vectors = np.linalg.eigh(curvature)
    deviation = np.sqrt(np.sum(np.square(vectors) / np.maximum(values, 1e-6), axis=1))
    named = [parameter.entry(i) for parameter, i in layout.entries()]
    scores = dict(zip(named, ((free - true) / deviation).tolist(), strict=True))
    counted = {key: score for key, score in scores.items() if "variance" not in key}
    return {
        "likelihood": name,
        "seed": seed,
        "scores": scores,
        "errors": dict(zip(named, (free - true).tolist(), strict=True)),
        "found": all(abs(score) < LIMIT for score in counted.values()),
        "converged": report.converged,
        "strategy": report.strategy,
        "seconds": seconds,
    }


def second_derivatives(objective: Any, at: np.ndarray, step: float = 0.02) -> np.ndarray:
    """The Hessian of minus the log evidence, by central differences of its gradient."""
    rows = []
    for i in range(len(at)):
        move = step * np.eye(len(at))[i]
        rows.append((objective(at + move)[1] - objective(at - move)[1]) / (2.0 * step))
    return 0.5 * (np.array(rows) + np.array(rows).T)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", nargs="+", default=list(CASES), choices=list(CASES))
    options = parser.parse_args()
    result: dict[str, Any] = describe() | {"rows": options.rows, "fits": []}
    for name in options.only:
        found = []
        for seed in range(options.seeds):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found.append(errors(name, options.rows, seed))
        result["fits"] += found
        worst = max(found, key=lambda one: max(map(abs, one["scores"].values())))
        print(
            f"{name:<18}{sum(one['found'] for one in found):>3} of {len(found)} seeds within {LIMIT} standard errors, "
            f"{sum(one['converged'] for one in found)} converged, {np.mean([one['seconds'] for one in found]):.1f} s; "
            "farthest " + ", ".join(f"{key} {score:+.1f}" for key, score in worst["scores"].items()),
            flush=True,
        )
    if options.out:
        options.out.write_text(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
