"""The compiled loop of the Markov samplers: a stretch of steps that knows when to stop, compiled once, used again."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from kosambi._types import Array, Key
from kosambi.diagnostics import _moments
from kosambi.diagnostics._moments import Moments
from kosambi.laplace import Frame
from kosambi.precision import compiled, strong
from kosambi.samplers._base import AbstractMarkovSampler, Work

MAX_CHECKS = 64
"""Convergence checks that one segment can hold the traces of."""


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
    sampler: AbstractMarkovSampler, frame: Frame, key: Key, w: Float[Array, "J K"], num_superchains: int
) -> tuple[Segment, Work]:
    """The state of the sampler at w, before any segment."""
    state, work = _init(sampler, frame, key, w)
    draws = np.asarray(_quantities(state))
    moments = _moments.empty(draws, num_superchains)
    count, nothing = np.asarray(0), np.zeros(MAX_CHECKS, dtype=draws.dtype)
    trace = Trace(np.zeros(MAX_CHECKS, dtype=int), nothing, nothing, nothing)
    unknown = np.full(draws.shape[1], np.inf, dtype=draws.dtype)
    times = np.tile(unknown, (3, 1))
    return Segment(state, moments, count, count, count, np.asarray(False), unknown, times, count, trace), work


@compiled
def _init(sampler: AbstractMarkovSampler, frame: Frame, key: Key, w: Float[Array, "J K"]) -> tuple[Any, Work]:
    return strong(sampler.init(key, frame, frame.inverse(w)))


def forget(segment: Segment) -> Segment:
    """The same particles without what was summed up of their past."""
    draws = np.concatenate([np.asarray(segment.state.whitened), np.asarray(segment.state.potential)[:, None]], axis=1)
    return segment._replace(moments=_moments.empty(draws, segment.moments.sums.shape[1]))


@compiled
def advance(
    sampler: AbstractMarkovSampler,
    frame: Frame,
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

    def one_step(_: Array, carry: Segment) -> Segment:
        state, info = sampler.step(jax.random.fold_in(key, carry.step), frame, carry.state)
        state = _choose(adapting, sampler.adapt(frame, state, info), state)
        return carry._replace(
            state=state,
            moments=_moments.add(carry.moments, _quantities(state), info.acceptance),
            step=carry.step + 1,
            gradients=carry.gradients + info.gradients,
            divergences=carry.divergences + jnp.sum(info.divergent),
        )

    def one_window(carry: Segment) -> Segment:
        before = jnp.mean(carry.moments.accepted)
        length = carry.moments.window
        carry = jax.lax.fori_loop(0, length, one_step, carry)
        accepted = (jnp.mean(carry.moments.accepted) - before) / length
        moments = _moments.close_window(carry.moments)
        r_hats, times = _moments.r_hat(moments), _moments.autocorrelation_times(moments)
        here = carry.checks
        trace = Trace(
            carry.trace.steps.at[here].set(carry.step),
            carry.trace.energies.at[here].set(jnp.mean(carry.state.potential)),
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


def _quantities(state: Any) -> Float[Array, "J Q"]:
    """What is watched: the whitened coordinates and the potential."""
    return jnp.concatenate([state.whitened, state.potential[:, None]], axis=1)
