"""Heavy-tailed noise where the number of inducing points is chosen later.

A few hundred inducing points leave part of f open, and a noise that is learned with them takes that up: afterwards no
number of points makes up for it. So the kernel is that of Gaussian noise, whose evidence needs no inducing points, and
the noise is learned with every row of a subset as a point. Where tails matter much, outliers may have spoiled the
kernel; then one that a subset of few rows finds with the tails is tried too, and the better one kept.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from kosambi.evidence import JITTER, log_evidence
from kosambi.hyperparameters._all_rows import Refined, refine
from kosambi.hyperparameters._layout import rebuilt
from kosambi.hyperparameters._notes import notes_of
from kosambi.hyperparameters._objective import Problem, choose_points
from kosambi.hyperparameters._rounds import Progress, searched
from kosambi.hyperparameters._rows import EXACT_ROWS, MOST_INDUCING, num_support, subset, thinned
from kosambi.hyperparameters._search import projected_norm
from kosambi.hyperparameters._task import Outcome, Task
from kosambi.hyperparameters._twin import Twin, gaussian_twin, has_twin

FULL_ROWS = 800
"""Rows that the noise is learned from, each of them an inducing point."""
HEAVY = 0.05
"""Nats a datum by which tails must raise the evidence for a kernel to be learned with them."""


def applies(task: Task) -> bool:
    """Whether the noise is learned, has a Gaussian twin, and the rows are more than a search with all of them takes."""
    learned = any(parameter.name == "likelihood.scale" for parameter, _ in task.layout.entries())
    return learned and has_twin(task.likelihood) and len(task.x) > MOST_INDUCING


def fit(task: Task, max_rows: int, num_restarts: int) -> Outcome:
    """The kernel of the twin, or a better one, and the noise that goes with it."""
    prior = thinned(task.generator, task.prior, max_rows)
    problem = _problem(_some_rows(dataclasses.replace(task, prior=prior), min(max_rows, EXACT_ROWS)))
    twin = gaussian_twin(task, problem, num_restarts, few_points=False, exact_rows=EXACT_ROWS)
    progress = dataclasses.replace(twin.progress)
    found = Refined(problem.model(twin.vector), -np.inf, -np.inf, False, np.inf, ())
    with progress.interruptible():
        task.show.update("noise", 0, 2)
        few = _some_rows(task, FULL_ROWS)
        found = refine(few, found.model, np.asarray(few.x))
        if found.log_evidence - _gaussian_evidence(few, twin) > HEAVY * len(few.y):
            task.show.update("noise", 1, 2)
            found = _with_tails(task, few, twin, num_restarts, progress, found)
        progress.converged &= found.converged
    assert twin.progress.best is not None
    minimum, bounds = twin.progress.best.minimum, twin.progress.limits
    slope = max(projected_norm(minimum, bounds.lower, bounds.upper, bounds.scale), found.slope)
    kernel_bounds = bounds.names_at_bound(twin.problem.layout, minimum.vector)
    at_bound = (*(name for name in kernel_bounds if name.startswith("kernel")), *found.at_bound)
    return Outcome(
        model=found.model,
        objective=found.objective,
        log_evidence=found.log_evidence,
        is_exact=False,
        bound=found.log_evidence,
        gradient_norm=slope,
        converged=progress.converged,
        at_bound=at_bound,
        frozen=tuple(p.name for p in task.layout.frozen),
        restarts=tuple(progress.restarts),
        rounds=progress.rounds,
        iterations=progress.iterations,
        num_rows=len(problem.x),
        num_support=num_support(prior),
        inducing_points=choose_points(rebuilt(prior, found.model), problem.x, problem.num_inducing),
        jitter=JITTER,
        warnings=notes_of(progress, at_bound, slope),
    )


def _some_rows(task: Task, most: int) -> Task:
    """The same task with a random subset of its rows."""
    rows = subset(task.generator, task.y, task.counts, most, None)
    counts = None if task.counts is None else np.ascontiguousarray(task.counts[rows])
    return dataclasses.replace(task, x=task.x[rows], y=task.y[rows], counts=counts)


def _problem(task: Task) -> Problem:
    number = min(MOST_INDUCING, len(task.x))
    return Problem(task.prior, task.likelihood, task.x, task.y, task.counts, task.layout, number, is_exact=False)


def _gaussian_evidence(few: Task, twin: Twin) -> float:
    """Of the twin on the rows that the noise is learned from."""
    model = twin.model
    prior = rebuilt(twin.problem.prior, model)
    return float(log_evidence(prior, model.likelihood, few.x, few.y, few.x, weights=few.counts))


def _with_tails(task: Task, few: Task, twin: Twin, num_restarts: int, progress: Progress, before: Refined) -> Refined:
    """A kernel that few rows find with the tails, and the noise with it; `before` if that is not better."""
    problem = _problem(_some_rows(few, MOST_INDUCING))
    own = searched(task, problem, num_restarts, twin.vector)
    progress.rounds += own.rounds
    progress.iterations += own.iterations
    if own.interrupted:
        raise KeyboardInterrupt
    assert own.best is not None
    found = refine(few, problem.model(own.best.minimum.vector), np.asarray(few.x))
    return found if found.log_evidence > before.log_evidence else before
