"""The paper's own sampler on its own coordinates, where that can be done in the time.

Euler-Maruyama for T = 0.5 with the largest of the five step sizes of the paper's code that is stable. The recipe's
posterior is that of the column of the recipe, so that differences come from these steps and from 100 draws each.
"""

from __future__ import annotations

import time
from typing import Any

import jax
import numpy as np

import kosambi as ko
from kosambi.errors import DivergenceError
from reproduction.comparison import recipe, scores
from reproduction.comparison.data import load

DURATION = 0.5
SIZES = (1e-3, 8.41e-5, 7.07e-6, 5.95e-7, 5e-8)
MOST_STEPS = 200_000
_PROBE = 500


def measure(data: str, likelihood: str, seed: int, limit: float, subsets: int) -> dict[str, Any]:
    """One cell: scores, or why there are none."""
    split = load(data, seed)
    model = recipe.learn(split.train, likelihood, seed, subsets)
    target = ko.Target(model.basis, model.likelihood, split.train.x, split.train.y)
    key = jax.random.fold_in(jax.random.key(seed), 2**30 + 1)
    _, mode_key, probe_key, run_key = jax.random.split(key, 4)
    mode, _ = ko.sample(mode_key, target, recipe.sampler(model), num_particles=8)
    stable = ko.samplers.EulerMaruyama().stable_limit(target, mode.coordinates.mean(axis=0))
    facts = {
        "M": model.basis.size,
        "N": len(split.train.y),
        "stable_limit": float(f"{stable:.4g}"),
        "smallest_eigenvalue": float(f"{np.min(model.basis.eigenvalues):.4g}"),
    }
    sizes = [size for size in SIZES if size < stable]
    if not sizes:
        return {**facts, "why_not": f"unstable at all five step sizes; the limit is {stable:.2g}"}
    steps = int(DURATION / sizes[0])
    facts |= {"step_size": sizes[0], "steps": steps}
    if steps > MOST_STEPS:
        return {**facts, "why_not": f"{steps:,} steps needed"}
    try:
        probe = ko.samplers.EulerMaruyama(sizes[0], _PROBE)
        _, report = ko.sample(probe_key, target, probe, recipe.PARTICLES)
        expected = (report.seconds - report.compile_seconds) * steps / _PROBE
        if expected > limit:
            return {**facts, "why_not": f"{steps:,} steps would take about {expected:.0f} s"}
        began = time.perf_counter()
        sampler = ko.samplers.EulerMaruyama(sizes[0], steps)
        posterior = ko.Posterior(target, *ko.sample(run_key, target, sampler, recipe.PARTICLES))
    except DivergenceError as error:
        return {**facts, "why_not": f"diverged: {error}"}
    assert posterior.report is not None
    facts |= {"seconds": round(time.perf_counter() - began, 3), "r_hat": float(f"{posterior.report.r_hat:.4g}")}
    facts["converged"] = bool(posterior.report.converged)
    return {**scores.of_split(posterior.predict, split, likelihood, seed), **facts}
