"""Hyperparameters by the evidence of the model that is used: a search, inducing points, and a stage on all rows."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_count
from kosambi._core.types import Array
from kosambi.basis.points import JITTER
from kosambi.learning import _heavy_tails
from kosambi.learning._all_rows import refine
from kosambi.learning._layout import rebuilt
from kosambi.learning._notes import notes_of
from kosambi.learning._objective import Evaluator, Problem, choose_points
from kosambi.learning._rounds import Progress, searched, searched_with_points
from kosambi.learning._rows import EXACT_ROWS, MOST_INDUCING, at_rows, num_support, subset, thinned
from kosambi.learning._search import projected_norm
from kosambi.learning._task import Outcome, Task
from kosambi.learning._together import most_rows, search_together
from kosambi.learning._twin import gaussian_start
from kosambi.learning.sizes import distinct_rows
from kosambi.likelihoods import Gaussian
from kosambi.target.evidence import log_evidence

MAX_ROWS = 2000
"""Rows that the kernel is learned from when their number is not given."""
NUM_RESTARTS = 2
"""Further starts from which a short search is made."""


def fit(
    task: Task,
    num_inducing: int | str,
    max_rows: int,
    num_restarts: int,
    *,
    grows: bool = False,
) -> Outcome:
    """The model of the highest evidence that was found.

    With "auto" the number of inducing points is chosen later, so that none are moved, and an exact evidence need not be
    carried by them; `grows` says that the last search may use more rows than `max_rows`.
    """
    is_open = num_inducing == "auto"
    if is_open and _heavy_tails.applies(task):
        return _heavy_tails.fit(task, max_rows, num_restarts)
    rows = subset(task.generator, task.y, task.counts, max_rows, task.likelihood.num_labels)
    x, y = task.x[rows], task.y[rows]
    counts = None if task.counts is None else np.ascontiguousarray(task.counts[rows])
    number = _num_inducing(num_inducing, x)
    prior = thinned(task.generator, task.prior, max_rows)
    likelihood = at_rows(task.likelihood, task.likelihood, rows)
    may_be_exact = isinstance(likelihood, Gaussian) and len(x) <= EXACT_ROWS
    fewer = number < len(np.unique(x, axis=0)) and not is_open
    is_joint = isinstance(num_inducing, int) and fewer
    problem = Problem(prior, likelihood, x, y, counts, task.layout, number, may_be_exact, is_joint)
    found = gaussian_start(task, problem, num_restarts, fewer)
    if fewer:
        problem, progress = searched_with_points(task, problem, num_restarts, found)
    else:
        progress = searched(task, problem, num_restarts, found)
    points, bound = _greedy_points(problem, progress)
    if is_open:
        points = points[np.sort(np.unique(points, axis=0, return_index=True)[1])]
    assert progress.best is not None
    bounds, minimum, evidence = progress.limits, progress.best.minimum, progress.best.log_evidence
    if is_joint and not progress.interrupted:
        task.show.update("moving inducing points")
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
        # With few points for all rows the noise would take up what they do not explain.
        is_settled = progress.interrupted or (is_open and problem.is_exact)
        if learns_more and not is_settled:
            task.show.update("noise from all rows")
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
        warnings=notes_of(progress, at_bound, slope, num_inducing if isinstance(num_inducing, int) else None, number),
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


def _greedy_points(problem: Problem, progress: Progress) -> tuple[np.ndarray, float]:
    """Inducing points for the learned model, and the log evidence with them."""
    assert progress.best is not None
    model = problem.model(progress.best.minimum.vector)
    points = choose_points(rebuilt(problem.prior, model), problem.x, problem.num_inducing)
    return points, _bound(problem, progress, points)


def _bound(problem: Problem, progress: Progress, points: np.ndarray) -> float:
    """The log evidence of the best model with these inducing points, by what is compiled already."""
    assert progress.best is not None
    vector = progress.best.minimum.vector
    if problem.is_exact:
        model = problem.model(vector)
        prior = rebuilt(problem.prior, model)
        return float(log_evidence(prior, model.likelihood, problem.x, problem.y, points, weights=problem.counts))
    at_points = Evaluator(problem, progress.limits, vector, points)
    at_points(vector)
    return at_points.evidence


def _num_inducing(given: int | str, x: Float[Array, "N D"]) -> int:
    if given == "auto":
        # Rows that occur twice may be points twice: shapes, and so what is compiled, do not depend on them.
        return min(MOST_INDUCING, len(x))
    distinct = len(distinct_rows(np.asarray(x)))
    if given == "all":
        return distinct
    limit = "the number of rows that the kernel is learned from (see `max_rows`)"
    return min(as_count("num_inducing", given, at_most=len(x), limit_name=limit), distinct)
