"""The phases of a Markov run between compiled segments: adaptation, sampling, and what is noted of them."""

from __future__ import annotations

import time
from typing import Any

import jax
import numpy as np

from kosambi._core.progress import Progress
from kosambi._core.types import Array, Key
from kosambi.samplers import chains as _segment
from kosambi.samplers.base import AbstractMarkovSampler, AnyFrame
from kosambi.samplers.chains import MAX_CHECKS, Segment

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
        self.last: Segment | None = None
        self.seconds_per_step = np.inf
        self.first_steps, self.first_gradients = 0, 0
        self.steps: list[Array] = []
        self.energies: list[Array] = []
        self.r_hats: list[Array] = []

    def count(self, work: Any, steps: int, gradients: int) -> None:
        """Work done before the first segment, and in an earlier run."""
        self.first_steps, self.first_gradients = int(work.steps) + steps, int(work.gradients) + gradients

    def add(self, phase: str, segment: Segment, seconds: float, steps_before: int) -> float:
        """Take a finished segment in; returns its mean acceptance at the last check."""
        checks = int(segment.checks)
        trace = jax.tree.map(lambda leaf: np.asarray(leaf)[:checks], segment.trace)
        self.steps.append(trace.steps + self.first_steps)
        self.energies.append(trace.energies)
        self.r_hats.append(trace.r_hats)
        self.last = segment
        done = int(segment.step)
        # The first call of a shape compiles, so the fastest segment tells.
        self.seconds_per_step = min(self.seconds_per_step, seconds / max(done - steps_before, 1))
        acceptance = float(trace.acceptances[-1])
        note = f"acceptance {acceptance:.2f}"
        if np.isfinite(self.r_hats[-1][-1]):
            note += f"  R-hat {self.r_hats[-1][-1]:.3f}"
        self.progress.update(phase, min(done, self.limit), self.limit, note)
        return acceptance


def _advance(
    sampler: AbstractMarkovSampler,
    frame: AnyFrame,
    key: Key,
    segment: Segment,
    log: Log,
    num_checks: int,
    last_step: int,
    adapting: bool,
    fresh: bool,
) -> tuple[Segment, float]:
    before, begun = int(segment.step), time.perf_counter()
    flags = (np.asarray(value) for value in (num_checks, last_step, adapting, fresh))
    segment = _segment.advance(sampler, frame, key, segment, *flags)
    segment.step.block_until_ready()
    phase = "adapting" if adapting else "sampling"
    return segment, log.add(phase, segment, time.perf_counter() - begun, before)


def adapt(
    sampler: AbstractMarkovSampler,
    frame: AnyFrame,
    key: Key,
    segment: Segment,
    log: Log,
    again: bool = False,
    is_first: bool = False,
) -> Segment:
    """Phases of adaptation until no more are needed.

    `again` says that there was an adaptation before, and `is_first` that there will be another.
    """
    checks = -(-sampler.num_adaptation_steps // int(segment.moments.window))
    if checks == 0:
        return segment
    if again:
        better = sampler.retuned(segment.state)
        segment = segment if better is None else segment._replace(state=better)
    for attempt in range(MAX_ADAPTATIONS):
        # One check first: it compiles, and what follows is timed. The same numbers result however steps are cut.
        segment, acceptance = _advance(sampler, frame, key, segment, log, 1, log.limit, True, again or attempt > 0)
        if checks > 1 and int(segment.step) < log.limit:
            segment, acceptance = _advance(sampler, frame, key, segment, log, checks - 1, log.limit, True, False)
        if int(segment.step) >= log.limit:
            break
        better = None if is_first else sampler.retuned(segment.state)
        if better is not None:
            segment = segment._replace(state=better)
        elif not sampler.needs_more_adaptation(acceptance, float(segment.state.step_size)):
            break
        segment = _segment.forget(frame, segment)
    return segment


def sample_until_converged(
    sampler: AbstractMarkovSampler, frame: AnyFrame, key: Key, segment: Segment, log: Log, has_modes: bool
) -> Segment:
    """Segments until the particles have converged, or there is no more to be hoped for."""
    segment, fresh, repeats = _segment.forget(frame, segment), True, 0
    while int(segment.step) < log.limit and not bool(segment.converged):
        # The clock cuts segments but decides nothing: tuning is looked at after fixed numbers of steps.
        sampled, window = int(segment.moments.steps), int(segment.moments.window)
        affordable = SEGMENT_SECONDS / max(log.seconds_per_step, 1e-9) / window
        checks = int(np.clip(affordable, 1, MAX_CHECKS))
        review = int(segment.step) + _next_review(sampled) - sampled
        segment, _ = _advance(sampler, frame, key, segment, log, checks, min(review, log.limit), False, fresh)
        fresh = False
        if int(segment.step) < review or bool(segment.converged) or repeats == MAX_ADAPTATIONS:
            continue
        hopeless = has_modes and float(np.max(np.asarray(segment.r_hats))) > HOPELESS
        if review >= HOPELESS_AFTER and hopeless:
            # Modes between which no particle passes: eight times as many steps would end with the same warning.
            break
        accepted = float(np.mean(np.asarray(segment.moments.accepted))) / int(segment.moments.steps)
        if sampler.needs_more_adaptation(accepted, float(segment.state.step_size)):
            # Tuned on the way from a distant start, for a place that the particles have left.
            segment = adapt(sampler, frame, key, _segment.forget(frame, segment), log, again=True)
            segment, fresh, repeats = _segment.forget(frame, segment), True, repeats + 1
    return segment


def _next_review(sampled: int) -> int:
    """The next of 32, 64, 128, ... steps of the sampling phase."""
    review = FIRST_REVIEW
    while review <= sampled:
        review *= 2
    return review
