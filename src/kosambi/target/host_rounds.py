"""What the sites of all rows say about each, computed on the host a block of rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from jax.sharding import Mesh
from jaxtyping import Float, Int

from kosambi._core.linalg import all_blas_threads
from kosambi._core.room import Room
from kosambi.basis.local import LocalSystems, Rows
from kosambi.likelihoods.marginals import Site
from kosambi.priors import AbstractPrior
from kosambi.target.neighborhood import Conditional, conditional_of

Marginals = Callable[[Site], tuple[np.ndarray, np.ndarray]]
"""Mean and variance of q at every row as a function of the sites."""


class Data(NamedTuple):
    """What the search needs to know of the rows."""

    x: Float[np.ndarray, "N D"]
    y: Float[np.ndarray, " N"]
    weights: Float[np.ndarray, " N"]
    psi: Float[np.ndarray, "N M"]
    mean: Float[np.ndarray, " N"]
    variance: Float[np.ndarray, " N"]
    """The prior's."""
    earlier: Int[np.ndarray, "N m"]
    others: Int[np.ndarray, "N m"]


def marginals_on_host(prior: AbstractPrior, data: Data, room: Room, mesh: Mesh | None = None) -> Marginals:
    """q of all rows, from systems that are kept as far as there is room; without coordinates from the others alone.

    The covariances of the systems are computed by the devices of a `mesh`, if there is one.
    """
    rows, size = Rows(data.x, data.psi, data.weights), data.psi.shape[1]
    room = room.now()
    own = room._replace(kept=room.kept // 2 if size else room.kept)
    others = LocalSystems(prior, rows, data.x, data.psi, data.others, own, keep=True, mesh=mesh)
    earlier = LocalSystems(prior, rows, data.x, data.psi, data.earlier, own, keep=True, mesh=mesh) if size else None

    def marginals(site: Site) -> tuple[np.ndarray, np.ndarray]:
        mode, factor = (np.zeros(0), np.zeros((0, 0))) if earlier is None else _coordinates(earlier, data, site)
        mean, variance = np.empty(len(data.y)), np.empty(len(data.y))
        for part, near in _conditionals(others, data, site, data.others):
            with all_blas_threads():
                spread, given = _spread(near.psi, factor), near.offset + near.psi @ mode
            precision, location = site.precision[part], site.location[part]
            gain = near.variance * precision / (1.0 + near.variance * precision)
            mean[part] = given + gain * (location - given)
            variance[part] = (1.0 - gain) * near.variance + np.square(1.0 - gain) * spread
        return mean, variance

    return marginals


def _conditionals(
    systems: LocalSystems, data: Data, site: Site, index: np.ndarray
) -> Iterator[tuple[slice, Conditional]]:
    """f given w and the sites of neighbours, at some rows after the others."""
    error = np.asarray(site.location) - data.mean
    for part, found in systems.blocks(np.asarray(site.precision)):
        yield part, conditional_of(found, index[part], data.mean[part], error)


def _coordinates(systems: LocalSystems, data: Data, site: Site) -> tuple[np.ndarray, np.ndarray]:
    """ŵ and the lower Cholesky factor of H = I + Σ_n strength_n ψ̌_nψ̌_nᵀ."""
    from scipy.linalg import cho_solve, cholesky  # here, because it doubles what `import kosambi` adds to `import jax`

    size = data.psi.shape[1]
    curvature, aim = np.eye(size), np.zeros(size)
    for part, before in _conditionals(systems, data, site, data.earlier):
        strength = site.precision[part] / (1.0 + site.precision[part] * before.variance)
        scaled = before.psi * np.sqrt(strength)[:, None]
        with all_blas_threads():
            curvature += scaled.T @ scaled
            aim += scaled.T @ (np.sqrt(strength) * (site.location[part] - before.offset))
    factor = cholesky(curvature, lower=True, check_finite=False)
    return cho_solve((factor, True), aim, check_finite=False), factor


def _spread(psi: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """ψᵀH⁻¹ψ of every row."""
    if not len(factor):
        return np.zeros(len(psi))
    from scipy.linalg import solve_triangular

    return np.sum(np.square(solve_triangular(factor, psi.T, lower=True, check_finite=False)), axis=0)
