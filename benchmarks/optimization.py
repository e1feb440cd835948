"""Bayesian optimisation of three test functions, beside BoTorch's default where that is installed.

    python -m benchmarks.optimization --seeds 10

prints the simple regret, f(best input seen) − min f, after 50 evaluations, the first ten of which are a Latin hypercube
that both share, and the seconds that a step takes. Functions are evaluated without noise, and both learn a noise.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import jax
import numpy as np

import kosambi as ko

FIRST = 10


class Problem(NamedTuple):
    """A function to minimise."""

    function: Callable[[np.ndarray], np.ndarray]
    bounds: np.ndarray
    least: float


def branin(x: np.ndarray) -> np.ndarray:
    """Two columns, three minima."""
    a, b = x[:, 0], x[:, 1]
    bowl = b - 5.1 / (4.0 * np.pi**2) * a**2 + 5.0 / np.pi * a - 6.0
    return bowl**2 + 10.0 * (1.0 - 1.0 / (8.0 * np.pi)) * np.cos(a) + 10.0


HEIGHTS = np.array([1.0, 1.2, 3.0, 3.2])
WIDTHS = np.array(
    [
        [10.0, 3.0, 17.0, 3.5, 1.7, 8.0],
        [0.05, 10.0, 17.0, 0.1, 8.0, 14.0],
        [3.0, 3.5, 1.7, 10.0, 17.0, 8.0],
        [17.0, 8.0, 0.05, 10.0, 0.1, 14.0],
    ]
)
CENTRES = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def hartmann(x: np.ndarray) -> np.ndarray:
    """Six columns, six minima."""
    apart = np.sum(WIDTHS * np.square(x[:, None] - CENTRES), axis=2)
    return -np.exp(-apart) @ HEIGHTS


def ackley(x: np.ndarray) -> np.ndarray:
    """Any number of columns: one narrow minimum among many shallow ones."""
    far = np.sqrt(np.mean(np.square(x), axis=1))
    waves = np.mean(np.cos(2.0 * np.pi * x), axis=1)
    return -20.0 * np.exp(-0.2 * far) - np.exp(waves) + 20.0 + np.e


PROBLEMS = {
    "Branin": Problem(branin, np.array([[-5.0, 0.0], [10.0, 15.0]]), 0.39788735772973816),
    "Hartmann-6": Problem(hartmann, np.array([np.zeros(6), np.ones(6)]), -3.32236801141551),
    "Ackley-10": Problem(ackley, np.array([np.full(10, -32.768), np.full(10, 32.768)]), 0.0),
}


def first_inputs(problem: Problem, seed: int) -> np.ndarray:
    """A Latin hypercube."""
    generator = np.random.default_rng(seed)
    cells = np.argsort(generator.uniform(size=(FIRST, problem.bounds.shape[1])), axis=0)
    unit = (cells + generator.uniform(size=cells.shape)) / FIRST
    return problem.bounds[0] + unit * (problem.bounds[1] - problem.bounds[0])


class Kosambi:
    """A regressor that is averaged over hyperparameters, and the log expected improvement.

    Hyperparameters are learned again, from where they were, at every third step; rows between are added to the fit.
    """

    name = "kosambi"
    every = 3

    def __init__(self, problem: Problem, seed: int) -> None:
        self.bounds, self.key = problem.bounds, jax.random.key(seed)
        self.model = ko.ProjectedLangevinRegressor(
            kernel="matern52", warm_start=True, random_state=seed, n_samples=40, progress=False
        )

    def next_input(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Where −y is expected to improve most."""
        unit = (x - self.bounds[0]) / (self.bounds[1] - self.bounds[0])
        if (len(x) - FIRST) % self.every == 0:
            self.model.fit(unit, -y)
        else:
            self.model.partial_fit(unit[-1:], -y[-1:])
        box = self.model.transform_inputs(np.stack([np.zeros(x.shape[1]), np.ones(x.shape[1])]))
        improvement = ko.acquisition.ExpectedImprovement(self.model.posterior_)
        top = ko.acquisition.maximize(jax.random.fold_in(self.key, len(x)), improvement, box)
        found = np.clip(top.x * self.model.x_scale_ + self.model.x_mean_, 0.0, 1.0)
        return self.bounds[0] + found * (self.bounds[1] - self.bounds[0])


class WithoutNoise(Kosambi):
    """The same for a function that is known to have no noise: a thousandth of the spread of y, which is not learned."""

    name = "known"

    def next_input(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Where −y is expected to improve most; hyperparameters are learned at every third step."""
        unit, z = (x - self.bounds[0]) / (self.bounds[1] - self.bounds[0]), -(y - np.mean(y)) / np.std(y)
        key = jax.random.fold_in(self.key, len(x))
        if (len(x) - FIRST) % self.every == 0:
            begin = np.full(x.shape[1], 0.3 * np.sqrt(x.shape[1]))
            prior = ko.GaussianProcess(ko.kernels.Matern52(lengthscale=begin))
            noise = ko.likelihoods.Gaussian(1e-3)
            frozen = ("likelihood.noise",)
            self.draws = ko.fit_hyperparameters(key, prior, noise, unit, z, freeze=frozen, num_draws=20)[2].draws
        posterior = ko.average(key, self.draws, unit, z, num_particles=20)
        improvement = ko.acquisition.ExpectedImprovement(posterior)
        top = ko.acquisition.maximize(key, improvement, np.stack([np.zeros(x.shape[1]), np.ones(x.shape[1])]))
        return self.bounds[0] + top.x * (self.bounds[1] - self.bounds[0])


class BoTorch:
    """`SingleTaskGP`, learned at every step, and `qLogNoisyExpectedImprovement`, as BoTorch's tutorials have them."""

    name = "BoTorch"

    def __init__(self, problem: Problem, seed: int) -> None:
        import torch

        torch.manual_seed(seed)
        torch.set_default_dtype(torch.float64)
        self.bounds = problem.bounds

    def next_input(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Where −y is expected to improve most."""
        import torch
        from botorch.acquisition.logei import qLogNoisyExpectedImprovement
        from botorch.fit import fit_gpytorch_mll
        from botorch.models import SingleTaskGP
        from botorch.models.transforms import Standardize
        from botorch.optim import optimize_acqf
        from gpytorch.mlls import ExactMarginalLogLikelihood

        unit = torch.as_tensor((x - self.bounds[0]) / (self.bounds[1] - self.bounds[0]))
        model = SingleTaskGP(unit, torch.as_tensor(-y[:, None]), outcome_transform=Standardize(m=1))
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        acquisition = qLogNoisyExpectedImprovement(model, X_baseline=unit, prune_baseline=True)
        box = torch.stack([torch.zeros(x.shape[1]), torch.ones(x.shape[1])])
        found, _ = optimize_acqf(acquisition, box, q=1, num_restarts=10, raw_samples=512)
        return self.bounds[0] + found.numpy()[0] * (self.bounds[1] - self.bounds[0])


def regret(method: type, problem: Problem, seed: int, num_evaluations: int) -> tuple[float, float]:
    """The regret at the end, and the median of the seconds of a step."""
    x = first_inputs(problem, seed)
    y, chooser, seconds = problem.function(x), method(problem, seed), []
    while len(x) < num_evaluations:
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            new = chooser.next_input(x, y)
        seconds.append(time.perf_counter() - began)
        x, y = np.concatenate([x, new[None]]), np.append(y, problem.function(new[None]))
    return float(np.min(y)) - problem.least, float(np.median(seconds))


def case(method: type, name: str, seed: int, num_evaluations: int) -> tuple[float, float]:
    """`regret` of a problem by its name, for another process."""
    found = regret(method, PROBLEMS[name], seed, num_evaluations)
    print(name, method.name, seed, *found, file=sys.stderr, flush=True)  # type: ignore[attr-defined]
    return found


def at_random(problem: Problem, seed: int, num_evaluations: int) -> float:
    """The regret of inputs drawn at random."""
    unit = np.random.default_rng(seed).uniform(size=(num_evaluations, problem.bounds.shape[1]))
    return float(np.min(problem.function(problem.bounds[0] + unit * np.diff(problem.bounds, axis=0)))) - problem.least


def main() -> None:
    """Print a line for each function and method."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--evaluations", type=int, default=50)
    parser.add_argument("--only", nargs="*", default=list(PROBLEMS), choices=list(PROBLEMS))
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side, one thread of linear algebra each")
    parser.add_argument("--methods", nargs="*", default=None, choices=[Kosambi.name, WithoutNoise.name, BoTorch.name])
    options = parser.parse_args()
    methods: list[type] = [Kosambi, WithoutNoise]
    try:
        import botorch  # noqa: F401

        methods.append(BoTorch)
    except ImportError:
        print("BoTorch is not installed: `pip install botorch` to have it beside kosambi.")
    methods = [each for each in methods if options.methods is None or each.name in options.methods]
    print(
        f"regret after {options.evaluations} evaluations, {options.seeds} seeds: median (quartiles); seconds per step"
    )
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS") if options.jobs > 1 else ():
        os.environ[variable] = "1"
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=spawn, max_tasks_per_child=1) as pool:
        runs = {
            (name, method): [
                pool.submit(case, method, name, seed, options.evaluations) for seed in range(options.seeds)
            ]
            for name in options.only
            for method in methods
        }
        for name in options.only:
            random = [at_random(PROBLEMS[name], seed, options.evaluations) for seed in range(options.seeds)]
            print(f"{name:11s} {'at random':9s} {_shown(random)}", flush=True)
            for method in methods:
                found = [each.result() for each in runs[name, method]]
                print(
                    f"{name:11s} {method.name:9s} {_shown([each[0] for each in found])}  "
                    f"{np.median([each[1] for each in found]):.2f} s",
                    flush=True,
                )


def _shown(values: list[float]) -> str:
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return f"{middle:9.4g} ({low:.3g} to {high:.3g}), mean {np.mean(values):.4g}"


if __name__ == "__main__":
    main()
