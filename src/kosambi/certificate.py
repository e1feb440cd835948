r"""How good is the approximation? What the draws themselves and the residual variance say about it.

With Δ = V* − V_∞, the difference of the two potentials, on draws from the projected law Π_∞,

    KL(Π_∞, Π*) = E Δ + log E e^{−Δ}

exactly, where Π* is the best law over functions with the same M coordinates (paper, Theorem 1). Its estimate from J
independent draws has the standard error sd(Δ + e^{−Δ}/mean e^{−Δ})/√J. The same weights e^{−Δ} turn draws from Π_∞ into
draws from Π*, and Pareto-smoothed importance sampling says whether they can (k̂ below 0.7). Proven bounds come from
`kosambi.bounds`.
"""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
from jaxtyping import Float, Int

from kosambi._types import Array
from kosambi.bounds import DivergenceBounds, divergence_bounds, gaussian_gap
from kosambi.data_terms import QuadraticTerm
from kosambi.errors import InputError
from kosambi.likelihoods import CustomJoint, Gaussian
from kosambi.measures import PointMeasure
from kosambi.precision import compiled
from kosambi.priors import GaussianRandomElement
from kosambi.samplers import Particles
from kosambi.target import Target

ENOUGH_PARTICLES = 1000
"""From so many on the standard error itself can be trusted."""
LARGEST_PARETO_K = 0.7
"""Above it importance weights cannot be trusted (Vehtari et al. 2024)."""


@dataclasses.dataclass(frozen=True)
class Certificate:
    """What is known about the error of a posterior. `Posterior.certificate` makes it; `str` puts it in words.

    Divergences are in nats, for all data together.
    """

    divergence: float
    """KL(Π_∞, Π*), estimated on the particles; 0 where the draws follow Π* anyway."""
    standard_error: float
    """Of the estimate; NaN where none exists."""
    bounds: DivergenceBounds
    """Proven upper bounds on that divergence, or the reason why there are none."""
    full_bound: float | None
    """For a Gaussian likelihood, an upper bound on the divergence from the *full* posterior; otherwise None."""
    residual_share: float
    """The share of the prior variance at the data that the coordinates leave open, tr Σ / tr r."""
    residual_trace: float
    """tr Σ, that variance itself."""
    remainder: float
    """R_M, the mean residual variance under ν (paper, Theorem 2); over the data for a `GaussianProcess`."""
    pareto_k: float
    """k̂ of the weights that carry the draws over to Π*; below 0.7 they can be trusted. −inf if all are equal, NaN if
    there are too few draws (25) for a tail."""
    weights: Float[Array, " J"]
    """Those weights, smoothed, with sum one."""
    num_particles: int
    """J."""
    quadrature_error: float
    """Largest error of Δ from numerical integration, estimated; 0 for closed forms."""
    notes: tuple[str, ...]
    """What limits the trust in these numbers."""

    @property
    def bound(self) -> float | None:
        """The least proven bound on the divergence."""
        return self.bounds.smallest

    @property
    def effective_draws(self) -> float:
        """How many equal weights the weights are worth, 1/Σw²."""
        return float(1.0 / np.sum(np.square(self.weights)))

    def __str__(self) -> str:
        error = "" if not np.isfinite(self.standard_error) else f" ± {self.standard_error:.2g}"
        lines = [
            f"The draws are {self.divergence:.3g}{error} nats from the best law with these coordinates: "
            f"{_in_words(self.divergence)}.",
            f"  bound on that: {self.bounds.reason if self.bound is None else f'{self.bound:.3g} nats, proven'}"
            + ("" if self.bounds.theorem is None else f" (the paper's Theorem 2: {self.bounds.theorem:.3g})"),
            f"  prior variance at the data left out by the coordinates: {100 * self.residual_share:.3g} %; "
            f"R_M {self.remainder:.3g}",
        ]
        if self.full_bound is not None:
            lines.append(f"  from the full posterior: at most {self.full_bound:.3g} nats for all data together")
        if np.isfinite(self.pareto_k):
            verdict = "can" if self.pareto_k < LARGEST_PARETO_K else "cannot"
            lines.append(f"  the draws {verdict} be reweighted to that law: Pareto k {self.pareto_k:.2f}")
        return "\n".join(lines + [f"  note: {text}" for text in self.notes])

    def _repr_pretty_(self, printer: object, cycle: bool) -> None:
        del cycle
        printer.text(str(self))  # type: ignore[attr-defined]


def _in_words(divergence: float) -> str:
    # By Pinsker's inequality no probability is off by more than √(KL/2).
    off = 100.0 * min(1.0, np.sqrt(0.5 * max(divergence, 0.0)))
    return f"no probability is off by more than {off:.2g} %" if off < 100 else "probabilities may be far off"


def certify(target: Target, particles: Particles, num_nodes: int | None = None) -> Certificate:
    """The certificate of particles that were drawn from `target`; `num_nodes` is for the quadrature of V*."""
    _check(target)
    residual = np.asarray(target.basis.residual_variance(target.x))
    prior = np.asarray(target.basis.prior.variance(target.x))
    bounds = divergence_bounds(target.likelihood, np.asarray(target.y), residual, target.weights)
    notes: list[str] = []
    if target.kind == "optimal" or isinstance(target.likelihood, Gaussian):
        count = particles.num_particles
        divergence, error, pareto_k, quadrature = 0.0, 0.0, -np.inf, 0.0
        weights = np.full(count, 1.0 / count)
        if target.kind == "optimal":
            bounds = DivergenceBounds(None, None, 0.0, "")
            notes.append("the draws were made from that best law itself")
    else:
        delta, quadrature = differences(target, particles, num_nodes)
        divergence, error = divergence_estimate(delta)
        weights, pareto_k = smoothed_weights(-delta)
        notes += _doubts(target, particles, pareto_k, quadrature, divergence)
        if np.any(target.likelihood.has_pole(np.asarray(target.y))):
            error = np.nan
    return Certificate(
        divergence=divergence,
        standard_error=error,
        bounds=bounds,
        full_bound=_full_bound(target, residual),
        residual_share=float(np.sum(residual) / np.sum(prior)),
        residual_trace=float(np.sum(residual)),
        remainder=_remainder(target, residual),
        pareto_k=pareto_k,
        weights=weights,
        num_particles=particles.num_particles,
        quadrature_error=quadrature,
        notes=tuple(notes),
    )


def differences(
    target: Target, particles: Particles, num_nodes: int | None = None
) -> tuple[Float[np.ndarray, " J"], float]:
    """Δ on the particles of a projected target, (J,), and the largest error of its quadrature."""
    best = target.with_potential("optimal", num_nodes=num_nodes)
    u = particles.coordinates
    delta = np.asarray(best.potential(u)) - np.asarray(target.potential(u))
    return delta, float(np.max(best.quadrature_error(u)))


def divergence_estimate(delta: Float[np.ndarray, " J"]) -> tuple[float, float]:
    """mean Δ + log mean e^{−Δ}, and its standard error.

    >>> import numpy as np, kosambi as ko
    >>> ko.certificate.divergence_estimate(np.full(100, 3.0))
    (0.0, 0.0)
    """
    centred = delta - np.mean(delta)
    # The largest weight is one, so that nothing overflows.
    top = float(np.max(-centred))
    weights = np.exp(-centred - top)
    mean = float(np.mean(weights))
    count = len(delta)
    error = float(np.std(centred + weights / mean, ddof=1) / np.sqrt(count)) if count > 1 else np.nan
    return float(np.log(mean) + top), error


def smoothed_weights(log_weights: Float[np.ndarray, " J"]) -> tuple[Float[np.ndarray, " J"], float]:
    """Pareto-smoothed weights with sum one, and k̂ (BlackJAX)."""
    if np.ptp(log_weights) < 1e-12:
        return np.full(len(log_weights), 1.0 / len(log_weights)), -np.inf
    # Imported here because BlackJAX takes as long to import as the rest.
    from blackjax.diagnostics import psis_weights

    with jax.enable_x64(True):
        smoothed, pareto_k = compiled(psis_weights)(log_weights)
    weights = np.exp(np.asarray(smoothed))
    return weights / np.sum(weights), float(pareto_k) if np.isfinite(pareto_k) else np.nan


def systematic(generator: np.random.Generator, weights: Float[np.ndarray, " J"]) -> Int[np.ndarray, " J"]:
    """J numbers of draws, each as often as J times its weight, rounded up or down.

    >>> import numpy as np, kosambi as ko
    >>> ko.certificate.systematic(np.random.default_rng(0), np.array([0.5, 0.25, 0.25, 0.0]))
    array([0, 0, 1, 2])
    """
    count = len(weights)
    points = (np.arange(count) + generator.uniform()) / count
    return np.minimum(np.searchsorted(np.cumsum(weights), points, side="right"), count - 1)


def _check(target: Target) -> None:
    if isinstance(target.likelihood, CustomJoint):
        raise InputError(
            "There is no certificate for `CustomJoint`: its loss does not split over data, so the best law with these "
            "coordinates is an integral in as many dimensions as there are data."
        )
    if not target.basis.is_conditional:
        raise InputError(
            f"There is no certificate for a `{type(target.basis).__name__}`: it follows the paper's projection, whose "
            "residual is not independent of the coordinates. Use `RitzBasis` or `PointBasis`."
        )


def _doubts(target: Target, particles: Particles, pareto_k: float, quadrature: float, divergence: float) -> list[str]:
    notes = []
    if np.any(target.likelihood.has_pole(np.asarray(target.y))):
        notes.append(
            "the cost is infinite at some f, where the weights have no variance: the divergence is an estimate "
            "without a standard error"
        )
    if particles.num_particles < ENOUGH_PARTICLES:
        notes.append(
            f"{particles.num_particles} particles: the error of the estimate is itself uncertain below "
            f"{ENOUGH_PARTICLES}"
        )
    if not pareto_k < LARGEST_PARETO_K:
        notes.append(
            f"the weights are too uneven (Pareto k {pareto_k:.2f}) for the estimate to be trusted; draw with "
            'potential="optimal" instead'
        )
    if quadrature > 0.1 * max(divergence, 1e-6):
        notes.append(
            f"numerical integration is good to {quadrature:.1g} nats only; `certificate(num_nodes=...)` asks for more"
        )
    return notes


def _full_bound(target: Target, residual: Float[np.ndarray, " N"]) -> float | None:
    """U − ELBO in units of the noise, with data that count several times as data with less of it."""
    likelihood, term = target.likelihood, target.term
    if not isinstance(likelihood, Gaussian) or not isinstance(term, QuadraticTerm):
        return None
    counts = np.ones(len(residual)) if target.weights is None else np.asarray(target.weights)
    precision = counts / np.square(np.asarray(likelihood.noise))
    error = np.asarray(target.y) - np.asarray(target.basis.prior.mean_at(target.x))
    root, aim = np.asarray(term.root), np.asarray(term.aim)
    total = float(np.sum(precision * np.square(error)))
    return gaussian_gap(root.T @ root, root.T @ aim, total, float(np.sum(precision * residual)))


def _remainder(target: Target, residual: Float[np.ndarray, " N"]) -> float:
    prior = target.basis.prior
    if isinstance(prior, GaussianRandomElement) and isinstance(prior.measure, PointMeasure):
        return float(np.sum(prior.measure.weights * np.asarray(target.basis.residual_variance(prior.measure.points))))
    return float(np.mean(residual))
