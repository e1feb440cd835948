"""Time per Euler-Maruyama step, beside a plain eager PyTorch loop with the same precomputed N×M matrix.

python -m benchmarks.steps --out steps.json --plot steps.png

Both draw their own noise and use a Bernoulli cost, so that no Gaussian shortcut helps. Runs take turns, each less that
of a single step, so that neither setting up nor looking for the mode counts. The times are those of the fastest run;
the speed-up is the median over turns, whose two halves meet the same load of the machine.
PyTorch comes with reproduction/requirements.txt; without it only kosambi is timed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import time
import warnings
from pathlib import Path

import jax
import numpy as np

import kosambi as ko
from reproduction.store import describe

SIZES = ((100, 10, 100), (1000, 32, 100), (1000, 100, 100), (10_000, 100, 1000))
STEP = 1e-10


def problem(rows: int, num_inducing: int) -> ko.Target:
    rng = np.random.default_rng(0)
    x = rng.uniform(-3.0, 3.0, (rows, 2))
    y = (rng.uniform(size=rows) < 0.5).astype(float)
    prior = ko.GaussianRandomElement(ko.kernels.Matern32(lengthscale=1.0), ko.measures.empirical(x[:500]))
    basis = ko.NystromBasis(prior, x[:num_inducing])
    return ko.Target(basis, ko.likelihoods.Bernoulli(), x, y)


class Kosambi:
    def __init__(self, target: ko.Target, num_particles: int, precision: str) -> None:
        self.target, self.num_particles, self.precision = target, num_particles, precision

    def seconds(self, num_steps: int) -> tuple[float, float]:
        sampler = ko.samplers.EulerMaruyama(STEP, num_steps)
        with warnings.catch_warnings():
            # Far too few and too small steps to converge: the time of a step is the point.
            warnings.simplefilter("ignore", ko.errors.ConvergenceWarning)
            report = ko.sample(
                jax.random.key(num_steps), self.target, sampler, self.num_particles, precision=self.precision
            )[1]
        return report.seconds, report.compile_seconds


class Torch:
    def __init__(self, target: ko.Target, num_particles: int, precision: str) -> None:
        import torch

        self.torch, self.dtype = torch, getattr(torch, precision)
        self.phi = torch.tensor(target.basis.conditional_mean(target.x), dtype=self.dtype)
        self.y = torch.tensor(target.y, dtype=self.dtype)
        self.precisions = torch.tensor(1.0 / target.basis.eigenvalues, dtype=self.dtype)
        self.num_particles = num_particles

    def seconds(self, num_steps: int) -> tuple[float, float]:
        torch = self.torch
        u = torch.randn(self.num_particles, self.phi.shape[1], dtype=self.dtype)
        scale = (2 * STEP) ** 0.5
        with torch.no_grad():
            start = time.perf_counter()
            for _ in range(num_steps):
                slope = torch.sigmoid(u @ self.phi.T) - self.y
                u = u - STEP * (slope @ self.phi + u * self.precisions) + scale * torch.randn_like(u)
            return time.perf_counter() - start, 0.0


def seconds_a_step(runners: dict[str, object], num_steps: int, repeats: int) -> dict[str, np.ndarray]:
    """Seconds a step of every run, less the fastest run of a single step; in turns, so that noise hits all alike."""
    times: dict[tuple[str, int], list[float]] = {}
    for _ in range(repeats):
        for name, runner in runners.items():
            for count in (1, num_steps):
                times.setdefault((name, count), []).append(runner.seconds(count)[0])  # type: ignore[attr-defined]
    return {name: (np.array(times[name, num_steps]) - min(times[name, 1])) / (num_steps - 1) for name in runners}


def compare(size: tuple[int, int, int], precision: str, budget: float) -> dict[str, object]:
    rows, num_inducing, num_particles = size
    target = problem(rows, num_inducing)
    runners: dict[str, object] = {"kosambi": Kosambi(target, num_particles, precision)}
    with contextlib.suppress(ImportError):
        runners["torch"] = Torch(target, num_particles, precision)
    # A guess of what fits the budget.
    num_steps = int(np.clip(budget / (5e-11 * rows * num_inducing * num_particles + 4e-5), 33, 20_000))
    compile_seconds = max(runner.seconds(num_steps)[1] for runner in runners.values())  # type: ignore[attr-defined]
    times = seconds_a_step(runners, num_steps, repeats=max(8, int(10 / budget) if rows < 10_000 else 8))
    result = {
        "rows": rows,
        "num_inducing": target.basis.size,
        "num_particles": num_particles,
        "precision": precision,
        "num_steps": num_steps,
        "compile_seconds": compile_seconds,
        **{f"{name}_microseconds": 1e6 * float(np.min(seconds)) for name, seconds in times.items()},
    }
    if "torch" in times:
        result["speedup"] = float(np.median(times["torch"] / times["kosambi"]))
    return result


def growth(budget: float) -> dict[str, list[dict[str, float]]]:
    """Cost over N, M and J, each varied by itself as in the paper's figure on complexity."""
    curves: dict[str, list[dict[str, float]]] = {}
    for name, sizes in {
        "N": [(n, 10, 100) for n in (100, 200, 400, 700, 1000)],
        "M": [(100, m, 100) for m in (10, 20, 40, 70, 100)],
        "J": [(100, 10, j) for j in (100, 200, 400, 700, 1000)],
    }.items():
        curves[name] = []
        for size in sizes:
            runner = Kosambi(problem(size[0], size[1]), size[2], "float64")
            steps = int(np.clip(budget / 2e-4, 20, 5000))
            runner.seconds(steps)
            best = np.min(seconds_a_step({"kosambi": runner}, steps, repeats=5)["kosambi"])
            curves[name].append({"value": size["NMJ".index(name)], "microseconds": 1e6 * float(best)})
    return curves


def plot(curves: dict[str, list[dict[str, float]]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(10, 3), sharey=True)
    for axis, (name, points) in zip(axes, curves.items(), strict=True):
        axis.plot([p["value"] for p in points], [p["microseconds"] for p in points], "o-")
        axis.set_xlabel(name)
    axes[0].set_ylim(0, 1.05 * max(p["microseconds"] for points in curves.values() for p in points))
    axes[0].set_ylabel("microseconds a step")
    figure.suptitle("Euler-Maruyama, others at N=100, M=10, J=100")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.4, help="length of one timing")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--plot", type=Path, help="also time the growth over N, M, J and plot it here")
    options = parser.parse_args()
    results = []
    for size in SIZES:
        for precision in ("float64", "float32"):
            results.append(compare(size, precision, options.seconds))
            print(json.dumps(results[-1]), flush=True)
    record: dict[str, object] = {"steps": results, **describe("torch")}
    if options.plot:
        record["growth"] = growth(options.seconds)
        plot(record["growth"], options.plot)  # type: ignore[arg-type]
        print(f"wrote {options.plot}")
    if options.out:
        options.out.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
