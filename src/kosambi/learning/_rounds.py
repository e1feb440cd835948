"""Searches with the evidence: short ones from several starts, and the best of them in rounds to its end.

Within a round the inducing points stand still, so that the objective is smooth; between rounds they are chosen again
for the kernel as it is then. All rounds and restarts share one compiled function, because shapes never change.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Float

from kosambi.errors import NumericalError
from kosambi.learning._limits import Limits, limits
from kosambi.learning._objective import EXACT, POINTS, Evaluator, Problem, evaluator
from kosambi.learning._search import Minimum, Record, minimise
from kosambi.learning._starts import Beginning, Scales, has_period, learns_mean, start
from kosambi.learning._task import Task

CARRIED = 0.25
"""How many nats per observation the bound may lose for the hyperparameters without inducing points to be kept."""
SHORT = 12
"""Iterations of a short search."""
MAX_ROUNDS = 8
"""How often inducing points are chosen again."""
# Iterations of each round; the last number goes on.
ROUNDS = (15, 25, 40)
# Lengthscales in units of √D standard deviations, and noise as a share of the standard deviation, to begin from.
_REACHES, _SHARES = (0.2, 0.6, 2.0), (0.1, 0.5)
# How many periods are tried, between a fiftieth of the width of the data and all of it.
_PERIODS = 24
# Choosing inducing points again has ceased to matter when it gains less than this many nats, or this many per row.
_GAIN, _GAIN_PER_ROW = 0.1, 2e-4


@dataclasses.dataclass(frozen=True)
class Round:
    """Where one search with fixed inducing points ended."""

    minimum: Minimum
    log_evidence: float
    is_settled: bool = True
    """Whether the sites had settled there, where the evidence is a bound through sites."""


@dataclasses.dataclass
class Progress:
    """How far the search is; kept outside of it, so that an interruption loses nothing."""

    limits: Limits
    best: Round | None = None
    restarts: list[float] = dataclasses.field(default_factory=list)
    rounds: int = 0
    iterations: int = 0
    converged: bool = False
    interrupted: bool = False
    returns: bool = False
    """Whether Ctrl-C leaves what was found."""

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Ctrl-C ends what is inside and leaves what was found, if that was asked for and anything was."""
        try:
            yield
        except KeyboardInterrupt:
            if self.best is None or not self.returns:
                raise
            self.interrupted, self.converged = True, False

    def take(self, found: Round) -> None:
        """Keep a round if it is the best so far."""
        if self.best is None or found.minimum.value < self.best.minimum.value:
            self.best = found


Widen = Callable[[Problem, np.ndarray], Problem]
"""The problem with more rows, for the main search, given what the short searches have found."""


def searched(
    task: Task,
    problem: Problem,
    num_restarts: int,
    found: Float[np.ndarray, " P"] | None = None,
    widen: Widen | None = None,
) -> tuple[Problem, Progress]:
    """Short searches from several starts, one of them `found` if given, and the best of them to its end."""
    task.show.update("looking for starts")
    bounds, starts = candidates(task.generator, problem, num_restarts, found)
    progress = Progress(bounds, returns=task.stop.returns)
    with progress.interruptible():
        _short_searches(task, problem, starts, progress)
        if widen is not None:
            assert progress.best is not None
            wider = widen(problem, progress.best.minimum.vector)
            # The objective is another one from here on.
            progress.best = one_round(wider, bounds, progress.best.minimum.vector, 1, task.record)
            problem = wider
        _main_search(task, problem, progress)
    return problem, progress


def searched_with_points(
    task: Task, problem: Problem, num_restarts: int, found: Float[np.ndarray, " P"] | None = None
) -> tuple[Problem, Progress]:
    """The same, and once more with inducing points where those cannot carry what an exact evidence finds."""
    problem, progress = searched(task, problem, num_restarts, found)
    if problem.strategy == EXACT and not progress.interrupted and not _carries(problem, progress):
        assert progress.best is not None
        problem = dataclasses.replace(problem, strategy=POINTS)
        problem, progress = searched(task, problem, num_restarts, progress.best.minimum.vector)
    return problem, progress


def _carries(problem: Problem, progress: Progress) -> bool:
    """Whether so many inducing points can carry the model that fits best without them."""
    assert progress.best is not None
    sparse = Evaluator(dataclasses.replace(problem, strategy=POINTS), progress.limits, progress.best.minimum.vector)
    sparse(progress.best.minimum.vector)
    return progress.best.log_evidence - sparse.evidence < CARRIED * (
        len(problem.y) if problem.counts is None else float(np.sum(problem.counts))
    )


def _short_searches(task: Task, problem: Problem, starts: list[np.ndarray], progress: Progress) -> None:
    for number, vector in enumerate(starts):
        task.show.update(f"start {number + 1} of {len(starts)}")
        found = one_round(problem, progress.limits, vector, min(SHORT, task.max_iterations), task.record)
        progress.restarts.append(-found.minimum.value)
        progress.take(found)


def _main_search(task: Task, problem: Problem, progress: Progress) -> None:
    assert progress.best is not None
    # Without inducing points that follow the kernel there is one round.
    has_points = problem.strategy == POINTS
    limits_by_round = ROUNDS if has_points else (task.max_iterations,)
    while progress.rounds < MAX_ROUNDS and progress.iterations < task.max_iterations and not progress.converged:
        before = progress.best.minimum
        task.show.update("search", progress.iterations, task.max_iterations, f"objective {-before.value:.1f}")
        limit = limits_by_round[min(progress.rounds, len(limits_by_round) - 1)]
        limit = min(limit, task.max_iterations - progress.iterations)
        found = one_round(problem, progress.limits, before.vector, limit, task.record)
        progress.rounds += 1
        progress.iterations += max(1, found.minimum.iterations)
        progress.take(found)
        settled_down = before.value - found.minimum.value < max(_GAIN, _GAIN_PER_ROW * problem.num_rows)
        # A whole round that gained next to nothing says the same as a slope that promises nothing.
        ended = found.minimum.converged or (settled_down and found.minimum.iterations == limit)
        progress.converged = ended and (not has_points or settled_down)


def one_round(
    problem: Problem,
    bounds: Limits,
    vector: np.ndarray,
    max_iterations: int,
    record: Record,
    points: Float[np.ndarray, "M D"] | None = None,
) -> Round:
    """A search with inducing points that are given, or chosen for where it begins."""
    objective = evaluator(problem, bounds, vector, points)
    found = minimise(objective, vector, bounds.lower, bounds.upper, max_iterations, record, bounds.scale)
    return Round(found, objective.evidence, getattr(objective, "is_settled", True))


def candidates(
    generator: np.random.Generator, problem: Problem, num_restarts: int, earlier: Float[np.ndarray, " P"] | None
) -> tuple[Limits, list[np.ndarray]]:
    """The limits, and the most promising vectors, best first.

    `earlier` is what another search has found.
    """
    layout, prior, likelihood, (x, y) = problem.layout, problem.prior, problem.likelihood, problem.counting
    scales = Scales.of(prior, likelihood, x, y, learns_mean(layout))
    bounds = limits(layout, start(prior, likelihood, x, y, scales), problem.given, scales, x)
    beginnings = [Beginning(reach, share) for reach in _REACHES for share in _SHARES]
    if has_period(prior.kernel):
        beginnings += [Beginning(0.6, 0.3, float(part)) for part in np.geomspace(0.02, 1.0, _PERIODS)]
    grid = [layout.vector(start(prior, likelihood, x, y, scales, beginning)) for beginning in beginnings]
    random = [bounds.centre + bounds.width / 6.0 * generator.normal(size=layout.size) for _ in range(num_restarts)]
    found = [] if earlier is None else [earlier]
    vectors = [np.clip(v, bounds.lower, bounds.upper) for v in (layout.vector(problem.given), *found, *grid, *random)]
    distinct: list[np.ndarray] = []
    for vector in vectors:
        if not any(np.allclose(vector, other, atol=1e-8) for other in distinct):
            distinct.append(vector)
    evaluations = [evaluator(problem, bounds, vector, roughly=True)(vector) for vector in distinct]
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
    return bounds, [distinct[i] for i in order[: num_restarts + 1] if usable[i]]


def notes_of(
    progress: Progress, at_bound: tuple[str, ...], slope: float, asked: int | None = None, number: int = 0
) -> tuple[str, ...]:
    """What the user is to be warned of."""
    notes = []
    if asked is not None and number < asked:
        notes.append(f"There are {number} inducing points instead of {asked}: x has no more distinct rows.")
    if progress.interrupted:
        notes.append("The search was interrupted; the best so far is returned.")
    elif not progress.converged:
        notes.append(
            f"The search for hyperparameters did not converge in {progress.iterations} iterations (steepest slope "
            f"{slope:.2g} nats for a usual step). Raise `max_iterations`."
        )
    if progress.best is not None and not progress.best.is_settled:
        notes.append(
            "The sites of the variational bound did not settle in 40 updates where the search ended. The bound holds, "
            "but its slope is not exact: hyperparameters may be a little off."
        )
    # A long lengthscale is a column that does not matter; these say that the model does not suit the data.
    if rounded := [name for name in at_bound if name in progress.limits.rounded]:
        notes.append(
            f"{', '.join(rounded)} ended at what the rounding of y alone adds: the data look as if they had no other "
            "noise. Rows that occur twice with the same y make it seem so; leave repeated rows out if they are copies."
        )
    unit = ("variance", "noise", "scale")
    doubtful = [name for name in at_bound if name.rsplit(".", 1)[-1] in unit and name not in rounded]
    if doubtful:
        notes.append(
            f"{', '.join(doubtful)} ended at a bound. Look at the units of y, give the prior a mean that suits "
            "it (a kernel alone has mean zero), or leave out a kernel that the data do not need."
        )
    return tuple(notes)
