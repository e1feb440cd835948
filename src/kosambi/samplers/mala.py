r"""Metropolis-adjusted Langevin in the frame of the Laplace approximation, its Gaussian part solved exactly.

In coordinates v with w = ŵ + A v, A Aᵀ = H⁻¹, the potential is V = ½|v|² + U(v), where U is what Laplace's
approximation misses.
The Langevin equation dv = −(v + ∇U(v)) dt + √2 dB is solved exactly in its linear part, with ∇U held fixed for a step:

    v' = cos θ · v − (1 − cos θ) ∇U(v) + sin θ · ξ,   ξ ~ N(0, I),   cos θ = e^{−t}

and accepted with the Metropolis-Hastings probability. The plain step v − h∇V + √(2h) ξ has to shrink with the number of
coordinates even when V is exactly quadratic; this one is then always accepted, at any θ, and at θ = π/2 draws are
independent. The density is exp(−V), without bias.

The same step is a rotation of (v, p) by θ between two kicks of the momentum p, which begins as ξ:

    p ← p − tan(θ/2) ∇U(v),   (v, p) ← (cos θ · v + sin θ · p, cos θ · p − sin θ · v),   p ← p − tan(θ/2) ∇U(v),

and is accepted with probability exp(−(ΔV + ½Δ|p|²)). Where U asks for a θ that is far below π/2, several of these
substeps follow each other before one decision (Hamiltonian Monte Carlo with its Gaussian part exact): a way through a
quarter of a turn, which a random walk of single steps takes many times as many gradients for.

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
WHOLE_WAY, SHORTER = 1.7, 0.85
"""How far all substeps of a proposal lead together, in angles found for single ones; and by how much smaller the angle
is where there are several."""


class MALAState(NamedTuple):
    """What the next step needs."""

    v: Float[Array, "J K"]
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
        max_substeps: gradients of one proposal, at most; 1 for the plain algorithm.
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
    max_substeps: int
    max_steps: Array
    initial: str | Array

    def __init__(
        self,
        target_acceptance: float = 0.7,
        *,
        step_size: float = 1.0,
        max_substeps: int = 4,
        max_steps: int = 4000,
        initial: str | ArrayLike = "laplace",
    ) -> None:
        self.target_acceptance = as_positive("target_acceptance", target_acceptance)
        if self.target_acceptance >= 1:
            raise InputError(f"`target_acceptance` must be below 1. Got {target_acceptance}. The default is 0.7.")
        self.first_angle = as_positive("step_size", step_size)
        if self.first_angle > LARGEST_ANGLE:
            raise InputError(f"`step_size` is an angle in (0, π/2]. Got {step_size}. It is adapted; leave it out.")
        self.max_substeps = as_count("max_substeps", max_substeps)
        self.max_steps = np.asarray(as_count("max_steps", max_steps))
        self.initial = as_initial(initial, ("laplace", "prior"))

    def init(self, key: Key, frame: AnyFrame, v: Float[Array, "J K"]) -> tuple[MALAState, Work]:
        """A state at v, one gradient."""
        del key
        _, value, gradient = frame.value_and_gradient(v)
        angle = jnp.asarray(self.first_angle, dtype=v.dtype)
        # No direction is known where the potential is infinite; noise may lead out of there.
        gradient = jnp.where(jnp.isfinite(gradient), gradient, 0.0)
        state = MALAState(v, value, gradient - v, start_tuning(angle), _is_far(frame, value))
        return state, Work(jnp.asarray(0), jnp.asarray(1))

    def step(self, key: Key, frame: AnyFrame, state: MALAState) -> tuple[MALAState, Info]:
        """One transition, a gradient for each substep; one more where jumps follow."""
        jumps = getattr(frame, "jumps", None)
        if jumps is None:
            return self._step(key, frame, state)
        step_key, whether, jump_key = jax.random.split(key, 3)
        state, info = self._step(step_key, frame, state)
        # As many for each gradient, however many of these a step takes.
        jumps_now = (jumps.number > 0) & (jax.random.uniform(whether) < info.gradients / EVERY)
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
        turn, rest, kick = jnp.sin(angle), jnp.cos(angle), jnp.tan(0.5 * angle)

        def substep(_: Array, carry: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
            v, momentum, _, gradient = carry
            momentum = momentum - kick * _tamed(state.far, v, gradient)
            v, momentum = rest * v + turn * momentum, rest * momentum - turn * v
            _, value, slope = frame.value_and_gradient(v)
            gradient = slope - v
            return v, momentum - kick * gradient, value, gradient

        begun = state.v, noise, state.potential, state.gradient
        v, momentum, value, gradient = jax.lax.fori_loop(0, state.tuning.substeps, substep, begun)
        kinetic = 0.5 * jnp.sum((noise - momentum) * (noise + momentum), axis=1)
        # V may have more digits than the particles.
        log_ratio = (state.potential - value).astype(dtype) + kinetic
        finite = jnp.isfinite(value)
        acceptance = jnp.where(finite & ~jnp.isnan(log_ratio), jnp.exp(jnp.minimum(log_ratio, 0.0)), 0.0)
        accept = 0.5 * (uniform[:, size + 1] + 1.0) < acceptance
        # A step back up from where a long way down leads is improbable, so such ways would be refused.
        accept = accept | (state.far & finite & (value < state.potential))

        def chosen(new: Array, old: Array) -> Array:
            return jnp.where(accept.reshape(-1, *(1,) * (new.ndim - 1)), new, old)

        moved = MALAState(
            chosen(v, state.v),
            chosen(value, state.potential),
            chosen(gradient, state.gradient),
            state.tuning,
            state.far,
        )
        return moved, Info(acceptance, ~finite, state.tuning.substeps)

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

    def retuned(self, state: MALAState) -> MALAState | None:
        """The state with as many substeps as its angle asks for, to be adapted once more; None where it has them."""
        tuning = state.tuning
        angle, substeps = float(np.exp(np.asarray(tuning.average))), int(tuning.substeps)
        single = angle if substeps == 1 else angle / SHORTER
        wanted = int(np.clip(round(WHOLE_WAY / single), 1, self.max_substeps))
        # Once there are several, one more or less is not worth another phase.
        if wanted == substeps or (substeps > 1 and abs(wanted - substeps) == 1):
            return None
        # With NumPy, which compiles nothing.
        begun = np.asarray(single if wanted == 1 else SHORTER * single, dtype=np.asarray(tuning.step_size).dtype)
        nothing, number = np.zeros_like(begun), np.asarray(tuning.substeps).dtype.type(wanted)
        first = np.log(begun)
        return state._replace(
            tuning=Tuning(begun, first, nothing, first, np.zeros_like(np.asarray(tuning.count)), np.asarray(number))
        )

    def tuned_like(self, state: MALAState, other: MALAState) -> MALAState:
        """With the other one's angle and substeps."""
        return state._replace(tuning=other.tuning)

    def needs_more_adaptation(self, acceptance: float, step_size: float) -> bool:
        """While the acceptance is off by more than 0.15, unless even the longest step is accepted more often."""
        at_limit = step_size > 0.95 * LARGEST_ANGLE and acceptance > float(self.target_acceptance)
        return abs(acceptance - float(self.target_acceptance)) > 0.15 and not at_limit


def _jumped(key: Key, frame: Any, state: MALAState) -> MALAState:
    """The state after jumps of single rows (`kosambi.samplers.row_jumps`)."""
    v = frame.jumped(key, state.v)
    _, value, slope = frame.value_and_gradient(v)
    return state._replace(v=v, potential=value, gradient=slope - v)


def _tamed(far: Bool[Array, " J"], v: Float[Array, "J K"], gradient: Float[Array, "J K"]) -> Float[Array, "J K"]:
    """∇U, for particles that are far out no longer than the way to the mode: an exponential cost would overshoot it."""
    reach = jnp.linalg.norm(v, axis=1) + v.shape[1] ** 0.5
    length = jnp.linalg.norm(gradient, axis=1)
    factor = jnp.where(far & (length > reach), reach / jnp.where(length > 0, length, 1.0), 1.0)
    return gradient * factor[:, None]


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
    substeps: Int[Array, ""]
    """Gradients of one proposal."""


def start_tuning(step_size: Float[Array, ""]) -> Tuning:
    """Nothing known yet, and single steps."""
    log_size = jnp.log(step_size)
    return Tuning(step_size, log_size, jnp.zeros_like(log_size), log_size, jnp.asarray(0), jnp.asarray(1))


def tune(tuning: Tuning, surplus: Float[Array, ""], limit: float) -> Tuning:
    """One update, with `surplus` the acceptance seen minus the acceptance wanted."""
    count = tuning.count + 1
    number = count.astype(surplus.dtype)
    error = tuning.error - (surplus + tuning.error) / (number + _OFFSET)
    log_size = jnp.minimum(tuning.first - jnp.sqrt(number) * _GAIN * error, jnp.log(limit))
    weight = number**-_DECAY
    average = weight * log_size + (1.0 - weight) * tuning.average
    return Tuning(jnp.exp(log_size), tuning.first, error, average, count, tuning.substeps)


def finish_tuning(tuning: Tuning) -> Tuning:
    """Use the averaged iterates, and begin there if there is more adaptation."""
    zero = jnp.zeros_like(tuning.error)
    count = jnp.zeros_like(tuning.count)
    return Tuning(jnp.exp(tuning.average), tuning.average, zero, tuning.average, count, tuning.substeps)
