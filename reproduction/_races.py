"""Energy distance to the full posterior against seconds: the paper's diffusion, MALA, HMC, and variational inference.

All of them have the same prior (the paper's), the same inducing points and fixed hyperparameters, and are judged by the
values of J functions at the same inputs. The reference is a long run of NUTS over all N latent values, so that what M
coordinates lose counts as well. Seconds are those of the work alone: compilation is reported beside them, and the
time for judging is left out.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

import kosambi as ko
from reproduction._distances import Yardstick
from reproduction._long_run import LongRun, long_run
from reproduction._small_problems import Problem, small_problem

NUM_INDUCING, NUM_PARTICLES = 20, 1000
PROBLEMS = {
    "bernoulli": ("bernoulli", "element", 200),
    "student_t": ("student_t", "element", 200),
    # Few labels and a prior of large functions: far from normal.
    "few_labels": ("bernoulli", "wide_element", 40),
}
"""Likelihood, prior and N of each race, names of `small_problem`."""
JUDGED_AT = np.linspace(-2.9, 2.9, 25)[:, None]
FIRST_STRETCH = 100


def sampling_race(name: str, seconds: float) -> dict[str, Any]:
    """MALA, HMC, and Euler-Maruyama for about `seconds`; the last without and with the prior as preconditioner."""
    problem, yardstick, run = _reference(name)
    noise = yardstick.noise(NUM_PARTICLES)
    points = problem.x[ko.inducing.greedy_variance(problem.prior, problem.x, NUM_INDUCING)]
    basis = ko.RitzBasis(problem.prior, points)
    target = ko.Target(basis, problem.likelihood, problem.x, problem.y)

    def judged(particles: Any, key: jax.Array) -> float:
        draws = ko.Posterior(target, particles).functions(key)(JUDGED_AT)
        return yardstick.distance(np.asarray(draws))

    keys = jax.random.split(jax.random.key(21), 4)
    curves = {
        "MALA": _adjusted(keys[0], target, ko.samplers.MALA, judged),
        "HMC": _adjusted(keys[1], target, ko.samplers.HMC, judged),
        "Euler-Maruyama": _diffused(keys[2], target, False, seconds, judged),
        # Bias is all that is left of its distance after a few hundred steps.
        "Euler-Maruyama, preconditioned": _diffused(keys[3], target, True, 0.25 * seconds, judged),
    }
    return {
        "problem": name,
        "noise_floor": noise.mean,
        "noise_limit": noise.limit,
        "reference": {"r_hat": run.r_hat, "ess": run.ess, "divergences": run.divergences},
        "coordinates": target.basis.size,
        "smallest_eigenvalue": float(basis.eigenvalues[-1]),
        "curves": curves,
    }


def variational_race(name: str, seconds: float) -> dict[str, Any]:
    """GPyTorch's SVGP with Adam on all data at once, for at most `seconds` or 10,000 steps."""
    from reproduction._variational_path import normals

    problem, yardstick, _ = _reference(name)
    points = problem.x[ko.inducing.greedy_variance(problem.prior, problem.x, NUM_INDUCING)]
    rng = np.random.default_rng(22)
    curve = []
    for normal in normals(problem, points, JUDGED_AT, seconds):
        values, vectors = np.linalg.eigh(normal.covariance)
        noise = rng.normal(size=(NUM_PARTICLES, len(values)))
        draws = normal.mean + noise * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
        curve.append({"steps": normal.steps, "seconds": normal.seconds, "distance": yardstick.distance(draws)})
    return {"problem": name, "curves": {"SVGP": {"points": curve, "compile_seconds": 0.0}}}


@functools.lru_cache(maxsize=2)
def _reference(name: str) -> tuple[Problem, Yardstick, LongRun]:
    problem = small_problem(*PROBLEMS[name])
    run_key, value_key = jax.random.split(jax.random.key(20))
    run = long_run(run_key, problem.prior, problem.likelihood, problem.x, problem.y, num_draws=2000)
    values = run.values(value_key, JUDGED_AT)
    # Every other one, at random: neighbours in a chain are not independent.
    return problem, Yardstick(values[: len(values) // 2]), run


def _adjusted(key: jax.Array, target: ko.Target, kind: Any, judged: Any) -> dict[str, Any]:
    """Runs of more and more steps, each from its own start, up to the one that ends by its own diagnostic."""
    curve: list[dict[str, Any]] = []
    compile_seconds = 0.0
    # The first one compiles, and is left out.
    for number, steps in enumerate([2, *2 ** np.arange(1, 12)]):
        key, run_key, value_key = jax.random.split(key, 3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ko.errors.ConvergenceWarning)
            particles, report = ko.sample(run_key, target, kind(max_steps=int(steps)), NUM_PARTICLES, progress=False)
        compile_seconds += report.compile_seconds
        if number == 0:
            continue
        curve.append(
            {
                "steps": report.steps,
                "gradients": report.gradient_evaluations,
                "seconds": report.seconds - report.compile_seconds,
                "distance": judged(particles, value_key),
            }
        )
        if report.converged:
            break
    return {"points": curve, "compile_seconds": compile_seconds, "converged": bool(report.converged)}


def _diffused(key: jax.Array, target: ko.Target, preconditioned: bool, seconds: float, judged: Any) -> dict[str, Any]:
    """One run in stretches, from the paper's standard normal start, at half the stable limit."""
    curve: list[dict[str, Any]] = []
    compile_seconds, work, steps, initial = 0.0, 0.0, 0, "normal"
    for stretch in _stretches():
        # The next stretch takes as long as all before it, and is left out where it would not fit.
        if curve and 2.0 * work > seconds:
            break
        key, run_key, value_key = jax.random.split(key, 3)
        sampler = ko.samplers.EulerMaruyama(num_steps=stretch, preconditioned=preconditioned)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ko.errors.ConvergenceWarning)
            particles, report = ko.sample(run_key, target, sampler, NUM_PARTICLES, initial=initial, progress=False)
        compile_seconds += report.compile_seconds
        work, steps = work + report.seconds - report.compile_seconds, steps + stretch
        initial = particles.coordinates
        curve.append({"steps": steps, "gradients": steps, "seconds": work, "distance": judged(particles, value_key)})
    return {"points": curve, "compile_seconds": compile_seconds, "step_size": report.step_size}


def _stretches() -> Iterator[int]:
    """Steps that double the total each time."""
    yield FIRST_STRETCH
    total = FIRST_STRETCH
    while True:
        yield total
        total *= 2


def seconds_to_reach(points: list[dict[str, Any]], distance: float) -> float | None:
    """The seconds of the first point from which on the curve stays at or below `distance`.

    >>> seconds_to_reach([{"seconds": 1.0, "distance": 0.5}, {"seconds": 2.0, "distance": 0.1}], 0.2)
    2.0
    """
    reached = None
    for point in reversed(points):
        if point["distance"] > distance:
            break
        reached = point["seconds"]
    return reached
