"""The modes of a posterior: which particles belong to which, by going downhill from each, and reports of one mode."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Bool, Float, Int

from kosambi._core.precision import public
from kosambi._core.types import Array
from kosambi.posterior.importance import share_of_evidence
from kosambi.samplers import Particles, Report
from kosambi.target import Target
from kosambi.target.modes import minima

MAX_SEARCHES = 1000
"""Particles from which a minimum is searched for; others go to the nearest one."""


@dataclasses.dataclass(frozen=True, eq=False)
class ModeSummary:
    """The modes that the particles sit in, the fullest first. `Posterior.modes` makes it; `print` shows a table."""

    labels: Int[np.ndarray, " J"]
    """The mode of each particle."""
    shares: Float[np.ndarray, " B"]
    """The share of the particles in each: its posterior probability, if the sampler passes between modes."""
    standard_errors: Float[np.ndarray, " B"]
    """Of the shares, for independent particles."""
    potentials: Float[np.ndarray, " B"]
    """V at each minimum."""
    coordinates: Float[np.ndarray, "B M *C"]
    """u at each minimum: the function that represents the mode."""

    @property
    def num_modes(self) -> int:
        """B, the number of modes with particles."""
        return len(self.shares)

    def __str__(self) -> str:
        lines = [f"{self.num_modes} mode{'s' if self.num_modes > 1 else ''} with particles"]
        lowest = float(np.min(self.potentials))
        for number, (share, error, value) in enumerate(
            zip(self.shares, self.standard_errors, self.potentials, strict=True)
        ):
            lines.append(
                f"  {number}: {100 * share:.1f} ± {100 * error:.1f} %, lowest potential + {value - lowest:.2f}"
            )
        return "\n".join(lines)


@public
def find_mode_summary(target: Target, particles: Particles) -> ModeSummary:
    """Minima of V below each particle; one for a convex cost."""
    whitened = np.asarray(particles.whitened).reshape(particles.num_particles, -1)
    if target.likelihood.is_convex:
        searched = whitened[:1]
    else:
        searched = whitened[np.linspace(0, len(whitened) - 1, min(len(whitened), MAX_SEARCHES)).astype(int)]
    found, labels = minima(target, searched)
    if len(searched) < len(whitened):
        labels = _nearest(whitened, np.asarray(found.positions), np.asarray(found.roots))
    counts = np.bincount(labels, minlength=len(found.potentials))
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] > 0]
    place = np.zeros(len(counts), dtype=int)
    place[order] = np.arange(len(order))
    shares = counts[order] / len(labels)
    modes = Particles.from_whitened(target, np.asarray(found.positions)[order])
    return ModeSummary(
        labels=place[labels],
        shares=shares,
        standard_errors=np.sqrt(shares * (1.0 - shares) / len(labels)),
        potentials=np.asarray(found.potentials)[order],
        coordinates=np.asarray(modes.coordinates),
    )


def acceptance_of(report: Report, chosen: Int[np.ndarray, " L"], num_particles: int) -> Float[np.ndarray, " K"]:
    """The acceptance of some of the particles; all that the report has where it is that of other particles."""
    acceptance = np.asarray(report.acceptance_by_particle)
    return acceptance[chosen] if len(acceptance) == num_particles else acceptance


def report_of_mode(report: Report, chosen: Bool[np.ndarray, " J"], energy: float) -> Report:
    """The report of the particles of one mode.

    Whatever is counted is counted for them: acceptance, effective draws, energy, the evidence of a ladder. Whether the
    run has converged, with its R̂, is a statement about the whole run, which compares all modes.

    Arguments:
        report: that of the run.
        chosen: the particles of the mode.
        energy: their mean potential.
    """
    share, number = float(np.mean(chosen)), int(np.sum(chosen))
    acceptance, ladder = acceptance_of(report, np.flatnonzero(chosen), len(chosen)), report.ladder
    if ladder is not None:
        evidence = share_of_evidence(ladder.log_evidence, share, number, report.converged)
        ladder = dataclasses.replace(ladder, log_evidence=evidence)
    return dataclasses.replace(
        report,
        ess=share * report.ess,
        ess_tail=share * report.ess_tail,
        mcse=report.mcse / np.sqrt(share),
        acceptance=float(np.mean(acceptance)),
        acceptance_by_particle=acceptance,
        basins=1,
        energy=np.array([energy]),
        energy_steps=np.array([report.steps]),
        r_hat_trace=np.array([report.r_hat]),
        ladder=ladder,
    )


def _nearest(w: Array, positions: Array, roots: Array) -> Int[np.ndarray, " J"]:
    """The mode whose Laplace approximation is nearest, in its own standard deviations."""
    white = (np.linalg.solve(root, (w - at).T) for at, root in zip(positions, roots, strict=True))
    return np.argmin(np.stack([np.sum(np.square(part), axis=0) for part in white]), axis=0)
