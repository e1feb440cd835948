r"""How well a model with M inducing points predicts each observation from all others, without fitting it N times.

On the host, with LAPACK: the sizes M that are compared share one N×M matrix of features, whose first columns belong to
the first points, and nothing is compiled for each of them. See `kosambi.learning.selection` for the formula.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
import scipy.linalg
from jaxtyping import Float

from kosambi._core.precision import compiled
from kosambi._core.types import Array
from kosambi.basis.points import SMALLEST_RESIDUAL
from kosambi.likelihoods import AbstractLikelihood, Gaussian
from kosambi.target.bounds import gaussian_gap
from kosambi.target.data_terms import FactorisedTerm
from kosambi.target.host_newton import HostPotential, row_costs, search_on_host
from kosambi.target.newton import host_factor

# Of the mean slope of a cost over the residual.
_NODES = 20
# Of the search for a mode: its answers are compared at a hundredth of a nat.
_ITERATIONS, _TOLERANCE = 50, 5e-5


class Scores(NamedTuple):
    """What a number of inducing points achieves."""

    score: float
    """Mean leave-one-out negative log predictive density."""
    gap: float
    """Bound on the divergence from the full posterior, in nats per observation; NaN if not Gaussian."""
    divergence: float
    """KL(Π_∞, Π*) of the draws, roughly; zero if Gaussian."""
    residual_share: float
    """Σ σ_n² over Σ r(x_n, x_n)."""


def has_score(likelihood: AbstractLikelihood) -> bool:
    """Whether predictions of single observations can be scored: a density, and one latent function."""
    return likelihood.num_latents == 1 and likelihood.is_density


def scores(
    likelihood: AbstractLikelihood,
    psi: Float[np.ndarray, "N M"],
    variance: Float[np.ndarray, " N"],
    offset: Float[np.ndarray, " N"],
    y: Float[np.ndarray, " N"],
    counts: Float[np.ndarray, " N"],
    sizes: list[int],
) -> list[Scores]:
    """The scores of the first `sizes` columns of `psi`, in increasing order.

    Arguments:
        likelihood: what an observation costs; one that `has_score`.
        psi: whitened features, nested: the first m columns belong to the first m points.
        variance: prior variances r(x_n, x_n).
        offset: prior means.
        y: the observations.
        counts: how often each counts.
        sizes: increasing numbers of columns.
    """
    if isinstance(likelihood, Gaussian):
        return _gaussian(likelihood, psi, variance, offset, y, counts, sizes)
    start = _start(likelihood, psi[:, : sizes[0]], offset, y)
    found = []
    for size in sizes:
        part = np.ascontiguousarray(psi[:, :size])
        potential = HostPotential(FactorisedTerm(likelihood, part, y, offset, counts, None, None))
        mode = search_on_host(potential, np.pad(start, (0, size - len(start))), _ITERATIONS, _TOLERANCE)
        start = mode.w
        residual, share = _share(part, variance)
        # The search ends with the factor of the curvature that is needed, where there is one curvature only.
        factor = mode.factor if likelihood.is_convex else None
        score, divergence = _laplace_scores(likelihood, part, residual, offset, y, counts, start, factor)
        found.append(Scores(score, np.nan, divergence, share))
    return found


def _start(likelihood: AbstractLikelihood, psi: np.ndarray, offset: np.ndarray, y: np.ndarray) -> np.ndarray:
    """`kosambi.target.evidence.starting_mode` on the host, where no step of it is compiled by itself."""
    with jax.enable_x64(True):
        error = np.asarray(_rough_latent(likelihood, y)) - offset
    scale = float(np.mean(np.square(error))) + SMALLEST_RESIDUAL
    factor = host_factor(psi, np.full(len(y), 1.0 / scale))
    return scipy.linalg.cho_solve((factor, True), psi.T @ error / scale)


@compiled
def _rough_latent(likelihood: AbstractLikelihood, y: Array) -> Array:
    return likelihood.raw_rough_latent(y)


def _share(psi: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, float]:
    residual = np.maximum(variance - np.einsum("nm,nm->n", psi, psi), 0.0)
    return residual, float(np.sum(residual) / np.sum(variance))


def _gaussian(
    likelihood: Gaussian,
    psi: np.ndarray,
    variance: np.ndarray,
    offset: np.ndarray,
    y: np.ndarray,
    counts: np.ndarray,
    sizes: list[int],
) -> list[Scores]:
    """In units of the noise, from one Gram matrix whose leading blocks serve every size."""
    noise = np.broadcast_to(np.asarray(likelihood.row_noise), y.shape)
    root_precision = np.sqrt(counts) / noise
    scaled, error = psi * root_precision[:, None], (y - offset) * root_precision
    gram, aim = scaled.T @ scaled, scaled.T @ error
    found = []
    for size in sizes:
        residual, share = _share(psi[:, :size], variance)
        trace = float(np.sum(np.square(root_precision) * residual))
        block = gram[:size, :size]
        gap = gaussian_gap(scaled[:, :size], error, 0.0, trace, block) / float(np.sum(counts))
        factor = scipy.linalg.cholesky(block + np.eye(size), lower=True, check_finite=False)
        loads = scipy.linalg.solve_triangular(factor, scaled[:, :size].T, lower=True, check_finite=False)
        leverage = np.minimum(np.einsum("mn,mn->n", loads, loads), 1.0 - 1e-12)
        fitted = scipy.linalg.solve_triangular(factor, aim[:size], lower=True, check_finite=False) @ loads
        # Without all copies of an observation: in units of y, where one that does not count has nothing to leave out.
        unit = np.where(root_precision > 0, root_precision, 1.0)
        distance = (error - fitted) / (1.0 - leverage) / unit
        spread = np.square(noise) + residual + leverage / (1.0 - leverage) / np.square(unit)
        density = -0.5 * (np.square(distance) / spread + np.log(2.0 * np.pi * spread))
        found.append(Scores(-float(np.sum(counts * density) / np.sum(counts)), gap, 0.0, share))
    return found


def _laplace_scores(
    likelihood: AbstractLikelihood,
    psi: np.ndarray,
    residual: np.ndarray,
    offset: np.ndarray,
    y: np.ndarray,
    counts: np.ndarray,
    w: np.ndarray,
    factor: np.ndarray | None = None,
) -> tuple[float, float]:
    """The leave-one-out score, and KL(Π_∞, Π*) ≈ ½ Var Δ ≈ ½ ∇ΔᵀH⁻¹∇Δ at the mode."""
    f = offset + psi @ w
    rows = row_costs(likelihood, y, f)
    slope, curvature = rows.slope, rows.curvature
    factor = host_factor(psi, counts * curvature) if factor is None else factor
    loads = scipy.linalg.solve_triangular(factor, psi.T, lower=True, check_finite=False)
    variance = np.einsum("mn,mn->n", loads, loads)
    # Without all copies of an observation.
    without = variance / np.maximum(1.0 - counts * curvature * variance, 1e-12)
    density = likelihood.log_predictive_density(y, f + counts * slope * without, np.sqrt(without + residual))
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    around = np.asarray(
        likelihood.derivative(np.broadcast_to(y, (_NODES, len(y))), f + np.sqrt(residual) * nodes[:, None])
    )
    pull = loads @ (counts * (weights @ around / np.sum(weights) - slope))
    return -float(counts @ np.asarray(density) / np.sum(counts)), 0.5 * float(pull @ pull)
