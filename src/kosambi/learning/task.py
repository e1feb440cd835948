"""What every way of learning is given, what it has found so far, and the stages that it goes through."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping

import numpy as np
from jaxtyping import Float

from kosambi._core.precision import at_rest
from kosambi._core.progress import Interruption, Progress
from kosambi._core.types import Array
from kosambi.basis.points import JITTER
from kosambi.errors import InputError
from kosambi.learning.exact import AbstractBlockEvaluator
from kosambi.learning.hyperpriors import AbstractHyperprior
from kosambi.learning.layout import Layout, Model
from kosambi.learning.search import Minimum, Objective, Record, minimise, projected_norm
from kosambi.learning.starts import Limits
from kosambi.likelihoods import AbstractLikelihood
from kosambi.priors import AbstractPrior

STEEP, MANY_NATS = 5.0, 5.0
"""Nats for a factor e that the evidence would gain without a prior, from which that is looked at, and nats in all that
are too many."""


@dataclasses.dataclass(frozen=True)
class Task:
    """Checked arguments, and where to write down what happens."""

    generator: np.random.Generator
    prior: AbstractPrior
    likelihood: AbstractLikelihood
    x: Float[Array, "N D"]
    y: Float[Array, " N"]
    counts: Float[Array, " N"] | None
    layout: Layout
    max_iterations: int
    num_restarts: int
    record: Record
    show: Progress
    stop: Interruption = dataclasses.field(default_factory=Interruption)
    """What Ctrl-C does."""
    priors: Mapping[str, AbstractHyperprior] = dataclasses.field(default_factory=dict)
    """Priors over hyperparameters that were given, by name; others have the usual one."""

    @property
    def given(self) -> Model:
        """The model before anything is learned."""
        return Model(self.prior.kernel, self.prior.mean, self.likelihood)

    @property
    def counting(self) -> np.ndarray:
        """Numbers of the rows whose weight is not zero."""
        return np.arange(len(self.x)) if self.counts is None else np.flatnonzero(self.counts)

    def learns(self, part: str) -> bool:
        """Whether anything of the kernel, the mean or the likelihood is free."""
        return any(parameter.name.split(".")[0] == part for parameter, _ in self.layout.entries())


@dataclasses.dataclass(frozen=True)
class Found:
    """What the stages so far have found; the names of most fields are those of `FitReport`."""

    model: Model
    bounds: Limits | None
    strategy: str
    objective: float
    log_evidence: float
    num_rows: int
    converged: bool
    gradient_norm: float
    at_bound: tuple[str, ...] = ()
    is_exact: bool = False
    is_settled: bool = True
    """Whether the sites had settled where the search ended, if the evidence is a bound through sites."""
    restarts: tuple[float, ...] = ()
    rounds: int = 1
    iterations: int = 0
    num_support: int | None = None
    inducing_points: Float[np.ndarray, "M D"] | None = None
    jitter: float = JITTER
    frozen: tuple[str, ...] | None = None
    """Names of what was not learned; None for what the layout says."""
    warnings: tuple[str, ...] = ()
    beside: dict[str, Float[np.ndarray, "..."]] = dataclasses.field(default_factory=dict)
    """Numbers by name that are not parameters of the model; the report lists them with those that are."""


def moved_to(
    task: Task, found: Found, bounds: Limits, minimum: Minimum, log_evidence: float, **changes: object
) -> Found:
    """`found` at the end of a search whose free numbers are those of the task."""
    return dataclasses.replace(
        found,
        model=at_rest(task.layout.model(minimum.vector, found.model)),
        bounds=bounds,
        objective=-minimum.value,
        log_evidence=log_evidence,
        converged=minimum.converged,
        gradient_norm=projected_norm(minimum, bounds.lower, bounds.upper, bounds.scale),
        at_bound=bounds.names_at_bound(task.layout, minimum.vector),
        **changes,  # type: ignore[arg-type]
    )


def best_search(
    task: Task,
    found: Found,
    begun: list[tuple[Model, Float[np.ndarray, " P"]]],
    evaluator: Callable[[Model], AbstractBlockEvaluator],
    enough: float,
) -> Found:
    """The best end of searches from several models, one after the other; `found` where none has one.

    A search ends when its last iterations have gained less than `enough` nats.
    """
    bounds, beside, best = found.bounds, task.record.beside(), found
    assert bounds is not None
    lowest = np.inf
    for model, begin in begun:
        objective, start = evaluator(model), np.clip(begin, bounds.lower, bounds.upper)
        limits = bounds.lower, bounds.upper, task.max_iterations
        end = minimise(objective, start, *limits, beside, bounds.scale, task.stop, enough)
        if end.value < lowest:
            lowest = end.value
            iterations = found.iterations + max(1, end.iterations)
            here = dataclasses.replace(found, model=model, iterations=iterations)
            best = moved_to(task, here, bounds, end, objective.evidence)
        if task.stop.happened:
            break
    task.record.absorb(beside)
    return best


class AbstractStrategy(abc.ABC):
    """One way to hyperparameters, in stages; `fit_hyperparameters` goes through them one after the other.

    What can be said before anything is computed is said when a strategy is made. Each stage is given what was found
    before it and returns something better, or the same.
    """

    task: Task

    @abc.abstractmethod
    def start(self) -> Found:
        """The best of several short searches, on few rows."""

    def search(self, found: Found) -> Found:
        """From there to a maximum, on as many rows as can be taken together."""
        return found

    def refine(self, found: Found) -> Found:
        """With what all rows have to say."""
        return found

    def check(self, found: Found) -> Found:
        """With warnings of what rows that are left out say against it."""
        return found

    def density(self, found: Found) -> tuple[Callable[[], Objective], float]:
        """What draws of hyperparameters come from, and the cubed rows of an evaluation, which say how long it takes.

        The first makes functions that give minus the log density and its gradient, one for each chain; their `value`
        says minus the log density alone.
        """
        del found
        raise InputError(
            f"`num_draws` is not for {type(self).__name__}, whose objective is no density of the data. Leave it out."
        )

    def doubts(self, found: Found) -> tuple[str, ...]:
        """What the user is to be warned of, besides `found.warnings`."""
        notes = []
        if self.task.stop.happened:
            notes.append("The search was interrupted; the best so far is returned.")
        elif not found.converged:
            notes.append(
                f"The search for hyperparameters did not converge in {found.iterations} iterations (steepest slope "
                f"{found.gradient_norm:.2g} nats for a usual step). Raise `max_iterations`."
            )
        if not found.is_settled:
            notes.append(
                "The sites of the variational bound did not settle in 40 updates where the search ended. The bound "
                "holds, but its slope is not exact: hyperparameters may be a little off."
            )
        rounded_by = () if found.bounds is None else found.bounds.rounded
        if rounded := [name for name in found.at_bound if name in rounded_by]:
            notes.append(
                f"{', '.join(rounded)} ended at what the rounding of y alone adds: the data look as if they had no "
                "other noise. Rows that occur twice with the same y make it seem so; leave repeated rows out if they "
                "are copies."
            )
        # A long lengthscale is a column that does not matter; these say that the model does not suit the data.
        unit = ("variance", "noise", "scale")
        doubtful = [name for name in found.at_bound if name.rsplit(".", 1)[-1] in unit and name not in rounded]
        if doubtful:
            notes.append(
                f"{', '.join(doubtful)} ended at a bound. Look at the units of y, give the prior a mean that suits "
                "it (a kernel alone has mean zero), or leave out a kernel that the data do not need."
            )
        if against := self._against_priors(found):
            notes.append(
                f"The data contradict the prior that was given for {', '.join(against)}: without it the log evidence "
                "would rise by many nats. Look at the units of the parameter, or widen the prior."
            )
        return tuple(notes)

    def _against_priors(self, found: Found) -> list[str]:
        """Names of numbers whose prior, given by the user, costs the evidence many nats."""
        bounds, names = found.bounds, [p.entry(i) for p, i in self.task.layout.entries()]
        if bounds is None or not self.task.priors:
            return []
        vector = self.task.layout.vector(found.model)
        away = (vector - bounds.centre) / bounds.width
        # At the maximum the slope of the evidence is that of the prior, turned around.
        slope = away / bounds.width
        is_given = np.array([p.name in self.task.priors for p, _ in self.task.layout.entries()])
        against = []
        for at in np.flatnonzero(is_given & ((np.abs(away) > 1.0) | (np.abs(slope) > STEEP))):
            objective, step = self.density(found)[0](), 0.01 * np.eye(len(vector))[at]
            turn = (objective(vector + step)[1][at] - objective(vector - step)[1][at]) / 0.02
            # That of the evidence alone; without one it rises on and on.
            curvature = turn - bounds.width[at] ** -2
            if not (curvature > 0 and 0.5 * slope[at] ** 2 / curvature < MANY_NATS):
                against.append(names[at])
        return against
