r"""The evidence of any likelihood without inducing points: the bound of Gaussian sites, dense, and its gradient.

With the prior N(μ, K) at the data, sites W and λ (`kosambi.learning.sites`) make q(f) = N(m, V), and

    log p(y) ≥ −Σ_n E_q c(y_n, f_n) − ½ [log|B| − N + tr B⁻¹ + (m − μ)ᵀα],
    B = I + W^½KW^½,   α = a − W^½B⁻¹W^½Ka,   a = λ − Wμ,   m = μ + Kα,   v_n = V_nn = (1 − (B⁻¹)_nn)/W_n.

At the best sites the gradient is the explicit one,

    ∂/∂K = ½(ααᵀ − W^½B⁻¹W^½),   ∂/∂μ = α,   ∂/∂(likelihood) = −Σ_n E_q ∂c,

the same as that of Gaussian noise with precisions W. Where W_n was kept from being negative the gradient has one more
term, since q could still be better there (`_clipped`); the other sites then just miss their best, by which the gradient
is off by some percent at worst. C latent functions have the same K.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from kosambi._core.lapack import clear_above, factorise, invert_triangle, multiply_triangle
from kosambi._core.types import Array
from kosambi.learning.device_dense import FAINT, fit_on_device, gram_slope_on_device
from kosambi.learning.sites import (
    SETTLED,
    Fitted,
    Sites,
    expected,
    first_sites,
    floor,
    settle,
)
from kosambi.likelihoods import AbstractLikelihood


class Factors(NamedTuple):
    """What the gradient needs of q."""

    alpha: Float[np.ndarray, "N C"]
    roots: Any
    """L⁻¹ with B = LLᵀ, of each latent function, zero above the diagonal; (C, N, N) on an accelerator."""


def settled(
    likelihood: AbstractLikelihood,
    gram: Float[Array, "N N"],
    mean: Float[np.ndarray, " N"],
    y: Float[Array, " N"],
    counts: Float[Array, " N"],
    start: Sites | None = None,
    tolerance: float = SETTLED,
) -> tuple[Fitted, bool]:
    """The best sites for a prior N(mean, gram) at the data, from `start`, and whether they have settled.

    Where `gram` is on an accelerator, so are all matrices.
    """
    variance = np.asarray(gram.diagonal())
    below = np.array(gram, order="F") if isinstance(gram, np.ndarray) else None
    if below is not None:
        clear_above(below)

    def first() -> Sites:
        return first_sites(likelihood, y, counts, mean, variance)

    def fit(sites: Sites) -> Fitted:
        if below is not None:
            return _fitted(likelihood, gram, below, mean, y, counts, sites)
        return _fitted_on_device(likelihood, gram, mean, y, counts, sites, np.asarray(floor(variance)))

    return settle(fit, first, start, tolerance)


def _fitted_on_device(
    likelihood: AbstractLikelihood,
    gram: Array,
    mean: np.ndarray,
    y: Array,
    counts: Array,
    sites: Sites,
    smallest: Float[np.ndarray, ""],
) -> Fitted:
    parts, half = fit_on_device(likelihood, gram, mean, y, counts, *sites, smallest)
    bound, centre, variance, slope, curvature, pull, alpha = map(np.asarray, parts)
    is_known = all(np.all(np.isfinite(part)) for part in (bound, centre, variance, slope, curvature))
    value = float(bound) if is_known else -np.inf
    return Fitted(sites, value, centre, variance, slope, curvature, float(pull), Factors(alpha, half))


def _fitted(
    likelihood: AbstractLikelihood,
    gram: np.ndarray,
    below: np.ndarray,
    mean: np.ndarray,
    y: Array,
    counts: Array,
    sites: Sites,
) -> Fitted:
    """q and the bound; `below` is K with zeros above the diagonal, as all matrices are that come of it."""
    from scipy.linalg import blas

    size, number = sites.precision.shape
    alpha, centre, variance = (np.empty((size, number)) for _ in range(3))
    roots, divergence = [], 0.0
    for c in range(number):
        root = np.sqrt(sites.precision[:, c])
        half = below * root
        half *= root[:, None]
        half[np.diag_indices_from(half)] += 1.0
        if not factorise(half):
            return Fitted(sites, -np.inf, centre, variance, alpha, alpha, np.inf, None)
        log_determinant = 2.0 * float(np.sum(np.log(np.diagonal(half))))
        invert_triangle(half)
        a = sites.shift[:, c] - sites.precision[:, c] * mean
        turned = blas.dtrmv(half, root * (gram @ a), lower=1)
        alpha[:, c] = a - root * blas.dtrmv(half, turned, lower=1, trans=1)
        centre[:, c] = mean + gram @ alpha[:, c]
        diagonal = np.einsum("kn,kn->n", half, half)
        variance[:, c] = _variances(gram, root, half, diagonal)
        kept = size - float(np.sum(diagonal))
        divergence += 0.5 * (log_determinant - kept + float((centre[:, c] - mean) @ alpha[:, c]))
        roots.append(half)
    cost, slope, curvature = (np.asarray(part) for part in expected(likelihood, y, counts, centre, variance))
    bound = -float(cost) - divergence
    if not np.all(np.isfinite(slope)) or not np.all(np.isfinite(curvature)):
        bound = -np.inf
    pull = 0.5 * float(np.sum(np.square(slope + alpha) * variance))
    return Fitted(sites, bound, centre, variance, slope, curvature, pull, Factors(alpha, roots))


def _variances(gram: np.ndarray, root: np.ndarray, half: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
    """The diagonal of V, from that of B⁻¹."""
    from scipy.linalg import blas

    prior = np.diagonal(gram)
    faint = np.flatnonzero(np.square(root) * prior < FAINT)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = (1.0 - diagonal) / np.square(root)
    if len(faint):
        loads = blas.dtrmm(1.0, half, np.array(root[:, None] * gram[:, faint], order="F"), lower=1)
        variance[faint] = prior[faint] - np.einsum("nk,nk->k", loads, loads)
    return np.maximum(np.minimum(variance, prior), floor(prior))


def gram_slope(gram: Array, fitted: Fitted) -> Float[Array, "N N"]:
    """∂ bound/∂K; from the host with what lies on one side of the diagonal counted twice and nothing on the other.

    What `fitted` has of L⁻¹ is used up.
    """
    from scipy.linalg import blas

    if not isinstance(gram, np.ndarray):
        return gram_slope_on_device(
            gram, fitted.factors.roots, fitted.factors.alpha, fitted.sites.precision, fitted.curvature
        )
    total = np.zeros_like(gram, order="F")
    for c, half in enumerate(fitted.factors.roots):
        root = np.sqrt(fitted.sites.precision[:, c])
        clipped = np.flatnonzero(fitted.curvature[:, c] < 0.0)
        if len(clipped):
            missed = 0.5 * (fitted.sites.precision[clipped, c] - fitted.curvature[clipped, c])
            total += np.tril(2.0 * _clipped(gram, root, half, clipped, missed))
        multiply_triangle(half)
        half *= root
        half *= root[:, None]
        total -= half
        blas.dsyr(1.0, fitted.factors.alpha[:, c], lower=1, a=total, overwrite_a=1)
    total[np.diag_indices_from(total)] *= 0.5
    # In JAX's order.
    return total.T


def _clipped(
    gram: np.ndarray, root: np.ndarray, half: np.ndarray, rows: np.ndarray, missed: np.ndarray
) -> Float[np.ndarray, "N N"]:
    """Σ_n missed_n H_nH_nᵀ, H_n the n-th column of K⁻¹V: what v_n adds where the bound still rises with it."""
    from scipy.linalg import blas

    loads = blas.dtrmm(1.0, half, np.array(root[:, None] * gram[:, rows], order="F"), lower=1)
    columns = -root[:, None] * blas.dtrmm(1.0, half, loads, lower=1, trans_a=1)
    columns[rows, np.arange(len(rows))] += 1.0
    return (columns * missed) @ columns.T
