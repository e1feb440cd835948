"""Where chains begin: around the modes, in the prior, at given points, or at the particles of a similar target.

Chain j belongs to superchain j mod 8. Chains of a superchain share their start, or begin near to each other, so that
nested R̂ sees a start that has not been forgotten.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from kosambi._core.linalg import is_for_host
from kosambi._core.precision import compiled, host_generator
from kosambi._core.types import Array, Key
from kosambi.samplers.base import check_initial_shape
from kosambi.samplers.report import Particles
from kosambi.target import Target
from kosambi.target.data_terms import FactorisedTerm
from kosambi.target.host_newton import HostPotential
from kosambi.target.marginal_term import MarginalTerm
from kosambi.target.modes import Modes

NUM_SUPERCHAINS = 8
MIN_CHAINS = 64
"""Fewer particles than this are padded: their convergence could not be judged."""
WIDENING = 1.5
"""Starts are drawn from the Laplace approximation with its standard deviations multiplied by this."""
# How often a start that is too far out is drawn in, and to which part of its distance.
_DRAWINGS_IN, _FACTOR = 40, 0.7
SMALLEST_SHARE = 1e-3
"""A mode with a larger share of the Laplace masses has a superchain of its own."""


class Start(NamedTuple):
    """Whitened starting points of all chains, chain j in superchain j mod 8, and which of them the user gets."""

    w: Float[Array, "J K"]
    returned: Int[Array, " P"]


def starting_points(
    key: Key, target: Target, modes: Modes, initial: str | Array | Particles, num_particles: int
) -> Start:
    """Starts for `num_particles` and some more, so that superchains are of equal size."""
    per_superchain = max(math.ceil(num_particles / NUM_SUPERCHAINS), MIN_CHAINS // NUM_SUPERCHAINS)
    num_chains = per_superchain * NUM_SUPERCHAINS
    if isinstance(initial, Particles):
        return _arranged(_warm(target, modes, initial, num_particles), num_chains)
    if not isinstance(initial, str):
        check_initial_shape(initial, num_particles, target.shape)
        return _arranged(np.asarray(target.whiten(initial)).reshape(num_particles, -1), num_chains)
    size = int(np.prod(target.shape))
    noise = host_generator(key).normal(size=(NUM_SUPERCHAINS, size))
    if initial == "prior":
        starts = noise
    else:
        which = _share_out(modes.weights)
        spread = WIDENING * np.einsum("gij,gj->gi", modes.roots[which], noise)
        starts = _pulled_in(target, modes.positions[which], spread, modes.potentials[which])
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


def _pulled_in(
    target: Target, centres: Float[Array, "G K"], spread: Float[Array, "G K"], lowest: Float[Array, " G"]
) -> Float[np.ndarray, "G K"]:
    """Starts around their modes, each drawn in until its potential is one that a widened normal draw would have.

    A cost such as e^f can be astronomical 1.5 standard deviations out, and no step leads back from there.
    """
    size = centres.shape[1]
    limit = lowest + 0.5 * WIDENING**2 * size + 6.0 * size**0.5 + 5.0
    potential = whitened_potentials(target)
    scale, high = np.ones(len(centres)), np.ones(len(centres), dtype=bool)
    for _ in range(_DRAWINGS_IN):
        high[high] = ~(potential(centres[high] + scale[high, None] * spread[high]) <= limit[high])
        if not high.any():
            break
        scale[high] *= _FACTOR
    return centres + scale[:, None] * spread


def whitened_potentials(target: Target) -> Callable[[np.ndarray], np.ndarray]:
    """V of several whitened coordinates; for a sum over rows by the program that the search for the mode has used."""
    if not isinstance(target.term, FactorisedTerm | MarginalTerm) or not is_for_host(target.term.psi.size):
        return lambda w: np.asarray(_whitened_potential(target, w.reshape(-1, *target.shape)))
    potential = HostPotential(target.term)
    return lambda w: np.array([potential.value(each) for each in w])


@compiled
def _whitened_potential(target: Target, w: Array) -> Array:
    return target.whitened_potential(w)


def _warm(target: Target, modes: Modes, found: Particles, num_particles: int) -> Float[np.ndarray, "J K"]:
    """Particles of a similar target, drawn in towards the nearest mode of this one where it makes them impossible."""
    w = np.asarray(found.whitened)[evenly(found.num_particles, num_particles)].reshape(num_particles, -1)
    positions = np.asarray(modes.positions)
    which = np.argmin(np.sum(np.square(w[:, None] - positions), axis=2), axis=1)
    return _pulled_in(target, positions[which], w - positions[which], np.asarray(modes.potentials)[which])


def evenly(number: int, wanted: int) -> Int[np.ndarray, " J"]:
    """Numbers of `wanted` particles among `number`, spread evenly; all of them again and again where there are fewer.

    >>> evenly(5, 3), evenly(2, 3)
    (array([0, 2, 4]), array([0, 1, 0]))
    """
    return np.arange(wanted) % number if wanted > number else np.linspace(0, number - 1, wanted).round().astype(int)


def _arranged(w: Float[np.ndarray, "J K"], num_chains: int) -> Start:
    """Given points, sorted along their longest axis, so that a superchain holds neighbours."""
    padded = w[np.arange(num_chains) % len(w)]
    centred = padded - padded.mean(axis=0)
    axis = np.linalg.svd(centred, full_matrices=False)[2][0]
    order = np.argsort(centred @ axis, kind="stable").reshape(NUM_SUPERCHAINS, -1).T.ravel()
    place = np.empty(num_chains, dtype=int)
    place[order] = np.arange(num_chains)
    return Start(padded[order], place[: len(w)])
