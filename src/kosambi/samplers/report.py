"""What a run of a sampler says about itself."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from kosambi._core.types import Array


class LogEvidence(NamedTuple):
    """The log evidence of a model, with its Monte Carlo standard error; differences are log Bayes factors."""

    value: float
    standard_error: float
    """Zero in closed form; not a number where it is not known."""
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
    """From the ladder."""
    reason: str
    """Why there was tempering: "asked for", or what `sampler="auto"` saw."""


@dataclasses.dataclass(frozen=True)
class Report:
    """How a run went. `converged` means a nested R̂ within its limit, in every coordinate and in the potential."""

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
    """Effective number of draws in the sampling phase, of all particles together, for the slowest coordinate."""
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
    """All transitions of a particle, adaptation included."""
    gradient_evaluations: int
    """Gradients a particle, adaptation included, the search for the mode not."""
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

    def __str__(self) -> str:
        state = "converged" if self.converged else "NOT converged"
        lines = [
            f"{self.sampler}: {state}, nested R-hat {self.r_hat:.4f} (limit {self.r_hat_limit:.6g})",
            f"  effective draws {self.ess:.0f} (bulk), {self.ess_tail:.0f} (tail); acceptance {self.acceptance:.2f}",
            f"  {self.steps} steps, {self.gradient_evaluations} gradients a particle, {self.seconds:.2f} s "
            f"of which {self.compile_seconds:.2f} s compiling",
            f"  basis: {self.dropped} dropped, jitter {self.jitter:g}; divergent proposals: {self.divergences}",
        ]
        if self.ladder is not None:
            lines.append(
                f"  {len(self.ladder.betas)} temperatures, {self.ladder.num_chains} chains, swaps accepted at least "
                f"{np.min(self.ladder.swap_rates):.2f}, {self.ladder.arrivals:.0f} ways from prior to posterior, "
                f"log evidence {self.ladder.log_evidence}"
            )
            lines += [] if self.ladder.reason == "asked for" else [f"  tempering, because {self.ladder.reason}"]
        return "\n".join(lines + [f"  warning: {text}" for text in self.warnings])

    def _repr_pretty_(self, printer: object, cycle: bool) -> None:
        del cycle
        printer.text(str(self))  # type: ignore[attr-defined]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Report):
            return NotImplemented
        names = [field.name for field in dataclasses.fields(self) if field.name != "ladder"]
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
