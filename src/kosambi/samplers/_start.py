"""Where chains begin: superchains that share a start, spread wider than the posterior."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from kosambi._types import Array, Key
from kosambi.laplace import Modes
from kosambi.precision import compiled, host_generator
from kosambi.samplers._base import check_initial_shape
from kosambi.target import Target

NUM_SUPERCHAINS = 8
MIN_CHAINS = 64
"""Fewer particles than this are padded: their convergence could not be judged."""
WIDENING = 1.5
"""Starts are drawn from the Laplace law with its deviations multiplied by this."""
SMALLEST_SHARE = 1e-3
"""A mode with a larger share of the Laplace masses has a superchain of its own."""


class Start(NamedTuple):
    """Whitened starting points of all chains, chain j in superchain j mod 8, and which of them the user gets."""

    w: Float[Array, "J K"]
    returned: Int[Array, " P"]


def starting_points(key: Key, target: Target, modes: Modes, initial: str | Array, num_particles: int) -> Start:
    """Starts for `num_particles` and some more, so that superchains are of equal size."""
    per_superchain = max(math.ceil(num_particles / NUM_SUPERCHAINS), MIN_CHAINS // NUM_SUPERCHAINS)
    num_chains = per_superchain * NUM_SUPERCHAINS
    if not isinstance(initial, str):
        return _given(target, initial, num_particles, num_chains)
    size = int(np.prod(target.shape))
    noise = host_generator(key).normal(size=(NUM_SUPERCHAINS, size))
    if initial == "prior":
        starts = noise
    else:
        which = _share_out(modes.weights)
        spread = WIDENING * np.einsum("gij,gj->gi", modes.roots[which], noise)
        starts = np.asarray(_pulled_in(target, modes.positions[which], spread, modes.potentials[which]))
    return Start(np.tile(starts, (per_superchain, 1)), np.arange(num_particles))


def _share_out(weights: Float[Array, " B"]) -> Int[Array, " G"]:
    """The mode of each superchain: as many as its Laplace mass asks for, and one at least where it is not tiny.

    A mode without a start might never be seen. With one, either the particles pass between modes, or R̂ shows it.
    """
    edges = np.cumsum(weights)
    which = np.searchsorted(edges, (np.arange(NUM_SUPERCHAINS) + 0.5) / NUM_SUPERCHAINS * edges[-1])
    which = np.minimum(which, len(edges) - 1)
    missing = [m for m in range(len(weights)) if weights[m] > SMALLEST_SHARE and m not in which]
    for place, mode in zip(reversed(range(NUM_SUPERCHAINS)), missing, strict=False):
        which[place] = mode
    return which


@compiled
def _pulled_in(
    target: Target, centres: Float[Array, "G K"], spread: Float[Array, "G K"], lowest: Float[Array, " G"]
) -> Float[Array, "G K"]:
    """Starts around their modes, each drawn in until its potential is one that a widened normal law would give.

    A cost such as e^f can be astronomical 1.5 deviations out, and no step leads back from there.
    """
    size = centres.shape[1]
    limit = lowest + 0.5 * WIDENING**2 * size + 6.0 * size**0.5 + 5.0

    def too_high(scale: Float[Array, " G"]) -> Array:
        w = centres + scale[:, None] * spread
        return ~(target.whitened_potential(w.reshape(-1, *target.shape)) <= limit)

    def draw_in(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        scale, high, count = carry
        scale = jnp.where(high, 0.7 * scale, scale)
        return scale, too_high(scale), count + 1

    # The first round multiplies this by 0.7 and looks at the widened law itself.
    scale = jnp.full(centres.shape[0], 1.0 / 0.7, dtype=centres.dtype)
    everything = jnp.ones(centres.shape[0], dtype=bool)
    scale, _, _ = jax.lax.while_loop(
        lambda carry: jnp.any(carry[1]) & (carry[2] < 40), draw_in, (scale, everything, jnp.asarray(0))
    )
    return centres + scale[:, None] * spread


def _given(target: Target, initial: Array, num_particles: int, num_chains: int) -> Start:
    """The user's points, sorted along their longest axis, so that a superchain holds neighbours."""
    check_initial_shape(initial, num_particles, target.shape)
    w = np.asarray(target.whiten(initial)).reshape(num_particles, -1)
    padded = w[np.arange(num_chains) % num_particles]
    centred = padded - padded.mean(axis=0)
    axis = np.linalg.svd(centred, full_matrices=False)[2][0]
    order = np.argsort(centred @ axis, kind="stable").reshape(NUM_SUPERCHAINS, -1).T.ravel()
    place = np.empty(num_chains, dtype=int)
    place[order] = np.arange(num_chains)
    return Start(padded[order], place[:num_particles])
