"""A start for heavy-tailed noise: what the evidence with Gaussian noise finds.

The evidence of Student's law is rough, since its cost has several modes, and from values of the usual size a search
may end far from the best. With Gaussian noise it is smooth and has a closed form.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float

from kosambi._core.precision import with_fields
from kosambi.learning._layout import Model, lay_out
from kosambi.learning._objective import Problem
from kosambi.learning._rounds import Progress, searched, searched_with_points
from kosambi.learning._search import Record
from kosambi.learning._task import Task
from kosambi.likelihoods import AbstractLikelihood, Gaussian, Laplace, StudentT

EXACT_ROWS = 1000
"""Up to how many rows it is found without inducing points."""
# Tails that Gaussian noise takes for width.
_NARROWER = 0.7


@dataclasses.dataclass(frozen=True)
class Twin:
    """What was found with Gaussian noise."""

    problem: Problem
    progress: Progress
    vector: Float[np.ndarray, " P"]
    """Free numbers of the problem itself, where its search may begin."""

    @property
    def model(self) -> Model:
        """The kernel, the mean and the Gaussian noise."""
        assert self.progress.best is not None
        return self.problem.model(self.progress.best.minimum.vector)


def has_twin(likelihood: AbstractLikelihood) -> bool:
    """Whether Gaussian noise is like this one but for its tails."""
    return isinstance(likelihood, StudentT | Laplace) and not likelihood.scale.ndim


def gaussian_start(task: Task, problem: Problem, num_restarts: int, few_points: bool) -> Float[np.ndarray, " P"] | None:
    """Free numbers of the problem at the hyperparameters of its twin with Gaussian noise; None if it has none.

    Evaluations count as moves: their objective is not that of the trace.
    """
    if not has_twin(problem.likelihood):
        return None
    own = Record(show=task.show)
    twin = gaussian_twin(dataclasses.replace(task, record=own), problem, num_restarts, few_points)
    task.record.failures += own.failures
    task.record.moves += len(own.values) + own.moves
    if twin.progress.interrupted:
        # Nothing of the problem itself is there to return.
        raise KeyboardInterrupt
    return twin.vector


def gaussian_twin(
    task: Task, problem: Problem, num_restarts: int, few_points: bool, exact_rows: int = EXACT_ROWS
) -> Twin:
    """What the problem finds with Gaussian noise; `few_points` says that inducing points must carry the model."""
    likelihood: Any = problem.likelihood
    given = Model(problem.prior.kernel, problem.prior.mean, Gaussian(likelihood.scale))
    frozen = [p.name.replace("likelihood.scale", "likelihood.noise") for p in problem.layout.frozen]
    tied = [[p.name for p in group] for group in problem.layout.groups if len(group) > 1]
    names = ("kernel", "mean")
    layout = lay_out(
        given,
        [name for name in frozen if name.startswith(names) or name == "likelihood.noise"],
        [group for group in tied if all(name.startswith(names) for name in group)],
    )
    twin = dataclasses.replace(
        problem,
        likelihood=given.likelihood,
        layout=layout,
        is_exact=len(problem.x) <= exact_rows,
        is_joint=False,
    )
    its_task = dataclasses.replace(task, likelihood=given.likelihood, layout=layout)
    if few_points:
        twin, progress = searched_with_points(its_task, twin, num_restarts)
    else:
        progress = searched(its_task, twin, num_restarts)
    assert progress.best is not None
    kernel, mean, noise = twin.model(progress.best.minimum.vector)
    scale = _NARROWER * np.asarray(noise.noise)  # type: ignore[attr-defined]
    return Twin(twin, progress, problem.layout.vector(Model(kernel, mean, with_fields(likelihood, scale=scale))))
