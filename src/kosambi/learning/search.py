"""L-BFGS-B (SciPy) on an objective, with a record of every evaluation, and short searches from several starts."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from kosambi._core.journal import Keeper, Steps, recalled
from kosambi._core.progress import Interruption, Progress
from kosambi._core.threads import in_threads
from kosambi.errors import NumericalError

# The search ends when no slope within the bounds is steeper than this, in nats for a factor e.
GRADIENT_TOLERANCE = 1e-2
# It also ends when a step lowers the objective by less than this part of it.
VALUE_TOLERANCE = 1e-9
# A search that ended where a further step promises more than this many nats has not converged.
PROMISE = 0.1
# Nor has one that found no way down where a step promises more than this.
PROMISE_WITHOUT_WAY = 0.03
FIRST_STEP = 1.0
"""Length of the first step, in usual steps: L-BFGS-B would go down the whole slope, which leads to the bounds."""
WINDOW, LOOKS = 10, 8
"""Iterations, and evaluations, that are looked back at where a search may end early."""
# Steps between the best points so far from which a curvature is estimated.
_MEMORY = 10

Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]
"""Value and gradient at a vector of free numbers."""


@dataclasses.dataclass
class Record:
    """What happened in all searches together."""

    values: list[float] = dataclasses.field(default_factory=list)
    failures: int = 0
    moves: int = 0
    """Evaluations of other objectives: of inducing points, and of the stage on all rows."""
    show: Progress = dataclasses.field(default_factory=lambda: Progress(False))
    """The line that says how far a search is."""

    def beside(self) -> Record:
        """A record of a search with another objective, which `absorb` counts among the moves."""
        return Record(show=self.show)

    def follow(self, other: Record) -> None:
        """Go on with what happened in a search with the same objective."""
        self.values += other.values
        self.failures += other.failures
        self.moves += other.moves

    def absorb(self, other: Record) -> None:
        """Count what happened in a search with another objective."""
        self.failures += other.failures
        self.moves += len(other.values) + other.moves


@dataclasses.dataclass(frozen=True)
class Minimum:
    """Where a search ended."""

    vector: Float[np.ndarray, " P"]
    value: float
    gradient: Float[np.ndarray, " P"]
    iterations: int
    converged: bool


class _Level(Exception):  # noqa: N818
    """Nothing is left to gain."""


def minimise(
    objective: Objective,
    start: Float[np.ndarray, " P"],
    lower: Float[np.ndarray, " P"],
    upper: Float[np.ndarray, " P"],
    max_iterations: int,
    record: Record,
    scale: Float[np.ndarray, " P"] | float = 1.0,
    stop: Interruption | None = None,
    enough: float = 0.0,
    keeper: Keeper | None = None,
) -> Minimum:
    """The lowest point that L-BFGS-B finds from `start` within the bounds, in units of `scale`.

    An evaluation that is not finite counts as a failure and as a hill that is higher than all seen before, so that the
    line search turns back. Where `stop` says so, an interruption ends the search with the lowest point so far; and so
    does it when `WINDOW` iterations, or `LOOKS` evaluations, have lowered the objective by less than `enough`: at the
    bottom an objective that is not exact makes a line search go on and on. Evaluations are written in a journal;
    `keeper` is what changes from one to the next where that is not the objective itself.
    """
    from scipy.optimize import LbfgsInvHessProduct, minimize

    objective = remembered("search", objective, keeper)
    start = np.clip(start, lower, upper)
    scale = np.broadcast_to(scale, start.shape)
    unit = 1.0
    best: list[Minimum] = []
    lowest: list[float] = []
    levels: list[float] = []
    steps: list[tuple[np.ndarray, np.ndarray]] = []
    iterations = 0

    def evaluate(scaled: np.ndarray) -> tuple[float, np.ndarray]:
        vector = np.clip(scaled * scale, lower, upper)
        value, gradient = objective(vector)
        if not np.isfinite(value) or not np.all(np.isfinite(gradient)):
            record.failures += 1
            highest = best[0].value + 1e3 + abs(best[0].value) if best else 1e12
            return highest / unit, np.zeros_like(vector)
        record.values.append(value)
        if not best or value < best[0].value:
            if best:
                steps.append(((vector - best[0].vector) / scale, (gradient - best[0].gradient) * scale))
            best[:] = [Minimum(vector.copy(), value, gradient, 0, False)]
            record.show.step(iterations, f"objective {-value:.1f}")
        levels.append(best[0].value)
        if len(levels) > LOOKS and levels[-1 - LOOKS] - levels[-1] < enough:
            raise _Level
        return value / unit, gradient * scale / unit

    def count(_: np.ndarray) -> None:
        nonlocal iterations
        iterations += 1
        record.show.step(iterations, f"objective {-best[0].value:.1f}" if best else "")
        lowest.append(best[0].value if best else np.inf)
        if iterations > WINDOW and lowest[-1 - WINDOW] - lowest[-1] < enough:
            raise StopIteration

    bounds = list(zip(lower / scale, upper / scale, strict=True))
    stop, found = Interruption() if stop is None else stop, None
    with stop, contextlib.suppress(_Level):
        first = evaluate(start / scale)
        with np.errstate(over="ignore"):
            steepness = float(np.linalg.norm(first[1]))
        # Of slopes whose squares are no numbers the largest says as much.
        steepness = steepness if np.isfinite(steepness) else float(np.max(np.abs(first[1])))
        unit = max(1.0, steepness / FIRST_STEP)
        known = [(first[0] / unit, first[1] / unit)]
        options = {
            "maxiter": max_iterations,
            # Two or three evaluations an iteration are usual; a rough objective can take thirty.
            "maxfun": 20 + 4 * max_iterations,
            # A part of the objective, or of one where that is smaller; `unit` is not to change what it means.
            "ftol": VALUE_TOLERANCE * max(abs(first[0]), 1.0) / max(abs(first[0]), unit),
            "gtol": GRADIENT_TOLERANCE / unit,
            "maxls": 30,
        }
        found = minimize(
            lambda scaled: known.pop() if known else evaluate(scaled),
            start / scale,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options=options,
            callback=count,
        )
    if not best and found is not None:
        return Minimum(start, np.inf, np.zeros_like(start), int(found.nit), False)
    if stop.happened:
        if not best:
            # Nothing to return.
            raise KeyboardInterrupt
        return dataclasses.replace(best[0], iterations=iterations)
    # Slopes by themselves do not tell: a steep one may be all but at the bottom of a narrow valley.
    slope = best[0].gradient * scale
    outward = ((best[0].vector <= lower) & (slope > 0)) | ((best[0].vector >= upper) & (slope < 0))
    slope = np.where(outward, 0.0, slope)
    if found is None:
        curved = [(step, turn) for step, turn in steps if step @ turn > 0][-_MEMORY:]
        flattened = LbfgsInvHessProduct(*map(np.stack, zip(*curved, strict=True))) @ slope if curved else slope
        promise = 0.5 * float(slope @ flattened)
    else:
        promise = 0.5 * float(slope @ (found.hess_inv @ slope)) / unit
    # Status 1: a limit on iterations, which may be reached at the bottom. Status 2: a line search found nothing lower,
    # as at the bottom where slopes are right to some percent only (sites of costs that are not convex).
    converged = promise < (PROMISE_WITHOUT_WAY if found is not None and found.status == 2 else PROMISE)
    return dataclasses.replace(best[0], iterations=max(iterations, 1), converged=bool(converged))


def remembered(what: str, objective: Objective, keeper: Keeper | None = None) -> Objective:
    """The objective, whose evaluations are written in a journal, if there is one, and are known from it.

    `keeper` is what changes from one evaluation to the next; the objective itself, where it can say so.
    """
    keeper = objective if keeper is None and isinstance(objective, Keeper) else keeper
    steps = Steps(what, keeper)

    def evaluate(vector: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = steps.next(lambda: objective(vector), vector)
        return float(value), gradient

    return evaluate


def projected_norm(
    minimum: Minimum, lower: np.ndarray, upper: np.ndarray, scale: Float[np.ndarray, " P"] | float = 1.0
) -> float:
    """The largest slope, for a step of `scale`, along which the objective could still be lowered within the bounds."""
    step = np.clip(minimum.vector - minimum.gradient * np.square(scale), lower, upper) - minimum.vector
    return float(np.max(np.abs(step / scale), initial=0.0))


def most_promising(objective: Objective, vectors: list[np.ndarray], number: int) -> list[np.ndarray]:
    """The `number` vectors with the lowest objectives among those where it and its slope are finite, lowest first."""
    distinct: list[np.ndarray] = []
    for vector in vectors:
        if not any(np.allclose(vector, other, atol=1e-8) for other in distinct):
            distinct.append(vector)

    def look(vector: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = recalled("look", lambda: objective(vector), vector)
        return float(value), slope

    # The first by itself, so that nothing is compiled twice.
    evaluations = [look(distinct[0]), *in_threads(look, distinct[1:])]
    values = np.array([value for value, _ in evaluations])
    usable = np.array([np.isfinite(value) and np.all(np.isfinite(slope)) for value, slope in evaluations])
    if not usable.any():
        what = "is finite, but not its derivative," if np.any(np.isfinite(values)) else "is not finite"
        raise NumericalError(
            f"The evidence {what} at any of {len(distinct)} starts. Look for values of y that the likelihood gives no "
            "probability, scale x and y, and look at a kernel of your own: the square root of a distance has no slope "
            "at zero, so guard it with `jnp.where` before and after."
        )
    order = np.argsort(np.where(usable, values, np.inf), kind="stable")
    return [distinct[i] for i in order[:number] if usable[i]]
