"""A kernel for classes, from a regression on their indicators; its variance from the evidence of the classes.

Laplace's approximation for C classes factorises matrices of M·C rows at every step of every evaluation. The shape of
the kernel (lengthscales, and the sizes of its parts to each other) is therefore learned from C Gaussian regressions of
one kernel on the indicators 1{y = c}, less their shares: their exact evidence needs one factorisation of N rows. What a
regression cannot say is how steep logits are: the variance is then chosen by the evidence of the classes.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import scipy.optimize
from jaxtyping import Float

from kosambi._core.precision import at_rest, with_fields
from kosambi.basis.points import JITTER
from kosambi.kernels import AbstractKernel, scaled
from kosambi.learning._layout import Layout, Model, lay_out, rebuilt
from kosambi.learning._notes import notes_of
from kosambi.learning._objective import Problem, choose_points
from kosambi.learning._rounds import searched
from kosambi.learning._rows import num_support, subset
from kosambi.learning._search import projected_norm
from kosambi.learning._task import Outcome, Task
from kosambi.likelihoods import Gaussian
from kosambi.priors import AbstractPrior
from kosambi.target.evidence import log_evidence

MAX_ROWS = 1000
"""Rows that the regressions are given when their number is not."""
SCALE_ROWS, SCALE_POINTS = 400, 64
"""Rows and inducing points that the variance is learned with."""
# The prior variance of a logit, and its logarithm's prior: most classes are neither a coin nor certain.
_USUAL_VARIANCE, _WIDTH = 10.0, 3.0
_LOWEST, _HIGHEST = 0.1, 3000.0


def fit(task: Task, max_rows: int, num_restarts: int) -> Outcome:
    """The model with the kernel of the regressions, and the variance of the highest evidence."""
    rows = subset(task.generator, task.y, task.counts, max_rows, task.likelihood.num_labels)
    counts = None if task.counts is None else np.ascontiguousarray(task.counts[rows])
    targets = _indicators(task.y[rows], counts, task.likelihood.num_latents)
    prior = with_fields(task.prior, mean=np.zeros(()))
    layout = _kernel_layout(task.layout, Model(prior.kernel, prior.mean, Gaussian(0.3)))
    number = min(SCALE_POINTS, len(rows))
    problem = Problem(prior, Gaussian(0.3), task.x[rows], targets, counts, layout, number, True)
    progress = searched(dataclasses.replace(task, layout=layout), problem, num_restarts)
    assert progress.best is not None
    minimum, bounds = progress.best.minimum, progress.limits
    kernel = problem.model(minimum.vector).kernel
    evidence = np.nan
    slope = projected_norm(minimum, bounds.lower, bounds.upper, bounds.scale)
    if not progress.interrupted:
        task.show.update("variance")
        with progress.interruptible():
            factor, evidence = _best_factor(task, kernel, rows)
            kernel = kernel if factor is None else at_rest(scaled(kernel, factor))
    return Outcome(
        model=Model(kernel, task.prior.mean, task.likelihood),
        objective=-minimum.value,
        log_evidence=evidence,
        is_exact=False,
        bound=np.nan,
        gradient_norm=slope,
        converged=progress.converged,
        at_bound=tuple(name for name in bounds.names_at_bound(layout, minimum.vector) if name.startswith("kernel")),
        frozen=tuple(p.name for p in task.layout.frozen),
        restarts=tuple(progress.restarts),
        rounds=progress.rounds,
        iterations=progress.iterations,
        num_rows=len(rows),
        num_support=num_support(prior),
        inducing_points=None,
        jitter=JITTER,
        warnings=notes_of(progress, (), slope),
    )


def _indicators(y: np.ndarray, counts: np.ndarray | None, number: int) -> Float[np.ndarray, "N C"]:
    table = (y[:, None] == np.arange(number)).astype(np.float64)
    return table - np.average(table, axis=0, weights=counts)


def _kernel_layout(given: Layout, model: Model) -> Layout:
    """The free parameters of the kernel, tied as they were, and the noise of the regressions."""
    frozen = [p.name for p in given.frozen if p.name.startswith("kernel")]
    groups = [[p.name for p in group] for group in given.groups]
    tied = [names for names in groups if len(names) > 1 and all(name.startswith("kernel") for name in names)]
    return lay_out(model, [*frozen, "mean"], tied)


def _best_factor(task: Task, kernel: AbstractKernel, rows: np.ndarray) -> tuple[float | None, float]:
    """What the kernel is to be multiplied by, and the log evidence then; None where its variance is not free."""
    if any(p.name.startswith("kernel") and p.name.endswith("variance") for p in task.layout.frozen):
        return None, np.nan
    counts = None if task.counts is None else task.counts[rows]
    some = rows[subset(task.generator, task.y[rows], counts, SCALE_ROWS, task.likelihood.num_labels)]
    x, y = task.x[some], task.y[some]
    counts = None if task.counts is None else np.ascontiguousarray(task.counts[some])
    unit = rebuilt(task.prior, Model(kernel, task.prior.mean, task.likelihood))
    variance = float(np.mean(unit.variance(x)))
    points = choose_points(unit, x, min(SCALE_POINTS, len(x)))
    found: dict[float, float] = {}

    def objective(log_variance: float) -> float:
        prior: AbstractPrior = with_fields(unit, kernel=at_rest(scaled(kernel, np.exp(log_variance) / variance)))
        found[log_variance] = float(log_evidence(prior, task.likelihood, x, y, points, weights=counts))
        away = (log_variance - np.log(_USUAL_VARIANCE)) / _WIDTH
        task.record.moves += 1
        return 0.5 * away**2 - found[log_variance]

    best = scipy.optimize.minimize_scalar(
        objective, bounds=(np.log(_LOWEST), np.log(_HIGHEST)), method="bounded", options={"xatol": 0.05, "maxiter": 20}
    )
    return float(np.exp(best.x) / variance), found[float(best.x)]
