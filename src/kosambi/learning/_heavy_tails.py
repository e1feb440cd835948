"""Heavy-tailed noise where the number of inducing points is chosen later.

A few hundred inducing points leave part of f open, and a noise that is learned with them takes that up: afterwards no
number of points makes up for it. So the kernel is that of Gaussian noise, whose evidence needs no inducing points, and
the noise is learned with every row of a subset as a point. Where tails matter much, outliers may have spoiled the
kernel; then one that a subset of few rows finds with the tails is tried too, and the better one kept.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from kosambi.basis.points import JITTER
from kosambi.learning._all_rows import Refined, refine
from kosambi.learning._layout import rebuilt
from kosambi.learning._notes import notes_of
from kosambi.learning._objective import Problem
from kosambi.learning._rounds import Progress, searched
from kosambi.learning._rows import EXACT_ROWS, MOST_INDUCING, num_support, subset, thinned
from kosambi.learning._search import projected_norm
from kosambi.learning._task import Outcome, Task
from kosambi.learning._twin import Twin, gaussian_twin, has_twin
from kosambi.target.evidence import log_evidence

FULL_ROWS = 800
"""Rows that the noise is learned from, each of them an inducing point."""
HEAVY = 0.05
"""Nats a datum by which tails must raise the evidence for a kernel to be learned with them."""


@dataclasses.dataclass(frozen=True)
class _Kernel:
    """A kernel that was found, the problem that it was found with, and the noise that goes with it."""

    problem: Problem
    progress: Progress
    noise: Refined


def applies(task: Task) -> bool:
    """Whether the noise is learned, has a Gaussian twin, and the rows are more than a search with all of them takes."""
    learned = any(parameter.name == "likelihood.scale" for parameter, _ in task.layout.entries())
    return learned and has_twin(task.likelihood) and len(task.x) > MOST_INDUCING


def fit(task: Task, max_rows: int, num_restarts: int) -> Outcome:
    """The kernel of the twin, or a better one, and the noise that goes with it."""
    # Once, so that all evidences are those of one prior.
    task = dataclasses.replace(task, prior=thinned(task.generator, task.prior, max_rows))
    rows = _some_rows(task, min(max_rows, EXACT_ROWS))
    problem = _problem(rows)
    twin = gaussian_twin(task, problem, num_restarts, few_points=False, exact_rows=EXACT_ROWS)
    few = _some_rows(task, FULL_ROWS)
    start = Refined(problem.model(twin.vector), np.nan, np.nan, False, np.nan, ())
    found = _Kernel(twin.problem, twin.progress, start)
    evidence, progress = np.nan, dataclasses.replace(twin.progress)
    if not progress.interrupted:
        with progress.interruptible():
            task.show.update("noise")
            found = dataclasses.replace(found, noise=refine(few, start.model, np.asarray(few.x)))
            if _learns_kernel(task) and _tails_matter(few, twin, found.noise):
                task.show.update("kernel with heavy tails")
                found = _with_tails(few, max_rows, num_restarts, twin, found, progress)
            is_same = len(few.x) == len(rows.x) == len(task.x)
            evidence = found.noise.log_evidence if is_same else _evidence(rows, few, found.noise)
    progress.converged = found.progress.converged and found.noise.converged and not progress.interrupted
    assert found.progress.best is not None
    minimum, bounds = found.progress.best.minimum, found.progress.limits
    slope = float(np.fmax(projected_norm(minimum, bounds.lower, bounds.upper, bounds.scale), found.noise.slope))
    kernel_bounds = bounds.names_at_bound(found.problem.layout, minimum.vector)
    at_bound = (*(name for name in kernel_bounds if name.startswith("kernel")), *found.noise.at_bound)
    return Outcome(
        model=found.noise.model,
        objective=found.noise.objective,
        log_evidence=evidence,
        is_exact=False,
        bound=evidence,
        gradient_norm=slope,
        converged=progress.converged,
        at_bound=at_bound,
        frozen=tuple(p.name for p in task.layout.frozen),
        restarts=tuple(progress.restarts),
        rounds=progress.rounds,
        iterations=progress.iterations,
        num_rows=len(found.problem.x),
        num_support=num_support(task.prior),
        inducing_points=np.asarray(few.x),
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


def _learns_kernel(task: Task) -> bool:
    return any(parameter.name.startswith("kernel") for parameter, _ in task.layout.entries())


def _tails_matter(few: Task, twin: Twin, found: Refined) -> bool:
    """Whether the evidence is higher than with Gaussian noise by so much that outliers may have spoiled the kernel."""
    model = twin.model
    gaussian = log_evidence(rebuilt(few.prior, model), model.likelihood, few.x, few.y, few.x, weights=few.counts)
    total = len(few.y) if few.counts is None else float(np.sum(few.counts))
    # Not finite: what the twin has found is of no use with this noise.
    return not np.isfinite(found.log_evidence) or found.log_evidence - float(gaussian) > HEAVY * total


def _with_tails(
    few: Task, max_rows: int, num_restarts: int, twin: Twin, before: _Kernel, progress: Progress
) -> _Kernel:
    """A kernel that few rows find with the tails, and the noise with it; `before` if that is not better."""
    problem = _problem(_some_rows(few, min(MOST_INDUCING, max_rows)))
    own = searched(few, problem, num_restarts, twin.vector)
    progress.rounds += own.rounds
    progress.iterations += own.iterations
    if own.interrupted:
        raise KeyboardInterrupt
    assert own.best is not None
    noise = refine(few, problem.model(own.best.minimum.vector), np.asarray(few.x))
    return _Kernel(problem, own, noise) if noise.log_evidence > before.noise.log_evidence else before


def _evidence(rows: Task, few: Task, found: Refined) -> float:
    """Of the rows of the search with Gaussian noise, with those that the noise was learned from as points."""
    prior = rebuilt(rows.prior, found.model)
    return float(log_evidence(prior, found.model.likelihood, rows.x, rows.y, few.x, weights=rows.counts))
