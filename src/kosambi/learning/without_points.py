"""Learning without inducing points, where their number is chosen later or every row is one.

Few points would leave part of f unexplained, and a noise that is learned with them takes that up: afterwards no number
of points makes up for it. So the evidence is that of the process itself: exact for Gaussian noise, through sites for
any other likelihood. Rows that fit are one block. More of them are several blocks, and with Gaussian noise the
neighbour likelihood of all rows has the last word; on an accelerator the exact evidence of as many as it does in a
fraction of a second.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int

from kosambi._core.threads import in_threads, platform
from kosambi.basis.all_rows import largest_process
from kosambi.kernels import column_scales
from kosambi.learning.exact import ExactEvaluator
from kosambi.learning.families import FAMILIES, ROWS, STRETCHES, AnyFamily, with_family
from kosambi.learning.hyperpriors import with_priors
from kosambi.learning.layout import Model, rebuilt
from kosambi.learning.leave_one_out import has_score
from kosambi.learning.neighbors import refined
from kosambi.learning.rows import choose_blocks, gathered, num_support, subset, thinned
from kosambi.learning.search import Minimum, Objective, Record, minimise, most_promising
from kosambi.learning.site_evaluator import SiteEvaluator
from kosambi.learning.sites import ROUGHLY, SETTLED, SHORTLY, Sites
from kosambi.learning.starts import Beginning, Limits, Scales, has_period, learns_mean, limits, start
from kosambi.learning.task import AbstractStrategy, Found, Task, best_search, moved_to
from kosambi.likelihoods import AbstractLikelihood, Gaussian
from kosambi.priors import GaussianProcess

EXACT, SITES = "exact", "sites"
EXACT_ROWS = 2000
"""Up to how many rows Gaussian noise has its exact evidence."""
DEVICE_ROWS = 16_384
"""The same on an accelerator, in a search that begins where the others have ended."""
EXACT_BLOCK, EXACT_BLOCKS = 1000, 4
"""Rows of a block, and how many blocks, where there are more."""
SITE_ROWS, STEEP_ROWS = 1024, 640
"""Up to how many rows any other likelihood has the bound of all rows together; the second where its cost is not convex,
and sites take many updates."""
SITE_BLOCK, SITE_BLOCKS = 512, 8
"""Rows of a block for one latent function, and how many blocks, where there are more."""
DEVICE_SITE_BLOCK = 2048
"""Rows of a block on an accelerator, where costs are convex."""
FEWEST_CHECKED = 20
"""Rows, at least, whose predictions say something of the model."""
SHORT = 12
"""Iterations of a short search."""
ENOUGH = 0.01
"""A search ends when its last iterations have gained less than this many nats: where parameters can stand for one
another (a mean and cut points) it would go on for long."""
# Lengthscales in units of √D standard deviations, and noise as a share of the standard deviation, to begin from.
_REACHES, _SHARES = (0.2, 0.6, 2.0), (0.1, 0.5)
# How many periods are tried, between a fiftieth of the width of the data and all of it.
_PERIODS = 24
# Parts of the period that was found which are tried after that.
_PARTS = (2.0, 3.0)
# Nats per observation that are no difference: inputs that say nothing leave a constant.
_NOTHING = 0.05
# So few more rows than a start needs are not worth a subset.
_HARDLY_MORE = 1.25


class WithoutPoints(AbstractStrategy):
    """The evidence of the process itself.

    Arguments:
        task: the model, the data, and what a search needs.
        max_rows: rows that anything is learned from, at most; None leaves that to what they cost.
    """

    def __init__(self, task: Task, max_rows: int | None = None) -> None:
        self.task = task
        self.strategy = EXACT if isinstance(task.likelihood, Gaussian) else SITES
        self.prior = thinned(task.generator, task.prior, EXACT_ROWS if max_rows is None else max_rows)
        self.pool = task.counting
        self._searched: tuple[Int[np.ndarray, " B"], ...] = ()
        self._limit = None if max_rows is not None and max_rows >= len(self.pool) else max_rows
        size, self._most = _sizes(task.likelihood, self.strategy, len(self.pool), self._limit)
        labels = task.likelihood.num_labels
        self._first = subset(task.generator, task.y, task.counts, size, labels)
        self._few = self._first
        if len(self._first) > _HARDLY_MORE * ROWS:
            times = None if task.counts is None else np.asarray(task.counts)[self._first]
            self._few = self._first[subset(task.generator, task.y[self._first], times, ROWS, labels)]

    @property
    def has_more_rows(self) -> bool:
        """Whether there are more rows than one block holds, of which more blocks are wanted."""
        return self._most > 1 and len(self._first) < len(self.pool)

    def evaluator(
        self, rows: tuple[Int[np.ndarray, " B"], ...], given: Model, bounds: Limits | None, tolerance: float = SETTLED
    ) -> ExactEvaluator | SiteEvaluator:
        """Minus the log evidence of blocks of rows; `tolerance` is that of sites, in nats."""
        task = self.task
        blocks = gathered(rows, task.x, task.y, task.counts, task.likelihood)
        if self.strategy == EXACT:
            return ExactEvaluator(task.layout, given, self.prior, blocks, bounds)
        sites = SiteEvaluator(task.layout, given, self.prior, blocks, bounds)
        sites.tolerance, sites.is_searched = tolerance, True
        return sites

    def start(self) -> Found:
        task = self.task
        task.show.update("looking for starts")
        bounds, vectors = self._beginnings()
        given = task.given
        starts = most_promising(
            lambda vector: self.evaluator((self._few,), given, bounds, ROUGHLY)(vector),
            vectors,
            task.num_restarts + 1,
        )
        task.show.update(f"{len(starts)} starts")
        ends = self._short_searches(bounds, [(given, vector) for vector in starts])
        if not ends:
            # Nothing to return.
            raise KeyboardInterrupt
        best = self._best(ends)
        if has_period(given.kernel) and not task.stop.happened:
            best = self._best([best, *self._divided(bounds, best[0], best[2])])
        if isinstance(given.kernel, AnyFamily) and not task.stop.happened:
            best = self._best_family(given, bounds, *best)
        minimum, evidence, model = best
        found = Found(
            model=model,
            bounds=bounds,
            strategy=self.strategy,
            objective=np.nan,
            log_evidence=np.nan,
            num_rows=min(len(self._few), len(self.pool)),
            converged=False,
            gradient_norm=np.nan,
            restarts=tuple(-end[0].value for end in ends),
            num_support=num_support(self.prior),
        )
        return dataclasses.replace(moved_to(task, found, bounds, minimum, evidence), converged=False)

    def search(self, found: Found) -> Found:
        """From the best start to a maximum: on all rows if they fit, otherwise on blocks of them."""
        task, bounds = self.task, found.bounds
        assert bounds is not None
        rows = self._searched = self.rows(found.model)
        objective = self.evaluator(rows, found.model, bounds)
        task.show.update("search", 0, task.max_iterations, f"objective {found.objective:.1f}")
        vector = task.layout.vector(found.model)
        limits = bounds.lower, bounds.upper, task.max_iterations
        minimum = minimise(objective, vector, *limits, task.record, bounds.scale, task.stop, ENOUGH)
        if not np.isfinite(minimum.value):
            return found
        num_rows = min(sum(map(len, rows)), len(self.pool))
        return moved_to(
            task,
            found,
            bounds,
            minimum,
            objective.evidence,
            iterations=max(1, minimum.iterations),
            num_rows=num_rows,
            is_exact=self.strategy == EXACT and len(rows) == 1 and num_rows == len(self.pool),
            is_settled=getattr(objective, "is_settled", True),
        )

    def refine(self, found: Found) -> Found:
        """With Gaussian noise and more rows than fit: the neighbour likelihood of all of them."""
        task = self.task
        can = self.strategy == EXACT and isinstance(task.prior, GaussianProcess) and task.likelihood.num_rows is None
        if not (can and self.has_more_rows and self._limit is None):
            return found
        task.show.update("all rows")
        found = refined(task, rebuilt(task.prior, found.model), found)
        return self._exactly(found) if platform() != "cpu" else found

    def _exactly(self, found: Found) -> Found:
        """The exact evidence of as many rows as an accelerator does in a fraction of a second."""
        start, task, bounds = found.model, self.task, found.bounds
        # A search holds more matrices than a factorisation.
        most = min(DEVICE_ROWS, int(0.75 * largest_process()))
        rows = subset(task.generator, task.y, task.counts, most, None)
        begun = [(start, task.layout.vector(start))]
        if isinstance(start.kernel, AnyFamily):
            # Few rows may prefer a smoother family: what is rough about f is seen where rows lie close together.
            begun += self._other_families(start, int(start.kernel.family), begun[0][1])
        best = best_search(task, found, begun, lambda model: self.evaluator((rows,), model, bounds), ENOUGH)
        if best is found:
            return found
        number = len(np.intersect1d(rows, self.pool))
        return dataclasses.replace(best, strategy=EXACT, num_rows=number, is_exact=number == len(self.pool))

    def check(self, found: Found) -> Found:
        """Some rows, each predicted from the others, against a constant distribution; exact evidence only."""
        task, rows = self.task, np.intersect1d(self._few, self.pool)
        if found.strategy != EXACT or len(rows) < FEWEST_CHECKED:
            return found
        score = self.evaluator((self._few,), found.model, None).leave_one_out(task.layout.vector(found.model))
        constant = -0.5 * float(np.log(2.0 * np.pi * np.e * np.var(np.asarray(task.y)[rows])))
        if score > constant - _NOTHING:
            return found
        note = (
            f"Rows that are left out are predicted with {score:.3g} nats per observation, and would be with "
            f"{constant:.3g} by a constant distribution. Give the prior a mean that suits y, another kernel, or inputs "
            "that say more."
        )
        return dataclasses.replace(found, warnings=(*found.warnings, note))

    def density(
        self, found: Found, rows: tuple[Int[np.ndarray, " B"], ...] = (), sites: list[Sites | None] | None = None
    ) -> tuple[Callable[[], Objective], float]:
        """The evidence of the rows that were searched together, times the prior; `sites` are where it begins."""
        rows = rows or self._searched or self.rows(found.model)

        def objective() -> Objective:
            own = self.evaluator(rows, found.model, found.bounds)
            if isinstance(own, SiteEvaluator):
                own.hold(self.task.layout.vector(found.model), sites)
            return own

        return objective, self.task.likelihood.num_latents * float(sum(len(block) ** 3 for block in rows))

    def rows(self, model: Model) -> tuple[Int[np.ndarray, " B"], ...]:
        """Blocks of rows, near ones by the lengthscales of the model; one block where all rows fit."""
        if not self.has_more_rows:
            return (self._first,)
        x = np.asarray(self.task.x)
        scaled = x / column_scales(model.kernel, x)
        return choose_blocks(self.task.generator, scaled, self._first, self.pool, self._most)

    def _beginnings(self) -> tuple[Limits, list[Float[np.ndarray, " P"]]]:
        """The limits, and vectors to begin from."""
        task, layout = self.task, self.task.layout
        prior, likelihood = self.prior, task.likelihood
        used = slice(None) if task.counts is None else np.asarray(task.counts) > 0
        x, y = np.asarray(task.x)[used], np.asarray(task.y)[used]
        scales = Scales.of(prior, likelihood, x, y, learns_mean(layout))
        usual = limits(layout, start(prior, likelihood, x, y, scales), task.given, scales, x)
        bounds = with_priors(usual, layout, task.priors)
        beginnings = [Beginning(reach, share) for reach in _REACHES for share in _SHARES]
        if has_period(prior.kernel):
            beginnings += [Beginning(0.6, 0.3, float(part)) for part in np.geomspace(0.02, 1.0, _PERIODS)]
        grid = [layout.vector(start(prior, likelihood, x, y, scales, beginning)) for beginning in beginnings]
        normal = task.generator.normal(size=(task.num_restarts, layout.size))
        random = list(bounds.centre + bounds.width / 6.0 * normal)
        known = [bounds.centre] if task.priors else []
        vectors = [layout.vector(task.given), *known, *grid, *random]
        return bounds, [np.clip(vector, bounds.lower, bounds.upper) for vector in vectors]

    def _short_searches(
        self, bounds: Limits, starts: list[tuple[Model, Float[np.ndarray, " P"]]]
    ) -> list[tuple[Minimum, float, Model]]:
        """Where short searches end, with their evidence; side by side. Ctrl-C leaves out those that had not ended."""
        task, most = self.task, min(SHORT, self.task.max_iterations)
        ends: dict[int, tuple[Minimum, float, Model]] = {}
        records = [Record() for _ in starts]

        def one(number: int) -> None:
            given, vector = starts[number]
            objective = self.evaluator((self._few,), given, bounds, SHORTLY)
            found = minimise(objective, vector, bounds.lower, bounds.upper, most, records[number], bounds.scale)
            ends[number] = found, objective.evidence, given

        with task.stop:
            in_threads(one, range(len(starts)))
        for number in sorted(ends):
            task.record.follow(records[number])
        return [ends[number] for number in sorted(ends)]

    def _divided(self, bounds: Limits, minimum: Minimum, model: Model) -> list[tuple[Minimum, float, Model]]:
        """Where searches with parts of the period end: two and three periods are a period, too."""
        names = [parameter.name for parameter, _ in self.task.layout.entries()]
        periodic = {name.removesuffix("period") for name in names if name.endswith(".period")}
        # A lengthscale of a periodic kernel is a part of its period.
        turned = [(name.endswith("lengthscale") and name.removesuffix("lengthscale") in periodic) for name in names]
        shift = np.where(turned, 1.0, 0.0) - np.array([name.endswith(".period") for name in names])
        begun = [np.clip(minimum.vector + np.log(part) * shift, bounds.lower, bounds.upper) for part in _PARTS]
        return self._short_searches(bounds, [(model, vector) for vector in begun])

    def _best_family(
        self, given: Model, bounds: Limits, minimum: Minimum, evidence: float, model: Model
    ) -> tuple[Minimum, float, Model]:
        self.task.show.update("other families of kernels")
        first = int(given.kernel.family)  # type: ignore[attr-defined]
        ends = self._short_searches(bounds, self._other_families(given, first, minimum.vector))
        return self._best([(minimum, evidence, model), *ends])

    def _other_families(
        self, given: Model, first: int, vector: Float[np.ndarray, " P"]
    ) -> list[tuple[Model, Float[np.ndarray, " P"]]]:
        """Models of the other families, and where their searches begin."""
        is_length = [parameter.name == "kernel.lengthscale" for parameter, _ in self.task.layout.entries()]
        return [
            (
                with_family(given, number),
                vector + np.where(is_length, np.log(STRETCHES[number] / STRETCHES[first]), 0.0),
            )
            for number in range(len(FAMILIES))
            if number != first
        ]

    def _best(self, ends: list[tuple[Minimum, float, Model]]) -> tuple[Minimum, float, Model]:
        """The end of a search that makes the data most probable, unless rows that are left out speak for another.

        The evidence can have several maxima that are worth about the same, where one of them predicts much better. It
        is taken if what it gains for observations left out, one at a time, less two standard errors, is more than what
        it loses, in nats.
        """
        first = int(np.argmin([end[0].value for end in ends]))
        best, lowest = ends[first], ends[first][0].value
        if len(ends) == 1 or not has_score(self.task.likelihood) or not np.isfinite(lowest):
            return best

        def left_out(end: tuple[Minimum, float, Model]) -> tuple[np.ndarray, np.ndarray]:
            return self.evaluator((self._few,), end[2], None, SHORTLY).left_out(end[0].vector)

        scores = in_threads(left_out, ends)
        (known, times), most = scores[first], 0.0
        for end, (density, _) in zip(ends, scores, strict=True):
            gains = density - known
            if not np.all(np.isfinite(gains)) or len(gains) < FEWEST_CHECKED:
                continue
            gain, mean = float(gains @ times), np.average(gains, weights=times)
            error = float(np.sqrt(np.sum(np.square(times * (gains - mean)))))
            surplus = gain - 2.0 * error - (end[0].value - lowest)
            if surplus > most:
                best, most = end, surplus
        return best


def _sizes(likelihood: AbstractLikelihood, strategy: str, num_rows: int, max_rows: int | None) -> tuple[int, int]:
    """Rows of the first block, and the number of blocks."""
    is_fast = likelihood.is_convex and platform() != "cpu"
    sites = SITE_ROWS if likelihood.is_convex else STEEP_ROWS, DEVICE_SITE_BLOCK if is_fast else SITE_BLOCK, SITE_BLOCKS
    together, block, most = (EXACT_ROWS, EXACT_BLOCK, EXACT_BLOCKS) if strategy == EXACT else sites
    # The work grows with the number of latent functions and the cube of the rows.
    shrunk = likelihood.num_latents ** (-1.0 / 3.0)
    together, block = int(together * shrunk), int(block * shrunk)
    limit = num_rows if max_rows is None else max_rows
    if limit <= together:
        # All rows, also those that do not count, so that shapes stay the same.
        return (2**62 if max_rows is None else limit), 1
    number = min(most, math.ceil(limit / block))
    # Rounded, so that data of about as many rows compile nothing again: up, unless that would be more than is allowed.
    each = limit / number / 32
    return min(block, max(32, 32 * (math.ceil(each) if max_rows is None else math.floor(each)))), number
