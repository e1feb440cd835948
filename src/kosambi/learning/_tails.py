"""Noise with heavy tails: the kernel of Gaussian noise, unless tails matter much.

Tails can explain as outliers what a kernel should have learned, and the evidence, which then has several maxima, mostly
prefers that: functions come out too smooth, and predict worse. So the kernel is first that of Gaussian noise, and the
noise is learned with it, through sites. Where this raises the evidence by much, there are outliers that may have
spoiled the kernel; only then kernel and noise are learned together.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from kosambi._core.precision import with_fields
from kosambi._core.progress import Interruption
from kosambi.learning._exact import ExactEvaluator
from kosambi.learning._layout import Model, lay_out, rebuilt, without_kernel
from kosambi.learning._limits import limits
from kosambi.learning._objective import EXACT, Problem, blocks_of
from kosambi.learning._rounds import Progress, Round, searched
from kosambi.learning._search import minimise
from kosambi.learning._sites import SiteEvaluator
from kosambi.learning._starts import Scales, learns_mean, start
from kosambi.learning._task import Task
from kosambi.likelihoods import Gaussian, Laplace, StudentT

HEAVY = 0.05
"""Nats per observation by which tails must raise the evidence for a kernel to be learned with them."""
# Tails that Gaussian noise takes for width.
_NARROWER = 0.7


def is_heavy_tailed(task: Task) -> bool:
    """Whether noise is learned that is like Gaussian noise but for its tails."""
    learned = any(parameter.name == "likelihood.scale" for parameter, _ in task.layout.entries())
    return learned and isinstance(task.likelihood, StudentT | Laplace) and not np.ndim(task.likelihood.scale)


def with_gaussian_noise(task: Task) -> Task:
    """The same task with Gaussian noise; its evaluations are not those of the trace, and Ctrl-C ends all."""
    likelihood: Any = task.likelihood
    given = Model(task.prior.kernel, task.prior.mean, Gaussian(likelihood.scale))
    names = ("kernel", "mean")
    frozen = [p.name for p in task.layout.frozen if p.name.startswith(names)]
    tied = [[p.name for p in group] for group in task.layout.groups if len(group) > 1]
    layout = lay_out(given, frozen, [group for group in tied if all(name.startswith(names) for name in group)])
    return dataclasses.replace(
        task, likelihood=given.likelihood, layout=layout, record=task.record.beside(), stop=Interruption()
    )


def searched_from_gaussian(task: Task, problem: Problem, gaussian: Model) -> Progress:
    """The noise with the kernel of Gaussian noise, or both where tails matter much, on the blocks of the problem."""
    # An array, as parameters are: a NumPy number would be no parameter.
    scale = np.asarray(_NARROWER * gaussian.likelihood.noise)  # type: ignore[attr-defined]
    begun = gaussian._replace(likelihood=with_fields(task.likelihood, scale=scale))
    progress = _noise_alone(task, problem, begun)
    assert progress.best is not None
    without_tails = dataclasses.replace(problem, likelihood=gaussian.likelihood, strategy=EXACT)
    reference = ExactEvaluator(lay_out(gaussian), gaussian, problem.prior, list(blocks_of(without_tails)))
    value, _ = reference(lay_out(gaussian).vector(gaussian))
    gain = progress.best.log_evidence + value
    learns_kernel = any(parameter.name.startswith("kernel") for parameter, _ in task.layout.entries())
    if learns_kernel and not gain < HEAVY * _total(problem) and not progress.interrupted:
        task.show.update("kernel with heavy tails")
        with progress.interruptible():
            _, together = searched(task, problem, 0, progress.best.minimum.vector)
            assert together.best is not None
            if together.best.log_evidence > progress.best.log_evidence:
                return together
            if together.interrupted:
                progress.interrupted, progress.converged = True, False
    return progress


def _noise_alone(task: Task, problem: Problem, begun: Model) -> Progress:
    """The parameters of the likelihood and the mean, with the kernel as it is."""
    task.show.update("noise")
    prior, (x, y) = rebuilt(problem.prior, begun), problem.counting
    layout = without_kernel(task.layout, begun)
    scales = Scales.of(prior, begun.likelihood, x, y, learns_mean(layout))
    bounds = limits(layout, start(prior, begun.likelihood, x, y, scales), begun, scales, x)
    blocks = list(blocks_of(dataclasses.replace(problem, likelihood=begun.likelihood)))
    objective = SiteEvaluator(layout, begun, problem.prior, blocks, bounds)
    found = minimise(
        objective, layout.vector(begun), bounds.lower, bounds.upper, task.max_iterations, task.record, bounds.scale
    )
    # In the free numbers of the whole task, whose limits include those that this search had.
    every = Scales.of(problem.prior, problem.likelihood, x, y, learns_mean(task.layout))
    usual = start(problem.prior, problem.likelihood, x, y, every)
    model = layout.model(found.vector, begun)
    vector = task.layout.vector(model)
    whole = limits(task.layout, usual, Model(*model), every, x)
    minimum = dataclasses.replace(
        found, vector=vector, gradient=_spread(task, layout, found.gradient), value=-objective.evidence
    )
    progress = Progress(whole, returns=task.stop.returns)
    progress.take(Round(minimum, objective.evidence))
    progress.rounds, progress.iterations, progress.converged = 1, found.iterations, found.converged
    return progress


def _spread(task: Task, layout: Any, gradient: np.ndarray) -> np.ndarray:
    """A gradient in some of the free numbers, with zeros for the others."""
    known = {p.entry(i): value for (p, i), value in zip(layout.entries(), gradient, strict=True)}
    return np.array([known.get(p.entry(i), 0.0) for p, i in task.layout.entries()])


def _total(problem: Problem) -> float:
    return sum(float(np.sum(block.counts)) for block in blocks_of(problem))
