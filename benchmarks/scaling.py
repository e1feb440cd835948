"""How time grows with rows, coordinates, particles and devices, each varied by itself, as slopes on log-log axes.

python -m benchmarks.scaling --out scaling.json --plot scaling.png [--only rows coordinates particles devices]

* rows: Gaussian noise and 64 coordinates, rows made by an iterator that is read as a stream, N from 10³ to 10⁷.
* coordinates: Gaussian noise and 20,000 rows in memory, M from 16 to 4096: features, normal matrix, 100 draws.
* particles: a step of Euler-Maruyama, 2000 labels, 64 coordinates, J from 1 to 10⁴.
* devices: a step of MALA, 100,000 labels, 64 coordinates, 64 chains, rows on 1 to 8 devices. On a CPU these are forced
  ones that share its cores, so that they show what sharing costs, and no gain beyond the number of cores.

Hyperparameters are known. Each size runs once to compile and then `--repeats` times, of which the fastest counts; the
largest streams run once, after smaller ones have compiled. Slopes are fitted to the three largest sizes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import kosambi as ko
from benchmarks.steps import Kosambi, problem, seconds_a_step
from reproduction.store import describe

ROWS = tuple(10**k for k in range(3, 8))
COORDINATES = (16, 64, 256, 1024, 4096)
PARTICLES = (1, 10, 100, 1000, 10_000)
DEVICES = (1, 2, 4, 8)
COLUMNS, NOISE, AT_ONCE, IN_MEMORY, LABELS, ON_DEVICES = 8, 0.3, 50_000, 20_000, 2000, 100_000
UNITS = {"rows": "seconds", "coordinates": "seconds", "particles": "ms a step", "devices": "ms a step"}
KERNEL = ko.kernels.Matern52(lengthscale=np.full(COLUMNS, 3.0))


def made(number: int, seed: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Rows and a smooth function of them with noise."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(number, COLUMNS))
    return x, np.sin(x[:, 0] + x[:, 1]) + 0.5 * x[:, 2] + NOISE * generator.normal(size=number)


def of_rows(number: int) -> Callable[[], float]:
    def blocks() -> Any:
        for start in range(0, number, AT_ONCE):
            yield made(min(AT_ONCE, number - start), [start])

    def once() -> float:
        source = ko.sources.BlockSource(blocks)
        began = time.perf_counter()
        ko.infer(jax.random.key(0), KERNEL, ko.likelihoods.Gaussian(NOISE), source, num_inducing=64)
        return time.perf_counter() - began

    return once


def of_coordinates(number: int) -> Callable[[], float]:
    x, y = made(IN_MEMORY, [0])
    points = made(number, [1])[0]

    def once() -> float:
        began = time.perf_counter()
        target = ko.Target(ko.PointBasis(ko.GaussianProcess(KERNEL), points), ko.likelihoods.Gaussian(NOISE), x, y)
        ko.sample(jax.random.key(0), target)
        return time.perf_counter() - began

    return once


def of_particles(number: int) -> Callable[[], float]:
    runner = Kosambi(problem(LABELS, 64), number, "float64")
    steps = int(np.clip(400_000 / (number + 100), 33, 2000))

    def once() -> float:
        return 1e3 * float(np.min(seconds_a_step({"kosambi": runner}, steps, repeats=1)["kosambi"]))

    return once


def of_devices(number: int) -> Callable[[], float]:
    x, f = made(ON_DEVICES, [0])
    y = (np.random.default_rng(1).uniform(size=len(f)) < 1.0 / (1.0 + np.exp(-2.0 * f))).astype(float)
    basis = ko.PointBasis(ko.GaussianProcess(KERNEL), made(64, [1])[0])
    target = ko.Target(basis, ko.likelihoods.Bernoulli(), x, y)
    mesh = ko.parallel.mesh(rows=number)

    def once() -> float:
        report = ko.sample(jax.random.key(0), target, num_particles=64, mesh=mesh)[1]
        return 1e3 * (report.seconds - report.compile_seconds) / report.gradient_evaluations

    return once


SWEEPS: dict[str, tuple[tuple[int, ...], Callable[[int], Callable[[], float]]]] = {
    "rows": (ROWS, of_rows),
    "coordinates": (COORDINATES, of_coordinates),
    "particles": (PARTICLES, of_particles),
    "devices": (DEVICES, of_devices),
}


def measured(name: str, size: int, repeats: int) -> float:
    once = SWEEPS[name][1](size)
    with warnings.catch_warnings():
        # Steps that are too few or too small to converge: their time is the point.
        warnings.simplefilter("ignore", ko.errors.ConvergenceWarning)
        first = once()
        is_long = name == "rows" and size > 10**5
        return first if is_long else min(once() for _ in range(repeats))


def in_new_process(name: str, size: int, repeats: int) -> float:
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={size}"
    environment = os.environ | ({"XLA_FLAGS": flags} if jax.default_backend() == "cpu" else {})
    command = [sys.executable, "-m", "benchmarks.scaling", "--one", name, str(size), str(repeats)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout.splitlines()[-1])


def slope(found: dict[int, float]) -> float:
    """Of log time over log size, over the three largest sizes."""
    sizes = sorted(found)[-3:]
    return float(np.polyfit(np.log(sizes), np.log([found[size] for size in sizes]), 1)[0])


def draw(curves: dict[str, dict[int, float]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.0 * len(curves), 2.9), layout="constrained")
    for axes, (name, found) in zip(np.atleast_1d(figure.subplots(1, len(curves))), curves.items(), strict=True):
        axes.loglog(list(found), list(found.values()), "o-")
        axes.set(xlabel=name, ylabel=UNITS[name], title=f"slope {slope(found):.2f}")
        axes.grid(which="both", alpha=0.3)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--only", nargs="+", default=list(SWEEPS), choices=list(SWEEPS))
    parser.add_argument("--most", type=int, default=max(ROWS), help="rows of the largest stream")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(measured(options.one[0], int(options.one[1]), int(options.one[2])))
        return
    curves: dict[str, dict[int, float]] = {}
    for name in options.only:
        sizes = [size for size in SWEEPS[name][0] if name != "rows" or size <= options.most]
        curves[name] = {}
        for size in sizes:
            measure = in_new_process if name == "devices" else measured
            curves[name][size] = measure(name, size, options.repeats)
            print(f"{name:<12}{size:>10}  {curves[name][size]:10.4g} {UNITS[name]}", flush=True)
        print(f"{name}: slope {slope(curves[name]):.2f}", flush=True)
    if options.plot:
        draw(curves, options.plot)
    if options.out:
        result = {"curves": curves, "slopes": {name: slope(found) for name, found in curves.items()}, **describe()}
        options.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
