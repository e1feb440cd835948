"""Noise with heavy tails: the kernel of Gaussian noise, or one that is learned with the tails if it predicts better.

Tails can explain as outliers what a kernel should have learned, and the evidence, which then has several maxima, mostly
prefers that: functions come out too smooth, and predict worse. But outliers spoil a kernel that is learned as if there
were none. So the kernel is first that of Gaussian noise, and the noise is learned with it, through sites. From there
both are learned together, and observations that are left out, one at a time, choose between the two; where there are
many rows, only tails that raise the evidence by much have their own kernel.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from kosambi._core.precision import with_fields
from kosambi._core.progress import Interruption
from kosambi._core.threads import in_threads
from kosambi.learning.exact import ExactEvaluator
from kosambi.learning.hyperpriors import with_priors
from kosambi.learning.layout import Model, lay_out, rebuilt, without_kernel
from kosambi.learning.rows import Block, gathered, num_support
from kosambi.learning.search import Objective, minimise
from kosambi.learning.site_evaluator import SiteEvaluator
from kosambi.learning.sites import ROUGHLY, Sites
from kosambi.learning.starts import usual_limits
from kosambi.learning.task import AbstractStrategy, Found, Task, moved_to
from kosambi.learning.without_points import ENOUGH, SITES, WithoutPoints
from kosambi.likelihoods import Gaussian, Laplace, StudentT

TAILS, HEAVY = 0.005, 0.05
"""Nats per observation by which tails must raise the evidence for a kernel to be learned with them: where observations
that are left out decide, and where there are too many rows for that."""
MOST_LEFT_OUT = 1000
"""Rows up to which they decide, all of them together: part of the rows is better predicted by smoother functions."""
# Tails that Gaussian noise takes for width.
_NARROWER = 0.7


def is_heavy_tailed(task: Task) -> bool:
    """Whether noise is learned that is like Gaussian noise but for its tails."""
    learned = any(parameter.name == "likelihood.scale" for parameter, _ in task.layout.entries())
    return learned and isinstance(task.likelihood, StudentT | Laplace) and not np.ndim(task.likelihood.scale)


class HeavyTails(AbstractStrategy):
    """The kernel of Gaussian noise, and the noise with it; both together where rows left out are predicted better.

    Arguments:
        task: the model, the data, and what a search needs.
        max_rows: rows that anything is learned from, at most; None leaves that to what they cost.
    """

    def __init__(self, task: Task, max_rows: int | None = None) -> None:
        self.task = task
        self._twin = _with_gaussian_noise(task)
        self._gaussian = WithoutPoints(self._twin, max_rows)
        self._own = WithoutPoints(task, max_rows)
        self._rows: tuple[np.ndarray, ...] = ()
        self._gain = np.inf
        self._sites: list[Sites | None] = []
        """Of every block, with the kernel of Gaussian noise."""

    def start(self) -> Found:
        """All stages with Gaussian noise, and then the noise."""
        task = self.task
        gaussian = self._gaussian.refine(self._gaussian.search(self._gaussian.start()))
        task.record.absorb(self._twin.record)
        # An array, as parameters are: a NumPy number would be no parameter.
        scale = np.asarray(_NARROWER * gaussian.model.likelihood.noise)  # type: ignore[attr-defined]
        begun = gaussian.model._replace(likelihood=with_fields(task.likelihood, scale=scale))
        own = self._own
        self._rows = own.rows(begun)
        found = self._noise_alone(begun, gaussian)
        blocks = gathered(self._rows, task.x, task.y, task.counts, gaussian.model.likelihood)
        every = lay_out(gaussian.model)
        value, _ = ExactEvaluator(every, gaussian.model, own.prior, blocks)(every.vector(gaussian.model))
        total = sum(float(np.sum(block.counts)) for block in blocks)
        self._gain = (found.log_evidence + value) / total
        return found

    def search(self, found: Found) -> Found:
        """Kernel and noise together, where there are tails and rows left out are predicted better for it."""
        task, bounds = self.task, found.bounds
        assert bounds is not None
        can_leave_out = len(self._own.pool) <= MOST_LEFT_OUT
        if not task.learns("kernel") or self._gain < (TAILS if can_leave_out else HEAVY):
            return found
        task.show.update("kernel with heavy tails")
        objective = self._own.evaluator(self._rows, found.model, bounds)
        assert isinstance(objective, SiteEvaluator)
        objective.begin_with(self._sites)
        vector = task.layout.vector(found.model)
        limits = bounds.lower, bounds.upper, task.max_iterations
        minimum = minimise(objective, vector, *limits, task.record, bounds.scale, task.stop, ENOUGH)
        if not objective.evidence > found.log_evidence:
            return found
        if can_leave_out:
            ends = (vector, self._sites), (minimum.vector, objective.sites)
            without, with_tails = in_threads(lambda end: self._left_out(found.model, *end), ends)
            if not with_tails > without:
                return found
        return moved_to(
            task,
            found,
            bounds,
            minimum,
            objective.evidence,
            iterations=found.iterations + minimum.iterations,
            is_settled=objective.is_settled,
        )

    def density(self, found: Found) -> tuple[Callable[[], Objective], float]:
        """Kernel and noise together."""
        return self._own.density(found, self._rows, self._sites)

    def _left_out(self, model: Model, vector: Float[np.ndarray, " P"], sites: list[Sites | None]) -> float:
        """Mean log density of each observation given all others, from sites of blocks of rows on."""
        pool, size = self._own.pool, len(self.task.x)
        together = self._own.evaluator((pool,), model, None, ROUGHLY)
        assert isinstance(together, SiteEvaluator)
        # Rows that are in no block have sites that say nothing.
        whole = Sites(np.zeros((size, 1)), np.zeros((size, 1)))
        for rows, known in zip(self._rows, sites, strict=True):
            for every, own in zip(whole, known or (), strict=False):
                every[rows] = own[: len(rows)]
        together.begin_with([Sites(*(every[pool] for every in whole))])
        return together.leave_one_out(vector)

    def _noise_alone(self, begun: Model, gaussian: Found) -> Found:
        """The parameters of the likelihood and the mean, with the kernel as it is."""
        task, own = self.task, self._own
        task.show.update("noise")
        used = slice(None) if task.counts is None else np.asarray(task.counts) > 0
        x, y = np.asarray(task.x)[used], np.asarray(task.y)[used]
        layout = without_kernel(task.layout, begun)
        usual = usual_limits(layout, rebuilt(own.prior, begun), begun, x, y)
        bounds = with_priors(usual, layout, task.priors)
        blocks = gathered(self._rows, task.x, task.y, task.counts, begun.likelihood)
        objective = SiteEvaluator(layout, begun, own.prior, blocks, bounds)
        objective.is_searched = True
        objective.begin_with([_gaussian_sites(block, gaussian.model.likelihood) for block in blocks])
        limits = bounds.lower, bounds.upper, task.max_iterations
        minimum = minimise(objective, layout.vector(begun), *limits, task.record, bounds.scale, enough=ENOUGH)
        self._sites = objective.sites
        # In the free numbers of the whole task, whose limits include those that this search had.
        model = layout.model(minimum.vector, begun)
        known = {p.entry(i): value for (p, i), value in zip(layout.entries(), minimum.gradient, strict=True)}
        gradient = np.array([known.get(p.entry(i), 0.0) for p, i in task.layout.entries()])
        whole = dataclasses.replace(
            minimum, vector=task.layout.vector(model), gradient=gradient, value=-objective.evidence
        )
        found = dataclasses.replace(
            gaussian,
            model=begun,
            strategy=SITES,
            is_exact=False,
            num_rows=min(sum(map(len, self._rows)), len(own.pool)),
            num_support=num_support(own.prior),
            rounds=1,
            iterations=minimum.iterations,
            is_settled=objective.is_settled,
        )
        every = usual_limits(task.layout, own.prior, Model(*model), x, y, task.likelihood)
        return moved_to(task, found, with_priors(every, task.layout, task.priors), whole, objective.evidence)


def _gaussian_sites(block: Block, likelihood: Any) -> Sites:
    """Those of Gaussian noise, which lead to its posterior."""
    precision = np.asarray(block.counts) / np.square(likelihood.noise)
    return Sites(precision[:, None], (precision * np.asarray(block.y))[:, None])


def _with_gaussian_noise(task: Task) -> Task:
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
