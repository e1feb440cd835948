"""Hyperparameters by the evidence of the model that is used: starts, short searches, rounds, and a stage on all rows.

Within a round the inducing points stand still, so that the objective is smooth; between rounds they are chosen again
for the kernel as it is then. All rounds and restarts share one compiled function, because shapes never change.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float

from kosambi._types import Array
from kosambi.errors import NumericalError, as_count
from kosambi.evidence import JITTER, log_evidence
from kosambi.hyperparameters._layout import Model, lay_out, rebuilt
from kosambi.hyperparameters._limits import Limits, limits
from kosambi.hyperparameters._objective import (
    Evaluator,
    Problem,
    choose_points,
    evaluator,
    fixed_objective,
    projected,
    settled,
)
from kosambi.hyperparameters._points import move_points
from kosambi.hyperparameters._rows import at_rows, num_support, subset, thinned
from kosambi.hyperparameters._search import Minimum, Record, minimise, projected_norm
from kosambi.hyperparameters._starts import Scales, start
from kosambi.hyperparameters._task import Outcome, Task
from kosambi.likelihoods import Gaussian
from kosambi.precision import lift

MOST_INDUCING = 300
"""Inducing points when their number is not given."""
MAX_ROWS = 2000
"""Rows that the kernel is learned from when their number is not given."""
EXACT_ROWS = 2000
"""Up to how many rows the evidence of a Gaussian likelihood is computed without inducing points."""
CARRIED = 0.25
"""How many nats a datum the bound may lose for the hyperparameters without inducing points to be kept."""
NUM_RESTARTS = 2
"""Further starts from which a short search is made."""
SHORT = 12
"""Iterations of a short search."""
MAX_ROUNDS = 8
"""How often inducing points are chosen again."""
# Iterations of each round; the last number goes on.
_ROUNDS = (15, 25, 40)
# Lengthscales in units of √D standard deviations, and noise as a share of the standard deviation, to begin from.
_REACHES, _SHARES = (0.2, 0.6, 2.0), (0.1, 0.5)
# Choosing inducing points again has ceased to matter when it gains less than this many nats, or this many a datum.
_GAIN, _GAIN_PER_ROW = 0.1, 2e-4


@dataclasses.dataclass(frozen=True)
class _Round:
    """Where one search with fixed inducing points ended."""

    minimum: Minimum
    log_evidence: float


def fit(task: Task, num_inducing: int | None, max_rows: int, num_restarts: int) -> Outcome:
    """The model of the highest evidence that was found."""
    rows = subset(task.generator, len(task.x), max_rows)
    x, y = task.x[rows], task.y[rows]
    number = _num_inducing(num_inducing, x)
    prior = thinned(task.generator, task.prior, max_rows)
    likelihood = at_rows(task.likelihood, task.likelihood, rows)
    may_be_exact = isinstance(likelihood, Gaussian) and len(x) <= EXACT_ROWS
    problem = Problem(prior, likelihood, x, y, task.layout, number, may_be_exact)
    progress = _searched(task, problem, num_restarts, None)
    if may_be_exact and number < len(x) and not progress.notes and not _carries(problem, progress):
        problem = dataclasses.replace(problem, is_exact=False)
        progress = _searched(task, problem, num_restarts, progress)
    points, bound = _moved_points(task, problem, progress)
    assert progress.best is not None
    bounds, minimum, evidence = progress.limits, progress.best.minimum, progress.best.log_evidence
    slope = projected_norm(minimum, bounds.lower, bounds.upper)
    if not progress.converged and not progress.notes:
        progress.notes.append(
            f"The search for hyperparameters did not converge in {progress.iterations} iterations (steepest slope "
            f"{slope:.2g} nats for a factor e). Raise `max_iterations`."
        )
    model = problem.model(minimum.vector)
    if len(rows) < len(task.x):
        model = model._replace(likelihood=at_rows(model.likelihood, task.likelihood, np.arange(len(task.x))))
        if any(not p.name.startswith("kernel") for p, _ in task.layout.entries()):
            task.show.update("all rows", 0, 1)
            model, evidence, converged = _on_all_rows(task, model, points)
            progress.converged &= converged
    return Outcome(
        model=model,
        objective=-minimum.value,
        log_evidence=evidence,
        is_exact=problem.is_exact and len(rows) == len(task.x),
        bound=bound,
        gradient_norm=slope,
        converged=progress.converged,
        at_bound=bounds.names_at_bound(task.layout, minimum.vector),
        restarts=tuple(progress.restarts),
        rounds=progress.rounds,
        iterations=progress.iterations,
        num_rows=len(rows),
        num_support=num_support(prior),
        inducing_points=points,
        jitter=0.0 if problem.is_exact else JITTER,
        warnings=tuple(progress.notes),
    )


def _searched(task: Task, problem: Problem, num_restarts: int, earlier: _Progress | None) -> _Progress:
    """Short searches from several starts, and the best of them to its end."""
    bounds, starts = _starts(task.generator, problem, num_restarts, earlier)
    progress = _Progress(bounds)
    try:
        _short_searches(task, problem, starts, progress)
        _main_search(task, problem, progress)
    except KeyboardInterrupt:
        if progress.best is None:
            raise
        progress.notes.append("The search was interrupted; the best so far is returned.")
    return progress


def _carries(problem: Problem, progress: _Progress) -> bool:
    """Whether so many inducing points can carry the model that fits best without them."""
    assert progress.best is not None
    sparse = Evaluator(dataclasses.replace(problem, is_exact=False), progress.limits, progress.best.minimum.vector)
    sparse(progress.best.minimum.vector)
    return progress.best.log_evidence - sparse.evidence < CARRIED * len(problem.y)


def _moved_points(task: Task, problem: Problem, progress: _Progress) -> tuple[np.ndarray, float]:
    """Inducing points for the learned model, moved to where they explain most, and the log evidence with them.

    Hyperparameters that were learned with inducing points follow these once, and the points follow once more.
    """
    assert progress.best is not None
    x, y, record = problem.x, problem.y, task.record
    model = problem.model(progress.best.minimum.vector)
    points = choose_points(rebuilt(problem.prior, model), x, problem.num_inducing)
    if progress.notes or problem.num_inducing >= len(np.unique(x, axis=0)):
        bound = log_evidence(rebuilt(problem.prior, model), model.likelihood, x, y, points)
        return points, float(bound)
    task.show.update("inducing points", 0, 2)
    points, bound = move_points(rebuilt(problem.prior, model), model.likelihood, x, y, points, record)
    if problem.is_exact:
        return points, bound
    task.show.update("inducing points", 1, 2)
    found = _round(problem, progress.limits, progress.best.minimum.vector, _ROUNDS[-1], record, points)
    progress.rounds += 1
    progress.iterations += found.minimum.iterations
    progress.take(found)
    model = problem.model(progress.best.minimum.vector)
    return move_points(rebuilt(problem.prior, model), model.likelihood, x, y, points, record)


@dataclasses.dataclass
class _Progress:
    """How far the search is; kept outside of it, so that an interruption loses nothing."""

    limits: Limits
    best: _Round | None = None
    restarts: list[float] = dataclasses.field(default_factory=list)
    rounds: int = 0
    iterations: int = 0
    converged: bool = False
    notes: list[str] = dataclasses.field(default_factory=list)

    def take(self, found: _Round) -> None:
        if self.best is None or found.minimum.value < self.best.minimum.value:
            self.best = found


def _num_inducing(given: int | None, x: Float[Array, "N D"]) -> int:
    distinct = len(np.unique(x, axis=0))
    if given is None:
        return min(MOST_INDUCING, distinct)
    limit = "the number of rows that the kernel is learned from (see `max_rows`)"
    return min(as_count("num_inducing", given, at_most=len(x), limit_name=limit), distinct)


def _starts(
    generator: np.random.Generator, problem: Problem, num_restarts: int, earlier: _Progress | None
) -> tuple[Limits, list[np.ndarray]]:
    """The limits, and vectors to begin from: the given one, a grid of usual ones, and random ones around them."""
    layout, prior, likelihood, x, y = problem.layout, problem.prior, problem.likelihood, problem.x, problem.y
    usual = start(prior, likelihood, x, y, 1.0, 0.3)
    bounds = limits(layout, usual, problem.given, Scales.of(likelihood, x, y))
    grid = [layout.vector(start(prior, likelihood, x, y, reach, share)) for reach in _REACHES for share in _SHARES]
    random = [bounds.centre + bounds.width / 6.0 * generator.normal(size=layout.size) for _ in range(num_restarts)]
    found = [] if earlier is None or earlier.best is None else [earlier.best.minimum.vector]
    vectors = [np.clip(v, bounds.lower, bounds.upper) for v in (layout.vector(problem.given), *found, *grid, *random)]
    distinct: list[np.ndarray] = []
    for vector in vectors:
        if not any(np.allclose(vector, other, atol=1e-8) for other in distinct):
            distinct.append(vector)
    values = np.array([evaluator(problem, bounds, vector)(vector)[0] for vector in distinct])
    if not np.any(np.isfinite(values)):
        raise NumericalError(
            f"The evidence is not finite at any of {len(distinct)} starts. Look for values of y that the likelihood "
            "gives no probability, scale x and y, or freeze fewer parameters at extreme values."
        )
    order = np.argsort(np.where(np.isfinite(values), values, np.inf), kind="stable")
    return bounds, [distinct[i] for i in order[: num_restarts + 1] if np.isfinite(values[i])]


def _short_searches(task: Task, problem: Problem, starts: list[np.ndarray], progress: _Progress) -> None:
    for number, vector in enumerate(starts):
        task.show.update("starts", number, len(starts))
        found = _round(problem, progress.limits, vector, min(SHORT, task.max_iterations), task.record)
        progress.restarts.append(-found.minimum.value)
        progress.take(found)


def _main_search(task: Task, problem: Problem, progress: _Progress) -> None:
    assert progress.best is not None
    # Without inducing points that follow the kernel there is one round.
    limits_by_round = (task.max_iterations,) if problem.is_exact else _ROUNDS
    while progress.rounds < MAX_ROUNDS and progress.iterations < task.max_iterations and not progress.converged:
        before = progress.best.minimum
        task.show.update("search", progress.iterations, task.max_iterations, f"objective {-before.value:.1f}")
        limit = limits_by_round[min(progress.rounds, len(limits_by_round) - 1)]
        limit = min(limit, task.max_iterations - progress.iterations)
        found = _round(problem, progress.limits, before.vector, limit, task.record)
        progress.rounds += 1
        progress.iterations += max(1, found.minimum.iterations)
        progress.take(found)
        settled_down = before.value - found.minimum.value < max(_GAIN, _GAIN_PER_ROW * len(problem.y))
        progress.converged = found.minimum.converged and (problem.is_exact or settled_down)


def _round(
    problem: Problem,
    bounds: Limits,
    vector: np.ndarray,
    max_iterations: int,
    record: Record,
    points: Float[np.ndarray, "M D"] | None = None,
) -> _Round:
    """A search with inducing points that are given, or chosen for where it begins."""
    objective = evaluator(problem, bounds, vector, points)
    found = minimise(objective, vector, bounds.lower, bounds.upper, max_iterations, record)
    return _Round(found, objective.evidence)


def _on_all_rows(task: Task, model: Model, points: np.ndarray) -> tuple[Model, float, bool]:
    """The likelihood's parameters and the mean again, with the kernel as it is, on all rows: O(NM²) an evaluation."""
    prior, x, y = rebuilt(task.prior, model), task.x, task.y
    free = [[p.name for p in group] for group in task.layout.groups]
    learned = [names for names in free if not any(name.startswith("kernel") for name in names)]
    every = [p.name for group in lay_out(model).groups for p in group]
    fixed = [name for name in every if not any(name in names for names in learned)]
    layout = lay_out(model, fixed, [names for names in learned if len(names) > 1])
    usual = start(prior, model.likelihood, x, y, 1.0, 0.3)
    bounds = limits(layout, usual, model, Scales.of(model.likelihood, x, y))
    psi, residual, mode = projected(prior, model.likelihood, x, y, points)
    held = lift((model, x, y, psi, residual, bounds.centre, bounds.width))
    lowest, evidence = np.inf, -np.inf

    def objective(vector: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal lowest, evidence
        (total, (value, _)), gradient = fixed_objective(layout, vector, mode, *held)
        if float(total) < lowest:
            lowest, evidence = float(total), float(value)
        return float(total), np.asarray(gradient)

    # Another objective than that of the trace.
    own = Record()
    found = minimise(objective, layout.vector(model), bounds.lower, bounds.upper, task.max_iterations, own)
    task.record.failures += own.failures
    task.record.moves += len(own.values) + own.failures
    return settled(layout.model(found.vector, model)), evidence, found.converged
