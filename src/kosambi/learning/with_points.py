"""Learning with a number of inducing points that was asked for: they carry the model, and are moved to suit it.

The search begins where one without points ends. With few points the best kernel is the one that they can carry, and the
best points are those for that kernel; taking turns comes to rest before either is found, so hyperparameters and points
are learned together, on as many rows as that takes seconds for. Where these are many for their points, most of the way
is gone with some of them, and the rest of it with all. More rows are then taken in random batches.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_count
from kosambi.basis import inducing
from kosambi.kernels import column_scales
from kosambi.learning import stochastic
from kosambi.learning.hyperpriors import with_priors
from kosambi.learning.layout import Model, rebuilt, without_kernel
from kosambi.learning.points import POINTS, PointEvaluator, chunk_rows
from kosambi.learning.rows import num_support, subset, thinned
from kosambi.learning.search import Minimum, Objective, minimise, projected_norm
from kosambi.learning.sites import SHORTLY
from kosambi.learning.starts import Limits, usual_limits
from kosambi.learning.tails import HeavyTails, is_heavy_tailed
from kosambi.learning.task import AbstractStrategy, Found, Task, moved_to
from kosambi.learning.without_points import WithoutPoints
from kosambi.likelihoods import AbstractLikelihood, Gaussian

MAX_ROWS = 2000
"""Rows, at least, that points and hyperparameters are learned from together, when their number is not given."""
GAUSSIAN_START_ROWS, START_ROWS = 1000, 640
"""Rows that the search without points takes; the second for likelihoods that need sites."""
MAX_SUPPORT = 5000
"""Support points of a measure that are used."""
CARRIED = 0.25
"""How many nats per observation the bound may lose for the hyperparameters without inducing points to be kept."""
MAX_ROUNDS, ROUND = 6, 20
"""How often points are chosen again where they cannot carry those hyperparameters, and iterations between."""
MOST_ITERATIONS, FEWEST_ITERATIONS = 300, 20
"""Of the search for both, which need not end: what follows it does."""
ENOUGH = 2.5e-4
"""Nats per observation that this search must gain in ten iterations to go on."""
LAST, FEWEST_LAST = 60, 8
"""Iterations of the search that follows, in the hyperparameters alone."""
ROUGHLY, CLUSTERED = 40, 20_000
"""Iterations of a search that batches of all rows go on from, and rows whose clusters are its points."""
MANY = 16
"""Rows for each point above which points begin at centres of clusters: greedy ones lie at the edges. So many are enough
to find most of the way to better points."""
FEWER = 2
"""How many times as many rows there are at least, where a search begins with some of them."""
# Rows times squared points that one evaluation may take, and a search; sites take several updates for each evaluation.
_AT_ONCE, _GAUSSIAN_AT_ONCE = 1e9, 2e10
_WORK, _GAUSSIAN_WORK = 4e10, 1.5e11
# Choosing points again has ceased to matter when it gains less than this many nats, or this many per row.
_GAIN, _GAIN_PER_ROW = 0.1, 2e-4
# Parts of the way to usual hyperparameters that are tried where there is no bound.
_PARTS = (0.25, 0.5, 0.75, 1.0)


class _Stage(NamedTuple):
    """The bound of some rows, or of all, as a search has it."""

    bound: PointEvaluator
    x: Float[np.ndarray, "n D"]
    """Inputs of those that count."""
    weight: float
    """How often one of these counts, on average."""


class WithPoints(AbstractStrategy):
    """The evidence with inducing points.

    Arguments:
        task: the model, the data, and what a search needs.
        num_inducing: M.
        max_rows: rows that kernel and points are learned from, at most; None leaves that to what they cost.
    """

    def __init__(self, task: Task, num_inducing: int, max_rows: int | None = None) -> None:
        self.task, self._asked = task, num_inducing
        self._is_gaussian = isinstance(task.likelihood, Gaussian)
        limit = MAX_ROWS if max_rows is None else max_rows
        at_once = _GAUSSIAN_AT_ONCE if self._is_gaussian else _AT_ONCE
        most = max(limit, int(at_once / num_inducing**2)) if max_rows is None else limit
        # Many rows are learned from in batches, for which a rough start and evenly spread points are enough.
        self._in_batches = max_rows is None and not self._is_gaussian and most < len(task.counting)
        most = max(most, CLUSTERED) if self._in_batches else most
        self._rows = subset(task.generator, task.y, task.counts, most, task.likelihood.num_labels)
        name = "the number of rows that the kernel is learned from (see `max_rows`)"
        as_count("num_inducing", num_inducing, at_most=len(self._rows), limit_name=name)
        self.x, self.y = np.asarray(task.x)[self._rows], np.asarray(task.y)[self._rows]
        self.counts = None if task.counts is None else np.ascontiguousarray(np.asarray(task.counts)[self._rows])
        self._counting = np.arange(len(self.x)) if self.counts is None else np.flatnonzero(self.counts)
        distinct = len(inducing.distinct_rows(self.x[self._counting]))
        self.number = min(num_inducing, distinct)
        self._can_move = self.number < distinct
        self.prior = thinned(task.generator, task.prior, limit)
        rough = dataclasses.replace(task, max_iterations=min(ROUGHLY, task.max_iterations))
        few = GAUSSIAN_START_ROWS if self._is_gaussian else START_ROWS
        way = HeavyTails if is_heavy_tailed(task) else WithoutPoints
        self._without = way(rough if self._in_batches else task, min(limit, few))

    def doubts(self, found: Found) -> tuple[str, ...]:
        """Those of any search, and too few distinct rows."""
        few = f"There are {self.number} inducing points instead of {self._asked}: x has no more distinct rows."
        return ((few,) if self.number < self._asked else ()) + super().doubts(found)

    def start(self) -> Found:
        """What some rows say without inducing points, and points for it."""
        found = self._without.start()
        if isinstance(self._without, WithoutPoints) and not self.task.stop.happened:
            # Where tails are heavy, the start has a kernel already.
            found = self._without.search(found)
        return dataclasses.replace(found, inducing_points=self._chosen(found.model, self.x[self._counting]))

    def search(self, found: Found) -> Found:
        """Hyperparameters and points together, from there."""
        task, bounds, points = self.task, found.bounds, found.inducing_points
        assert bounds is not None
        assert points is not None
        has_seen_all = not self._can_move and found.num_rows >= len(task.counting)
        if self._in_batches or has_seen_all:
            # With every distinct row a point, nothing is left unexplained.
            return found if isinstance(self._without, WithoutPoints) else self._without.search(found)
        task.show.update("moving inducing points")
        given = dataclasses.replace(found, model=found.model._replace(likelihood=self._likelihood(found, self._rows)))
        vector, rounds = task.layout.vector(found.model), 1
        if self._can_move:
            vector, points, rounds = self._moved(found, given, vector, points)
        most = 0 if task.stop.happened else int(np.clip(self._affordable(len(self.x)) / 4.0, FEWEST_LAST, LAST))
        # Another one, whose evidence is that of where it ends.
        last = self._all_rows(given).bound
        minimum = self._with_points_fixed(last, bounds, vector, points, min(most, task.max_iterations))
        moved = moved_to(
            task,
            given,
            bounds,
            minimum,
            last.evidence,
            strategy=POINTS,
            inducing_points=points,
            is_exact=False,
            is_settled=last.is_settled,
            num_rows=len(self._counting),
            num_support=num_support(self.prior),
            rounds=rounds,
            iterations=found.iterations + minimum.iterations,
        )
        return dataclasses.replace(moved, model=moved.model._replace(likelihood=self._likelihood(moved, None)))

    def refine(self, found: Found) -> Found:
        """All rows in random batches; with Gaussian noise, or `max_rows`, the likelihood and the mean alone."""
        task = self.task
        if self._in_batches:
            prior = thinned(task.generator, task.prior, MAX_SUPPORT)
            more = stochastic.refined(task, rebuilt(prior, found.model), found)
            return dataclasses.replace(more, num_support=num_support(prior))
        if len(self._counting) == len(task.counting):
            return found
        return self._without_kernel(found) if task.learns("likelihood") or task.learns("mean") else found

    def density(self, found: Found) -> tuple[Callable[[], Objective], float]:
        """The bound with the points that were found, times the prior."""
        points = found.inducing_points
        assert points is not None
        given = dataclasses.replace(found, model=found.model._replace(likelihood=self._likelihood(found, self._rows)))
        vector, work = self.task.layout.vector(found.model), len(self.x) * self.number**2
        return lambda: self._all_rows(given).bound.held(vector, points), float(self.task.likelihood.num_latents * work)

    def _without_kernel(self, found: Found) -> Found:
        """The likelihood's parameters and the mean again, with the kernel as it is, on all rows."""
        task, points = self.task, found.inducing_points
        assert points is not None
        task.show.update("noise from all rows")
        layout = without_kernel(task.layout, found.model)
        prior = rebuilt(thinned(task.generator, task.prior, MAX_SUPPORT), found.model)
        used = task.counting
        usual = usual_limits(layout, prior, found.model, np.asarray(task.x)[used], np.asarray(task.y)[used])
        bounds = with_priors(usual, layout, task.priors)
        both = PointEvaluator(layout, found.model, prior, task.x, task.y, task.counts, bounds)
        minimum = self._with_points_fixed(both, bounds, layout.vector(found.model), points, LAST)
        if not np.isfinite(minimum.value):
            return found
        of_kernel = tuple(name for name in found.at_bound if name.startswith("kernel"))
        return dataclasses.replace(
            found,
            model=layout.model(minimum.vector, found.model),
            objective=-minimum.value,
            log_evidence=both.evidence,
            gradient_norm=max(found.gradient_norm, projected_norm(minimum, bounds.lower, bounds.upper, bounds.scale)),
            converged=found.converged and minimum.converged,
            iterations=found.iterations + minimum.iterations,
            is_settled=both.is_settled,
            at_bound=(*of_kernel, *bounds.names_at_bound(layout, minimum.vector)),
        )

    def _likelihood(self, found: Found, rows: np.ndarray | None) -> AbstractLikelihood:
        """That of some rows, or of all, where a parameter has one value for each; otherwise the one that was found."""
        given = self.task.likelihood
        if given.num_rows is None:
            return found.model.likelihood
        return given if rows is None else given.at_rows(rows)

    def _all_rows(self, given: Found) -> _Stage:
        bound = PointEvaluator(self.task.layout, given.model, self.prior, self.x, self.y, self.counts, given.bounds)
        return _Stage(bound, self.x[self._counting], _mean_count(self.counts))

    def _some_rows(self, given: Found) -> _Stage | None:
        """Some of many rows, in chunks of the same size, so that nothing is compiled again; None of few."""
        size = chunk_rows(len(self.x))
        number = -(-MANY * self.number // size) * size
        if FEWER * number > len(self._counting):
            return None
        task, likelihood = self.task, given.model.likelihood
        rows = subset(task.generator, self.y, self.counts, number, task.likelihood.num_labels)
        x, y, counts = self.x[rows], self.y[rows], None if self.counts is None else self.counts[rows]
        model = given.model._replace(likelihood=likelihood.at_rows(rows))
        bound = PointEvaluator(task.layout, model, self.prior, x, y, counts, given.bounds, size)
        # Where this search ends another begins.
        bound.tolerance = SHORTLY
        return _Stage(bound, x, _mean_count(counts))

    def _moved(
        self, found: Found, given: Found, vector: np.ndarray, points: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, int]:
        """Better hyperparameters and points, with some of the rows first, and how often points were chosen."""
        stages = [stage for stage in (self._some_rows(given), self._all_rows(given)) if stage is not None]
        first, bounds, rounds = stages[0], given.bounds, 1
        assert bounds is not None
        vector = _with_bound(lambda v: first.bound(v, points)[0], vector, bounds.centre)
        # Nats per observation that the points lose against what was found without them, on rows of the same weight.
        per_row = found.log_evidence / found.num_rows - first.bound.evidence / len(first.x)
        if per_row / first.weight > CARRIED:
            vector, points, rounds = self._in_turns(first, given, vector, points)
        for stage in stages:
            if not self.task.stop.happened:
                vector, points = self._together(stage, bounds, vector, points)
        return vector, points, rounds

    def _affordable(self, num_rows: int) -> float:
        """Iterations that take no longer than they should."""
        return (_GAUSSIAN_WORK if self._is_gaussian else _WORK) / (num_rows * self.number**2)

    def _chosen(self, model: Model, x: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "M D"]:
        """Points to begin with, among rows that count."""
        if len(x) <= MANY * self.number:
            return choose_points(rebuilt(self.prior, model), x, self.number)
        key = jax.random.key(int(self.task.generator.integers(2**31)))
        chosen = inducing.kmeans(key, x / column_scales(model.kernel, x), self.number)
        return np.ascontiguousarray(x[chosen])

    def _in_turns(
        self, stage: _Stage, given: Found, vector: np.ndarray, points: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, int]:
        """Hyperparameters with points as they are, and points again for these, while that gains much."""
        bounds, lowest, best = given.bounds, np.inf, (vector, points)
        assert bounds is not None
        rounds = 0
        while rounds < MAX_ROUNDS:
            rounds += 1
            minimum = self._with_points_fixed(stage.bound, bounds, vector, points, ROUND)
            gain, vector = lowest - minimum.value, minimum.vector
            if gain > 0:
                lowest, best = minimum.value, (vector, points)
            if not gain > max(_GAIN, _GAIN_PER_ROW * len(stage.x)) or self.task.stop.happened:
                break
            points = self._chosen(self.task.layout.model(vector, given.model), stage.x)
        return *best, rounds

    def _together(
        self, stage: _Stage, bounds: Limits, vector: np.ndarray, points: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Better hyperparameters and points; these stay within the range of the data."""
        x, size = self.x[self._counting], len(vector)
        spread = np.std(x, axis=0)
        scales = np.where(spread > 0, spread, 1.0)

        def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
            value, slope, push = stage.bound(flat[:size], flat[size:].reshape(points.shape) * scales)
            return value, np.concatenate([slope, (push * scales).ravel()])

        edges = [np.tile(edge / scales, len(points)) for edge in (x.min(axis=0), x.max(axis=0))]
        own = self.task.record.beside()
        best = minimise(
            objective,
            np.concatenate([vector, (points / scales).ravel()]),
            np.concatenate([bounds.lower, edges[0]]),
            np.concatenate([bounds.upper, edges[1]]),
            int(np.clip(self._affordable(len(stage.x)), FEWEST_ITERATIONS, MOST_ITERATIONS)),
            own,
            np.concatenate([bounds.scale, np.ones(points.size)]),
            self.task.stop,
            ENOUGH * len(stage.x),
            stage.bound,
        )
        self.task.record.absorb(own)
        if not np.isfinite(best.value):
            return vector, points
        return best.vector[:size], best.vector[size:].reshape(points.shape) * scales

    def _with_points_fixed(
        self, both: PointEvaluator, bounds: Limits, vector: np.ndarray, points: np.ndarray, most: int
    ) -> Minimum:
        """Evaluations count as moves: their objective is not that of the trace."""
        own = self.task.record.beside()
        limits = bounds.lower, bounds.upper, most
        found = minimise(lambda v: both(v, points)[:2], vector, *limits, own, bounds.scale, self.task.stop, keeper=both)
        self.task.record.absorb(own)
        return found


def _with_bound(
    objective: Callable[[np.ndarray], float], vector: Float[np.ndarray, " P"], centre: Float[np.ndarray, " P"]
) -> Float[np.ndarray, " P"]:
    """The hyperparameters, or where they have no bound, some on the way to usual ones.

    Without points a variance may be so large that few points leave next to all of it unexplained: what is expected of a
    cost is then not precise enough for sites, and a search that begins there ends there.
    """
    for part in (0.0, *_PARTS):
        nearer = vector + part * (centre - vector)
        if np.isfinite(objective(nearer)):
            return nearer
    return vector


def _mean_count(counts: np.ndarray | None) -> float:
    return 1.0 if counts is None else float(np.mean(counts[counts > 0]))


def choose_points(prior: object, x: Float[np.ndarray, "N D"], number: int) -> Float[np.ndarray, "M D"]:
    """`number` rows of x by greedy selection; where that ends early, filled up, so that shapes stay what they were."""
    if number == len(x):
        return np.asarray(x)
    chosen = inducing.greedy_path(prior, x, number).indices  # type: ignore[arg-type]
    if len(chosen) < number:
        rest = np.setdiff1d(np.arange(len(x)), chosen)
        chosen = np.concatenate([chosen, rest[np.linspace(0, len(rest) - 1, number - len(chosen)).astype(int)]])
    return np.ascontiguousarray(np.asarray(x)[chosen])
