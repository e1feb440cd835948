r"""The potential with neighbours: near data inform what the coordinates leave open (`potential="neighbors"`).

    V(w) = ½|w|² + Σ_n −log E_ξ exp(−c(y_n, b_n + ψ̌_nᵀw + √D_n ξ))

Rows stand in an order that the data determine, and the neighbours of row n are the m nearest of those before it. Each
observation's own likelihood is exact; only its neighbours enter as Gaussian sites. b, ψ̌ and D are those of
`kosambi.target.neighborhood`. V is convex where c is.

With Gaussian noise the sites are the observations, V is quadratic, and this is the full-scale Vecchia approximation
(Gyger, Furrer and Sigrist 2025): the exact posterior where every earlier row is a neighbour. m = 0 is the marginal
("FITC") potential. With other likelihoods log ∫ exp(−V) is no normalised density of y, since the sites of a row's
neighbours have seen it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np
from jax.sharding import Mesh
from jaxtyping import Float, Int

from kosambi._core.journal import recalled
from kosambi._core.linalg import all_blas_threads, one_blas_thread
from kosambi._core.precision import at_rest
from kosambi._core.process_memory import give_back
from kosambi._core.room import USUAL, Room
from kosambi.basis import AbstractBasis
from kosambi.basis.local import LocalSystems, Rows
from kosambi.errors import InputError
from kosambi.likelihoods import AbstractLikelihood, CustomJoint, Gaussian, ShiftMixture
from kosambi.likelihoods.marginals import Site
from kosambi.target.data_terms import AbstractDataTerm
from kosambi.target.host_rounds import Data
from kosambi.target.least_squares import IN_BLOCKS, LeastSquares, least_squares
from kosambi.target.marginal_term import marginal_term
from kosambi.target.mesh_rows import MeshLeastSquares, features_on_mesh
from kosambi.target.neighborhood import (
    Conditional,
    Neighborhood,
    NeighborReport,
    conditional_of,
    earlier_rows,
    features_at_rows,
    neighborhood_scales,
    other_rows,
)
from kosambi.target.sites import Settled, settled_sites

NEIGHBORS = "neighbors"
DEFAULT = 30
"""m where none is given."""


def as_num_neighbors(name: str, value: object) -> int:
    """A checked number of neighbours, not negative."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise InputError(f"`{name}` must be a whole number, zero or more. Got {value!r}. About 30 is a good start.")
    return int(value)


def check_neighbors(basis: AbstractBasis, likelihood: AbstractLikelihood) -> None:
    """Refuse what near data cannot inform, with the reason."""
    if reason := without_neighbors(likelihood):
        raise InputError(f'potential="neighbors" {reason} Use potential="auto".')
    if not basis.is_conditional:
        raise InputError(
            'potential="neighbors" needs the conditional distribution of F given u. '
            f"`{type(basis).__name__}` follows the paper's projection, which is not it. Use `RitzBasis` or "
            "`PointBasis`."
        )


def without_neighbors(likelihood: AbstractLikelihood) -> str | None:
    """Why a likelihood cannot have neighbours; None if it can."""
    name = type(likelihood).__name__
    if isinstance(likelihood, CustomJoint):
        return f"needs a cost for each observation. `{name}` is a loss of all of them together."
    if likelihood.num_latents > 1:
        return f"is there for one latent function. `{name}` has {likelihood.num_latents}."
    if likelihood.is_even or isinstance(likelihood, ShiftMixture):
        return (
            "puts a normal distribution in the place of each neighbour's observation. "
            f"Under `{name}` f can lie in several places, of which that would keep one and erase the others."
        )
    return None


def neighbor_potential(
    basis: AbstractBasis,
    likelihood: AbstractLikelihood,
    x: Float[np.ndarray, "N D"],
    y: Float[np.ndarray, " N"],
    weights: Float[np.ndarray, " N"] | None,
    num_neighbors: int,
    num_nodes: int | None,
    room: Room = USUAL,
    mesh: Mesh | None = None,
) -> tuple[Neighborhood, AbstractDataTerm]:
    """The rows with their sites, and the data's part of the potential."""
    x, y = np.asarray(x), np.asarray(y)
    if mesh is not None and num_neighbors >= len(y):
        raise InputError(
            f"With `num_neighbors={num_neighbors}` all {len(y)} rows are neighbours of each other: one matrix of all "
            "pairs, which one device factorises. Leave out `mesh`, or take fewer neighbours."
        )
    scales = neighborhood_scales(basis, x)
    features = basis.whitened_mean if mesh is None else functools.partial(features_on_mesh, mesh, basis)
    psi, mean = features_at_rows(basis, x, num_neighbors, room, features), np.array(at_rest(basis.prior.mean_at(x)))
    counts = np.ones(len(y)) if weights is None else np.asarray(weights)
    if isinstance(likelihood, Gaussian):
        noise = np.square(np.broadcast_to(np.asarray(likelihood.row_noise), y.shape))
        found = Settled(Site(counts / noise, np.where(counts > 0, y, mean)), 0, 0)
        if num_neighbors >= len(y):
            rows = Neighborhood(x, psi, mean, *found.site, scales, num_neighbors, NeighborReport())
            return rows, _full_term(basis, rows, float(np.sum(counts * np.log(2.0 * np.pi * noise))))
    (earlier,) = recalled("earlier rows", lambda: (earlier_rows(x, y, weights, scales, num_neighbors),), scales)
    if not isinstance(likelihood, Gaussian):
        (others,) = recalled("other rows", lambda: (other_rows(x, weights, scales, num_neighbors),), scales)
        variance = np.asarray(basis.prior.variance(x))
        data = Data(x, y, counts, psi, mean, variance, earlier, others)
        if room is not USUAL:
            # What searches have left behind.
            give_back()
        with one_blas_thread():
            found = settled_sites(basis.prior, likelihood, data, room, mesh)
        del data, others
    site = Site(*map(np.asarray, found.site))
    systems = LocalSystems(basis.prior, Rows(x, psi, site.precision), x, psi, earlier, room, mesh=mesh)
    given = _Given(systems, earlier, mean, site)
    if isinstance(likelihood, Gaussian):
        term: AbstractDataTerm = _quadratic(given, y, noise, counts, mesh)
    else:
        term = _marginal(given, likelihood, y, weights, num_nodes)
    report = NeighborReport(given.num_cut, given.num_clipped, found.rounds, found.num_unsettled)
    return Neighborhood(x, psi, mean, *site, scales, num_neighbors, report), term


class _Given:
    """f at every row given w and the sites of the rows before it, a block of rows after the other."""

    def __init__(
        self, systems: LocalSystems, earlier: Int[np.ndarray, "N m"], mean: Float[np.ndarray, " N"], site: Site
    ) -> None:
        self.systems, self.earlier, self.mean, self.site = systems, earlier, mean, site
        self.num_cut = self.num_clipped = 0

    def blocks(self) -> Iterator[tuple[slice, Conditional]]:
        """Which rows, and what is known of them."""
        error = self.site.location - self.mean
        for part, local in self.systems.blocks(self.site.precision):
            self.num_cut, self.num_clipped = self.num_cut + local.num_cut, self.num_clipped + local.num_clipped
            yield part, conditional_of(local, self.earlier[part], self.mean[part], error)


def _quadratic(
    given: _Given,
    y: Float[np.ndarray, " N"],
    noise: Float[np.ndarray, " N"],
    counts: Float[np.ndarray, " N"],
    mesh: Mesh | None,
) -> AbstractDataTerm:
    """The least squares that Gaussian noise leaves; of many rows ψ̌ is never held as a whole."""
    precision = given.site.precision
    size = given.systems.num_features
    # w copies of one observation are one with variance σ²/w, and a factor.
    constant = 0.5 * float(np.sum(counts * np.log(2.0 * np.pi * noise)))
    if mesh is None and len(y) * size <= IN_BLOCKS:
        whole = [(part, found) for part, found in given.blocks()]
        psi = np.concatenate([found.psi for _, found in whole])
        offset, variance = (np.concatenate([getattr(f, name) for _, f in whole]) for name in ("offset", "variance"))
        shrunk = 1.0 + precision * variance
        return least_squares(psi, y - offset, precision / shrunk, constant + 0.5 * float(np.sum(np.log(shrunk))))
    rows = LeastSquares(size) if mesh is None else MeshLeastSquares(mesh, size)
    for part, found in given.blocks():
        shrunk = 1.0 + precision[part] * found.variance
        constant += 0.5 * float(np.sum(np.log(shrunk)))
        with all_blas_threads():
            rows.add(found.psi, y[part] - found.offset, precision[part] / shrunk)
    return rows.term(constant)


def _marginal(
    given: _Given,
    likelihood: AbstractLikelihood,
    y: Float[np.ndarray, " N"],
    weights: Float[np.ndarray, " N"] | None,
    num_nodes: int | None,
) -> AbstractDataTerm:
    psi, offset, variance = np.empty((len(y), given.systems.num_features)), np.empty(len(y)), np.empty(len(y))
    for part, found in given.blocks():
        psi[part], offset[part], variance[part] = found
    return marginal_term(likelihood, psi, y, offset, weights, np.sqrt(variance), given.site, num_nodes)


def _full_term(basis: AbstractBasis, rows: Neighborhood, constant: float) -> AbstractDataTerm:
    """−log N(t; m + Ψw, R + W⁻¹), as a function of w, where every row is a neighbour of every other.

    `constant` is Σ_n −2 log N(0; 0, 1/W_n), with copies of an observation counted.
    """
    factor = rows.all_rows(basis)
    white = factor.whitened(np.column_stack([rows.psi, np.asarray(rows.location) - np.asarray(rows.mean)]))
    constant = 0.5 * (constant + factor.log_determinant)
    return least_squares(white[:, :-1], white[:, -1], np.ones(len(white)), constant)
