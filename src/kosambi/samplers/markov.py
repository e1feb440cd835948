"""Running a Markov sampler from the modes to convergence: the part that stays in Python, between compiled segments."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Float

from kosambi._core.journal import recalled
from kosambi._core.precision import lift
from kosambi._core.programs import split
from kosambi._core.progress import Clock, Interruption, Progress
from kosambi._core.types import Array, Key
from kosambi.errors import PrecisionWarning
from kosambi.parallel.terms import placed
from kosambi.samplers import chains as _segment
from kosambi.samplers.base import AbstractMarkovSampler, AnyFrame, Notes
from kosambi.samplers.chains import Frames, Segment, padded_start, whitened
from kosambi.samplers.convergence import MIN_LENGTH, r_hat_limit
from kosambi.samplers.normal_frames import lifted
from kosambi.samplers.phases import Log, Walk, adapt, sample_until_converged
from kosambi.samplers.precisions import Precision
from kosambi.samplers.remainder import RemainderFrame
from kosambi.samplers.report import Particles, Report, report_of
from kosambi.samplers.starts import NUM_SUPERCHAINS, starting_points, whitened_potentials
from kosambi.target import Target
from kosambi.target.modes import Frame, count_basins, find_modes

TABLE_ERROR, LOOKED_AT = 0.1, 32
"""Nats by which V from tables of the rows may be off at the end, and particles at which that is looked at."""
LARGEST_BLUR = 0.05
"""Nats by which the errors of V may differ between particles before a precision is said to be too low."""


def run(
    key: Key,
    target: Target,
    sampler: AbstractMarkovSampler,
    initial: str | Array | Particles,
    num_particles: int,
    progress: Progress,
    clock: Clock,
    precision: Precision,
    quiet_basins: bool,
    stop: Interruption,
    mesh: Mesh | None = None,
) -> tuple[Particles, Report]:
    """Modes, starting points, adaptation, sampling until converged.

    `quiet_basins` leaves it to the caller to say that particles sit in modes between which they do not pass.
    """
    mode_key, start_key, *keys, again = split(key, 7)
    progress.update("looking for the mode")
    modes = find_modes(mode_key, target)
    start = starting_points(start_key, target, modes, initial, num_particles)
    if "initial" in vars(sampler):
        # It has done its work, and must not be part of what a compiled loop is recognised by.
        sampler = eqx.tree_at(lambda s: s.initial, sampler, None)
    # Products in float32 and tables would let sums in another order show.
    num_chains = len(start.w) if sampler.needs_gradients_only and mesh is None else None
    frames = Frames(target, modes, num_chains, precision=precision)
    found, segment, log = _moved(keys, sampler, frames, start.w, progress, precision, stop, mesh=mesh)
    is_tabulated = isinstance(found, RemainderFrame) and found.is_tabulated and not stop.happened
    if is_tabulated and np.max(np.abs(_errors(target, found, segment))) > TABLE_ERROR:
        # Particles have been where the tables do not reach.
        frames = frames._replace(use_tables=False)
        spent = log.first_steps + int(segment.step), log.first_gradients + int(segment.gradients)
        found, segment, log = _moved(split(again, 4), sampler, frames, start.w, progress, precision, stop, spent)
    interrupted = stop.happened
    # Without what was added to the coordinates.
    w = np.asarray(whitened(found, segment.state), dtype=np.float64)[:, : start.w.shape[1]]
    basins = 1 if interrupted else count_basins(target, w, modes)
    # What is lost to few digits is seen at the particles, where V is computed once more in float64.
    blur = 0.0 if precision.is_double or interrupted else float(np.ptp(_errors(target, found, segment)))
    report = _report(
        target, sampler, segment, log, clock, start.returned, basins, interrupted, precision, quiet_basins, blur
    )
    return Particles.from_whitened(target, w[start.returned]), report


def _moved(
    keys: Sequence[Key],
    sampler: AbstractMarkovSampler,
    frames: Frames,
    w: Float[np.ndarray, "J K"],
    progress: Progress,
    precision: Precision,
    stop: Interruption,
    spent: tuple[int, int] = (0, 0),
    mesh: Mesh | None = None,
) -> tuple[AnyFrame, Segment, Log]:
    """Chains from w to convergence, and the frame in which they ended.

    `spent` are steps and gradients of a run that this one repeats.
    """
    init_key, step_key, fill_key, second_key = keys
    found = frames.at_mode()
    begun = padded_start(fill_key, w, found)
    # Products in float32 stay so where all else is in float64.
    frame, first = lifted(found, precision), lift(begun, precision.dtype)
    if mesh is not None:
        assert isinstance(found, Frame)
        frame, first = placed(found, begun, mesh)
    log = Log(progress, int(sampler.max_steps))
    segment, work = _segment.begin(sampler, frame, init_key, first, NUM_SUPERCHAINS)
    log.count(work, *spent)
    walk = Walk(sampler, frame, step_key, segment, log)
    with stop:
        # A frame among the particles has a tuning of its own, so that of this one need not be the best.
        is_first = frames.may_be_left(found)
        adapt(walk, is_first=is_first)
        if is_first:
            (here,) = recalled("particles", lambda: (whitened(found, walk.last.state),))
            better = frames.among(here, found)
            if better is not found:
                other = lifted(better, precision)
                moved = lift(here, precision.dtype)
                again, work = _segment.begin(sampler, other, second_key, moved, NUM_SUPERCHAINS)
                if not walk.is_passed:
                    # Steps number the random keys, so they go on; and tuning does.
                    again = again._replace(
                        state=sampler.tuned_like(again.state, walk.last.state),
                        step=walk.last.step,
                        gradients=walk.last.gradients + work.gradients,
                        divergences=walk.last.divergences,
                    )
                walk.begin_in(other, again)
                found = better
            adapt(walk, again=True)
        sample_until_converged(walk, len(frames.modes.potentials) > 1)
    # After an interruption what the last complete segment left is still there.
    return found, walk.finished if stop.happened else walk.last, log


def _errors(target: Target, frame: AnyFrame, segment: Segment) -> Float[np.ndarray, " L"]:
    """Nats by which the V of the steps is off at some of the particles."""
    every = np.asarray(whitened(frame, segment.state), dtype=np.float64)
    some = np.linspace(0, len(every) - 1, LOOKED_AT).astype(int)
    w, added = np.split(every[some], [int(np.prod(target.shape))], axis=1)
    right = whitened_potentials(target)(w) + 0.5 * np.sum(np.square(added), axis=1)
    error = right - np.asarray(segment.state.potential, dtype=np.float64)[some]
    return np.where(np.isfinite(error), error, np.inf)


def _report(
    target: Target,
    sampler: AbstractMarkovSampler,
    segment: Segment,
    log: Log,
    clock: Clock,
    returned: Array,
    basins: int,
    interrupted: bool,
    precision: Precision,
    quiet_basins: bool,
    blur: float,
) -> Report:
    r_hats, times = (np.asarray(part, dtype=np.float64) for part in (segment.r_hats, segment.times))
    sampled = int(segment.moments.steps)
    draws = sampled * segment.moments.particle_sums.shape[0]
    # Never more effective draws than draws: the estimate of a time near one is noisy.
    ess, ess_tail = draws / max(times[0].max(), 1.0), draws / max(times[1:].max(), 1.0)
    acceptances = np.asarray(segment.moments.accepted, dtype=np.float64)[returned] / max(sampled, 1)
    # Before the first check of the sampling phase nothing is known.
    r_hat = float(r_hats.max()) if sampled else np.inf
    limit = r_hat_limit(segment.moments.particle_sums.shape[0], NUM_SUPERCHAINS)
    converged = bool(segment.converged) and not interrupted
    return report_of(
        target,
        clock,
        sampler.name,
        converged=converged,
        r_hat=r_hat,
        r_hat_limit=limit,
        r_hat_by_coordinate=r_hats[: int(np.prod(target.shape))],
        ess=ess,
        ess_tail=ess_tail,
        acceptance_by_particle=acceptances,
        step_size=float(segment.state.step_size),
        steps=log.first_steps + int(segment.step),
        gradient_evaluations=log.first_gradients + int(segment.gradients),
        divergences=int(segment.divergences),
        basins=basins,
        energy=np.concatenate([*log.energies, []]),
        energy_steps=np.concatenate([*log.steps, []]),
        r_hat_trace=np.concatenate([*log.r_hats, []]),
        warnings=_warn(
            sampler, segment, r_hat, limit, converged, basins, interrupted, precision, quiet_basins, blur
        ).texts,
    )


def _warn(
    sampler: AbstractMarkovSampler,
    segment: Segment,
    r_hat: float,
    limit: float,
    converged: bool,
    basins: int,
    interrupted: bool,
    precision: Precision,
    quiet_basins: bool,
    blur: float,
) -> Notes:
    notes = Notes()
    if quiet_basins and basins > 1 and not converged and not interrupted:
        return notes
    refused = np.asarray(segment.moments.accepted) < 0.01 * max(int(segment.moments.steps), 1)
    stuck = f"; {int(refused.sum())} of {refused.size} chains hardly moved" if refused.any() else ""
    if interrupted:
        notes.add(f"Interrupted after {int(segment.step)} steps: the particles are those of that moment.")
    elif not converged and not int(segment.moments.steps):
        notes.add(
            f"All {int(segment.step)} steps went into adaptation, none into sampling. "
            f"Raise `max_steps` of `{type(sampler).__name__}`."
        )
    elif not converged and r_hat <= limit:
        notes.add(
            f"Stopped after {int(segment.step)} steps, before {MIN_LENGTH:.0f} autocorrelation times had passed. "
            f"Raise `max_steps` of `{type(sampler).__name__}`."
        )
    elif not converged and basins > 1:
        notes.add(
            f"The particles sit in the basins of {basins} or more separate modes and do not pass between them "
            f"(nested R-hat {r_hat:.3f}), so how many are in each says little about its probability. "
            'Use sampler="tempering".'
        )
    elif not converged:
        notes.add(
            f"Not converged after {int(segment.step)} steps: nested R-hat {r_hat:.4f}, limit {limit:.6g}{stuck}. "
            f"Raise `max_steps` of `{type(sampler).__name__}`, or look at the model and the scale of its inputs."
        )
    if blur > LARGEST_BLUR:
        notes.add(
            f"In {precision.name} the potential is known to {blur:.2g} only, and the acceptance of proposals with it. "
            'Use precision="float64".',
            PrecisionWarning,
        )
    return notes
