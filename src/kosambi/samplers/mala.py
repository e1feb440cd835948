r"""Metropolis-adjusted Langevin in the frame of the Laplace approximation, its Gaussian part solved exactly.

In coordinates v with w = ŵ + A v, A Aᵀ = H⁻¹, the potential is V = ½|v|² + U(v), where U is what Laplace's
approximation misses.
The Langevin equation dv = −(v + ∇U(v)) dt + √2 dB is solved exactly in its linear part, with ∇U held fixed for a step:

    v' = cos θ · v − (1 − cos θ) ∇U(v) + sin θ · ξ,   ξ ~ N(0, I),   cos θ = e^{−t}

and accepted with the Metropolis-Hastings probability. The plain step v − h∇V + √(2h) ξ has to shrink with the number of
coordinates even when V is exactly quadratic; this one is then always accepted, at any θ, and at θ = π/2 draws are
independent. The density is exp(−V), without bias.

θ is set by dual averaging (Nesterov 2009, Hoffman and Gelman 2014) on the mean acceptance of all particles. With J of
them the acceptance of one step is known to about 1/√J, so the gain is larger and the memory shorter than for a single
chain, and the step size is cut at a limit: beyond it, the acceptance may be high for ever.

Where a cost is not convex, some steps are followed by jumps of single rows (`kosambi.samplers.row_jumps`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from kosambi._core.checks import as_count, as_positive
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.errors import InputError
from kosambi.samplers.base import AbstractMarkovSampler, AnyFrame, Info, Work, as_initial
from kosambi.samplers.row_jumps import EVERY

LARGEST_ANGLE = 0.5 * np.pi
SHARE_OF_SHORT_STEPS = 0.25
SHORT_STEP = 0.25
"""At random one step in four is a quarter as long: out in a tail that is heavier than normal, long ones are refused."""


class MALAState(NamedTuple):
    """What the next step needs."""

    v: Float[Array, "J K"]
    whitened: Float[Array, "J K"]
    potential: Float[Array, " J"]
    gradient: Float[Array, "J K"]
    """∇U(v) = ∇V(v) − v."""
    tuning: Tuning
    far: Bool[Array, " J"]
    """Particles so high up that no draw would be there; while adapting, they may go down by any step."""

    @property
    def step_size(self) -> Array:
        """The angle θ."""
        return self.tuning.step_size


class MALA(AbstractMarkovSampler):
    """The Metropolis-adjusted Langevin algorithm, preconditioned with the curvature at the mode; nothing to tune.

    Arguments:
        target_acceptance: the mean acceptance that the step is adapted to.
        step_size: the angle θ in (0, π/2] to begin the adaptation with.
        max_steps: where to stop, converged or not.
        initial: "laplace" (a widened Laplace approximation around the modes), "prior", or coordinates (J, M).

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(-1.0, 1.0, 50)[:, None]
    >>> basis = ko.PointBasis(ko.GaussianProcess(ko.kernels.Matern52()), x[::10])
    >>> target = ko.Target(basis, ko.likelihoods.Bernoulli(), x, (x[:, 0] > 0).astype(float))
    >>> particles, report = ko.sample(jax.random.key(0), target, ko.samplers.MALA(), num_particles=100)
    >>> particles.coordinates.shape, report.converged
    ((100, 5), True)
    """

    name: ClassVar[str] = "mala"
    num_adaptation_steps: ClassVar[int] = 24
    needs_gradients_only: ClassVar[bool] = True
    argument_fields: ClassVar[Mapping[str, str]] = {"step_size": "first_angle"}

    target_acceptance: Array
    first_angle: Array
    max_steps: Array
    initial: str | Array

    def __init__(
        self,
        target_acceptance: float = 0.7,
        *,
        step_size: float = 1.0,
        max_steps: int = 4000,
        initial: str | ArrayLike = "laplace",
    ) -> None:
        self.target_acceptance = as_positive("target_acceptance", target_acceptance)
        if self.target_acceptance >= 1:
            raise InputError(f"`target_acceptance` must be below 1. Got {target_acceptance}. The default is 0.7.")
        self.first_angle = as_positive("step_size", step_size)
        if self.first_angle > LARGEST_ANGLE:
            raise InputError(f"`step_size` is an angle in (0, π/2]. Got {step_size}. It is adapted; leave it out.")
        self.max_steps = np.asarray(as_count("max_steps", max_steps))
        self.initial = as_initial(initial, ("laplace", "prior"))

    def init(self, key: Key, frame: AnyFrame, v: Float[Array, "J K"]) -> tuple[MALAState, Work]:
        """A state at v, one gradient."""
        del key
        w, value, gradient = frame.value_and_gradient(v)
        angle = jnp.asarray(self.first_angle, dtype=v.dtype)
        # No direction is known where the potential is infinite; noise may lead out of there.
        gradient = jnp.where(jnp.isfinite(gradient), gradient, 0.0)
        state = MALAState(v, w, value, gradient - v, start_tuning(angle), _is_far(frame, value))
        return state, Work(jnp.asarray(0), jnp.asarray(1))

    def step(self, key: Key, frame: AnyFrame, state: MALAState) -> tuple[MALAState, Info]:
        """One transition, one gradient; one more where jumps follow."""
        jumps = getattr(frame, "jumps", None)
        if jumps is None:
            return self._step(key, frame, state)
        step_key, whether, jump_key = jax.random.split(key, 3)
        state, info = self._step(step_key, frame, state)
        jumps_now = jax.random.uniform(whether) < 1.0 / EVERY
        state = jax.lax.cond(jumps_now, lambda: _jumped(jump_key, frame, state), lambda: state)
        return state, info._replace(gradients=info.gradients + jumps_now)

    def _step(self, key: Key, frame: AnyFrame, state: MALAState) -> tuple[MALAState, Info]:
        dtype = state.v.dtype
        num_particles, size = state.v.shape
        # One call of the generator, in (−1, 1), for noise and decisions, and flat: a fraction of the time to compile.
        lowest = jnp.nextafter(jnp.asarray(-1.0, dtype), jnp.asarray(0.0, dtype))
        flat = jax.random.uniform(key, (num_particles * (size + 2),), dtype, minval=lowest, maxval=1.0)
        uniform = flat.reshape(num_particles, size + 2)
        noise = jnp.sqrt(jnp.asarray(2.0, dtype)) * jax.lax.erf_inv(uniform[:, :size])
        short = uniform[:, size] < 2.0 * SHARE_OF_SHORT_STEPS - 1.0
        angle = state.step_size * jnp.where(short, SHORT_STEP, 1.0).astype(dtype)[:, None]
        turn, rest = jnp.sin(angle), jnp.cos(angle)
        v = rest * state.v - (1.0 - rest) * _tamed(state) + turn * noise
        w, value, slope = frame.value_and_gradient(v)
        gradient = slope - v
        # The noise that would lead back; log q(v | v') − log q(v' | v) is half the difference of the squares.
        back = (state.v - rest * v + (1.0 - rest) * gradient) / turn
        log_ratio = state.potential - value + 0.5 * jnp.sum((noise - back) * (noise + back), axis=1)
        finite = jnp.isfinite(value)
        acceptance = jnp.where(finite & ~jnp.isnan(log_ratio), jnp.exp(jnp.minimum(log_ratio, 0.0)), 0.0)
        accept = 0.5 * (uniform[:, size + 1] + 1.0) < acceptance
        # A step back up from where a long way down leads is improbable, so such ways would be refused.
        accept = accept | (state.far & finite & (value < state.potential))

        def chosen(new: Array, old: Array) -> Array:
            return jnp.where(accept.reshape(-1, *(1,) * (new.ndim - 1)), new, old)

        moved = MALAState(
            chosen(v, state.v),
            chosen(w, state.whitened),
            chosen(value, state.potential),
            chosen(gradient, state.gradient),
            state.tuning,
            state.far,
        )
        return moved, Info(acceptance, ~finite, jnp.asarray(1))

    def adapt(self, frame: AnyFrame, state: MALAState, info: Info) -> MALAState:
        """One update of the angle, from the particles that are where draws can be."""
        far = _is_far(frame, state.potential)
        near = jnp.sum(~state.far)
        accepted = jnp.sum(jnp.where(state.far, 0.0, info.acceptance)) / jnp.maximum(near, 1)
        target = jnp.asarray(self.target_acceptance, dtype=info.acceptance.dtype)
        tuned = tune(state.tuning, accepted - target, LARGEST_ANGLE)
        tuning = jax.tree.map(lambda new, old: jnp.where(near > 0, new, old), tuned, state.tuning)
        return state._replace(tuning=tuning, far=far)

    def finish(self, state: MALAState) -> MALAState:
        """The averaged angle from now on, and no exceptions for anyone."""
        return state._replace(tuning=finish_tuning(state.tuning), far=jnp.zeros_like(state.far))

    def needs_more_adaptation(self, acceptance: float, step_size: float) -> bool:
        """While the acceptance is off by more than 0.15, unless even the longest step is accepted more often."""
        at_limit = step_size > 0.95 * LARGEST_ANGLE and acceptance > float(self.target_acceptance)
        return abs(acceptance - float(self.target_acceptance)) > 0.15 and not at_limit


def _jumped(key: Key, frame: Any, state: MALAState) -> MALAState:
    """The state after jumps of single rows (`kosambi.samplers.row_jumps`)."""
    v = frame.jumped(key, state.v)
    w, value, slope = frame.value_and_gradient(v)
    return state._replace(v=v, whitened=w, potential=value, gradient=slope - v)


def _tamed(state: MALAState) -> Float[Array, "J K"]:
    """∇U, for particles that are far out no longer than the way to the mode: an exponential cost would overshoot it."""
    size = state.v.shape[1]
    reach = jnp.linalg.norm(state.v, axis=1) + size**0.5
    length = jnp.linalg.norm(state.gradient, axis=1)
    factor = jnp.where(state.far & (length > reach), reach / jnp.where(length > 0, length, 1.0), 1.0)
    return state.gradient * factor[:, None]


def _is_far(frame: AnyFrame, potential: Float[Array, " J"]) -> Bool[Array, " J"]:
    """Whether V exceeds its minimum by more than K/2 + 4√K + 5, as one in a million normal draws would."""
    size = frame.mode.shape[0]
    return ~(potential <= frame.lowest + 0.5 * size + 4.0 * size**0.5 + 5.0)


_GAIN = 5.0
_OFFSET = 5.0
_DECAY = 0.75


class Tuning(NamedTuple):
    """The state of dual averaging, in logarithms of the step size."""

    step_size: Float[Array, ""]
    """What the next step uses."""
    first: Float[Array, ""]
    """Where the iterates are drawn back to."""
    error: Float[Array, ""]
    """The running mean of target minus acceptance."""
    average: Float[Array, ""]
    """The weighted mean of the iterates, which a finished adaptation uses."""
    count: Int[Array, ""]


def start_tuning(step_size: Float[Array, ""]) -> Tuning:
    """Nothing known yet."""
    log_size = jnp.log(step_size)
    return Tuning(step_size, log_size, jnp.zeros_like(log_size), log_size, jnp.asarray(0))


def tune(tuning: Tuning, surplus: Float[Array, ""], limit: float) -> Tuning:
    """One update, with `surplus` the acceptance seen minus the acceptance wanted."""
    count = tuning.count + 1
    number = count.astype(surplus.dtype)
    error = tuning.error - (surplus + tuning.error) / (number + _OFFSET)
    log_size = jnp.minimum(tuning.first - jnp.sqrt(number) * _GAIN * error, jnp.log(limit))
    weight = number**-_DECAY
    average = weight * log_size + (1.0 - weight) * tuning.average
    return Tuning(jnp.exp(log_size), tuning.first, error, average, count)


def finish_tuning(tuning: Tuning) -> Tuning:
    """Use the averaged iterates, and begin there if there is more adaptation."""
    zero = jnp.zeros_like(tuning.error)
    return Tuning(jnp.exp(tuning.average), tuning.average, zero, tuning.average, jnp.zeros_like(tuning.count))
