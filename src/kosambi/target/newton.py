r"""Newton's search for a mode: the minimum of V(w) = D(w) + ½|w|², with D the data's part of a potential.

    w ← w − α H⁻¹∇V(w),   α = 1, ½, ¼, … until V falls by a part of what the step promises

H is the Hessian where that is safely positive, and a positive curvature (Fisher or clipped) elsewhere, so that each
direction goes down. `newton` is compiled with the loop that calls it; `kosambi.target.host_newton` is the same search
with LAPACK, where compiling would take longer than searching.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from jaxtyping import Float, Int

from kosambi._core.types import Array
from kosambi.basis.points import SMALLEST_RESIDUAL, Features
from kosambi.likelihoods import AbstractLikelihood
from kosambi.target.data_terms import AbstractDataTerm

MAX_ITERATIONS = 100
"""Newton iterations from one start."""
TOLERANCE = 1e-10
"""The search ends when a Newton step promises to lower V by less than this."""
FLATTEST = 0.05
"""The Hessian of a cost that is not convex is used while it is above this part of the positive curvature."""
SHARES = (0.0, 0.1)
"""Shares of the positive curvature that are mixed into it, the first that makes it so. Where the Hessian is flat in
some direction, a mode with outliers that are nearly free, the positive curvature alone would take hundreds of steps."""


def starting_mode(likelihood: AbstractLikelihood, features: Features, y: Float[Array, " N"]) -> Float[Array, " K"]:
    """Whitened coordinates of a smooth function through rough latent values, by ridge regression; traceable."""
    rough = likelihood.raw_rough_latent(y)
    error = rough - (features.offset if rough.ndim == 1 else features.offset[:, None])
    # As much noise as there is variation: what matters is the sign and the size of the function.
    scale = jnp.mean(jnp.square(error)) + SMALLEST_RESIDUAL
    size = features.psi.shape[1]
    normal = features.psi.T @ features.psi / scale + jnp.eye(size, dtype=features.psi.dtype)
    return jsl.cho_solve(jsl.cho_factor(normal, lower=True), features.psi.T @ error / scale).reshape(-1)


class Search(NamedTuple):
    """A point, what is known there, and the step being tried from it."""

    w: Float[Array, " K"]
    value: Float[Array, ""]
    factor: Float[Array, "K K"]
    """The Cholesky factor of H."""
    direction: Float[Array, " K"]
    decrement: Float[Array, ""]
    length: Float[Array, ""]
    iterations: Int[Array, ""]


def newton(term: AbstractDataTerm, shape: tuple[int, ...], is_convex: bool, start: Float[Array, " K"]) -> Search:
    """Where the search for a minimum of D(w) + ½|w|² from one start ends; w has `shape`. Traceable."""

    # One place evaluates V and one the curvature, whether a step is the first, taken or halved: compile time is part
    # of the wait.
    def going_on(search: Search) -> Array:
        return (search.iterations <= MAX_ITERATIONS) & (search.decrement > TOLERANCE) & (search.length > 1e-10)

    def advance(search: Search) -> Search:
        trial = search.w + search.length * search.direction
        values, slopes = term.value_and_gradient(trial.reshape(1, *shape))
        value, slope = values[0] + 0.5 * jnp.sum(jnp.square(trial)), trial + slopes.reshape(trial.shape)

        def take(_: None) -> Search:
            factor = curvature_factor(term, shape, is_convex, trial)
            direction = -jsl.cho_solve((factor, True), slope)
            decrement = -0.5 * jnp.dot(slope, direction)
            return Search(trial, value, factor, direction, decrement, jnp.ones_like(value), search.iterations + 1)

        def halve(_: None) -> Search:
            return search._replace(length=0.5 * search.length)

        enough = value <= search.value - 2e-4 * search.length * search.decrement
        return jax.lax.cond(enough, take, halve, None)

    zero, infinite = jnp.zeros_like(start), jnp.asarray(jnp.inf, dtype=start.dtype)
    identity = jnp.eye(start.shape[0], dtype=start.dtype)
    one = jnp.ones((), dtype=start.dtype)
    # Any finite value is below infinity, so the start itself is the first step taken.
    first = Search(start, infinite, identity, zero, one, one, jnp.asarray(0))
    return jax.lax.while_loop(going_on, advance, first)


def curvature_factor(
    term: AbstractDataTerm, shape: tuple[int, ...], is_convex: bool, w: Float[Array, " K"]
) -> Float[Array, "K K"]:
    """The Cholesky factor of the curvature at w; of the Hessian, unless that is too flat, where the two differ.

    For a Student-t cost the Fisher information takes outliers for ordinary data; the Hessian knows better.
    """
    identity = jnp.eye(w.shape[0], dtype=w.dtype)
    if is_convex:
        return jnp.linalg.cholesky(term.curvature(w.reshape(shape)) + identity)
    curvature = term.search_curvature(w.reshape(shape)) + identity
    hessian = term.hessian(w.reshape(shape)) + identity
    chosen = curvature
    for share in reversed(SHARES):
        mixed = hessian + share * (curvature - hessian)
        steep = jnp.linalg.cholesky(mixed - FLATTEST * curvature)
        chosen = jnp.where(jnp.all(jnp.isfinite(steep)), mixed, chosen)
    return jnp.linalg.cholesky(chosen)


def host_factor(psi: Float[np.ndarray, "N M"], curvature: Float[np.ndarray, " N"]) -> Float[np.ndarray, "M M"]:
    """The lower Cholesky factor of I + ψᵀ diag(curvature) ψ."""
    import scipy.linalg

    scaled = psi * np.sqrt(curvature)[:, None]
    return scipy.linalg.cholesky(scaled.T @ scaled + np.eye(psi.shape[1]), lower=True, check_finite=False)
