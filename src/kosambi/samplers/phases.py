"""The phases of a Markov run between compiled segments: adaptation, sampling, and what is noted of them.

Segments are written in a journal: what decides how a run goes on as answers, and the particles as a memory, of which
there is the last one only. So a `Walk` that is taken up again knows what was seen after every segment, and particles
only from the last known one on.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import jax
import numpy as np

from kosambi._core.journal import Arrays, Steps
from kosambi._core.progress import Progress
from kosambi._core.types import Array, Key
from kosambi.samplers import chains as _segment
from kosambi.samplers.base import AbstractMarkovSampler, AnyFrame
from kosambi.samplers.chains import MAX_CHECKS, Segment, Trace
from kosambi.samplers.convergence import FIRST_WINDOW

SEGMENT_SECONDS = 0.5
"""Work between two looks at the clock; shorter segments would only add overhead."""
FIRST_REVIEW = 32
"""Steps of the sampling phase after which its acceptance is first compared with what the adaptation aimed at."""
HOPELESS, HOPELESS_AFTER = 3.0, 512
"""Nested R-hat above which sampling ends unconverged, after that many steps."""
MAX_ADAPTATIONS = 8
"""Adaptation phases, each continuing the last, before sampling begins in any case."""


class Log:
    """What the report and the progress line need from the segments."""

    def __init__(self, progress: Progress, limit: int) -> None:
        self.progress, self.limit = progress, limit
        self.seconds_per_step = np.inf
        self.first_steps, self.first_gradients = 0, 0
        self.steps: list[Array] = []
        self.energies: list[Array] = []
        self.r_hats: list[Array] = []

    def count(self, work: Any, steps: int, gradients: int) -> None:
        """Work done before the first segment, and in an earlier run."""
        self.first_steps, self.first_gradients = int(work.steps) + steps, int(work.gradients) + gradients

    def add(self, phase: str, trace: Trace, done: int) -> None:
        """Take a finished segment in, after which `done` steps are done."""
        self.steps.append(trace.steps + self.first_steps)
        self.energies.append(trace.energies)
        self.r_hats.append(trace.r_hats)
        note = f"acceptance {float(trace.acceptances[-1]):.2f}"
        if np.isfinite(self.r_hats[-1][-1]):
            note += f"  R-hat {self.r_hats[-1][-1]:.3f}"
        self.progress.update(phase, min(done, self.limit), self.limit, note)


class Seen(NamedTuple):
    """What is seen of the chains after a segment, by which it is decided how to go on."""

    step: int
    """Transitions so far."""
    sampled: int
    """Of these, such as the sums are of."""
    window: int
    """Steps of the window that is next."""
    converged: bool
    r_hat: float
    """The largest."""
    accepted: float
    """Mean acceptance of the steps that the sums are of."""
    acceptance: float
    """That of the last window."""
    step_size: float
    needs_tuning: bool
    """Whether tuning of another kind would be better."""

    @classmethod
    def of(cls, sampler: AbstractMarkovSampler, segment: Segment, acceptance: float, adapting: bool) -> Seen:
        """Read from particles and their sums."""
        moments, sampled = segment.moments, int(segment.moments.steps)
        return cls(
            int(segment.step),
            sampled,
            int(moments.window),
            bool(segment.converged),
            float(np.max(np.asarray(segment.r_hats))),
            float(np.mean(np.asarray(moments.accepted))) / max(sampled, 1),
            acceptance,
            float(segment.state.step_size),
            adapting and sampler.retuned(segment.state) is not None,
        )


class Walk:
    """Chains on their way: what was last seen of them, and the particles where they are known.

    Arguments:
        sampler: moves them.
        frame: the coordinates that they move in.
        key: numbers the random keys of the steps.
        segment: where they begin.
        log: what is noted of them.
    """

    def __init__(self, sampler: AbstractMarkovSampler, frame: AnyFrame, key: Key, segment: Segment, log: Log) -> None:
        self.sampler, self.frame, self.key, self.log = sampler, frame, key, log
        self.last: Segment = segment
        """The particles after the last segment that is known, with whatever was done to them since."""
        self.finished: Segment = segment
        """The same as that segment left them."""
        self.seen = Seen(int(segment.step), 0, FIRST_WINDOW, False, np.inf, 0.0, 0.0, np.nan, False)
        self._is_passed = False
        self._steps = Steps("segment", self)

    @property
    def is_passed(self) -> bool:
        """Whether an earlier run has gone on from here, so that the particles are not known and not needed."""
        return self._is_passed

    def memory(self) -> list[Array]:
        """The particles and their sums, for a journal."""
        return jax.tree.leaves(self.last)

    def recall(self, memory: Arrays) -> None:
        """Go on where an earlier run was."""
        self.last = self.finished = jax.tree.unflatten(jax.tree.structure(self.last), memory)
        self._is_passed = False

    def begin_in(self, frame: AnyFrame, segment: Segment) -> None:
        """Go on in another frame, from `segment`."""
        # Together, whenever Ctrl-C comes.
        self.frame, self.last, self.finished = frame, segment, segment
        self.seen = self.seen._replace(sampled=0, window=FIRST_WINDOW)

    def advance(self, num_checks: int, last_step: int, adapting: bool, fresh: bool) -> None:
        """One more segment; see `chains.advance`."""
        # An answer that is known leaves it so, unless it is the last one; a new one has particles.
        self._is_passed = True

        def compute() -> tuple[Any, ...]:
            self._is_passed = False
            begun = time.perf_counter()
            flags = (np.asarray(value) for value in (num_checks, last_step, adapting, fresh))
            segment = _segment.advance(self.sampler, self.frame, self.key, self.last, *flags)
            segment.step.block_until_ready()
            self.last = self.finished = segment
            before, checks = self.seen.step, int(segment.checks)
            # The first call of a shape compiles, so the fastest segment tells.
            seconds = (time.perf_counter() - begun) / max(int(segment.step) - before, 1)
            self.log.seconds_per_step = min(self.log.seconds_per_step, seconds)
            trace = jax.tree.map(lambda leaf: np.asarray(leaf)[:checks], segment.trace)
            seen = Seen.of(self.sampler, segment, float(trace.acceptances[-1]), adapting)
            return (*trace, *seen)

        parts = self._steps.next(compute, adapting, fresh)
        self.seen = Seen(*(kind(part) for kind, part in zip(_KINDS, parts[4:], strict=True)))
        self.log.add("adapting" if adapting else "sampling", Trace(*parts[:4]), self.seen.step)

    def forget(self) -> None:
        """Begin the sums anew."""
        if not self.is_passed:
            self.last = _segment.forget(self.frame, self.last)
        self.seen = self.seen._replace(sampled=0, window=FIRST_WINDOW)

    def retune(self) -> None:
        """Take tuning of another kind where that is better."""
        better = None if self.is_passed else self.sampler.retuned(self.last.state)
        if better is not None:
            self.last = self.last._replace(state=better)


_KINDS: tuple[Any, ...] = (int, int, int, bool, float, float, float, float, bool)


def adapt(walk: Walk, again: bool = False, is_first: bool = False) -> None:
    """Phases of adaptation until no more are needed.

    `again` says that there was an adaptation before, and `is_first` that there will be another.
    """
    sampler, limit = walk.sampler, walk.log.limit
    checks = -(-sampler.num_adaptation_steps // walk.seen.window)
    if checks == 0:
        return
    if again:
        walk.retune()
    for attempt in range(MAX_ADAPTATIONS):
        # One check first: it compiles, and what follows is timed. The same numbers result however steps are cut.
        walk.advance(1, limit, True, again or attempt > 0)
        if checks > 1 and walk.seen.step < limit:
            walk.advance(checks - 1, limit, True, False)
        seen = walk.seen
        if seen.step >= limit:
            break
        if seen.needs_tuning and not is_first:
            walk.retune()
        elif not sampler.needs_more_adaptation(seen.acceptance, seen.step_size):
            break
        walk.forget()


def sample_until_converged(walk: Walk, has_modes: bool) -> None:
    """Segments until the particles have converged, or there is no more to be hoped for."""
    sampler, log = walk.sampler, walk.log
    walk.forget()
    fresh, repeats = True, 0
    while walk.seen.step < log.limit and not walk.seen.converged:
        # The clock cuts segments but decides nothing: tuning is looked at after fixed numbers of steps.
        sampled, window = walk.seen.sampled, walk.seen.window
        affordable = SEGMENT_SECONDS / max(log.seconds_per_step, 1e-9) / window
        checks = int(np.clip(affordable, 1, MAX_CHECKS))
        review = walk.seen.step + _next_review(sampled) - sampled
        walk.advance(checks, min(review, log.limit), False, fresh)
        fresh, seen = False, walk.seen
        if seen.step < review or seen.converged or repeats == MAX_ADAPTATIONS:
            continue
        if review >= HOPELESS_AFTER and has_modes and seen.r_hat > HOPELESS:
            # Modes between which no particle passes: eight times as many steps would end with the same warning.
            break
        if sampler.needs_more_adaptation(seen.accepted, seen.step_size):
            # Tuned on the way from a distant start, for a place that the particles have left.
            walk.forget()
            adapt(walk, again=True)
            walk.forget()
            fresh, repeats = True, repeats + 1


def _next_review(sampled: int) -> int:
    """The next of 32, 64, 128, ... steps of the sampling phase."""
    review = FIRST_REVIEW
    while review <= sampled:
        review *= 2
    return review
