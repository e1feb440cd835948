r"""The paper's sampler: Euler-Maruyama in projected coordinates.

From the paper's eq. SDE-U-discrete and its appendix "PLS for other inducing functions":

    u' = u − h P∇V(u) + √(2h) P^{1/2} ξ,   ξ ~ N(0, I_M),   ∇V(u) = Φᵀ ∂₂c(y, Φu) + Λ⁻¹u

with P = I for Nyström and Ritz coordinates, and P = k(Z, Z) with its symmetric root for inducing functions. Biased at
order h, and stable only for h < 2/λ_max(P·∇²V), which is below 2λ_M when P = I. `MALA` has neither defect.
"""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Float

from kosambi._core.checks import as_count, as_positive
from kosambi._core.precision import host_generator, lift, public
from kosambi._core.progress import Clock, Interruption, Progress
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.errors import DivergenceError, InputError, StepSizeWarning
from kosambi.parallel.terms import placed_particles
from kosambi.samplers import diffusion as _diffusion
from kosambi.samplers import unadjusted
from kosambi.samplers.base import AbstractSampler, Notes, as_initial, check_initial_shape
from kosambi.samplers.convergence import MIN_LENGTH, r_hat_limit
from kosambi.samplers.diffusion import Diffusion
from kosambi.samplers.precisions import Precision
from kosambi.samplers.report import Particles, Report, report_of
from kosambi.samplers.unadjusted import NUM_GROUPS
from kosambi.target import Target
from kosambi.target.modes import count_basins, find_modes


class EulerMaruyama(AbstractSampler):
    """The unadjusted diffusion of the paper, step by step.

    Arguments:
        step_size: h, in the time of the diffusion; None takes half the stable limit.
        num_steps: how many steps; or
        duration: T, of which num_steps = ⌊T/h⌋ follows, as in the paper.
        preconditioned: P = k(Z, Z) for `InducingBasis`, the prior covariance of u for the others; None preconditions
            `InducingBasis` only, as the paper does.
        initial: the distribution ρ of the start: "normal" (standard normal coordinates, the paper's), "prior",
            "laplace", or coordinates (J, M).

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(-1.0, 1.0, 50)[:, None]
    >>> prior = ko.GaussianRandomElement(ko.kernels.Matern32(), ko.measures.empirical(x))
    >>> basis = ko.NystromBasis(prior, x[::10])
    >>> target = ko.Target(basis, ko.likelihoods.Bernoulli(), x, (x[:, 0] > 0).astype(float))
    >>> sampler = ko.samplers.EulerMaruyama(step_size=5e-3, num_steps=10_000)
    >>> particles, report = ko.sample(jax.random.key(0), target, sampler, num_particles=400)
    >>> particles.coordinates.shape, report.steps
    ((400, 5), 10000)
    """

    name: ClassVar[str] = "euler_maruyama"

    step_size: Array | None
    num_steps: int | None
    duration: Array | None
    preconditioned: bool | None
    initial: str | Array

    def __init__(
        self,
        step_size: float | None = None,
        num_steps: int | None = None,
        duration: float | None = None,
        *,
        preconditioned: bool | None = None,
        initial: str | ArrayLike = "normal",
    ) -> None:
        self.step_size = None if step_size is None else as_positive("step_size", step_size)
        if num_steps is not None and duration is not None:
            raise InputError("Give `num_steps` or `duration`, not both. Steps are duration / step_size.")
        if num_steps is None and duration is None:
            num_steps = 10_000
        self.num_steps = None if num_steps is None else as_count("num_steps", num_steps)
        self.duration = None if duration is None else as_positive("duration", duration)
        if preconditioned is not None and not isinstance(preconditioned, bool):
            raise InputError(f"`preconditioned` must be True, False or None. Got {preconditioned!r}.")
        self.preconditioned = preconditioned
        self.initial = as_initial(initial, ("normal", "prior", "laplace"))
        if self.step_size is not None and self.duration is not None and self.duration < self.step_size:
            raise InputError(f"`duration` {duration} is shorter than one step of {step_size}. Give a longer one.")

    @public
    def step(self, target: Target, u: ArrayLike, noise: ArrayLike) -> Float[Array, "J M *C"]:
        """One update of coordinates u, (J, M), with the given standard normal `noise` of the same shape."""
        if self.step_size is None:
            raise InputError("`step` needs an EulerMaruyama with a `step_size`.")
        u, noise = target._checked("u", u), target._checked("noise", noise)
        if u.shape != noise.shape:
            raise InputError(f"`noise` must have the shape of u, {u.shape}. Got shape {noise.shape}.")
        diffusion = _diffusion.of_target(target, self.preconditioned)
        one_by_one = (-1, *target.shape)
        moved = _diffusion.one_step(diffusion, u.reshape(one_by_one), noise.reshape(one_by_one), self.step_size)
        return moved.reshape(u.shape)

    @public
    def stable_limit(self, target: Target, u: ArrayLike) -> float:
        """2/λ_max(P·∇²V(u)): longer steps are unstable where the curvature is that of the point u, (M,)."""
        u = target._checked("u", u)
        return float(_diffusion.stable_limit(_diffusion.of_target(target, self.preconditioned), u))


def run(
    key: Key,
    target: Target,
    sampler: EulerMaruyama,
    initial: str | Array,
    num_particles: int,
    progress: Progress,
    clock: Clock,
    precision: Precision,
    stop: Interruption,
    mesh: Mesh | None = None,
) -> tuple[Particles, Report]:
    """The start, the stable limit, and all steps in compiled segments."""
    start_key, mode_key, noise_key = jax.random.split(key, 3)
    diffusion = _diffusion.of_target(target, sampler.preconditioned, mesh)
    progress.update("looking for the mode")
    modes = find_modes(mode_key, target)
    u = _start(start_key, target, initial, num_particles, modes)
    mode = Particles.from_whitened(target, modes.positions[:1]).coordinates[0]
    stable = min(float(_diffusion.stable_limit(diffusion, point)) for point in (u.mean(axis=0), mode))
    step_size = 0.5 * stable if sampler.step_size is None else float(sampler.step_size)
    num_steps = _num_steps(sampler, step_size)
    notes = Notes()
    _check_step(step_size, stable, notes)
    work: Diffusion = lift(diffusion, precision.dtype) if mesh is None else diffusion
    begun_at = lift(u, precision.dtype) if mesh is None else placed_particles(u, mesh)
    path = _diffusion.begin(work, begun_at)

    def check(energy: Array, done: int) -> None:
        _check_finite(energy, float(first), step_size, stable, done)

    first = np.asarray(path.energies)[0]
    done = unadjusted.advanced(work, noise_key, path, step_size, num_steps, progress, stop, check)
    path = done.path
    if stop.happened:
        notes.add(f"Interrupted after {int(path.step)} of {num_steps} steps: the particles are those of that moment.")
    begun = np.asarray(_diffusion.whitened(work, begun_at), dtype=np.float64)
    # Each particle has its own start, so superchains are made for each coordinate by sorting the starts.
    starts = np.concatenate([begun, np.asarray(path.first_potential)[:, None]], axis=1)
    r_hats, sampled = unadjusted.r_hats_of(path, np.argsort(starts, axis=0, kind="stable"))
    r_hat = float(r_hats.max())
    limit = r_hat_limit(num_particles, NUM_GROUPS)
    # As many snapshots of each particle as autocorrelation times are asked of the other samplers.
    long_enough = sampled >= MIN_LENGTH * num_particles
    converged = r_hat <= limit and long_enough and not stop.happened
    if num_particles < 2 * NUM_GROUPS:
        notes.add(f"Convergence of fewer than {2 * NUM_GROUPS} particles cannot be judged. Ask for more of them.")
    elif not converged and not stop.happened:
        notes.add(
            f"Not converged after {int(path.step)} steps of {step_size:.2g}: nested R-hat {r_hat:.4f}, limit "
            f"{limit:.6g}, {sampled / num_particles:.1f} autocorrelation times of {MIN_LENGTH:.0f}. Take more steps, "
            'or use sampler="auto", which needs a fraction of them.'
        )
    final = np.asarray(_diffusion.coordinates(diffusion.root, lift(np.asarray(path.position), np.float64)))
    particles = Particles.from_coordinates(target, final)
    report = report_of(
        target,
        clock,
        sampler.name,
        converged=converged,
        r_hat=r_hat,
        r_hat_limit=limit,
        r_hat_by_coordinate=r_hats[:-1],
        ess=sampled,
        ess_tail=sampled,
        acceptance_by_particle=np.ones(num_particles),
        step_size=step_size,
        steps=int(path.step),
        gradient_evaluations=int(path.step),
        basins=count_basins(target, particles.whitened),
        energy=done.energies,
        energy_steps=done.times,
        r_hat_trace=np.full(len(done.energies), np.nan),
        warnings=notes.texts,
    )
    return particles, report


def _start(key: Key, target: Target, initial: str | Array, num_particles: int, modes: Any) -> Array:
    if not isinstance(initial, str):
        check_initial_shape(initial, num_particles, target.shape)
        return initial
    noise = host_generator(key).normal(size=(num_particles, *target.shape))
    if initial == "normal":
        return noise
    flat = noise.reshape(num_particles, -1)
    if initial == "laplace":
        flat = modes.positions[0] + flat @ modes.roots[0].T
    return Particles.from_whitened(target, flat).coordinates


def _num_steps(sampler: EulerMaruyama, step_size: float) -> int:
    if sampler.num_steps is not None:
        return sampler.num_steps
    assert sampler.duration is not None
    # ⌊T/h⌋, where a quotient that rounding left just below a whole number is that number.
    return max(1, int(np.floor(float(sampler.duration) / step_size * (1.0 + 1e-12))))


def _check_step(step_size: float, limit: float, notes: Notes) -> None:
    if step_size >= limit:
        notes.add(
            f"`step_size` {step_size:.3g} is beyond the stable limit {limit:.3g} of Euler-Maruyama for this target, "
            'so the particles may run away. Use a smaller step, or sampler="auto", which has no such limit.',
            StepSizeWarning,
        )


def _check_finite(energies: Array, first: float, step_size: float, limit: float, step: int) -> None:
    # Energies fall from the start on; a million times the first one is no fluctuation.
    if np.all(np.isfinite(energies)) and energies.max(initial=0.0) <= 1e6 * (abs(first) + 1.0):
        return
    raise DivergenceError(
        f"Euler-Maruyama diverged within {step} steps of {step_size:.3g}. Its stable limit here is about {limit:.3g}: "
        'use `EulerMaruyama(step_size=...)` below that, or sampler="auto", which has no such limit.'
    )
