r"""The law of f at new inputs, given the particles: a mixture of normal laws with one deviation an input.

Given the coordinates, f(x) ~ N(m(x) + ψ(x)ᵀw, σ²(x)) with the residual variance σ² of the basis. Over J particles that
is a mixture of J components; when the law of w is known, N(μ, RRᵀ), it is the one normal law with mean m + ψᵀμ and
variance σ² + |Rᵀψ|².
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._types import Array
from kosambi.basis import AbstractBasis
from kosambi.blocks import host_blocks
from kosambi.draws import evaluate_mean
from kosambi.precision import compiled, lift
from kosambi.samplers import Particles
from kosambi.target import Target

# Numbers of one block of inputs, which are handled one after the other.
_VALUES_AT_ONCE = 2**22


class Latent(NamedTuple):
    """K components at N inputs, all with weight 1/K."""

    means: Float[Array, "K N *C"]
    deviation: Float[Array, " N"]
    prior_variance: Float[Array, " N"]


def latent_law(target: Target, particles: Particles, x: Float[Array, "N D"]) -> Latent:
    """The components at the rows of `x`, in blocks of rows."""
    law, basis = particles.law, target.basis
    w = np.asarray(particles.whitened) if law is None else np.asarray(law.mean)[None]
    latents = target.likelihood.num_latents
    rows = w if w.ndim == 2 else np.moveaxis(w, 2, 1).reshape(-1, w.shape[1])
    num_rows, size = x.shape[0], rows.shape[0]
    means, deviation, prior = np.empty((size, num_rows)), np.empty(num_rows), np.empty(num_rows)
    arguments = lift((basis, rows, None if law is None else law.root))
    for part in host_blocks(num_rows, _VALUES_AT_ONCE // max(size, basis.size)):
        means[:, part], deviation[part], prior[part] = _block(*arguments, x[part])
    means += np.asarray(evaluate_mean(basis.prior.mean, x)) if num_rows else 0.0
    if latents > 1:
        means = np.ascontiguousarray(np.moveaxis(means.reshape(size // latents, latents, num_rows), 1, 2))
    return Latent(means, deviation, prior)


@compiled
def _block(basis: AbstractBasis, w: Array, root: Array | None, x: Array) -> tuple[Array, Array, Array]:
    psi = basis.whitened_weights(x)
    variance = jnp.maximum(basis.residual(x), 0.0)
    if root is not None:
        variance = variance + jnp.sum(jnp.square(psi @ root), axis=1)
    return w @ psi.T, jnp.sqrt(variance), basis.prior.pointwise(x)
