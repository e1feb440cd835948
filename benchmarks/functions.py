"""What posterior draws cost: time over the number of points, against a joint Cholesky factorisation, and memory.

python -m benchmarks.functions --out functions.json

The factorisation is the usual way to joint draws at N* points: the covariance φCov(u)φᵀ + Σ, its Cholesky factor, and
one product. Both are timed in turns in one run, compiled; the times are medians, and the speed-up is the median over
turns. Memory is the growth of the process beyond the result, while a million points are evaluated.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import kosambi as ko
from reproduction.store import describe

KERNELS = {
    "SquaredExponential": ko.kernels.SquaredExponential(0.4),
    "Matern52": ko.kernels.Matern52(0.4),
    "Matern32": ko.kernels.Matern32(0.4),
}


def posterior(kernel: ko.kernels.AbstractKernel | ko.priors.AbstractPrior, columns: int = 1) -> ko.Posterior:
    rng = np.random.default_rng(0)
    x = rng.uniform(-3.0, 3.0, (1000, columns))
    y = np.sin(2.0 * x[:, 0]) + 0.3 * rng.normal(size=1000)
    return ko.infer(jax.random.key(0), kernel, ko.likelihoods.Gaussian(0.3), x, y, num_inducing=32, num_particles=100)


def cholesky_route(fitted: ko.Posterior, x: np.ndarray) -> Callable[[], object]:
    basis, law = fitted.basis, fitted.particles.distribution

    @jax.jit
    def draw(x: jax.Array, noise: jax.Array) -> jax.Array:
        psi = basis.whitened_weights(x)
        residual = basis.prior.pairwise(x, x) - psi @ psi.T
        spread = psi @ law.root
        covariance = residual + spread @ spread.T + 1e-8 * jnp.eye(x.shape[0])
        return (psi @ law.mean)[None] + noise @ jnp.linalg.cholesky(covariance).T

    noise = np.random.default_rng(1).normal(size=(100, x.shape[0]))

    def run() -> object:
        with jax.enable_x64(True):
            return np.asarray(draw(jnp.asarray(x), jnp.asarray(noise)))

    return run


def seconds(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, np.ndarray]:
    """Seconds of every call, in turns, after one that compiles."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return {name: np.array(values) for name, values in times.items()}


def against_cholesky(repeats: int = 9) -> list[dict[str, object]]:
    x = np.linspace(-3.5, 3.5, 3000)[:, None]
    rows = []
    for name, kernel in KERNELS.items():
        fitted = posterior(kernel)
        draws = fitted.functions(jax.random.key(1))
        times = seconds({"draws": lambda d=draws: d(x), "cholesky": cholesky_route(fitted, x)}, repeats)
        rows.append(
            {
                "kernel": name,
                "points": 3000,
                "draws_seconds": float(np.median(times["draws"])),
                "cholesky_seconds": float(np.median(times["cholesky"])),
                "speedup": float(np.median(times["cholesky"] / times["draws"])),
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    return rows


def growth(repeats: int = 7) -> list[dict[str, object]]:
    """Ten times the points, for either prior."""
    support = np.random.default_rng(2).uniform(-3.0, 3.0, (1000, 1))
    element = ko.GaussianRandomElement(ko.kernels.Matern52(0.4, 3.0), ko.measures.empirical(support))
    rows = []
    for name, prior in (("GaussianProcess", KERNELS["Matern52"]), ("GaussianRandomElement", element)):
        draws = posterior(prior).functions(jax.random.key(1))
        sizes = (3000, 30_000)
        grids = {str(size): np.linspace(-3.0, 3.0, size)[:, None] for size in sizes}
        times = seconds({size: lambda d=draws, g=grid: d(g) for size, grid in grids.items()}, repeats)
        ratio = float(np.median(times["30000"] / times["3000"]))
        rows.append({"prior": name, **{s: float(np.median(t)) for s, t in times.items()}, "ratio": ratio})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def memory(num_points: int = 1_000_000) -> dict[str, object]:
    """Peak memory beyond the result while a million points are evaluated."""
    draws = posterior(KERNELS["Matern52"]).functions(jax.random.key(1))
    x = np.linspace(-3.5, 3.5, num_points)[:, None]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    values = draws(x)
    taken = time.perf_counter() - start
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    row = {
        "points": num_points,
        "draws": draws.num_draws,
        "seconds": taken,
        "result_gigabytes": values.nbytes / 1e9,
        "beyond_result_gigabytes": (grown - values.nbytes) / 1e9,
    }
    print(json.dumps(row), flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    # Memory first: it is measured by the peak of the process.
    record = {"memory": memory(), "cholesky": against_cholesky(), "growth": growth(), **describe()}
    if options.out:
        options.out.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
