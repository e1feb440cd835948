r"""`Tempering`: particles of a posterior with several modes, in the right shares, and its evidence.

Non-reversible parallel tempering between the prior (β = 0, where every iteration draws afresh) and the posterior
(β = 1): see `kosambi.samplers.replicas` for an iteration and `kosambi.samplers.ladder` for the temperatures. Short
pilot runs find the steps and the ladder; then C independent chains run on, and each gives a draw whenever a few
replicas have come all the way from the prior since its last.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import ClassVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_count
from kosambi._core.precision import host_generator, lift
from kosambi._core.progress import Clock, Interruption, Progress
from kosambi._core.types import Array, Key
from kosambi.errors import InputError
from kosambi.samplers.base import AbstractSampler, Notes, is_even
from kosambi.samplers.convergence import r_hat_limit
from kosambi.samplers.ladder import better_ladder, bridge_evidence, chain_statistics, enough_temperatures, first_ladder
from kosambi.samplers.replicas import Ladder, Replicas, Tally, advance, empty_tally, start
from kosambi.samplers.report import LadderReport, LogEvidence, Particles, Report, report_of
from kosambi.samplers.starts import NUM_SUPERCHAINS, starting_points
from kosambi.target import Target
from kosambi.target.modes import Modes, find_modes

PILOTS = (100, 100, 200)
"""Iterations of the pilot runs, after each of which the ladder is made again."""
FIRST_NUMBER = 16
"""Temperatures of the pilot runs."""
WAYS_APART = 5.0
"""Replicas that come all the way from the prior between two draws of one chain, on average over the chains."""
RENEWED = 0.99
"""The share of replicas that must have been drawn afresh at the prior before the first draw is taken."""
STRETCH = 50
"""Iterations between two looks at how many have come."""


class Tempering(AbstractSampler):
    """Parallel tempering, for posteriors with several modes; nothing to tune.

    Arguments:
        num_chains: C, independent chains, a multiple of 8; J draws take J/C visits of each.
        max_iterations: where to stop, converged or not.
        symmetry: whether a cost that does not change with the sign of f, such as that of `Poisson("square")` with a
            prior of mean zero, has its draws given a random sign. That is exact.
        moves: involutions of your own: functions from the coordinates u (M,), or (M, C), to such, each its own inverse
            and keeping volumes, traceable. Each is proposed in turn and accepted by Metropolis' rule.

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(-1.0, 1.0, 30)[:, None]
    >>> basis = ko.PointBasis(ko.GaussianProcess(ko.kernels.SquaredExponential(variance=4.0)), x[::10])
    >>> target = ko.Target(basis, ko.likelihoods.Poisson("square"), x, np.full(30, 4.0))
    >>> particles, report = ko.sample(jax.random.key(0), target, ko.samplers.Tempering(), num_particles=256)
    >>> report.converged, bool(0.35 < np.mean(particles.coordinates[:, 0] > 0) < 0.65)
    (True, True)
    """

    name: ClassVar[str] = "tempering"

    num_chains: int = eqx.field(static=True)
    max_iterations: int = eqx.field(static=True)
    symmetry: bool = eqx.field(static=True)
    moves: tuple[Callable[[Array], Array], ...] = eqx.field(static=True)

    def __init__(
        self,
        num_chains: int = 64,
        *,
        max_iterations: int = 20_000,
        symmetry: bool = True,
        moves: Sequence[Callable[[Array], Array]] = (),
    ) -> None:
        self.num_chains = as_count("num_chains", num_chains)
        if self.num_chains % NUM_SUPERCHAINS:
            raise InputError(f"`num_chains` must be a multiple of {NUM_SUPERCHAINS}. Got {num_chains}.")
        self.max_iterations = as_count("max_iterations", max_iterations)
        if not isinstance(symmetry, bool):
            raise InputError(f"`symmetry` must be True or False. Got {symmetry!r}.")
        self.symmetry, self.moves = symmetry, tuple(moves)
        if not all(callable(move) for move in self.moves):
            raise InputError("`moves` must be functions from coordinates to coordinates.")


@dataclasses.dataclass
class _Run:
    """Where a run stands between compiled stretches."""

    sampler: Tempering
    key: Key
    ladder: Ladder
    at: Replicas
    progress: Progress
    iterations: int = 0
    gradients: int = 0

    def advance(self, tally: Tally, number: int, rate: float, phase: str) -> Tally:
        """Go on for `number` iterations, or as many as are left."""
        number = min(number, self.sampler.max_iterations - self.iterations)
        self.at, tally = advance(
            self.sampler.moves, self.key, self.ladder, self.at, tally, np.asarray(number), np.asarray(rate)
        )
        tally.steps.block_until_ready()
        self.iterations += number
        self.gradients += number * len(np.asarray(self.ladder.betas))
        self.progress.update(phase, self.iterations, self.sampler.max_iterations)
        return tally

    def until(self, tally: Tally, ways: float, phase: str) -> Tally:
        """Go on until so many more replicas have come from the prior, on average over the chains, or all is spent."""
        goal = float(np.mean(np.asarray(tally.arrivals))) + ways
        while not self.is_over and float(np.mean(np.asarray(tally.arrivals))) < goal:
            tally = self.advance(tally, STRETCH, 0.0, phase)
        return tally

    def forget(self) -> None:
        """Go on until nearly every replica has been drawn afresh, so that none remembers the mode it began in."""
        while not self.is_over and float(np.mean(np.asarray(self.at.renewed))) < RENEWED:
            self.advance(self.empty(), STRETCH, 0.0, "forgetting the start")

    def empty(self) -> Tally:
        """A tally for the ladder as it is."""
        return empty_tally(self.ladder, self.sampler.num_chains)

    def draws(self) -> Float[np.ndarray, "C K"]:
        """The replicas at β = 1, whitened."""
        return np.asarray(self.at.w[-1] @ self.ladder.axes.T, dtype=np.float64)

    @property
    def is_over(self) -> bool:
        """Whether no iterations are left."""
        return self.iterations >= self.sampler.max_iterations


def run(
    key: Key,
    target: Target,
    sampler: Tempering,
    num_particles: int,
    progress: Progress,
    clock: Clock,
    reason: str,
    stop: Interruption,
) -> tuple[Particles, Report]:
    """Modes, pilots, chains, draws."""
    mode_key, start_key, step_key, sign_key = jax.random.split(key, 4)
    progress.update("looking for modes")
    modes = find_modes(mode_key, target)
    first = starting_points(start_key, target, modes, "laplace", sampler.num_chains).w[: sampler.num_chains]
    axes, curvature = _axes(modes)
    ladder = lift(Ladder(target, axes, curvature, first_ladder(FIRST_NUMBER)))
    angles = lift(np.full(FIRST_NUMBER, np.log(0.5)))
    work = _Run(sampler, step_key, ladder, start(ladder, lift(first), angles), progress)
    draws: list[np.ndarray] = []
    # Two visits at least, since one alone is too short a run to be judged by.
    visits = max(2, -(-num_particles // sampler.num_chains))
    tally = work.empty()
    with stop:
        _pilots(work)
        work.forget()
        tally = work.empty()
        while len(draws) < visits and not (work.is_over and draws):
            tally = work.until(tally, WAYS_APART, "sampling")
            draws.append(work.draws())
    # After an interruption, what the last complete stretch left is still there.
    draws = draws or [work.draws()]
    enough = len(draws) == visits and not work.is_over and not stop.happened
    # Too few draws are repeated, which the report says.
    w = np.concatenate(draws * -(-visits // len(draws)))[:num_particles]
    if sampler.symmetry and is_even(target):
        w = w * host_generator(sign_key).choice([-1.0, 1.0], size=(len(w), 1))
    return Particles.from_whitened(target, w), _report(
        target, work, tally, clock, enough, num_particles, reason, stop.happened
    )


def _axes(modes: Modes) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvectors and eigenvalues of the curvature of the data, averaged over the modes."""
    inverse = np.linalg.inv(np.asarray(modes.roots))
    curvature = np.tensordot(modes.weights, np.swapaxes(inverse, 1, 2) @ inverse, axes=1)
    values, vectors = np.linalg.eigh(curvature)
    return vectors, np.maximum(values - 1.0, 0.0)


def _pilots(work: _Run) -> None:
    """Adapt the steps and the ladder."""
    for number, length in enumerate(PILOTS):
        work.advance(work.empty(), length // 2, 0.3, "adapting")
        tally = work.advance(work.empty(), length - length // 2, 0.1, "adapting")
        # How many temperatures are needed is known when the shares can be trusted.
        _renew_ladder(work, np.asarray(tally.refused) / max(float(tally.steps), 1.0), number > 0)
    # For the last ladder.
    work.advance(work.empty(), PILOTS[0], 0.1, "adapting")


def _renew_ladder(work: _Run, refused: np.ndarray, may_grow: bool) -> None:
    betas = np.asarray(work.ladder.betas)
    number = max(enough_temperatures(refused), len(betas)) if may_grow else len(betas)
    ladder = better_ladder(betas, refused, number)
    nearest = np.abs(ladder[:, None] ** 0.2 - betas[None, :] ** 0.2).argmin(axis=1)
    angles = np.interp(ladder**0.2, betas**0.2, np.asarray(work.at.log_angle))
    work.ladder = lift(Ladder(work.ladder.target, work.ladder.axes, work.ladder.curvature, ladder))
    old = work.at
    none = 0 * old.ascending[nearest]
    # A place that was reached from the prior has forgotten the start, whatever the ladder was then.
    work.at = Replicas(
        old.w[nearest],
        old.cost[nearest],
        old.slope[nearest],
        none,
        old.renewed[nearest],
        lift(angles),
        old.iteration,
    )


def _report(
    target: Target,
    work: _Run,
    tally: Tally,
    clock: Clock,
    enough: bool,
    num_particles: int,
    reason: str,
    interrupted: bool,
) -> Report:
    sampler, steps = work.sampler, max(float(tally.steps), 1.0)
    statistics = chain_statistics(np.asarray(tally.first), np.asarray(tally.second), steps, NUM_SUPERCHAINS)
    refused = np.asarray(tally.refused) / steps
    limit = r_hat_limit(sampler.num_chains, NUM_SUPERCHAINS)
    if float(tally.steps) == 0.0:
        # Stopped before there was anything to judge by.
        statistics = statistics._replace(r_hat=np.inf, by_coordinate=np.full_like(statistics.by_coordinate, np.inf))
    converged = enough and statistics.r_hat <= limit
    notes = Notes()
    if interrupted:
        notes.add(f"Interrupted after {work.iterations} iterations: the particles are those of that moment.")
    elif not enough:
        notes.add(
            f"Stopped after {work.iterations} iterations, before enough replicas had come from the prior to the "
            f"posterior ({np.sum(np.asarray(tally.arrivals)):.0f} did). Raise `max_iterations` of `Tempering`."
        )
    elif not converged:
        notes.add(
            f"Not converged after {work.iterations} iterations: nested R-hat {statistics.r_hat:.4f}, limit "
            f"{limit:.6g}. Ask for more particles, which run longer, or more chains."
        )
    evidence = LogEvidence(np.nan, np.nan, "tempering")
    if target.likelihood.is_density and float(tally.steps) > 0:
        evidence = bridge_evidence(np.asarray(tally.down), np.asarray(tally.up), steps)
    acceptance = np.asarray(tally.accepted) / steps
    ladder = LadderReport(
        betas=np.array(work.ladder.betas),
        swap_rates=1.0 - refused,
        barrier=float(np.sum(refused)),
        acceptance=np.mean(acceptance, axis=1),
        arrivals=float(np.sum(np.asarray(tally.arrivals))),
        num_chains=sampler.num_chains,
        involutions=float(tally.moved) / steps if sampler.moves else None,
        log_evidence=evidence,
        reason=reason,
    )
    return report_of(
        target,
        clock,
        sampler.name,
        converged=converged,
        r_hat=statistics.r_hat,
        r_hat_limit=limit,
        r_hat_by_coordinate=statistics.by_coordinate,
        ess=statistics.ess,
        ess_tail=statistics.ess,
        acceptance=float(np.mean(acceptance[-1])),
        acceptance_by_particle=np.resize(acceptance[-1], num_particles),
        step_size=float(np.exp(np.asarray(work.at.log_angle)[-1])),
        steps=work.iterations,
        gradient_evaluations=-(-work.gradients * sampler.num_chains // num_particles),
        divergences=int(tally.divergent),
        energy=np.array([statistics.energy]),
        energy_steps=np.array([work.iterations]),
        r_hat_trace=np.array([statistics.r_hat]),
        warnings=notes.texts,
        ladder=ladder,
    )
