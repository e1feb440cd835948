r"""Tables of what Laplace's approximation leaves of each row's cost, so that a step does not integrate anything.

The cost of a row is a function of one number, the change δ of its latent value. With

    r(δ) = c(f̂ + δ) − c(f̂) − c'(f̂) δ − ½ h δ² ≈ Σ_k a_k T_k(δ/Δ),   |δ| ≤ Δ,

the polynomial of Chebyshev that agrees with it at as many nodes as it has coefficients, a step takes a few
multiplications for each row and particle where c is an integral over f with dozens of nodes. Beyond Δ, where next to no
particle comes, r goes on along a straight line. How far V is from its definition is looked at before a table is relied
on, at draws of Laplace's approximation, and once more at the particles that come out.

A loop with tables knows nothing of the likelihood, so that what is compiled for it serves all of them.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.types import Array
from kosambi.target.host_newton import HostPotential, RowCosts

DEGREES = (12, 24, 48)
"""Of polynomials, tried one after the other; the first alone where a cost is no integral, which is as fast itself."""
REACH = 7.0
"""Δ in standard deviations of δ under Laplace's approximation, around every mode that is known."""


class RowTable(NamedTuple):
    """r of every row, (blocks, rows of a block)."""

    psi: Float[Array, "B R L"]
    """ψ_nᵀA, in the precision of the products."""
    width: Float[Array, "B R"]
    """Δ."""
    coefficients: Float[Array, "B K R"]
    """a."""


def interpolated(
    width: Float[Array, " R"], coefficients: Float[Array, "K R"], change: Float[Array, "J R"]
) -> tuple[Float[Array, "J R"], Float[Array, "J R"]]:
    """r(δ) and its derivative by Clenshaw's recurrence; traceable."""
    t = jnp.clip(change / width, -1.0, 1.0)
    twice = 2.0 * t
    # b of the polynomial and d, its derivative in t, two terms back each.
    b, b_before = jnp.broadcast_to(coefficients[-1], t.shape), jnp.zeros_like(t)
    d, d_before = jnp.zeros_like(t), jnp.zeros_like(t)
    for a in coefficients[-2:0:-1]:
        d, d_before = 2.0 * b + twice * d - d_before, d
        b, b_before = a + twice * b - b_before, b
    value, slope = coefficients[0] + t * b - b_before, (b + t * d - d_before) / width
    return value + slope * (change - t * width), slope


def widths(
    psi: Float[np.ndarray, "N L"], features: Float[np.ndarray, "N M"], modes: Float[np.ndarray, "B M"]
) -> Float[np.ndarray, " N"]:
    """Δ of every row, from ψA, and from ψ where there are several modes."""
    own = REACH * np.sqrt(np.einsum("nl,nl->n", psi, psi, dtype=np.float64))
    for other in modes[1:]:
        own = np.maximum(own, own + np.abs(features @ (other - modes[0])))
    # A row that no coordinate moves has a table all the same.
    return np.maximum(own, 1e-150)


def tabulated(
    potential: HostPotential,
    centre: Float[np.ndarray, " N"],
    at_mode: RowCosts,
    curvature: Float[np.ndarray, " N"],
    width: Float[np.ndarray, " N"],
    degree: int,
) -> Float[np.ndarray, "K N"]:
    """The coefficients a of every row; not finite where a cost is not."""
    angles = np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1)
    values = []
    for t in np.cos(angles):
        change = t * width
        quadratic = change * (at_mode.slope + 0.5 * curvature * change)
        values.append(potential.costs(centre + change).cost - at_mode.cost - quadratic)
    transform = 2.0 / (degree + 1) * np.cos(np.multiply.outer(np.arange(degree + 1), angles))
    transform[0] *= 0.5
    return transform @ np.stack(values)
