r"""Particles of one posterior in the coordinates of another basis: where a sampler may begin.

u' = the coordinates of F_j(Z') − m'(Z'), with F_j = m + ψᵀw_j + residual at the inducing points Z' of the other basis.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from kosambi._core.precision import compiled, host_generator, public
from kosambi._core.types import Array, Key
from kosambi.basis import AbstractBasis
from kosambi.errors import InputError
from kosambi.posterior.posterior import Posterior
from kosambi.samplers import Particles
from kosambi.target import Target


@public
def carried(key: Key, posterior: Posterior, target: Target) -> Particles | None:
    """Particles for `target` that have the values of the functions of `posterior` at its inducing points.

    The residual is drawn from its prior, so that particles differ also where the coordinates of before say nothing.
    None without coordinates.
    """
    if posterior.target.x.shape[1] != target.x.shape[1]:
        raise InputError(
            f"`initial` is a posterior of {posterior.target.x.shape[1]} input columns, and x has {target.x.shape[1]}. "
            "Give one of the same columns."
        )
    if posterior.likelihood.num_latents != target.likelihood.num_latents:
        raise InputError(
            f"`initial` is a posterior of {posterior.likelihood.num_latents} latent functions, and this likelihood has "
            f"{target.likelihood.num_latents}. Give one of as many."
        )
    basis = target.basis
    if not basis.size:
        return None
    if posterior.basis is basis:
        return posterior.particles
    values = _values(key, posterior, np.asarray(basis.inducing_points))
    rows = values - np.asarray(basis.prior.mean_at(basis.inducing_points))
    u = np.asarray(_coordinates(basis, rows))
    latents = target.likelihood.num_latents
    if latents > 1:
        u = np.ascontiguousarray(np.moveaxis(u.reshape(-1, latents, basis.size), 1, 2))
    return Particles.from_coordinates(target, u)


def _values(key: Key, posterior: Posterior, z: Float[np.ndarray, "Z D"]) -> Float[np.ndarray, "J Z"]:
    """F_j(Z), a row for each latent function of each particle."""
    whitened, basis = np.asarray(posterior.particles.whitened), posterior.basis
    w = whitened if whitened.ndim == 2 else np.moveaxis(whitened, 2, 1).reshape(-1, whitened.shape[1])
    psi = np.asarray(basis.whitened_mean(z)) if basis.size else np.zeros((len(z), 0))
    residual = np.asarray(basis.prior.covariance(z)) - psi @ psi.T
    lengths, axes = np.linalg.eigh(residual)
    # What rounding leaves below zero has no variance.
    root = axes * np.sqrt(np.maximum(lengths, 0.0))
    noise = host_generator(key).normal(size=(len(w), len(z)))
    return np.asarray(basis.prior.mean_at(z)) + w @ psi.T + noise @ root.T


@compiled
def _coordinates(basis: AbstractBasis, values: Array) -> Array:
    return basis.from_values(values)
