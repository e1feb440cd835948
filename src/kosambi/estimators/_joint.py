"""Covariances of f between new inputs."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from kosambi._types import Array
from kosambi.basis import AbstractBasis
from kosambi.posterior import Posterior
from kosambi.precision import compiled


def latent_covariance(posterior: Posterior, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N N"]:
    """Cov(f(x_i), f(x_j) | data) = r − ψψᵀ + ψ Cov(w) ψᵀ, for a basis whose weights are conditional means.

    Cov(w) is that of the normal law of the draws where it is known, and of the draws themselves otherwise.
    """
    law = posterior.particles.law
    if law is not None:
        root = np.asarray(law.root)
    else:
        w = np.asarray(posterior.particles.whitened)
        root = (w - w.mean(axis=0)).T / np.sqrt(len(w))
    return np.array(_covariance(posterior.basis, root, x))


@compiled
def _covariance(basis: AbstractBasis, root: Array, x: Array) -> Array:
    psi = basis.whitened_weights(x)
    spread = psi @ root
    return basis.prior.pairwise(x, x) - psi @ psi.T + spread @ spread.T
