"""The paper's search of a step size of Euler-Maruyama: the lowest energy at the end."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

import kosambi as ko
from kosambi.samplers.report import Report

_FIRST_SEED = 100


class Searched(NamedTuple):
    """What was tried, and the best of it, if any step size was stable."""

    tried: list[dict[str, Any]]
    """Size and mean potential at the end, None where it diverged."""
    particles: ko.samplers.Particles | None
    report: Report | None


def search_step_size(target: ko.Target, sizes: list[float], duration: float, start: np.ndarray) -> Searched:
    """Run every step size for the same time from the same start (J, M)."""
    tried: list[dict[str, Any]] = []
    lowest, best = np.inf, Searched(tried, None, None)
    for place, size in enumerate(sizes):
        sampler = ko.samplers.EulerMaruyama(size, duration=duration)
        key = jax.random.key(_FIRST_SEED + place)
        try:
            particles, report = ko.sample(key, target, sampler, len(start), initial=start, progress=False)
        except ko.errors.DivergenceError:
            tried.append({"size": size, "energy": None})
            continue
        energy = float(np.mean(np.asarray(target.potential(particles.coordinates))))
        tried.append({"size": size, "energy": energy})
        if energy < lowest:
            lowest, best = energy, Searched(tried, particles, report)
    return best
