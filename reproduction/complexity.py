"""`python -m reproduction complexity`: seconds over the number of data, inducing points and particles.

Curve 1 with noise 0.2 and GPyTorch's kernel before learning, as in the paper. Timed are

* kosambi: prior, Nyström basis, target and ten Euler-Maruyama steps of `kosambi.sample`, which also looks for the mode
  before and judges convergence after them, all compiled before; what compiling took is told apart. A step by itself is
  the difference between a longer and a shorter run.
* SVGP: GPyTorch's model with kernel r, and ten full-batch steps.

Methods take turns, so that other load of the machine meets all alike, and medians are kept.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import kosambi as ko
from kosambi._core.progress import Clock
from reproduction import curves
from reproduction._distances import power_law
from reproduction._svgp_steps import svgp_times
from reproduction.experiment import Cell, Experiment, Found, Scale

DEFAULTS = {"N": 100, "M": 10, "J": 100}
NUM_STEPS = 10
STEP_SIZE = 1e-10
NOISE = 0.1
REPEATS = 10
FEW = {"N": [100, 200, 400, 1000, 10_000], "M": [10, 20, 40, 100], "J": [100, 200, 400, 1000]}
MANY = {
    "N": [*range(100, 1001, 100), 2000, 5000, 10_000],
    "M": list(range(10, 101, 10)),
    "J": list(range(100, 1001, 100)),
}
METHODS: dict[str, tuple[Callable[..., Any], Any]] = {
    "kosambi": (ko.kernels.SquaredExponential, ko.likelihoods.Gaussian(NOISE)),
    # With normal noise the data enter a step by an M×M matrix, made once; with any other they are all looked at.
    "kosambi, Student-t": (ko.kernels.SquaredExponential, ko.likelihoods.StudentT(4.0, NOISE)),
    # The smooth kernel makes all but some twenty points dependent, which are dropped; of this one every point is kept.
    "kosambi, rough kernel": (ko.kernels.Matern12, ko.likelihoods.Gaussian(NOISE)),
}
ON_AXIS = {"N": ["kosambi", "kosambi, Student-t"], "M": ["kosambi", "kosambi, rough kernel"], "J": ["kosambi"]}


class _Run(NamedTuple):
    """Seconds of one run of kosambi."""

    total: float
    sampling: float
    compiling: float
    kept: int


def cells(scale: Scale) -> list[Cell]:
    """One cell an axis, in which all methods take turns."""
    values = FEW if scale.quick else MANY
    found = []
    for axis in DEFAULTS:
        settings = {"axis": axis, "values": values[axis], "repeats": REPEATS}
        found.append(Cell(axis, grow, {**settings, "rival": True}, needs=("gpytorch",)))
    return found


def grow(axis: str, values: list[int], repeats: int, rival: bool) -> dict[str, Any]:
    """Times along one axis, the other sizes at their defaults."""
    methods = ON_AXIS[axis]
    points: dict[str, list[dict[str, Any]]] = {name: [] for name in [*methods, *(["SVGP"] if rival else [])]}
    for value in values:
        size = {**DEFAULTS, axis: value}
        x = curves.grid(size["N"])
        y = curves.regression(1, size["N"])
        inducing = x[np.linspace(0, size["N"] - 1, size["M"]).round().astype(int)]
        seen: dict[str, list[Any]] = {name: [] for name in points}
        compiling = {name: _run(name, x, y, inducing, size["J"], NUM_STEPS).compiling for name in methods}
        if rival:
            svgp_times(x, y, inducing, 1, NOISE)
        for _ in range(repeats):
            for name in methods:
                short = _run(name, x, y, inducing, size["J"], NUM_STEPS)
                more = _enough_steps(name, size)
                long = _run(name, x, y, inducing, size["J"], NUM_STEPS + more)
                seen[name].append((short.total, (long.sampling - short.sampling) / more, short.kept))
            if rival:
                times = svgp_times(x, y, inducing, NUM_STEPS, NOISE)
                seen["SVGP"].append((times.build + times.steps, times.steps / NUM_STEPS, size["M"]))
        for name, runs in seen.items():
            totals, steps, kept = (np.array(column) for column in zip(*runs, strict=True))
            points[name].append(
                {
                    "value": value,
                    "total": float(np.median(totals)),
                    "totals": np.round(totals, 6),
                    "step": float(np.median(steps)),
                    "kept": int(kept[0]),
                    "compiling": compiling.get(name, 0.0),
                }
            )
    return {"axis": axis, "points": points}


def _enough_steps(name: str, size: dict[str, int]) -> int:
    """Further steps that take about a twentieth of a second, so that they stand out from the rest of a run."""
    rows = size["M"] if isinstance(METHODS[name][1], ko.likelihoods.Gaussian) else size["N"]
    guess = 1e-10 * rows * size["M"] * size["J"] + 3e-5
    return int(np.clip(0.05 / guess, 10, 1000))


def _run(name: str, x: np.ndarray, y: np.ndarray, inducing: np.ndarray, num_particles: int, num_steps: int) -> _Run:
    began, clock = time.perf_counter(), Clock()
    kernel, likelihood = METHODS[name]
    prior = ko.GaussianRandomElement(kernel(lengthscale=0.693, variance=0.693), ko.measures.empirical(inducing))
    target = ko.Target(ko.NystromBasis(prior, inducing), likelihood, x, y)
    sampler = ko.samplers.EulerMaruyama(STEP_SIZE, num_steps)
    with warnings.catch_warnings():
        # Ten tiny steps do not converge; their time is the point.
        warnings.simplefilter("ignore", ko.errors.ConvergenceWarning)
        ready = time.perf_counter()
        particles, _ = ko.sample(jax.random.key(0), target, sampler, num_particles, progress=False)
        jax.block_until_ready(particles.coordinates)  # type: ignore[no-untyped-call]
    ended = time.perf_counter()
    return _Run(ended - began, ended - ready, clock.compile_seconds, target.basis.size)


def slope(values: list[Any], seconds: list[Any]) -> float:
    """Of log seconds over log values, by least squares.

    >>> round(slope([1.0, 10.0, 100.0], [2.0, 20.0, 200.0]), 6)
    1.0
    """
    positive = [(v, s) for v, s in zip(values, seconds, strict=True) if s is not None and s > 0]
    if len({v for v, _ in positive}) < 2:
        return float("nan")
    sizes, times = np.array(positive, dtype=float).T
    return power_law(sizes, times).slope


def _table(found: Found) -> str:
    from reproduction._complexity_page import table

    return table(found)


def _draw(found: Found, folder: Path) -> list[Path]:
    from reproduction._complexity_page import draw

    return draw(found, folder)


EXPERIMENT = Experiment("complexity", "Seconds over data, inducing points and particles", cells, _table, _draw)
