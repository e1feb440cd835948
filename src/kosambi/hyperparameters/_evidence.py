"""Hyperparameters by the evidence of the model that is used: starts, short searches, rounds, and a stage on all rows.

Within a round the inducing points stand still, so that the objective is smooth; between rounds they are chosen again
for the kernel as it is then. All rounds and restarts share one compiled function, because shapes never change.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from kosambi._types import Array
from kosambi.errors import as_count
from kosambi.evidence import JITTER, log_evidence
from kosambi.hyperparameters._all_rows import refine
from kosambi.hyperparameters._candidates import candidates
from kosambi.hyperparameters._layout import rebuilt
from kosambi.hyperparameters._limits import Limits
from kosambi.hyperparameters._objective import (
    Evaluator,
    Problem,
    choose_points,
    evaluator,
)
from kosambi.hyperparameters._points import move_points
from kosambi.hyperparameters._rows import at_rows, num_support, subset, thinned
from kosambi.hyperparameters._search import Minimum, Record, minimise, projected_norm
from kosambi.hyperparameters._task import Outcome, Task
from kosambi.hyperparameters._together import most_rows, search_together
from kosambi.likelihoods import Gaussian

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
# Choosing inducing points again has ceased to matter when it gains less than this many nats, or this many a datum.
_GAIN, _GAIN_PER_ROW = 0.1, 2e-4


@dataclasses.dataclass(frozen=True)
class _Round:
    """Where one search with fixed inducing points ended."""

    minimum: Minimum
    log_evidence: float


def fit(
    task: Task,
    num_inducing: int | None,
    max_rows: int,
    num_restarts: int,
    *,
    is_open: bool = False,
    grows: bool = False,
) -> Outcome:
    """The model of the highest evidence that was found.

    `is_open` says that the number of inducing points is chosen later, so that none are moved, and that an exact
    evidence need not be carried by them; `grows` that the last search may use more rows than `max_rows`.
    """
    rows = subset(task.generator, task.y, task.counts, max_rows, task.likelihood.num_labels)
    x, y = task.x[rows], task.y[rows]
    counts = None if task.counts is None else np.ascontiguousarray(task.counts[rows])
    number = _num_inducing(num_inducing, x)
    prior = thinned(task.generator, task.prior, max_rows)
    likelihood = at_rows(task.likelihood, task.likelihood, rows)
    may_be_exact = isinstance(likelihood, Gaussian) and len(x) <= EXACT_ROWS
    problem = Problem(prior, likelihood, x, y, counts, task.layout, number, may_be_exact)
    progress = searched(task, problem, num_restarts, None)
    fewer = number < len(np.unique(x, axis=0)) and not is_open
    if may_be_exact and fewer and not progress.interrupted and not _carries(problem, progress):
        problem = dataclasses.replace(problem, is_exact=False)
        progress = searched(task, problem, num_restarts, progress)
    is_joint = num_inducing is not None and fewer
    points, bound = _moved_points(task, problem, progress, is_open, stays=is_joint)
    if num_inducing is None:
        points = points[np.sort(np.unique(points, axis=0, return_index=True)[1])]
    assert progress.best is not None
    bounds, minimum, evidence = progress.limits, progress.best.minimum, progress.best.log_evidence
    if is_joint and not progress.interrupted:
        task.show.update("inducing points", 1, 2)
        with progress.interruptible():
            rows, problem = _with_more_rows(task, problem, rows, most_rows(number, max_rows) if grows else max_rows)
            together = search_together(problem, bounds, minimum.vector, points, task.max_iterations, task.record)
            minimum, points, evidence = together.minimum, together.points, together.log_evidence
            bound = evidence
            progress.iterations += minimum.iterations
            progress.converged &= minimum.converged
    slope = projected_norm(minimum, bounds.lower, bounds.upper, bounds.scale)
    model, at_bound = problem.model(minimum.vector), bounds.names_at_bound(task.layout, minimum.vector)
    if len(rows) < len(task.x):
        model = model._replace(likelihood=at_rows(model.likelihood, task.likelihood, np.arange(len(task.x))))
        learns_more = any(not p.name.startswith("kernel") for p, _ in task.layout.entries())
        # With few points for all rows the noise would take up what they leave open.
        is_settled = progress.interrupted or (is_open and problem.is_exact)
        if learns_more and not is_settled:
            task.show.update("all rows", 0, 1)
            with progress.interruptible():
                last = refine(task, model, points)
                model, evidence = last.model, last.log_evidence
                progress.converged &= last.converged
                slope = max(slope, last.slope)
                at_bound = (*(name for name in at_bound if name.startswith("kernel")), *last.at_bound)
    return Outcome(
        model=model,
        objective=-minimum.value,
        log_evidence=evidence,
        is_exact=problem.is_exact and len(rows) == len(task.x),
        bound=bound,
        gradient_norm=slope,
        converged=progress.converged,
        at_bound=at_bound,
        frozen=tuple(p.name for p in task.layout.frozen),
        restarts=tuple(progress.restarts),
        rounds=progress.rounds,
        iterations=progress.iterations,
        num_rows=len(rows),
        num_support=num_support(prior),
        inducing_points=points,
        jitter=JITTER,
        warnings=notes_of(progress, at_bound, slope, num_inducing, number),
    )


def notes_of(
    progress: Progress, at_bound: tuple[str, ...], slope: float, asked: int | None = None, number: int = 0
) -> tuple[str, ...]:
    """What the user is to be warned of."""
    notes = []
    if asked is not None and number < asked:
        notes.append(f"There are {number} inducing points instead of {asked}: x has no more distinct rows.")
    if progress.interrupted:
        notes.append("The search was interrupted; the best so far is returned.")
    elif not progress.converged:
        notes.append(
            f"The search for hyperparameters did not converge in {progress.iterations} iterations (steepest slope "
            f"{slope:.2g} nats for a usual step). Raise `max_iterations`."
        )
    # A long lengthscale is a column that does not matter; these say that the model does not suit the data.
    if rounded := [name for name in at_bound if name in progress.limits.rounded]:
        notes.append(
            f"{', '.join(rounded)} ended at what the rounding of y alone adds: the data look as if they had no other "
            "noise. Rows that occur twice with the same y make it seem so; leave repeated rows out if they are copies."
        )
    unit = ("variance", "noise", "scale")
    doubtful = [name for name in at_bound if name.rsplit(".", 1)[-1] in unit and name not in rounded]
    if doubtful:
        notes.append(
            f"{', '.join(doubtful)} ended at a bound. Look at the units of y, give the prior a mean that suits "
            "it (a kernel alone has mean zero), or leave out a kernel that the data do not need."
        )
    return tuple(notes)


def searched(task: Task, problem: Problem, num_restarts: int, earlier: Progress | None) -> Progress:
    """Short searches from several starts, and the best of them to its end."""
    found = None if earlier is None or earlier.best is None else earlier.best.minimum.vector
    bounds, starts = candidates(task.generator, problem, num_restarts, found)
    progress = Progress(bounds)
    with progress.interruptible():
        _short_searches(task, problem, starts, progress)
        _main_search(task, problem, progress)
    return progress


def _carries(problem: Problem, progress: Progress) -> bool:
    """Whether so many inducing points can carry the model that fits best without them."""
    assert progress.best is not None
    sparse = Evaluator(dataclasses.replace(problem, is_exact=False), progress.limits, progress.best.minimum.vector)
    sparse(progress.best.minimum.vector)
    return progress.best.log_evidence - sparse.evidence < CARRIED * (
        len(problem.y) if problem.counts is None else float(np.sum(problem.counts))
    )


def _with_more_rows(task: Task, problem: Problem, rows: np.ndarray, most: int) -> tuple[np.ndarray, Problem]:
    """The problem on more rows, if that is allowed, and with inducing points."""
    if most > len(rows) < len(task.x):
        rows = subset(task.generator, task.y, task.counts, most, task.likelihood.num_labels)
    counts = None if task.counts is None else np.ascontiguousarray(task.counts[rows])
    likelihood = at_rows(task.likelihood, task.likelihood, rows)
    return rows, dataclasses.replace(
        problem, likelihood=likelihood, x=task.x[rows], y=task.y[rows], counts=counts, is_exact=False
    )


def _moved_points(
    task: Task, problem: Problem, progress: Progress, is_open: bool, stays: bool
) -> tuple[np.ndarray, float]:
    """Inducing points for the learned model, moved to where they explain most, and the log evidence with them.

    Hyperparameters that were learned with inducing points follow these, and the points follow once more. With `stays`
    the points are only chosen.
    """
    assert progress.best is not None
    x, y, counts, record = problem.x, problem.y, problem.counts, task.record
    model = problem.model(progress.best.minimum.vector)
    prior = rebuilt(problem.prior, model)
    points = choose_points(prior, x, problem.num_inducing)
    bound = float(log_evidence(prior, model.likelihood, x, y, points, weights=counts))
    if is_open or stays or progress.interrupted or problem.num_inducing >= len(np.unique(x, axis=0)):
        return points, bound
    with progress.interruptible():
        task.show.update("inducing points", 0, 2)
        points, bound = move_points(prior, model.likelihood, x, y, counts, points, bound, record)
        # The points stand still from here on, so this search may go on to its end.
        left = min(task.max_iterations - progress.iterations, 3 * _ROUNDS[-1])
        if problem.is_exact or left <= 0:
            return points, bound
        task.show.update("inducing points", 1, 2)
        found = _round(problem, progress.limits, progress.best.minimum.vector, left, record, points)
        progress.rounds += 1
        progress.iterations += found.minimum.iterations
        if found.minimum.value < progress.best.minimum.value:
            progress.converged &= found.minimum.converged
            progress.take(found)
        model = problem.model(progress.best.minimum.vector)
        prior = rebuilt(problem.prior, model)
        bound = float(log_evidence(prior, model.likelihood, x, y, points, weights=counts))
        points, bound = move_points(prior, model.likelihood, x, y, counts, points, bound, record)
    return points, bound


@dataclasses.dataclass
class Progress:
    """How far the search is; kept outside of it, so that an interruption loses nothing."""

    limits: Limits
    best: _Round | None = None
    restarts: list[float] = dataclasses.field(default_factory=list)
    rounds: int = 0
    iterations: int = 0
    converged: bool = False
    interrupted: bool = False

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Ctrl-C ends what is inside and leaves what was found, if anything was."""
        try:
            yield
        except KeyboardInterrupt:
            if self.best is None:
                raise
            self.interrupted, self.converged = True, False

    def take(self, found: _Round) -> None:
        """Keep a round if it is the best so far."""
        if self.best is None or found.minimum.value < self.best.minimum.value:
            self.best = found


def _num_inducing(given: int | None, x: Float[Array, "N D"]) -> int:
    if given is None:
        # Rows that occur twice may be points twice: shapes, and so what is compiled, do not depend on them.
        return min(MOST_INDUCING, len(x))
    distinct = len(np.unique(x, axis=0))
    limit = "the number of rows that the kernel is learned from (see `max_rows`)"
    return min(as_count("num_inducing", given, at_most=len(x), limit_name=limit), distinct)


def _short_searches(task: Task, problem: Problem, starts: list[np.ndarray], progress: Progress) -> None:
    for number, vector in enumerate(starts):
        task.show.update("starts", number, len(starts))
        found = _round(problem, progress.limits, vector, min(SHORT, task.max_iterations), task.record)
        progress.restarts.append(-found.minimum.value)
        progress.take(found)


def _main_search(task: Task, problem: Problem, progress: Progress) -> None:
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
        # A whole round that gained next to nothing says the same as a slope that promises nothing.
        ended = found.minimum.converged or (settled_down and found.minimum.iterations == limit)
        progress.converged = ended and (problem.is_exact or settled_down)


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
    found = minimise(objective, vector, bounds.lower, bounds.upper, max_iterations, record, bounds.scale)
    return _Round(found, objective.evidence)
