"""The chains of the MCMC samplers: where they begin, and the compiled loop that moves them.

Chains begin in superchains that share a start, spread wider than the posterior. The loop is a stretch of steps that
knows when to stop, compiled once and used again.

The loop takes seconds to compile for each number K = M·C of coordinates, so M is rounded up to one of a few sizes. The
data say nothing of the coordinates that are added: they multiply columns of zeros, hence are standard normal,
independent of all else, and their steps are always accepted, so that the distribution of the others is what it was.
Random numbers are drawn for all of them: draws for a given key depend on the size that M is rounded up to.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from kosambi._core.precision import compiled, host_generator, strong, with_fields
from kosambi._core.programs import bucket
from kosambi._core.types import Array, Key
from kosambi.samplers import convergence as _moments
from kosambi.samplers.base import AbstractMarkovSampler, AnyFrame, Work
from kosambi.samplers.convergence import Moments
from kosambi.samplers.normal_frames import mean_curvatures, remainder_frame
from kosambi.samplers.precisions import DOUBLE, Precision
from kosambi.samplers.remainder import RemainderFrame
from kosambi.samplers.row_tables import MANY_ROWS
from kosambi.target import QuadraticTerm, Target
from kosambi.target.corrected_term import CorrectedTerm
from kosambi.target.modes import Frame, Modes

MAX_CHECKS = 64
"""Convergence checks that one segment can hold the traces of."""
SMALLEST = 8
"""Coordinates of one latent function, at least, that a loop is compiled for."""
# Above so many coordinates their numbers differ by more.
_FEW, _STEP = 64, 32
# The part of the rows from which points are taken for all of them.
_NEARLY = 0.9
# Rows times particles that a frame among the particles looks at, and particles at least.
_CURVATURES, _FEWEST_LOOKED_AT = 2**22, 8


class Trace(NamedTuple):
    """What was seen at each check of a segment."""

    steps: Int[Array, " C"]
    energies: Float[Array, " C"]
    r_hats: Float[Array, " C"]
    acceptances: Float[Array, " C"]


class Segment(NamedTuple):
    """Where a segment ended."""

    state: Any
    moments: Moments
    step: Int[Array, ""]
    """Transitions so far, which number the random keys."""
    gradients: Int[Array, ""]
    divergences: Int[Array, ""]
    converged: Bool[Array, ""]
    r_hats: Float[Array, " Q"]
    times: Float[Array, "3 Q"]
    """Autocorrelation times, of means and both tails."""
    checks: Int[Array, ""]
    trace: Trace


def begin(
    sampler: AbstractMarkovSampler, frame: AnyFrame, key: Key, w: Float[Array, "J K"], num_superchains: int
) -> tuple[Segment, Work]:
    """The state of the sampler at w, before any segment."""
    state, work = _init(sampler, frame, key, w)
    draws = _host_quantities(frame, state)
    moments = _moments.empty(draws, num_superchains)
    count, nothing = np.asarray(0), np.zeros(MAX_CHECKS, dtype=draws.dtype)
    trace = Trace(np.zeros(MAX_CHECKS, dtype=int), nothing, nothing, nothing)
    unknown = np.full(draws.shape[1], np.inf, dtype=draws.dtype)
    times = np.tile(unknown, (3, 1))
    return Segment(state, moments, count, count, count, np.asarray(False), unknown, times, count, trace), work


@compiled
def _init(sampler: AbstractMarkovSampler, frame: AnyFrame, key: Key, w: Float[Array, "J K"]) -> tuple[Any, Work]:
    return strong(sampler.init(key, frame, frame.inverse(w)))


def forget(frame: AnyFrame, segment: Segment) -> Segment:
    """The same particles without what was summed up of their past."""
    draws = _host_quantities(frame, segment.state)
    return segment._replace(moments=_moments.empty(draws, segment.moments.sums.shape[1]))


@compiled
def advance(
    sampler: AbstractMarkovSampler,
    frame: AnyFrame,
    key: Key,
    last: Segment,
    num_checks: Int[Array, ""],
    last_step: Int[Array, ""],
    adapting: Bool[Array, ""],
    fresh: Bool[Array, ""],
) -> Segment:
    """Up to `num_checks` windows of steps, fewer at `last_step`, and when the particles have converged.

    `fresh` says that an adaptation phase has just ended, so that its tuning is final.
    """

    def one_step(_: Array, carry: tuple[Segment, Array]) -> tuple[Segment, Array]:
        segment, accepted = carry
        state, info = sampler.step(jax.random.fold_in(key, segment.step), frame, segment.state)
        state = _choose(adapting, sampler.adapt(frame, state, info), state)
        segment = segment._replace(
            state=state,
            step=segment.step + 1,
            gradients=segment.gradients + info.gradients,
            divergences=segment.divergences + jnp.sum(info.divergent),
        )
        return segment, accepted + info.acceptance

    def some_steps(_: Array, segment: Segment) -> Segment:
        nothing = jnp.zeros_like(segment.moments.accepted)
        segment, accepted = jax.lax.fori_loop(0, _moments.EVERY, one_step, (segment, nothing))
        return segment._replace(moments=_moments.add(segment.moments, _quantities(frame, segment.state), accepted))

    def one_window(carry: Segment) -> Segment:
        before = jnp.mean(carry.moments.accepted)
        length = carry.moments.window
        carry = jax.lax.fori_loop(0, length // _moments.EVERY, some_steps, carry)
        accepted = (jnp.mean(carry.moments.accepted) - before) / length
        moments = _moments.close_window(carry.moments)
        r_hats, times = _moments.r_hat(moments), _moments.autocorrelation_times(moments)
        here = carry.checks
        trace = Trace(
            carry.trace.steps.at[here].set(carry.step),
            carry.trace.energies.at[here].set(jnp.mean(carry.state.potential).astype(carry.trace.energies.dtype)),
            carry.trace.r_hats.at[here].set(jnp.where(adapting, jnp.nan, jnp.max(r_hats))),
            carry.trace.acceptances.at[here].set(accepted),
        )
        return carry._replace(
            moments=moments,
            converged=~adapting & _moments.has_converged(moments, r_hats, times),
            r_hats=r_hats,
            times=times,
            checks=here + 1,
            trace=trace,
        )

    def going_on(carry: Segment) -> Array:
        return (carry.checks < num_checks) & (carry.step < last_step) & ~carry.converged

    state = _choose(fresh, sampler.finish(last.state), last.state)
    return strong(jax.lax.while_loop(going_on, one_window, last._replace(state=state, checks=jnp.asarray(0))))


def _choose(condition: Array, yes: Any, no: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def _quantities(frame: AnyFrame, state: Any) -> Float[Array, "J Q"]:
    """What is watched: the whitened coordinates and the potential."""
    w = state.whitened if hasattr(state, "whitened") else frame.watched(state.v)
    return jnp.concatenate([w, state.potential[:, None].astype(w.dtype)], axis=1)


def _host_quantities(frame: AnyFrame, state: Any) -> Float[np.ndarray, "J Q"]:
    """The same with NumPy, which compiles nothing."""
    dtype = np.asarray(state.v if hasattr(state, "v") else state.whitened).dtype
    return np.concatenate([whitened(frame, state), np.asarray(state.potential)[:, None]], axis=1).astype(dtype)


def whitened(frame: AnyFrame, state: Any) -> Float[np.ndarray, "J K"]:
    """The whitened coordinates of the particles."""
    if hasattr(state, "whitened"):
        return np.asarray(state.whitened)
    return np.asarray(frame.mode) + np.asarray(state.v) @ np.asarray(frame.root).T


def padded_frame(
    target: Target,
    modes: Modes,
    num_chains: int | None = None,
    use_tables: bool = True,
    curvature: Float[np.ndarray, " N"] | None = None,
    precision: Precision = DOUBLE,
) -> AnyFrame:
    """V around the most probable mode, with coordinates added behind those of the target.

    For `num_chains` that move by `Frame.value_and_gradient` alone it is the cheaper `RemainderFrame`, where there is
    one; with `use_tables` it may have the costs of rows from tables, and with `curvature` another than at the mode.
    """
    size, *latents = target.shape
    more = _rounded_up(size, len(target.x)) - size
    if num_chains is not None:
        found = remainder_frame(target, modes, size + more, num_chains, use_tables, curvature, precision)
        if found is not None:
            return found
    mode, root, lowest = modes.positions[0], modes.roots[0], np.asarray(modes.potentials[0])
    if not more or isinstance(target.term, CorrectedTerm):
        return Frame(target.term, target.shape, mode, root, lowest)
    name = "root" if isinstance(target.term, QuadraticTerm) else "psi"
    wide = np.pad(np.asarray(getattr(target.term, name)), ((0, 0), (0, more)))
    extra = more * int(np.prod(latents))
    below = np.pad(root, ((0, extra), (0, extra)))
    last = np.arange(len(root), len(below))
    below[last, last] = 1.0
    return Frame(
        with_fields(target.term, **{name: wide}), (size + more, *latents), np.pad(mode, (0, extra)), below, lowest
    )


def _rounded_up(size: int, num_rows: int) -> int:
    """Coordinates that a loop is compiled for; as many as rows where each of these is a point, but for a few copies."""
    return num_rows if _NEARLY * num_rows <= size <= num_rows else bucket(size, SMALLEST if size <= _FEW else _STEP)


class Frames(NamedTuple):
    """Normal approximations of a target in which chains can move."""

    target: Target
    modes: Modes
    num_chains: int | None
    use_tables: bool = True
    precision: Precision = DOUBLE

    def at_mode(self) -> AnyFrame:
        """That of the most probable mode."""
        return padded_frame(self.target, self.modes, self.num_chains, self.use_tables, precision=self.precision)

    def may_be_left(self, found: AnyFrame) -> bool:
        """Whether `among` is to be asked for a better one, once there are particles."""
        if not isinstance(found, RemainderFrame) or self.target.likelihood.is_convex:
            return False
        # Of many rows, which make no jumps, some are always where a cost is not convex.
        return self.target.num_rows > MANY_ROWS or (found.jumps is not None and bool(found.jumps.number))

    def among(self, w: Float[np.ndarray, "J K"], found: AnyFrame) -> AnyFrame:
        """One with the mean curvature at the particles; `found` where there is none that is like it."""
        assert isinstance(found, RemainderFrame)
        # A few particles say enough of many rows, whose curvatures are added up.
        number = int(np.clip(_CURVATURES // self.target.num_rows, _FEWEST_LOOKED_AT, len(w)))
        some = w[np.linspace(0, len(w) - 1, number).astype(int), : self.target.shape[0]]
        curvature = mean_curvatures(self.target, some)
        better = padded_frame(
            self.target, self.modes, self.num_chains, self.use_tables, curvature, precision=self.precision
        )
        # One program serves both where rows are few, so they must be alike.
        if not isinstance(better, RemainderFrame) or better.is_tabulated != found.is_tabulated:
            return found
        return found if (better.jumps is None) != (found.jumps is None) else better


def padded_start(key: Key, w: Float[Array, "J K"], frame: AnyFrame) -> Float[np.ndarray, "J L"]:
    """Starts with standard normal numbers in the coordinates that were added."""
    extra = len(frame.mode) - w.shape[1]
    if not extra:
        return np.asarray(w)
    return np.concatenate([w, host_generator(key).normal(size=(len(w), extra))], axis=1)
