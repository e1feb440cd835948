"""The bound of Gaussian sites without inducing points on an accelerator, by the formulas of `kosambi.learning.dense`.

Matrices stay on the device, in float64. What comes back is a number for each row.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
from jaxtyping import Float

from kosambi._core.precision import compiled
from kosambi._core.threads import platform
from kosambi._core.types import Array
from kosambi.learning.sites import expected_with_slopes
from kosambi.likelihoods import AbstractLikelihood

FEWEST = 256
"""Rows from which a factorisation is faster there than on the host."""
FAINT = 1e-5
"""Below this product of W_n and K_nn the difference 1 − (B⁻¹)_nn has too few digits left."""


def is_for_device(num_rows: int) -> bool:
    """Whether there is an accelerator, and enough for it to do."""
    return num_rows >= FEWEST and platform() != "cpu"


@compiled
def fit_on_device(
    likelihood: AbstractLikelihood,
    gram: Float[Array, "N N"],
    mean: Float[Array, " N"],
    y: Array,
    counts: Array,
    precision: Float[Array, "N C"],
    shift: Float[Array, "N C"],
    smallest: Float[Array, ""],
) -> tuple[tuple[Array, ...], Float[Array, "C N N"]]:
    """(bound, m, v, E c', E c'', pull, α), none of them finite where B is not positive definite, and L⁻¹.

    `smallest` is the least variance of q.
    """
    alpha, centre, variance, divergence, half = jax.vmap(
        lambda own, moved: _one(gram, mean, own, moved, smallest), in_axes=1, out_axes=(1, 1, 1, 0, 0)
    )(precision, shift)
    cost, slope, curvature = expected_with_slopes(likelihood, y, counts, centre, variance)
    pull = 0.5 * jnp.sum(jnp.square(slope + alpha) * variance)
    return (-cost - jnp.sum(divergence), centre, variance, slope, curvature, pull, alpha), half


def _one(
    gram: Array, mean: Array, precision: Array, shift: Array, smallest: Array
) -> tuple[Array, Array, Array, Array, Array]:
    """α, m, v, KL and L⁻¹ of one latent function."""
    root, unit = jnp.sqrt(precision), jnp.eye(len(mean), dtype=gram.dtype)
    factor = jnp.linalg.cholesky(root[:, None] * gram * root + unit)
    half = jsl.solve_triangular(factor, unit, lower=True)
    a = shift - precision * mean
    alpha = a - root * (half.T @ (half @ (root * (gram @ a))))
    centre = mean + gram @ alpha
    diagonal, prior = jnp.sum(jnp.square(half), axis=0), jnp.diagonal(gram)
    is_faint = precision * prior < FAINT
    loads = prior - jnp.sum(jnp.square(half @ (root[:, None] * gram)), axis=0)
    variance = jnp.where(is_faint, loads, (1.0 - diagonal) / jnp.where(is_faint, 1.0, precision))
    variance = jnp.maximum(jnp.minimum(variance, prior), smallest)
    size = 2.0 * jnp.sum(jnp.log(jnp.diagonal(factor)))
    divergence = 0.5 * (size - len(mean) + jnp.sum(diagonal) + (centre - mean) @ alpha)
    return alpha, centre, variance, divergence, half


@compiled
def gram_slope_on_device(
    gram: Float[Array, "N N"],
    half: Float[Array, "C N N"],
    alpha: Float[Array, "N C"],
    precision: Float[Array, "N C"],
    curvature: Float[Array, "N C"],
) -> Float[Array, "N N"]:
    """∂ bound/∂K."""

    def one(half: Array, alpha: Array, precision: Array, curvature: Array) -> Array:
        root = jnp.sqrt(precision)
        inverse = half.T @ half
        missed = jnp.where(curvature < 0.0, precision - curvature, 0.0)
        columns = jnp.eye(len(root), dtype=gram.dtype) - root[:, None] * (inverse @ (root[:, None] * gram))
        clipped = (columns * missed) @ columns.T
        return 0.5 * (jnp.outer(alpha, alpha) - root[:, None] * inverse * root + clipped)

    return jnp.sum(jax.vmap(one, in_axes=(0, 1, 1, 1))(half, alpha, precision, curvature), axis=0)
