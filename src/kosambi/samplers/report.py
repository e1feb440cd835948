"""What a sampler returns: the particles, which are posterior draws of the coordinates, and a report of the run."""

from __future__ import annotations

import dataclasses
import warnings
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from kosambi._core.html import table_html
from kosambi._core.precision import Module, public
from kosambi._core.progress import Clock
from kosambi._core.types import Array, ArrayLike
from kosambi.samplers.stochastic_report import StochasticReport
from kosambi.samplers.stream_report import StreamReport
from kosambi.target import Target


class GaussianDistribution(Module):
    """The normal distribution N(mean, root rootᵀ) of the whitened coordinates, where the posterior is one."""

    mean: Float[Array, " M"]
    root: Float[Array, "M M"]


class Particles(Module):
    """J posterior draws of the coordinates u, one per row.

    `sample` makes them. Coordinates from elsewhere become particles with `Particles.from_coordinates`.
    """

    coordinates: Float[Array, "J M *C"]
    """u_j, (J, M), or (J, M, C) with C latent functions."""
    whitened: Float[Array, "J M *C"]
    """w_j = L⁻¹u_j, in which the prior is standard normal."""
    distribution: GaussianDistribution | None = None
    """The distribution that the draws come from, where it is known in closed form."""

    @staticmethod
    @public
    def from_coordinates(target: Target, coordinates: ArrayLike) -> Particles:
        """Particles from coordinates u of shape (J, M), or (J, M, C) with C latent functions.

        >>> import numpy as np, kosambi as ko
        >>> x = np.linspace(-1.0, 1.0, 20)[:, None]
        >>> basis = ko.PointBasis(ko.GaussianProcess(ko.kernels.Matern52()), x[::5])
        >>> target = ko.Target(basis, ko.likelihoods.Gaussian(0.1), x, x[:, 0])
        >>> ko.samplers.Particles.from_coordinates(target, np.zeros((3, 4))).num_particles
        3
        """
        u = np.asarray(target._checked("coordinates", coordinates))
        u = u if u.ndim > len(target.shape) else u[None]
        return Particles(u, target.whiten(u))

    @staticmethod
    def from_whitened(target: Target, whitened: Array, distribution: GaussianDistribution | None = None) -> Particles:
        """Particles from flattened whitened coordinates, (J, M·C)."""
        w = np.array(whitened, dtype=np.float64)
        w = w.reshape(len(w), *target.shape)
        if len(target.shape) == 1:
            return Particles(target.basis.colour(w), w, distribution)
        u = np.moveaxis(target.basis.colour(np.moveaxis(w, 2, 1)), 1, 2)
        return Particles(np.ascontiguousarray(u), w, distribution)

    @property
    def num_particles(self) -> int:
        """J, the number of draws."""
        return int(self.coordinates.shape[0])

    @property
    def law(self) -> GaussianDistribution | None:
        """The old name of `distribution`."""
        warnings.warn("`Particles.law` is now `Particles.distribution`.", DeprecationWarning, stacklevel=2)
        return self.distribution


class LogEvidence(NamedTuple):
    """The log marginal likelihood (evidence) of a model, with its Monte Carlo standard error.

    Differences between models of the same data are log Bayes factors.
    """

    value: float
    standard_error: float
    """Zero in closed form; NaN where it is not known."""
    method: str
    """"exact", "tempering", or "importance"."""

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return f"{self.value:.3f} ± {self.standard_error:.3f} ({self.method})"


@dataclasses.dataclass(frozen=True, eq=False)
class LadderReport:
    """How replicas moved between the prior and the posterior; for `Tempering`."""

    betas: Float[Array, " T"]
    """Inverse temperatures, from 0 (the prior) to 1 (the posterior)."""
    swap_rates: Float[Array, " S"]
    """The share of swaps of neighbours that are accepted, S = T − 1."""
    barrier: float
    """The global communication barrier: the sum of the shares that are refused."""
    acceptance: Float[Array, " T"]
    """That of the Langevin steps at each temperature."""
    arrivals: float
    """How often a replica came from a fresh draw of the prior to the posterior, all chains together, while draws were
    taken; each brings the mode that it found."""
    num_chains: int
    """Independent chains."""
    involutions: float | None
    """The share of the user's moves that were accepted; None without any."""
    log_evidence: LogEvidence
    """The log marginal likelihood, from the ladder."""
    reason: str
    """Why there was tempering: "asked for", or what `sampler="auto"` saw."""


@dataclasses.dataclass(frozen=True, repr=False)
class Report:
    """How an MCMC run went. `converged` means a nested R̂ within its limit, in every coordinate and in the potential."""

    sampler: str
    """The name of the sampler that ran."""
    converged: bool
    """Whether the particles have forgotten their start; an unadjusted sampler is biased even then."""
    r_hat: float
    """Nested R̂ with superchains that share a start: the largest over whitened coordinates and potential."""
    r_hat_limit: float
    """What that may be: 1.01, and less for more than 200 particles, whose own Monte Carlo error is smaller."""
    r_hat_by_coordinate: Float[Array, " K"]
    """The same for each whitened coordinate, M of them, or M·C with C latent functions."""
    ess: float
    """Effective sample size of the sampling phase, of all particles together, for the slowest coordinate."""
    ess_tail: float
    """The same for the 5 % and 95 % tails."""
    mcse: float
    """Largest Monte Carlo error of a coordinate's mean from the sampling phase, in posterior standard deviations."""
    acceptance: float
    """The mean share of accepted proposals in the sampling phase; 1 for a sampler that proposes nothing."""
    acceptance_by_particle: Float[Array, " J"]
    """The same for each particle."""
    step_size: float
    """What the sampler used at the end, in its own unit; NaN for one that takes no steps."""
    steps: int
    """Transitions per particle, adaptation included."""
    gradient_evaluations: int
    """Gradients per particle, adaptation included, the search for the mode not."""
    seconds: float
    """Wall clock, compilation included."""
    compile_seconds: float
    """What of that was tracing and compilation; zero for a second run of the same shapes."""
    dropped: int
    """Eigenpairs or inducing points that the basis left out."""
    jitter: float
    """What the basis added to a diagonal; always zero, since dependent parts are dropped instead."""
    divergences: int
    """Proposals whose potential was not finite."""
    basins: int
    """Local modes in whose basins the particles ended; 1 when the cost is convex, without looking."""
    energy: Float[Array, " T"]
    """The mean potential of the particles, over the run."""
    energy_steps: Int[Array, " T"]
    """The transitions after which it was taken."""
    r_hat_trace: Float[Array, " T"]
    """Nested R̂ at the same times; NaN during adaptation."""
    warnings: tuple[str, ...]
    """What the user was warned of."""
    ladder: LadderReport | None = None
    """How replicas moved between temperatures; None for samplers without any."""
    stream: StreamReport | None = None
    """How rows were read that are not all in memory; None where they are."""
    stochastic: StochasticReport | None = None
    """How far draws of mini-batches are from the posterior; None for samplers that look at all rows."""

    def __repr__(self) -> str:
        return (
            f"Report({self.sampler}: {self._state}, nested R-hat {self.r_hat:.4f}, {self.ess:.0f} effective draws, "
            f"{self.steps} steps, {self.seconds:.2f} s, {len(self.warnings)} warnings)"
        )

    def __str__(self) -> str:
        lines = [
            f"{self.sampler}: {self._state}, nested R-hat {self.r_hat:.4f} (limit {self.r_hat_limit:.6g})",
            f"  effective draws {self.ess:.0f} (bulk), {self.ess_tail:.0f} (tail); acceptance {self.acceptance:.2f}",
            f"  {self.steps} steps, {self.gradient_evaluations} gradients per particle, {self.seconds:.2f} s "
            f"of which {self.compile_seconds:.2f} s compiling",
            f"  basis: {self.dropped} dropped, jitter {self.jitter:g}; divergent proposals: {self.divergences}",
        ]
        if self.ladder is not None:
            lines.append(f"  {self._ladder_line}, log evidence {self.ladder.log_evidence}")
            lines += [] if self.ladder.reason == "asked for" else [f"  tempering, because {self.ladder.reason}"]
        lines += [f"  {part}" for part in (self.stream, self.stochastic) if part is not None]
        return "\n".join(lines + [f"  warning: {text}" for text in self.warnings])

    def _repr_pretty_(self, printer: object, cycle: bool) -> None:
        del cycle
        printer.text(str(self))  # type: ignore[attr-defined]

    def _repr_html_(self) -> str:
        rows: list[tuple[str, object]] = [
            ("nested R-hat", f"{self.r_hat:.4f} (limit {self.r_hat_limit:.6g})"),
            ("effective draws", f"{self.ess:.0f} (bulk), {self.ess_tail:.0f} (tail)"),
            ("acceptance", f"{self.acceptance:.2f}"),
            ("steps", self.steps),
            ("gradients per particle", self.gradient_evaluations),
            ("seconds", f"{self.seconds:.2f}, of which {self.compile_seconds:.2f} compiling"),
            ("dropped by the basis", self.dropped),
            ("divergent proposals", self.divergences),
        ]
        if self.ladder is not None:
            rows += [("tempering", self._ladder_line), ("log evidence", self.ladder.log_evidence)]
        rows += [] if self.stream is None else [("rows", self.stream)]
        rows += [] if self.stochastic is None else [("mini-batches", self.stochastic)]
        notes = [f"warning: {text}" for text in self.warnings]
        return table_html(f"{self.sampler}: {self._state}", rows, notes=notes)

    @property
    def _state(self) -> str:
        return "converged" if self.converged else "NOT converged"

    @property
    def _ladder_line(self) -> str:
        assert self.ladder is not None
        return (
            f"{len(self.ladder.betas)} temperatures, {self.ladder.num_chains} chains, swaps accepted at least "
            f"{np.min(self.ladder.swap_rates):.2f}, {self.ladder.arrivals:.0f} ways from prior to posterior"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Report):
            return NotImplemented
        # As text, in which NaN equals itself.
        if repr((self.stream, self.stochastic)) != repr((other.stream, other.stochastic)):
            return False
        parts = ("ladder", "stream", "stochastic")
        names = [field.name for field in dataclasses.fields(self) if field.name not in parts]
        pairs = [(getattr(self, name), getattr(other, name)) for name in names]
        pairs += [] if self.ladder is other.ladder else _ladder_pairs(self.ladder, other.ladder)
        return all(np.array_equal(a, b, equal_nan=not isinstance(a, str | tuple)) for a, b in pairs)

    __hash__ = None  # type: ignore[assignment]


def _ladder_pairs(one: LadderReport | None, other: LadderReport | None) -> list[tuple[object, object]]:
    if one is None or other is None:
        return [("ladder", "none")]
    pairs = [(getattr(one, field.name), getattr(other, field.name)) for field in dataclasses.fields(one)]
    pairs = [("none", "none") if a is None and b is None else (a, b) for a, b in pairs]
    return [pair for pair in pairs if not isinstance(pair[0], LogEvidence)] + list(
        zip(one.log_evidence, other.log_evidence, strict=True)
    )


def report_of(
    target: Target,
    clock: Clock,
    sampler: str,
    *,
    converged: bool,
    r_hat: float,
    r_hat_limit: float,
    r_hat_by_coordinate: Float[np.ndarray, " K"],
    ess: float,
    ess_tail: float,
    acceptance_by_particle: Float[np.ndarray, " J"],
    energy: Float[np.ndarray, " T"],
    energy_steps: Array,
    r_hat_trace: Float[np.ndarray, " T"],
    acceptance: float | None = None,
    step_size: float = np.nan,
    steps: int = 0,
    gradient_evaluations: int = 0,
    divergences: int = 0,
    basins: int = 1,
    warnings: tuple[str, ...] = (),
    ladder: LadderReport | None = None,
) -> Report:
    """The report of a run on `target` that `clock` has timed: what all samplers say in the same way is added here.

    `acceptance` is the mean over the particles when None, and the Monte Carlo error follows from `ess`.
    """
    return Report(
        sampler=sampler,
        converged=bool(converged),
        r_hat=float(r_hat),
        r_hat_limit=r_hat_limit,
        r_hat_by_coordinate=np.array(r_hat_by_coordinate, dtype=np.float64),
        ess=float(ess),
        ess_tail=float(ess_tail),
        mcse=float(ess) ** -0.5 if ess > 0 else np.inf,
        acceptance=float(np.mean(acceptance_by_particle)) if acceptance is None else acceptance,
        acceptance_by_particle=np.asarray(acceptance_by_particle, dtype=np.float64),
        step_size=float(step_size),
        steps=steps,
        gradient_evaluations=gradient_evaluations,
        seconds=clock.seconds,
        compile_seconds=clock.compile_seconds,
        dropped=target.basis.report.dropped,
        jitter=target.basis.report.jitter,
        divergences=divergences,
        basins=basins,
        energy=np.asarray(energy, dtype=np.float64),
        energy_steps=np.asarray(energy_steps, dtype=np.int64),
        r_hat_trace=np.asarray(r_hat_trace, dtype=np.float64),
        warnings=warnings,
        ladder=ladder,
    )
