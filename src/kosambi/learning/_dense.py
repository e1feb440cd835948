"""Learning without inducing points, where their number is chosen later or every row is one.

Few points would leave part of f unexplained, and a noise that is learned with them takes that up: afterwards no number
of points makes up for it. So the evidence is that of the process itself: exact for Gaussian noise, through sites for
any other likelihood. Rows that fit are one block. More of them are several blocks, and with Gaussian noise the
neighbour likelihood of all rows has the last word.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from kosambi.basis.points import JITTER
from kosambi.kernels import column_scales
from kosambi.learning._blocks import choose_blocks, num_support, subset, thinned
from kosambi.learning._layout import rebuilt
from kosambi.learning._neighbors import refine
from kosambi.learning._objective import EXACT, SITES, Problem
from kosambi.learning._rounds import Progress, notes_of, searched
from kosambi.learning._search import projected_norm
from kosambi.learning._tails import is_heavy_tailed, searched_from_gaussian, with_gaussian_noise
from kosambi.learning._task import Outcome, Task
from kosambi.likelihoods import Gaussian
from kosambi.priors import GaussianProcess

EXACT_ROWS = 2000
"""Up to how many rows Gaussian noise has its exact evidence."""
EXACT_BLOCK, EXACT_BLOCKS = 1000, 4
"""Rows of a block, and how many blocks, where there are more."""
SITE_ROWS = 640
"""Up to how many rows any other likelihood has the bound of all rows together."""
SITE_BLOCK, SITE_BLOCKS = 512, 8
"""Rows of a block for one latent function, and how many blocks, where there are more."""
NEIGHBORS = "neighbors"


def fit(task: Task, max_rows: int | None, num_restarts: int) -> Outcome:
    """The model of the highest evidence that was found.

    `max_rows` limits the rows that anything is learned from; None leaves that to what they cost.
    """
    gaussian = None
    if is_heavy_tailed(task):
        alike = with_gaussian_noise(task)
        gaussian = fit(alike, max_rows, num_restarts)
        task.record.absorb(alike.record)
    prior = thinned(task.generator, task.prior, EXACT_ROWS if max_rows is None else max_rows)
    strategy = EXACT if isinstance(task.likelihood, Gaussian) else SITES
    pool = np.arange(len(task.x)) if task.counts is None else np.flatnonzero(task.counts)
    if max_rows is not None and max_rows >= len(pool):
        max_rows = None
    size, most = _sizes(task.likelihood.num_latents, strategy, len(pool), max_rows)
    first = subset(task.generator, task.y, task.counts, size, task.likelihood.num_labels)
    whole = Problem(prior, task.likelihood, task.x, task.y, task.counts, task.layout, 0, strategy, (first,))

    def widen(problem: Problem, vector: np.ndarray) -> Problem:
        scaled = np.asarray(problem.x) / column_scales(problem.model(vector).kernel, np.asarray(problem.x))
        return dataclasses.replace(problem, blocks=choose_blocks(task.generator, scaled, first, pool, most))

    needs_more = most > 1 and len(first) < len(pool)
    if gaussian is None:
        problem, progress = searched(task, whole, num_restarts, widen=widen if needs_more else None)
    else:
        problem = whole
        if needs_more:
            vector = task.layout.vector(gaussian.model._replace(likelihood=task.likelihood))
            problem = widen(whole, vector)
        progress = searched_from_gaussian(task, problem, gaussian.model)
    assert progress.best is not None
    outcome = _outcome(task, problem, progress)
    can_refine = strategy == EXACT and isinstance(task.prior, GaussianProcess) and task.likelihood.num_rows is None
    if needs_more and can_refine and max_rows is None and not progress.interrupted:
        task.show.update("all rows")
        with progress.interruptible():
            outcome = _with_all_rows(task, outcome, progress)
        if progress.interrupted:
            outcome = dataclasses.replace(outcome, converged=False, warnings=notes_of(progress, (), 0.0))
    return outcome


def _sizes(num_latents: int, strategy: str, num_rows: int, max_rows: int | None) -> tuple[int, int]:
    """Rows of the first block, and the number of blocks."""
    together, block, most = (
        (EXACT_ROWS, EXACT_BLOCK, EXACT_BLOCKS) if strategy == EXACT else (SITE_ROWS, SITE_BLOCK, SITE_BLOCKS)
    )
    # The work grows with the number of latent functions and the cube of the rows.
    shrunk = num_latents ** (-1.0 / 3.0)
    together, block = int(together * shrunk), int(block * shrunk)
    limit = num_rows if max_rows is None else max_rows
    if limit <= together:
        # All rows, also those that do not count, so that shapes stay the same.
        return (2**62 if max_rows is None else limit), 1
    number = most if max_rows is None else min(most, math.ceil(limit / block))
    return min(block, limit // number), number


def _outcome(task: Task, problem: Problem, progress: Progress) -> Outcome:
    assert progress.best is not None
    bounds, minimum = progress.limits, progress.best.minimum
    slope = projected_norm(minimum, bounds.lower, bounds.upper, bounds.scale)
    at_bound = bounds.names_at_bound(task.layout, minimum.vector)
    is_whole = problem.num_rows >= task.num_counting
    return Outcome(
        model=problem.model(minimum.vector),
        strategy=problem.strategy,
        objective=-minimum.value,
        log_evidence=progress.best.log_evidence,
        is_exact=problem.is_exact and is_whole,
        bound=np.nan,
        gradient_norm=slope,
        converged=progress.converged,
        at_bound=at_bound,
        frozen=tuple(p.name for p in task.layout.frozen),
        restarts=tuple(progress.restarts),
        rounds=progress.rounds,
        iterations=progress.iterations,
        num_rows=min(problem.num_rows, task.num_counting),
        num_support=num_support(problem.prior),
        inducing_points=None,
        jitter=JITTER,
        warnings=notes_of(progress, at_bound, slope),
    )


def _with_all_rows(task: Task, before: Outcome, progress: Progress) -> Outcome:
    """The same after the neighbour likelihood of all rows."""
    found = refine(task, rebuilt(task.prior, before.model), before.model, progress.limits)
    at_bound = progress.limits.names_at_bound(task.layout, task.layout.vector(found.model))
    progress.converged = progress.converged and found.converged
    return dataclasses.replace(
        before,
        model=found.model,
        strategy=NEIGHBORS,
        objective=found.objective,
        log_evidence=found.log_evidence,
        is_exact=False,
        gradient_norm=found.slope,
        converged=progress.converged,
        at_bound=at_bound,
        iterations=before.iterations + found.steps,
        num_rows=task.num_counting,
        warnings=(*notes_of(progress, at_bound, found.slope), *found.warnings),
    )
