"""Greedy inducing points at N=100,000, D=8, M=316: time beside a plain NumPy loop in the same run, and peak memory.

python -m benchmarks.greedy --out greedy.json
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path

import numpy as np

import kosambi as ko
from reproduction.store import describe


def plain_numpy(x: np.ndarray, num_inducing: int, lengthscale: float) -> np.ndarray:
    """Pivoted Cholesky as one would write it by hand."""
    residual, factor, indices = np.ones(len(x)), np.zeros((num_inducing, len(x))), []
    for m in range(num_inducing):
        pivot = int(np.argmax(residual))
        column = np.exp(-0.5 * np.sum(((x - x[pivot]) / lengthscale) ** 2, axis=1))
        column = (column - factor[:m, pivot] @ factor[:m]) / np.sqrt(residual[pivot])
        factor[m] = column
        indices.append(pivot)
        residual = residual - column**2
        residual[indices] = -np.inf
    return np.array(indices)


def peak_gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--num-inducing", type=int, default=316)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    x = np.random.default_rng(0).normal(size=(arguments.rows, 8))
    kernel = ko.kernels.SquaredExponential(lengthscale=2.0)
    at_start = peak_gigabytes()

    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        ours = ko.inducing.greedy_variance(kernel, x, arguments.num_inducing)
        seconds.append(time.perf_counter() - start)
    memory = peak_gigabytes() - at_start
    start = time.perf_counter()
    theirs = plain_numpy(x, arguments.num_inducing, 2.0)
    numpy_seconds = time.perf_counter() - start

    result = {
        "rows": arguments.rows,
        "num_inducing": arguments.num_inducing,
        "first_call_seconds": seconds[0],
        "second_call_seconds": seconds[1],
        "numpy_seconds": numpy_seconds,
        "ratio_once_compiled": seconds[1] / numpy_seconds,
        "peak_gigabytes_above_start": memory,
        "same_set": set(ours.tolist()) == set(theirs.tolist()),
        **describe(),
    }
    print(json.dumps(result, indent=2))
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
