"""The last stage where the kernel was learned from a subset: the likelihood and the mean, on all rows."""

from __future__ import annotations

import dataclasses

import numpy as np

from kosambi._core.precision import at_rest, lift
from kosambi.learning._blocks import thinned
from kosambi.learning._layout import Model, rebuilt, without_kernel
from kosambi.learning._limits import limits
from kosambi.learning._objective import fixed_objective, projected
from kosambi.learning._search import minimise, projected_norm
from kosambi.learning._starts import Scales, learns_mean, start
from kosambi.learning._task import Task

MAX_SUPPORT = 5000
"""Support points of a measure that are used."""


@dataclasses.dataclass(frozen=True)
class Refined:
    """What all rows say of the likelihood and the mean."""

    model: Model
    objective: float
    log_evidence: float
    converged: bool
    slope: float
    at_bound: tuple[str, ...]


def refine(task: Task, model: Model, points: np.ndarray) -> Refined:
    """The likelihood's parameters and the mean again, with the kernel as it is, on all rows: O(NM²) an evaluation."""
    x, y = task.x, task.y
    prior = rebuilt(thinned(task.generator, task.prior, MAX_SUPPORT), model)
    layout = without_kernel(task.layout, model)
    scales = Scales.of(prior, model.likelihood, x, y, learns_mean(layout))
    bounds = limits(layout, start(prior, model.likelihood, x, y, scales), model, scales, x)
    psi, residual, mode = projected(prior, model.likelihood, x, y, points)
    held = lift((model, x, y, task.counts, psi, residual, bounds.centre, bounds.width))
    lowest, evidence = np.inf, -np.inf

    def objective(vector: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal lowest, evidence, mode
        (total, (value, found)), gradient = fixed_objective(layout, vector, mode, *held)
        slope = np.asarray(gradient)
        if np.isfinite(total) and np.all(np.isfinite(slope)):
            mode = found
            if float(total) < lowest:
                lowest, evidence = float(total), float(value)
        return float(total), slope

    # Another objective than that of the trace.
    own, limit = task.record.beside(), task.max_iterations
    found = minimise(objective, layout.vector(model), bounds.lower, bounds.upper, limit, own, bounds.scale)
    task.record.absorb(own)
    slope = projected_norm(found, bounds.lower, bounds.upper, bounds.scale)
    refined = at_rest(layout.model(found.vector, model))
    return Refined(refined, -lowest, evidence, found.converged, slope, bounds.names_at_bound(layout, found.vector))
