"""Hyperparameters and inducing points in one search, where the number of points was asked for.

With few points the best kernel is the one that they can carry, and the best points are those for that kernel; taking
turns comes to rest before either is found. The search uses more rows than the one before it, since it is the last.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from kosambi._core.precision import lift
from kosambi.learning._collapsed import CollapsedEvaluator
from kosambi.learning._layout import rebuilt
from kosambi.learning._limits import Limits
from kosambi.learning._objective import Evaluator, Problem, first_mode, joint_objective
from kosambi.learning._search import Minimum, Record, minimise
from kosambi.likelihoods import Gaussian

MOST_ITERATIONS = 300
"""Of the search, which need not end: what follows it does."""
FEWEST_ITERATIONS = 20
# Iterations of the search that follows.
_FEWEST_LAST, _LAST = 8, 60
# Rows times squared points times iterations: some seconds of matrix products; with Gaussian noise, where an evaluation
# is four such products on all cores, a minute or two.
_WORK, _GAUSSIAN_WORK = 1.5e10, 1.5e11
# Rows times squared points that one evaluation may take.
_WORK_AT_ONCE, _GAUSSIAN_WORK_AT_ONCE = 2e8, 2e10
# Rows that a search on more of them begins with.
_FEW_ROWS = 8192

Both = Callable[[np.ndarray, np.ndarray], tuple[float, np.ndarray, np.ndarray]]
"""Value, and gradients in the free numbers and in the points."""


@dataclasses.dataclass(frozen=True)
class Together:
    """Where the search ended."""

    minimum: Minimum
    """In the hyperparameters, with the points as they are."""
    points: Float[np.ndarray, "M D"]
    log_evidence: float


def most_rows(num_inducing: int, at_least: int, is_gaussian: bool) -> int:
    """How many rows the search takes."""
    work = _GAUSSIAN_WORK_AT_ONCE if is_gaussian else _WORK_AT_ONCE
    return max(at_least, int(work / num_inducing**2))


def search_together(
    problem: Problem,
    bounds: Limits,
    vector: Float[np.ndarray, " P"],
    points: Float[np.ndarray, "M D"],
    max_iterations: int,
    record: Record,
) -> Together:
    """Points and hyperparameters from where they are, and then hyperparameters by themselves to the end.

    Many rows are preceded by a search on fewer of them. Points stay within the range of the
    data. Evaluations count as moves: their objective is not that of the trace.
    """
    own, is_gaussian = record.beside(), isinstance(problem.likelihood, Gaussian)
    if is_gaussian and len(problem.x) > 2 * _FEW_ROWS:
        few = _some_rows(problem, _FEW_ROWS)
        vector = minimise(
            _Alone(_collapsed(few, bounds), points), vector, bounds.lower, bounds.upper, _LAST // 4, own, bounds.scale
        ).vector
        vector, points = _moved(few, bounds, vector, points, own)
    vector, points = _moved(problem, bounds, vector, points, own)
    alone = _Alone(_collapsed(problem, bounds), points) if is_gaussian else Evaluator(problem, bounds, vector, points)
    most = int(np.clip(_affordable(problem, points) / 4.0, _FEWEST_LAST, _LAST)) if is_gaussian else _LAST
    found = minimise(alone, vector, bounds.lower, bounds.upper, min(max_iterations, most), own, bounds.scale)
    record.absorb(own)
    return Together(found, points, alone.evidence)


def _moved(
    problem: Problem, bounds: Limits, vector: np.ndarray, points: np.ndarray, record: Record
) -> tuple[np.ndarray, np.ndarray]:
    """Better hyperparameters and points."""
    x, size = np.asarray(problem.x), len(vector)
    spread = np.std(x, axis=0)
    scales = np.where(spread > 0, spread, 1.0)
    is_gaussian = isinstance(problem.likelihood, Gaussian)
    both: Both = _collapsed(problem, bounds) if is_gaussian else _laplace(problem, bounds, vector, points)

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope, push = both(flat[:size], flat[size:].reshape(points.shape) * scales)
        return value, np.concatenate([slope, (push * scales).ravel()])

    edges = [np.tile(edge / scales, len(points)) for edge in (x.min(axis=0), x.max(axis=0))]
    best = minimise(
        objective,
        np.concatenate([vector, (points / scales).ravel()]),
        np.concatenate([bounds.lower, edges[0]]),
        np.concatenate([bounds.upper, edges[1]]),
        int(np.clip(_affordable(problem, points), FEWEST_ITERATIONS, MOST_ITERATIONS)),
        record,
        np.concatenate([bounds.scale, np.ones(points.size)]),
    )
    if np.isfinite(best.value):
        vector, points = best.vector[:size], best.vector[size:].reshape(points.shape) * scales
    return vector, points


def _affordable(problem: Problem, points: np.ndarray) -> float:
    """Iterations that take no longer than they should."""
    work = _GAUSSIAN_WORK if isinstance(problem.likelihood, Gaussian) else _WORK
    return work / (len(problem.x) * len(points) ** 2)


def _some_rows(problem: Problem, number: int) -> Problem:
    """The problem on rows that are spread over all of them."""
    rows = np.linspace(0, len(problem.x) - 1, number).round().astype(int)
    counts = None if problem.counts is None else np.ascontiguousarray(problem.counts[rows])
    likelihood = problem.likelihood.at_rows(rows)
    return dataclasses.replace(problem, x=problem.x[rows], y=problem.y[rows], counts=counts, likelihood=likelihood)


def _collapsed(problem: Problem, bounds: Limits) -> CollapsedEvaluator:
    return CollapsedEvaluator(
        problem.layout, problem.given, problem.prior, problem.x, problem.y, problem.counts, bounds
    )


class _Alone:
    """The collapsed bound with the points as they are."""

    def __init__(self, collapsed: CollapsedEvaluator, points: np.ndarray) -> None:
        self._collapsed, self._points = collapsed, points

    def __call__(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        return self._collapsed(vector, self._points)[:2]

    @property
    def evidence(self) -> float:
        """The bound where it was highest."""
        return self._collapsed.evidence


def _laplace(problem: Problem, bounds: Limits, vector: np.ndarray, points: np.ndarray) -> Both:
    """Laplace's approximation with points, with the mode of the best evaluation as the start of the next."""
    held = lift((problem.given, problem.prior, problem.x, problem.y, problem.counts, bounds.centre, bounds.width))
    model = problem.model(vector)
    mode = first_mode(rebuilt(problem.prior, model), model.likelihood, problem.x, problem.y, points)
    lowest = np.inf

    def both(vector: np.ndarray, places: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        nonlocal mode, lowest
        (value, (_, found)), (slope, push) = joint_objective(problem.layout, vector, mode, places, *held)
        slope, push = np.asarray(slope), np.asarray(push)
        if np.isfinite(value) and np.all(np.isfinite(slope)) and np.all(np.isfinite(push)) and value < lowest:
            mode, lowest = found, float(value)
        return float(value), slope, push

    return both
