r"""How good is the approximation? What the draws themselves and the residual variance say about it.

With Δ = V* − V_∞, the difference of the two potentials, on draws from the projected distribution Π_∞,

    KL(Π_∞, Π*) = E Δ + log E e^{−Δ}

exactly, where Π* is the best distribution over functions with the same M coordinates (paper, Theorem 1). Its estimate
from J independent draws has the standard error sd(Δ + e^{−Δ}/mean e^{−Δ})/√J. The same weights e^{−Δ} turn draws from
Π_∞ into draws from Π*, and Pareto-smoothed importance sampling says whether they can (k̂ below 0.7). Proven bounds come
from `kosambi.target.bounds`.

With neighbours the residual does not keep its prior, and Π* is no longer what the draws are compared with: it is Π_2m,
the distribution with twice as many neighbours (`kosambi.posterior.doubled`).
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_count
from kosambi._core.html import table_html
from kosambi._core.types import Array
from kosambi.errors import InputError
from kosambi.likelihoods import CustomJoint, Gaussian
from kosambi.posterior.importance import FEWEST_FOR_TAIL, LARGEST_PARETO_K, smoothed_weights
from kosambi.posterior.residual_facts import ResidualFacts
from kosambi.samplers import Particles, Report
from kosambi.target import Target
from kosambi.target.bounds import DivergenceBounds, divergence_bounds, gaussian_gap
from kosambi.target.data_terms import QuadraticTerm

ENOUGH_PARTICLES = 1000
"""From so many on the standard error itself can be trusted."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Certificate:
    """What is known about the error of a posterior. `Posterior.certificate` makes it; `str` puts it in words.

    Divergences are in nats, for all data together.
    """

    divergence: float
    """KL(Π_∞, Π*), estimated on the particles; 0 where Π* itself is sampled from; NaN where it cannot be estimated."""
    standard_error: float
    """Of the estimate; NaN where none exists."""
    bounds: DivergenceBounds
    """Proven upper bounds on that divergence, or the reason why there are none."""
    full_bound: float | None
    """For a Gaussian likelihood, an upper bound on the divergence from the *full* posterior; otherwise None."""
    residual_share: float
    """The unexplained share of the prior variance at the data, tr Σ / tr r."""
    residual_trace: float
    """tr Σ, the residual variance itself."""
    remainder: float
    """R_M, the mean residual variance under ν (paper, Theorem 2); over the data where ν is not made of points."""
    pareto_k: float
    """k̂ of the weights that carry the draws over to Π*; below 0.7 they can be trusted. −inf if all are equal, NaN if
    there are too few draws (25) for a tail."""
    weights: Float[Array, " J"]
    """Those weights, smoothed, with sum one."""
    quadrature_error: float
    """Largest error of Δ from numerical integration, estimated; 0 for closed forms."""
    notes: tuple[str, ...]
    """What limits the trust in these numbers."""
    num_neighbors: int | None = None
    """m, where near data inform the residual: the divergence is then KL(Π_m, Π_2m), and weights carry over to Π_2m."""
    num_compared: int | None = None
    """2m; 2 where m is zero, and m where all rows are neighbours already."""
    scores: Float[Array, "K 2"] | None = None
    """With neighbours, 0, m and 2m of them, and the mean log density of some rows given so many others near them."""

    @property
    def num_particles(self) -> int:
        """J, the number of draws."""
        return len(self.weights)

    @property
    def bound(self) -> float | None:
        """The least proven bound on the divergence."""
        return self.bounds.smallest

    @property
    def effective_draws(self) -> float:
        """How many equal weights the weights are worth, 1/Σw²."""
        return float(1.0 / np.sum(np.square(self.weights)))

    @property
    def can_reweight(self) -> bool:
        """Whether the weights are even enough: no weight beyond twice the mean, or k̂ below 0.7."""
        return bool(np.max(self.weights) * self.num_particles < 2.0 or self.pareto_k < LARGEST_PARETO_K)

    @property
    def largest_error(self) -> float:
        """No probability under Π_∞ is off by more than this, against Π*: √(KL/2) (Pinsker).

        KL is the estimate with two standard errors, or the proven bound if that is less; 1 where neither is known.
        """
        known = [] if self.bound is None else [self.bound]
        if self.standard_error == 0.0 or (np.isfinite(self.standard_error) and self.can_reweight):
            known.append(self.divergence + 2.0 * self.standard_error)
        return float(min(1.0, np.sqrt(0.5 * min(known)))) if known else 1.0

    def __str__(self) -> str:
        lines = [_first_line(self)]
        if self.num_neighbors is not None:
            each = ", ".join(
                f"{score:.4g} with {number:.0f}" for number, score in ([] if self.scores is None else self.scores)
            )
            each = f"{each} neighbours" if each else "not known without a density of y"
            lines.append(f"  log density of rows given others near them, nats per observation: {each}")
        elif self.bound != 0.0:
            theorem = self.bounds.theorem
            lines.append(
                f"  bound on that: {self.bounds.reason if self.bound is None else f'{self.bound:.3g} nats, proven'}"
                + ("" if theorem is None else f" (the paper's Theorem 2: {theorem:.3g})")
            )
        if self.full_bound is not None:
            lines.append(f"  from the full posterior: at most {self.full_bound:.3g} nats for all data together")
        lines.append(
            f"  prior variance at the data that the coordinates do not explain: {100 * self.residual_share:.3g} %; "
            f"R_M {self.remainder:.3g}"
        )
        if self.pareto_k > -np.inf:
            verdict = "can" if self.can_reweight else "cannot"
            lines.append(f"  the draws {verdict} be reweighted to that distribution: Pareto k {self.pareto_k:.2f}")
        return "\n".join(lines + [f"  note: {text}" for text in self.notes])

    def __repr__(self) -> str:
        error = "" if not np.isfinite(self.standard_error) else f" ± {self.standard_error:.2g}"
        bound = "none" if self.bound is None else f"{self.bound:.3g}"
        return (
            f"Certificate(divergence {self.divergence:.3g}{error} nats, bound {bound}, {self.num_particles} draws, "
            f"{len(self.notes)} note{'s' * (len(self.notes) != 1)})"
        )

    def _repr_pretty_(self, printer: object, cycle: bool) -> None:
        del cycle
        printer.text(str(self))  # type: ignore[attr-defined]

    def _repr_html_(self) -> str:
        first, *others = str(self).splitlines()
        return table_html(first, [line.strip().partition(": ")[::2] for line in others])


def _first_line(certificate: Certificate) -> str:
    if certificate.bound == 0.0 and certificate.num_neighbors is None:
        return "The distribution that was sampled from is the best one with these coordinates."
    error = "" if not np.isfinite(certificate.standard_error) else f" ± {certificate.standard_error:.2g}"
    largest = certificate.largest_error
    words = f"no probability differs by more than {100 * largest:.2g} %" if largest < 1 else "how far is not known"
    if certificate.num_neighbors is not None and certificate.num_neighbors == certificate.num_compared:
        return (
            "All rows are neighbours of every input: with Gaussian noise this is the full posterior, and otherwise "
            "that of the sites."
        )
    if certificate.num_neighbors is not None:
        return (
            f"The distribution of the coordinates with {certificate.num_neighbors} neighbours is "
            f"{certificate.divergence:.3g}{error} nats from the one with {certificate.num_compared}: {words}."
        )
    return (
        f"The distribution that was sampled from is {certificate.divergence:.3g}{error} nats from the best one with "
        f"these coordinates: {words}."
    )


def certify(
    target: Target,
    particles: Particles,
    *,
    report: Report | None = None,
    reweighting: Certificate | None = None,
    num_nodes: int | None = None,
) -> Certificate:
    """The certificate of particles that were drawn from `target`.

    Arguments:
        target: the potential that was sampled from.
        particles: the draws.
        report: how they were drawn.
        reweighting: of the draws that these were taken from by weight, if they were.
        num_nodes: of the quadrature of V*; chosen from the residual when None.
    """
    _check(target)
    if num_nodes is not None:
        as_count("num_nodes", num_nodes)
    residual = np.asarray(target.basis.residual_variance(target.x))
    bounds = divergence_bounds(target.likelihood, np.asarray(target.y), residual, target.weights)
    if target.stream is not None and len(target.y) < target.num_rows and bounds.smallest != 0.0:
        bounds = DivergenceBounds(None, None, None, "a bound needs all rows, of which a sample is here")
    count = particles.num_particles
    divergence, error, pareto_k, quadrature = 0.0, 0.0, -np.inf, 0.0
    weights, notes = np.full(count, 1.0 / count), origin_notes(report, reweighting, particles)
    if target.kind == "optimal":
        bounds = DivergenceBounds(None, None, 0.0, "")
    elif not isinstance(target.likelihood, Gaussian):
        delta, quadrature = differences(target, particles, num_nodes)
        divergence, error = divergence_estimate(delta)
        weights, pareto_k = smoothed_weights(-delta)
        if np.any(target.likelihood.has_pole(np.asarray(target.y))):
            error = np.nan
    found = Certificate(
        divergence=divergence,
        standard_error=error,
        bounds=bounds,
        full_bound=_full_bound(target, residual),
        **ResidualFacts.of(target, residual)._asdict(),
        pareto_k=pareto_k,
        weights=weights,
        quadrature_error=quadrature,
        notes=tuple(notes),
    )
    return found if bounds.smallest == 0.0 else dataclasses.replace(found, notes=(*notes, *doubts(target, found)))


def differences(
    target: Target, particles: Particles, num_nodes: int | None = None
) -> tuple[Float[np.ndarray, " J"], float]:
    """Δ on the particles of a projected target, (J,), and the largest error of its quadrature."""
    if target.stream is not None:
        # Of the sample, whose rows stand for all.
        target = of_sample(target, "projected")
    best = of_sample(target, "optimal", num_nodes)
    u = particles.coordinates
    with np.errstate(invalid="ignore"):
        # Both can be infinite; what becomes of that is for the certificate to say.
        delta = np.asarray(best.potential(u)) - np.asarray(target.potential(u))
    return delta, float(np.max(best.quadrature_error(u)))


def of_sample(target: Target, potential: str, num_nodes: int | None = None) -> Target:
    """The target of the rows that are in memory, with their weights, and one of the first two potentials."""
    return Target(
        target.basis, target.likelihood, target.x, target.y, potential, weights=target.weights, num_nodes=num_nodes
    )


def divergence_estimate(delta: Float[np.ndarray, " J"]) -> tuple[float, float]:
    """mean Δ + log mean e^{−Δ}, and its standard error.

    >>> import numpy as np, kosambi as ko
    >>> ko.posterior.divergence_estimate(np.full(100, 3.0))
    (0.0, 0.0)
    """
    if len(delta) < 2 or not np.all(np.isfinite(delta)):
        return np.nan, np.nan
    centred = delta - np.mean(delta)
    # The largest weight is one, so that nothing overflows.
    top = float(np.max(-centred))
    weights = np.exp(-centred - top)
    mean = float(np.mean(weights))
    error = float(np.std(centred + weights / mean, ddof=1) / np.sqrt(len(delta)))
    return float(np.log(mean) + top), error


def _check(target: Target) -> None:
    if isinstance(target.likelihood, CustomJoint):
        raise InputError(
            "There is no certificate for `CustomJoint`: its loss does not split over observations, so the best "
            "distribution with these coordinates is an integral in as many dimensions as there are observations."
        )
    if not target.basis.is_conditional:
        raise InputError(
            f"There is no certificate for a `{type(target.basis).__name__}`: it follows the paper's projection, whose "
            "residual is not independent of the coordinates. Use `RitzBasis` or `PointBasis`."
        )


def origin_notes(report: Report | None, reweighting: Certificate | None, particles: Particles) -> list[str]:
    """Doubts about where the draws come from, which no estimate on them can see."""
    notes = []
    if report is not None and (known := report.stream) is not None and known.num_rows > known.sample_rows:
        notes.append(
            f"sums over rows are estimated from a sample of {known.sample_rows:,} of {known.num_rows:,} rows; residual "
            "variances, and the bound for Gaussian noise, are of all. Draws of the best distribution need the source: "
            '`infer` with potential="optimal"'
        )
    if reweighting is not None:
        notes.append(
            f"these draws were taken from others by weight and are worth {reweighting.effective_draws:.0f} "
            f"(Pareto k {reweighting.pareto_k:.2f})" + ("" if reweighting.can_reweight else ", too few to be trusted")
        )
    if report is not None and not report.converged:
        notes.append("the sampler has not converged, so the draws need not follow the distribution that this is about")
    if report is None and particles.distribution is None:
        notes.append("the draws come without a report and are taken for draws from the distribution of their target")
    return notes


def doubts(target: Target, found: Certificate) -> list[str]:
    """What limits the trust in an estimate on draws."""
    notes = []
    if not np.isfinite(found.divergence):
        notes.append("the difference of the two potentials is not finite on some draws, or there is only one draw")
        return notes
    if np.any(target.likelihood.has_pole(np.asarray(target.y))):
        notes.append(
            "the cost is infinite at some f, where the weights have no variance: the divergence is an estimate "
            "without a standard error"
        )
    if found.num_particles < ENOUGH_PARTICLES:
        notes.append(
            f"{found.num_particles} particles: the error of the estimate is itself uncertain below {ENOUGH_PARTICLES}"
        )
    if np.isnan(found.pareto_k):
        notes.append(f"{FEWEST_FOR_TAIL} particles or more are needed to judge the weights; raise `num_particles`")
    elif not found.can_reweight:
        notes.append(
            f"the weights are too uneven (Pareto k {found.pareto_k:.2f}) for the estimate to be trusted; "
            + ('draw with potential="optimal" instead' if found.num_neighbors is None else "take more neighbours")
        )
    if found.quadrature_error > 0.1 * max(found.divergence, 1e-6):
        notes.append(
            f"numerical integration is good to {found.quadrature_error:.1g} nats only; "
            "`certificate(num_nodes=...)` asks for more"
        )
    return notes


def _full_bound(target: Target, residual: Float[np.ndarray, " N"]) -> float | None:
    """U − ELBO in units of the noise; observations that count several times are some with less of it."""
    likelihood, term = target.likelihood, target.term
    if not isinstance(likelihood, Gaussian) or not isinstance(term, QuadraticTerm):
        return None
    if (known := target.stream) is not None:
        squared, trace = float(known.squared_error), float(known.noise_trace)
        return gaussian_gap(
            np.asarray(term.root), np.asarray(term.aim), squared - float(np.sum(np.square(term.aim))), trace
        )
    counts = np.ones(len(residual)) if target.weights is None else np.asarray(target.weights)
    precision = counts / np.square(np.asarray(likelihood.row_noise))
    error = np.asarray(target.y) - np.asarray(target.basis.prior.mean_at(target.x))
    root, aim = np.asarray(term.root), np.asarray(term.aim)
    rest = float(np.sum(precision * np.square(error)) - np.sum(np.square(aim)))
    return gaussian_gap(root, aim, rest, float(np.sum(precision * residual)))
