r"""Stochastic-gradient Langevin dynamics with control variates at the mode, for more rows than a step should look at.

Each step takes the gradient of a batch of rows (`kosambi.samplers.mini_batches`) and is not accepted or refused. So
draws are biased, by the length of a step and by the noise of gradients, and the bias is measured: at the last draws V
and its gradient are computed once from all rows, and integration by parts says what their means under exp(−V) are,

    E[v·∂V/∂v] = 1,   E[∂V/∂v] = 0   for every coordinate v of the frame of the mode.

What is found instead is in the report: by how much variances are too large, and what is left of the start.
`metropolis=True` lets steps of `MALA` on all rows follow, from these draws on, until they have converged: there is no
bias left then.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_count, as_positive
from kosambi._core.precision import compiled, host_generator, lift
from kosambi._core.programs import split
from kosambi._core.progress import Clock, Interruption, Progress
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.errors import DivergenceError, InputError
from kosambi.samplers import markov, mini_batches, unadjusted
from kosambi.samplers.base import AbstractSampler, Notes, as_initial
from kosambi.samplers.convergence import MIN_LENGTH, r_hat_limit
from kosambi.samplers.mala import LARGEST_ANGLE, MALA
from kosambi.samplers.precisions import Precision
from kosambi.samplers.report import Particles, Report, report_of
from kosambi.samplers.starts import NUM_SUPERCHAINS, starting_points
from kosambi.samplers.stochastic_report import StochasticReport
from kosambi.target import Target
from kosambi.target.data_terms import FactorisedTerm
from kosambi.target.modes import Frame, Modes, count_basins, find_modes

LONGEST = 0.5
"""The angle of a step where nothing is asked for and gradients are not noisy."""
WANTED_INFLATION = 0.01
"""Part of a variance that the noise of gradients may add where the step is left to the sampler."""
LARGEST_INFLATION, LARGEST_DRIFT = 0.05, 0.1
"""What may be found of variances and mean gradients before the user is warned."""
_FURTHEST = 1e6


class StochasticGradient(AbstractSampler):
    """Langevin steps with gradients of mini-batches, for costs that are a sum over rows with one latent function.

    Arguments:
        batch_size: rows that a step looks at, for each of eight groups of particles or more.
        step_size: the angle θ in (0, π/2] of a step; None takes 0.5, or less where gradients are so noisy that they
            would add more than a hundredth to a variance.
        num_steps: how many steps.
        metropolis: whether steps of `MALA` on all rows follow until they have converged, which leaves no bias.
        initial: "laplace" (a widened Laplace approximation around the modes), "prior", or coordinates (J, M).

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(-1.0, 1.0, 400)[:, None]
    >>> basis = ko.PointBasis(ko.GaussianProcess(ko.kernels.Matern52()), x[::100])
    >>> target = ko.Target(basis, ko.likelihoods.Bernoulli(), x, (x[:, 0] > 0).astype(float))
    >>> sampler = ko.samplers.StochasticGradient(batch_size=50)
    >>> particles, report = ko.sample(jax.random.key(0), target, sampler, num_particles=200)
    >>> particles.coordinates.shape, report.stochastic.num_batches, abs(report.stochastic.inflation) < 0.3
    ((200, 4), 8, True)
    """

    name: ClassVar[str] = "stochastic_gradient"

    batch_size: int
    step_size: Array | None
    num_steps: int
    metropolis: bool
    initial: str | Array

    def __init__(
        self,
        batch_size: int = 1024,
        step_size: float | None = None,
        num_steps: int = 2000,
        *,
        metropolis: bool = False,
        initial: str | ArrayLike = "laplace",
    ) -> None:
        self.batch_size = as_count("batch_size", batch_size)
        self.step_size = None if step_size is None else as_positive("step_size", step_size)
        if self.step_size is not None and self.step_size > LARGEST_ANGLE:
            raise InputError(f"`step_size` is an angle in (0, π/2]. Got {step_size}. Leave it out, or take 0.3.")
        self.num_steps = as_count("num_steps", num_steps)
        if not isinstance(metropolis, bool):
            raise InputError(f"`metropolis` must be True or False. Got {metropolis!r}.")
        self.metropolis = metropolis
        self.initial = as_initial(initial, ("laplace", "prior"))


def run(
    key: Key,
    target: Target,
    sampler: StochasticGradient,
    initial: str | Array | Particles,
    num_particles: int,
    progress: Progress,
    clock: Clock,
    precision: Precision,
    stop: Interruption,
) -> tuple[Particles, Report]:
    """The mode, batches, steps, what all rows say of the draws, and steps on all rows where they are asked for."""
    _check_target(target)
    mode_key, start_key, order_key, noise_key, step_key, metropolis_key = split(key, 6)
    progress.update("looking for the mode")
    modes = find_modes(mode_key, target)
    start = starting_points(start_key, target, modes, initial, num_particles)
    made = mini_batches.mini_batches(order_key, target.term, modes, sampler.batch_size)  # type: ignore[arg-type]
    work = lift(made, precision.dtype)
    likely = host_generator(noise_key).normal(size=start.w.shape)
    noise = float(np.max(np.asarray(mini_batches.gradient_noise(work, noise_key, lift(likely, precision.dtype)))))
    angle = float(sampler.step_size) if sampler.step_size is not None else _angle(noise)
    begun = np.linalg.solve(np.asarray(modes.roots[0]), (start.w - np.asarray(modes.positions[0])).T).T
    path = mini_batches.begin(work, lift(begun, precision.dtype))

    def check(energy: Array, done: int) -> None:
        if not np.all(np.isfinite(energy)) or np.max(energy, initial=0.0) > float(modes.potentials[0]) + _FURTHEST:
            raise DivergenceError(
                f"`StochasticGradient` diverged within {done} steps of {angle:.3g}. Take a smaller `step_size` or a "
                'larger `batch_size`, or use sampler="auto", which accepts or refuses every step.'
            )

    done = unadjusted.advanced(work, step_key, path, angle, sampler.num_steps, progress, stop, check)
    path, notes = done.path, Notes()
    num_chains, steps = len(start.w), int(path.step)
    v = np.asarray(path.position, dtype=np.float64)
    w = np.asarray(modes.positions[0]) + v @ np.asarray(modes.roots[0]).T
    value, found = _against_all_rows(target, modes, v, sampler.batch_size, noise)
    # Particle j is in superchain j mod 8.
    order = np.argsort(np.arange(num_chains) % NUM_SUPERCHAINS, kind="stable")
    r_hats, sampled = unadjusted.r_hats_of(path, np.tile(order[:, None], (1, v.shape[1] + 1)))
    limit = r_hat_limit(num_chains, NUM_SUPERCHAINS)
    r_hat = float(r_hats.max())
    converged = r_hat <= limit and sampled >= MIN_LENGTH * num_chains and not stop.happened
    particles = Particles.from_whitened(target, w[start.returned])
    if sampler.metropolis and not stop.happened:
        return _with_metropolis(
            metropolis_key, target, particles, num_particles, progress, clock, precision, stop, steps, found
        )
    _warn(notes, sampler, found, converged, r_hat, limit, steps, stop.happened)
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
        step_size=angle,
        steps=steps,
        gradient_evaluations=steps,
        basins=count_basins(target, w, modes),
        energy=np.append(done.energies[:-1], np.mean(value)),
        energy_steps=done.times,
        r_hat_trace=np.full(len(done.energies), np.nan),
        warnings=notes.texts,
    )
    return particles, dataclasses.replace(report, stochastic=found)


def _check_target(target: Target) -> None:
    """Refuse what is no sum over rows of one latent function."""
    term = target.term
    if not isinstance(term, FactorisedTerm):
        raise InputError(
            "`StochasticGradient` needs a cost that is a sum over rows, which closed forms (`Gaussian`), neighbours, "
            f"joint costs and sources are not. Got `{type(target.likelihood).__name__}` with {type(term).__name__}. "
            'Use sampler="auto".'
        )
    if term.likelihood.num_latents != 1 or term.likelihood.num_rows is not None:
        raise InputError(
            "`StochasticGradient` is for one latent function, and for parameters that all rows share. Got "
            f'`{type(target.likelihood).__name__}`. Use sampler="auto".'
        )


def _angle(noise: float) -> float:
    """The angle at which noise of that variance in the gradient adds a hundredth to a variance, 0.5 at most."""
    return min(LONGEST, 2.0 * float(np.arctan(np.sqrt(WANTED_INFLATION / max(noise, 1e-300)))))


@compiled
def _value_and_gradient(frame: Frame, v: Float[Array, "J K"]) -> tuple[Array, Array]:
    _, value, gradient = frame.value_and_gradient(v)
    return value, gradient


def _against_all_rows(
    target: Target, modes: Modes, v: Float[np.ndarray, "J K"], batch_size: int, noise: float
) -> tuple[Float[np.ndarray, " J"], StochasticReport]:
    """V at the draws, and how far these are from the posterior."""
    frame = Frame(target.term, target.shape, modes.positions[0], modes.roots[0], np.asarray(modes.potentials[0]))
    value, gradient = (np.asarray(part) for part in _value_and_gradient(frame, v))
    each = np.mean(v * gradient, axis=1) - 1.0
    errors = np.var(gradient, axis=0, ddof=1) / len(v)
    drift = np.mean(np.square(np.mean(gradient, axis=0)) - errors)
    number = -(-len(target.y) // batch_size)
    return value, StochasticReport(
        batch_size=-(-len(target.y) // number),
        num_batches=number,
        gradient_noise=noise,
        inflation=float(np.mean(each)),
        inflation_error=float(np.std(each, ddof=1) / len(v) ** 0.5),
        drift=float(np.sqrt(max(drift, 0.0))),
        drift_error=float(np.mean(errors) ** 0.5 * (2.0 / v.shape[1]) ** 0.25),
        metropolis_steps=0,
    )


def _with_metropolis(
    key: Key,
    target: Target,
    particles: Particles,
    num_particles: int,
    progress: Progress,
    clock: Clock,
    precision: Precision,
    stop: Interruption,
    steps: int,
    found: StochasticReport,
) -> tuple[Particles, Report]:
    """Steps of MALA on all rows, from the particles on."""
    settings: tuple[Any, ...] = (progress, clock, precision, False, stop)
    particles, report = markov.run(key, target, MALA(), particles, num_particles, *settings)
    return particles, dataclasses.replace(
        report,
        sampler=StochasticGradient.name,
        steps=report.steps + steps,
        gradient_evaluations=report.gradient_evaluations + steps,
        energy_steps=report.energy_steps + steps,
        stochastic=dataclasses.replace(found, metropolis_steps=report.steps),
    )


def _warn(
    notes: Notes,
    sampler: StochasticGradient,
    found: StochasticReport,
    converged: bool,
    r_hat: float,
    limit: float,
    steps: int,
    interrupted: bool,
) -> None:
    if interrupted:
        notes.add(f"Interrupted after {steps} of {sampler.num_steps} steps: the particles are those of that moment.")
        return
    if not converged:
        notes.add(
            f"Not converged after {steps} steps: nested R-hat {r_hat:.4f}, limit {limit:.6g}. Take more `num_steps`, "
            'or use sampler="auto".'
        )
    is_wide = abs(found.inflation) - 3.0 * found.inflation_error > LARGEST_INFLATION
    if is_wide or found.drift - 3.0 * found.drift_error > LARGEST_DRIFT:
        notes.add(
            f"The draws are biased: by all rows their variances are {100 * found.inflation:.0f} % off and the mean "
            f"gradient is {found.drift:.2g}. Take a smaller `step_size`, a larger `batch_size`, more `num_steps`, or "
            "`metropolis=True`."
        )
