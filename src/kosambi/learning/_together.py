"""Hyperparameters and inducing points in one search, where the number of points was asked for.

With few points the best kernel is the one that they can carry, and the best points are those for that kernel; taking
turns comes to rest before either is found. The search uses more rows than the one before it, since it is the last.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float

from kosambi._core.precision import lift
from kosambi.learning._layout import rebuilt
from kosambi.learning._limits import Limits
from kosambi.learning._objective import Evaluator, Problem, first_mode, joint_objective
from kosambi.learning._search import Minimum, Record, minimise

MOST_ITERATIONS = 300
"""Of the search, which need not end: what follows it does."""
FEWEST_ITERATIONS = 20
# Iterations of the search that follows.
_LAST = 60
# Rows times squared points times iterations: some seconds of matrix products.
_WORK = 1.5e10
# Rows times squared points that one evaluation may take.
_WORK_AT_ONCE = 2e8


@dataclasses.dataclass(frozen=True)
class Together:
    """Where the search ended."""

    minimum: Minimum
    """In the hyperparameters, with the points as they are."""
    points: Float[np.ndarray, "M D"]
    log_evidence: float


def most_rows(num_inducing: int, at_least: int) -> int:
    """How many rows the search takes."""
    return max(at_least, int(_WORK_AT_ONCE / num_inducing**2))


def search_together(
    problem: Problem,
    bounds: Limits,
    vector: Float[np.ndarray, " P"],
    points: Float[np.ndarray, "M D"],
    max_iterations: int,
    record: Record,
) -> Together:
    """Points and hyperparameters from where they are, and then hyperparameters by themselves to the end.

    Points stay within the range of the data. Evaluations count as moves: their objective is not that of the trace.
    """
    x = np.asarray(problem.x)
    spread = np.std(x, axis=0)
    scales = np.where(spread > 0, spread, 1.0)
    size, own = len(vector), Record(show=record.show)
    held = lift((problem.given, problem.prior, x, problem.y, problem.counts, bounds.centre, bounds.width))
    model = problem.model(vector)
    mode = first_mode(rebuilt(problem.prior, model), model.likelihood, x, problem.y, points)

    lowest = np.inf

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal mode, lowest
        places = flat[size:].reshape(points.shape) * scales
        (value, (_, found)), (slope, push) = joint_objective(problem.layout, flat[:size], mode, places, *held)
        gradient = np.concatenate([np.asarray(slope), (np.asarray(push) * scales).ravel()])
        if np.isfinite(value) and np.all(np.isfinite(gradient)) and value < lowest:
            mode, lowest = found, float(value)
        return float(value), gradient

    edges = [np.tile(edge / scales, len(points)) for edge in (x.min(axis=0), x.max(axis=0))]
    iterations = int(np.clip(_WORK / (len(x) * len(points) ** 2), FEWEST_ITERATIONS, MOST_ITERATIONS))
    best = minimise(
        objective,
        np.concatenate([vector, (points / scales).ravel()]),
        np.concatenate([bounds.lower, edges[0]]),
        np.concatenate([bounds.upper, edges[1]]),
        iterations,
        own,
        np.concatenate([bounds.scale, np.ones(points.size)]),
    )
    if np.isfinite(best.value):
        vector, points = best.vector[:size], best.vector[size:].reshape(points.shape) * scales
    last = Evaluator(problem, bounds, vector, points, mode)
    found = minimise(last, vector, bounds.lower, bounds.upper, min(max_iterations, _LAST), own, bounds.scale)
    record.failures += own.failures
    record.moves += len(own.values)
    return Together(found, points, last.evidence)
