"""Where chains begin: superchains that share a start, spread wider than the posterior."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from kosambi._types import Array, Key
from kosambi.laplace import Modes
from kosambi.precision import host_generator
from kosambi.samplers._base import check_initial_shape
from kosambi.target import Target

NUM_SUPERCHAINS = 8
MIN_CHAINS = 64
"""Fewer particles than this are padded: their convergence could not be judged."""
WIDENING = 1.5
"""Starts are drawn from the Laplace law with its deviations multiplied by this."""


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
    starts = noise if initial == "prior" else _around_modes(modes, noise)
    return Start(np.tile(starts, (per_superchain, 1)), np.arange(num_particles))


def _around_modes(modes: Modes, noise: Float[Array, "G K"]) -> Float[Array, "G K"]:
    """As many starts at each mode as its share in the Laplace masses asks for."""
    edges = np.cumsum(modes.weights)
    which = np.searchsorted(edges, (np.arange(len(noise)) + 0.5) / len(noise) * edges[-1])
    which = np.minimum(which, len(edges) - 1)
    return modes.positions[which] + WIDENING * np.einsum("gij,gj->gi", modes.roots[which], noise)


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
