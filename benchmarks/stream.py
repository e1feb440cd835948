"""A synthetic stream of many rows in 8 columns, with Gaussian noise and with labels, beside a fit of fewer rows.

    python -m benchmarks.stream --rows 1000000 --task gaussian --inducing 256 --memory 4GB

Rows are made by an iterator and never all held. The error is that of the predicted function, or of the predicted
probability, against the truth that made the rows, on 5,000 new inputs.
"""

from __future__ import annotations

import argparse
import json
import resource
import time

import numpy as np

import kosambi as ko

PER_BLOCK = 50_000
NOISE = 0.5


def truth(x):
    """A function of five of eight columns."""
    return 2.0 * np.sin(x[:, 0] + x[:, 1]) + x[:, 2] * x[:, 3] / (1.0 + x[:, 2] ** 2) + np.cos(2.0 * x[:, 4])


def probability(x):
    return 1.0 / (1.0 + np.exp(-truth(x)))


def source(task, rows):
    def blocks():
        for number, start in enumerate(range(0, rows, PER_BLOCK)):
            generator = np.random.default_rng([7, number])
            x = generator.normal(size=(min(PER_BLOCK, rows - start), 8))
            if task == "gaussian":
                yield x, truth(x) + NOISE * generator.normal(size=len(x))
            else:
                yield x, (generator.uniform(size=len(x)) < probability(x)).astype(float)

    return ko.sources.BlockSource(blocks, name=f"{rows:,} synthetic rows")


def run(task, rows, inducing, memory):
    model = ko.ProjectedLangevinRegressor if task == "gaussian" else ko.ProjectedLangevinClassifier
    began = time.perf_counter()
    fitted = model(n_inducing=inducing).fit(source(task, rows), max_memory=memory)
    seconds = time.perf_counter() - began
    x = np.random.default_rng(1).normal(size=(5000, 8))
    is_gaussian = task == "gaussian"
    error = fitted.predict(x) - truth(x) if is_gaussian else fitted.predict_proba(x)[:, 1] - probability(x)
    stream, report = fitted.report_.stream, fitted.report_
    return {
        "task": task,
        "rows": rows,
        "coordinates": int(fitted.posterior_.basis.size),
        "seconds": round(seconds, 1),
        "seconds_a_pass": round(stream.seconds / stream.passes, 2),
        "passes": stream.passes,
        "sample": stream.sample_rows,
        "block": stream.block_rows,
        "pareto_k": round(stream.pareto_k, 3),
        "effective_draws": round(stream.effective_draws, 1),
        "steps_over_all_rows": stream.steps,
        "converged": bool(report.converged),
        "error_rms": float(np.sqrt(np.mean(error**2))),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, 2),
        "log_evidence_a_row": float(fitted.posterior_.log_evidence) / rows,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--task", choices=["gaussian", "bernoulli"], default="gaussian")
    parser.add_argument("--inducing", default="auto")
    parser.add_argument("--memory", default="4GB")
    given = parser.parse_args()
    number = int(given.inducing) if given.inducing.isdecimal() else given.inducing
    for each in given.rows:
        print(json.dumps(run(given.task, each, number, given.memory)), flush=True)
