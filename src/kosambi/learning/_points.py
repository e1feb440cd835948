"""Learning with a number of inducing points that was asked for: they carry the model, and are moved to suit it.

The search begins where one without points ends; a Gaussian likelihood keeps that if the points can carry it. Then
hyperparameters and points are learned together, on as many rows as that takes seconds for, and the likelihood and the
mean once more on all rows.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_count
from kosambi._core.types import Array
from kosambi.basis.points import JITTER
from kosambi.learning._all_rows import refine
from kosambi.learning._blocks import num_support, subset, thinned
from kosambi.learning._dense import EXACT_ROWS, SITE_ROWS
from kosambi.learning._layout import rebuilt
from kosambi.learning._objective import EXACT, POINTS, SITES, Evaluator, Problem, choose_points
from kosambi.learning._rounds import Progress, notes_of, searched, searched_with_points
from kosambi.learning._search import projected_norm
from kosambi.learning._task import Outcome, Task
from kosambi.learning._together import most_rows, search_together
from kosambi.learning.sizes import distinct_rows
from kosambi.likelihoods import Gaussian
from kosambi.target.evidence import log_evidence

MAX_ROWS = 2000
"""Rows that the kernel is learned from when their number is not given."""


def fit(task: Task, num_inducing: int, max_rows: int | None, num_restarts: int) -> Outcome:
    """The model of the highest evidence that was found; the last search may use more rows than `max_rows` if None."""
    is_gaussian = isinstance(task.likelihood, Gaussian)
    is_large = max_rows is None and is_gaussian and len(task.x) > MAX_ROWS
    limit = MAX_ROWS if max_rows is None else max_rows
    rows = subset(task.generator, task.y, task.counts, limit, task.likelihood.num_labels)
    x, y = task.x[rows], task.y[rows]
    counts = None if task.counts is None else np.ascontiguousarray(task.counts[rows])
    number = _number(num_inducing, x)
    prior = thinned(task.generator, task.prior, limit)
    likelihood = task.likelihood.at_rows(rows)
    strategy = EXACT if is_gaussian and len(x) <= EXACT_ROWS else POINTS
    is_joint = number < len(np.unique(x, axis=0))
    problem = Problem(prior, likelihood, x, y, counts, task.layout, number, strategy, is_joint=is_joint)
    found = None if is_gaussian else _start_without_points(task, problem, num_restarts)
    if is_joint and not is_large:
        problem, progress = searched_with_points(task, problem, num_restarts if found is None else 0, found)
    else:
        problem, progress = searched(task, problem, num_restarts if found is None else 0, found)
    points, bound = _greedy_points(problem, progress)
    assert progress.best is not None
    bounds, minimum, evidence = progress.limits, progress.best.minimum, progress.best.log_evidence
    if is_joint and not progress.interrupted:
        task.show.update("moving inducing points")
        most = most_rows(number, limit, is_gaussian) if max_rows is None else limit
        with progress.interruptible():
            more, larger = _with_more_rows(task, problem, rows, most)
            together = search_together(larger, bounds, minimum.vector, points, task.max_iterations, task.record)
            rows, problem = more, larger
            minimum, points, evidence = together.minimum, together.points, together.log_evidence
            bound = evidence
            progress.iterations += minimum.iterations
            progress.converged &= minimum.converged
    slope = projected_norm(minimum, bounds.lower, bounds.upper, bounds.scale)
    model, at_bound = problem.model(minimum.vector), bounds.names_at_bound(task.layout, minimum.vector)
    if len(rows) < len(task.x):
        if task.likelihood.num_rows is not None:
            model = model._replace(likelihood=task.likelihood)
        if any(not p.name.startswith("kernel") for p, _ in task.layout.entries()) and not progress.interrupted:
            task.show.update("noise from all rows")
            with progress.interruptible():
                last = refine(task, model, points)
                model, evidence = last.model, last.log_evidence
                progress.converged &= last.converged
                slope = max(slope, last.slope)
                at_bound = (*(name for name in at_bound if name.startswith("kernel")), *last.at_bound)
    return Outcome(
        model=model,
        strategy=problem.strategy,
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


def _start_without_points(task: Task, problem: Problem, num_restarts: int) -> Float[np.ndarray, " P"]:
    """What the bound through sites of some rows has found; its evaluations do not count for the trace."""
    rows = subset(task.generator, problem.y, problem.counts, SITE_ROWS // 2, problem.likelihood.num_labels)
    own = dataclasses.replace(task, record=task.record.beside())
    dense = dataclasses.replace(problem, strategy=SITES, blocks=(rows,), is_joint=False)
    _, progress = searched(own, dense, num_restarts)
    task.record.absorb(own.record)
    if progress.interrupted:
        # Nothing of the problem itself is there to return.
        raise KeyboardInterrupt
    assert progress.best is not None
    return progress.best.minimum.vector


def _with_more_rows(task: Task, problem: Problem, rows: np.ndarray, most: int) -> tuple[np.ndarray, Problem]:
    """The problem on more rows, if that is allowed, and with inducing points."""
    if most > len(rows) < len(task.x):
        rows = subset(task.generator, task.y, task.counts, most, task.likelihood.num_labels)
    counts = None if task.counts is None else np.ascontiguousarray(task.counts[rows])
    likelihood = task.likelihood.at_rows(rows)
    return rows, dataclasses.replace(
        problem, likelihood=likelihood, x=task.x[rows], y=task.y[rows], counts=counts, strategy=POINTS
    )


def _greedy_points(problem: Problem, progress: Progress) -> tuple[np.ndarray, float]:
    """Inducing points for the learned model, and the log evidence with them."""
    assert progress.best is not None
    vector = progress.best.minimum.vector
    model = problem.model(vector)
    prior = rebuilt(problem.prior, model)
    points = choose_points(prior, problem.x, problem.num_inducing)
    if problem.strategy == EXACT:
        bound = log_evidence(prior, model.likelihood, problem.x, problem.y, points, weights=problem.counts)
        return points, float(bound)
    # By what is compiled already.
    at_points = Evaluator(problem, progress.limits, vector, points)
    at_points(vector)
    return points, at_points.evidence


def _number(given: int, x: Float[Array, "N D"]) -> int:
    limit = "the number of rows that the kernel is learned from (see `max_rows`)"
    number = as_count("num_inducing", given, at_most=len(x), limit_name=limit)
    return min(number, len(distinct_rows(np.asarray(x))))
