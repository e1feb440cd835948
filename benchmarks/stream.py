"""Many rows from a source: held in memory with neighbours, or read in blocks with coordinates alone; and their memory.

    python -m benchmarks.stream --task gaussian bernoulli --rows 1000000 --memory 6GB
    python -m benchmarks.stream --task gaussian --rows 1000000 --inducing 384 --memory 4GB
    python -m benchmarks.stream --task covtype --memory 2GB none

* gaussian, bernoulli: rows in 8 columns, made by an iterator. The error is that of the predicted function, or of the
  predicted probability, against the truth that made the rows, on 5,000 new inputs.
* covtype: nine tenths of its rows (two classes, 54 columns) in a Parquet file of row groups of 65,536, written into a
  temporary folder; 4,000 others are predicted.

Each fit is a new process, with one limit of memory after the other, or `none`. What a number of inducing points, or
`--neighbors 0`, asks for are coordinates.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import kosambi as ko

PER_BLOCK, GROUP = 50_000, 65_536
NOISE = 0.5


def truth(x):
    """A function of five of eight columns."""
    return 2.0 * np.sin(x[:, 0] + x[:, 1]) + x[:, 2] * x[:, 3] / (1.0 + x[:, 2] ** 2) + np.cos(2.0 * x[:, 4])


def probability(x):
    return 1.0 / (1.0 + np.exp(-truth(x)))


def source(task: str, rows: int) -> Any:
    """Rows that are made anew at every pass."""

    def blocks():
        for number, start in enumerate(range(0, rows, PER_BLOCK)):
            generator = np.random.default_rng([7, number])
            x = generator.normal(size=(min(PER_BLOCK, rows - start), 8))
            if task == "gaussian":
                yield x, truth(x) + NOISE * generator.normal(size=len(x))
            else:
                yield x, (generator.uniform(size=len(x)) < probability(x)).astype(float)

    return ko.sources.BlockSource(blocks, name=f"{rows:,} synthetic rows")


def write_covtype(folder: Path, rows: int) -> None:
    """The training rows as a Parquet file, at most `rows` of them, and the test rows as arrays."""
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    from benchmarks.learning import rows_of

    x, y = rows_of("covtype")
    order = np.random.default_rng(0).permutation(len(y))
    number = int(0.9 * len(y))
    train, test = order[: min(rows, number)], order[number : number + 4000]
    columns = {f"column{d}": x[train, d] for d in range(x.shape[1])}
    parquet.write_table(arrow.table(columns | {"y": y[train]}), folder / "train.parquet", row_group_size=GROUP)
    np.savez(folder / "test.npz", x=x[test], y=y[test])


def run(task: str, rows: int, inducing: Any, neighbors: Any, memory: str | None, folder: str) -> dict[str, Any]:
    """One fit, in this process."""
    data = ko.sources.ParquetSource(f"{folder}/train.parquet", target="y") if folder else source(task, rows)
    kind = ko.ProjectedLangevinRegressor if task == "gaussian" else ko.ProjectedLangevinClassifier
    began = time.perf_counter()
    fitted = kind(n_inducing=inducing, n_neighbors=neighbors).fit(data, max_memory=memory)
    seconds = time.perf_counter() - began
    stream, report, posterior = fitted.report_.stream, fitted.report_, fitted.posterior_
    found = {
        "task": task,
        "rows": stream.num_rows,
        "memory": memory,
        "is_held": stream.is_held,
        "reason": stream.reason,
        "points": int(posterior.basis.size),
        "neighbors": int(posterior.target.num_neighbors or 0),
        "seconds": round(seconds, 1),
        "seconds_a_pass": round(stream.seconds / stream.passes, 2),
        "passes": stream.passes,
        "sample": stream.sample_rows,
        "block": stream.block_rows,
        "pareto_k": round(stream.pareto_k, 3),
        "effective_draws": round(stream.effective_draws, 1),
        "steps_over_all_rows": stream.steps,
        "converged": bool(report.converged),
        "peak_gb_of_the_fit": round(stream.peak_memory / 1e9, 3),
    }
    if folder:
        with np.load(f"{folder}/test.npz") as test:
            x, y = test["x"], test["y"]
        chance = fitted.predict_proba(x)[:, 1]
        is_one = y == fitted.classes_[1]
        found["log_loss"] = float(-np.mean(np.log(np.where(is_one, chance, 1.0 - chance))))
        found["error"] = float(np.mean((chance > 0.5) != is_one))
    else:
        x = np.random.default_rng(1).normal(size=(5000, 8))
        is_gaussian = task == "gaussian"
        error = fitted.predict(x) - truth(x) if is_gaussian else fitted.predict_proba(x)[:, 1] - probability(x)
        found["error_rms"] = float(np.sqrt(np.mean(error**2)))
    return found | {"peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, 3)}


def in_new_process(*case: Any) -> dict[str, Any]:
    """What `run` finds, in a process whose memory is that of this fit."""
    command = [sys.executable, "-m", "benchmarks.stream", "--one", json.dumps(case)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])


def _number(value: str) -> Any:
    return int(value) if value.isdecimal() else value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000], help="of covtype, at most")
    parser.add_argument("--task", nargs="+", choices=["gaussian", "bernoulli", "covtype"], default=["gaussian"])
    parser.add_argument("--inducing", type=_number, default="auto")
    parser.add_argument("--neighbors", type=_number, default="auto")
    parser.add_argument("--memory", nargs="+", default=["4GB"], help="such as 2GB, or none")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(run(*json.loads(given.one))))
        return
    for task in given.task:
        with tempfile.TemporaryDirectory() as folder:
            for rows in given.rows:
                if task == "covtype":
                    write_covtype(Path(folder), rows)
                for memory in given.memory:
                    limit, place = None if memory == "none" else memory, folder if task == "covtype" else ""
                    case = task, rows, given.inducing, given.neighbors, limit, place
                    print(json.dumps(in_new_process(*case)), flush=True)


if __name__ == "__main__":
    main()
