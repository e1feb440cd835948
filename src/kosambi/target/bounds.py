r"""Proven bounds on what the M coordinates of a basis lose, from the residual variance σ_n² at the data.

Let Δ(w) = Σ_n (E_ξ c(y_n, f_n(w) + σ_n ξ) − c(y_n, f_n(w))), the difference of the two potentials of `Target`. The
projected law Π_∞ and the best law Π* with the same coordinates (paper, Theorem 1) differ by exactly

    KL(Π_∞, Π*) = E Δ + log E e^{−Δ},

which is at most b − a and at most (b − a)²/8 when a ≤ Δ ≤ b (Hoeffding's lemma). So it is enough to bound Δ:

* by Lipschitz constants κ_n of the costs: |Δ| ≤ √(2/π) Σ_n κ_n σ_n, and Δ ≥ 0 if the costs are convex (Jensen). The
  paper's Theorem 2 is the coarser ½ (Σ_n κ_n²) Σ_n σ_n²: its κ is the Lipschitz constant of the *whole* loss, whose
  square is Σ_n κ_n². With the constant of one observation in its place the inequality is false.
* by the range of the second derivatives: l ≤ c'' ≤ L gives ½ l σ² ≤ Δ_n ≤ ½ L σ².

For a Gaussian likelihood Δ is a constant and Π_∞ = Π*. There the distance from the *full* posterior has a bound,

    KL(Π*, full) = log p(y) − ELBO ≤ U − ELBO          (Titsias 2014; Burt, Rasmussen and van der Wilk 2019),

ELBO = log N(y; m, Q + S) − ½ t and U = −½ log|2π(Q + S)| − ½ |y − m|² in the metric (Q + (1 + t) S)⁻¹, where Q = ψψᵀ, S
is the diagonal of noise variances s_n² and t = Σ_n σ_n²/s_n² bounds the largest eigenvalue of what Q leaves out, in
units of the noise. The log determinants cancel in U − ELBO.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.special
from jaxtyping import Float

from kosambi.likelihoods import AbstractLikelihood, Gaussian


class DivergenceBounds(NamedTuple):
    """Upper bounds on KL(Π_∞, Π*); None where the likelihood has no such constant."""

    theorem: float | None
    """½ (Σ_n κ_n²) tr Σ: the paper's Theorem 2."""
    lipschitz: float | None
    """The sharper bound from the same constants."""
    curvature: float | None
    """The bound from the range of the second derivatives."""
    reason: str
    """Why there is no bound at all; empty where there is one."""

    @property
    def smallest(self) -> float | None:
        """The least of them."""
        return min((value for value in self[:3] if value is not None), default=None)


def divergence_bounds(
    likelihood: AbstractLikelihood,
    y: Float[np.ndarray, " N"],
    residual: Float[np.ndarray, " N"],
    weights: Float[np.ndarray, " N"] | None = None,
) -> DivergenceBounds:
    """Bounds on KL(Π_∞, Π*) for residual variances σ_n² (N,) and data that count `weights` (N,) times.

    >>> import numpy as np, kosambi as ko
    >>> bounds = ko.target.divergence_bounds(ko.likelihoods.Bernoulli(), np.ones(10), np.full(10, 0.01))
    >>> round(bounds.theorem, 6), round(bounds.curvature, 6)
    (0.5, 2e-05)
    """
    if isinstance(likelihood, Gaussian):
        return DivergenceBounds(None, None, 0.0, "")
    counts = np.ones(len(y)) if weights is None else np.asarray(weights)
    latents = likelihood.num_latents
    theorem = lipschitz = curvature = None
    if (slope := likelihood.lipschitz) is not None:
        theorem = 0.5 * slope**2 * float(np.sum(counts**2)) * latents * float(np.sum(residual))
        # The mean length of C standard normal numbers; √(2/π) for one.
        length = np.sqrt(2.0) * np.exp(scipy.special.gammaln((latents + 1) / 2) - scipy.special.gammaln(latents / 2))
        reach = float(slope * length * np.sum(counts * np.sqrt(residual)))
        lipschitz = _from_range(reach if likelihood.is_convex else 2.0 * reach)
    if (ends := likelihood.curvature_range(y)) is not None:
        spread = np.asarray(ends[1]) - np.asarray(ends[0])
        curvature = _from_range(0.5 * float(np.sum(counts * spread * residual)))
    reason = ""
    if theorem is None and curvature is None:
        reason = (
            f"neither the slope nor the curvature of `{type(likelihood).__name__}` has a known bound, so no bound on "
            "the divergence follows from the residual variance alone"
        )
    return DivergenceBounds(theorem, lipschitz, curvature, reason)


def _from_range(width: float) -> float:
    """min(b − a, (b − a)²/8)."""
    return min(width, width**2 / 8.0)


def gaussian_gap(
    root: Float[np.ndarray, "K M"],
    aim: Float[np.ndarray, " K"],
    rest: float,
    noise_trace: float,
    gram: Float[np.ndarray, "M M"] | None = None,
) -> float:
    """U − ELBO: an upper bound, in nats, on the divergence of a Gaussian model from the full posterior.

    With e = S^{−1/2}(y − m) and Q in the same units, eᵀ(Q + I)⁻¹e − eᵀ(Q + aI)⁻¹e = (a − 1) uᵀv for u = (Q + I)⁻¹e and
    v = (Q + aI)⁻¹e, which takes no difference of large numbers.

    Arguments:
        root: R of a QR factorisation of S^{−1/2}ψ, or that matrix itself.
        aim: Qᵀe of the same factorisation, or e itself.
        rest: |e|² − |aim|².
        noise_trace: t = Σ_n σ_n²/s_n².
        gram: RᵀR where it is known.

    >>> import numpy as np, kosambi as ko
    >>> ko.target.gaussian_gap(np.eye(1), np.ones(1), 3.0, 0.0)
    0.0
    """
    gram = root.T @ root if gram is None else gram
    projected, unit = root.T @ aim, np.eye(len(gram))

    def solved(scale: float) -> np.ndarray:
        """(Q + scale·I)⁻¹ aim, by the matrix inversion lemma."""
        inner = scipy.linalg.solve(gram + scale * unit, projected, assume_a="pos", check_finite=False)
        return (aim - root @ inner) / scale

    overlap = float(solved(1.0) @ solved(1.0 + noise_trace)) + max(rest, 0.0) / (1.0 + noise_trace)
    return 0.5 * noise_trace * (1.0 + max(overlap, 0.0))
