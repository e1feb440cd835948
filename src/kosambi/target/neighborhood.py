r"""The data as neighbours of an input: what near rows say about the part of f that the coordinates do not explain.

    f(x) = m(x) + ψ(x)ᵀw + g(x),   g ~ GP(0, R),   R = r − ψᵀψ,   w ~ N(0, I)

Row n has a Gaussian site N(t_n; f_n, 1/W_n): the observation itself for Gaussian noise, and something near its
likelihood otherwise (`kosambi.target.sites`). Given w and the sites of the rows 𝒩 near x,

    f(x) ~ N(b + ψ̌ᵀw, D),   b = m(x) + B(t − m)_𝒩,   ψ̌ = ψ(x) − Ψ_𝒩ᵀBᵀ

with B and D of `kosambi.basis.local`. Near is measured in lengthscales. The farthest neighbours of a new input count
less and less, so that nothing jumps where others take their places. With m ≥ N all rows are neighbours of every input,
and one factorisation of all of them serves every input (`kosambi.basis.all_rows`).
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from kosambi._core.linalg import host_blocks
from kosambi._core.long_tables import row_blocks
from kosambi._core.precision import Module
from kosambi._core.room import USUAL, Room
from kosambi._core.types import Array
from kosambi.basis import AbstractBasis
from kosambi.basis.all_rows import AllRows, largest_process
from kosambi.basis.local import Local, Rows, local_conditionals
from kosambi.basis.neighbors import Nearest, nearest_before, row_order
from kosambi.kernels import column_scales

# The outermost part of a neighbourhood, by volume, in which rows count less and less.
_TAPERED = 0.2
# A site of so small a precision, in units of the prior variance, says nothing: differences would have no digits left.
_NOTHING = 1e-8
SINGLE_ABOVE = 2**27
"""Numbers of ψ at the data above which they are stored in single precision: a gigabyte in double."""
# Numbers of the features that are made at once.
_FEATURES_AT_ONCE = 2**22
# Inputs whose distances to their neighbours are found at once.
_SHARES_AT_ONCE = 2**11


class NeighborReport(NamedTuple):
    """What became of the neighbours of the data."""

    num_cut: int = 0
    """Rows whose neighbours were left out, because the coordinates explain all of f there."""
    num_clipped: int = 0
    """Rows whose conditional variance came out below zero by more than rounding, and was set to zero."""
    rounds: int = 0
    """Updates of the sites; none for Gaussian noise."""
    num_unsettled: int = 0
    """Rows whose site was still moving after the last update."""

    def __str__(self) -> str:
        parts = [f"sites after {self.rounds} updates"] if self.rounds else ["sites are the observations"]
        if self.num_unsettled:
            parts.append(f"{self.num_unsettled} not settled")
        if self.num_cut:
            parts.append(f"{self.num_cut} rows without a residual")
        if self.num_clipped:
            parts.append(f"{self.num_clipped} negative variances set to zero")
        return "; ".join(parts)


class Near(NamedTuple):
    """The neighbours of T inputs."""

    rows: Int[np.ndarray, "T m"]
    """Their numbers."""
    share: Float[np.ndarray, "T m"]
    """τ, the part of its precision with which each counts; see `taper`."""

    def at(self, part: slice) -> Near:
        """Those of some of the inputs."""
        return Near(self.rows[part], self.share[part])


class Everything(NamedTuple):
    """All rows, the neighbours of every input where m ≥ N."""

    def at(self, part: slice) -> Everything:
        """Those of some of the inputs."""
        del part
        return self


class Conditional(NamedTuple):
    """f given w and sites at T inputs: N(offset + ψ̌ᵀw, variance)."""

    psi: Float[np.ndarray, "T M"]
    """ψ̌."""
    offset: Float[np.ndarray, " T"]
    """b."""
    variance: Float[np.ndarray, " T"]
    """D."""


class Neighborhood(Module):
    """The rows of the data with their sites, for inputs to be near to."""

    x: Float[Array, "N D"]
    psi: Float[Array, "N M"]
    """Ψ, the features of the rows."""
    mean: Float[Array, " N"]
    """The prior mean at the rows."""
    precision: Float[Array, " N"]
    """W; zero for a row that says nothing, such as one of weight zero."""
    location: Float[Array, " N"]
    """t; the prior mean where W is zero."""
    scales: Float[Array, " D"]
    """Units of the columns in which distances are measured."""
    num_neighbors: int = eqx.field(static=True)
    """m."""
    report: NeighborReport

    @property
    def is_all(self) -> bool:
        """Whether all rows are neighbours of every input."""
        return self.num_neighbors >= self.x.shape[0]

    @property
    def explained(self) -> float:
        """The sum over rows of the prior variance that the coordinates explain."""
        return float(np.sum(np.einsum("nm,nm->n", self.psi, self.psi, dtype=np.float64)))

    def nearest(self, x: Float[np.ndarray, "T D"]) -> Near | Everything:
        """The rows that are neighbours of new inputs: the m nearest of all that say something."""
        if self.is_all:
            return Everything()
        said = np.flatnonzero(np.asarray(self.precision) > 0)
        if not len(said) or not self.num_neighbors:
            return Near(np.zeros((len(x), 0), dtype=np.int64), np.ones((len(x), 0)))
        near = said[_search(self, said).query(x / self.scales, self.num_neighbors + 1)]
        if near.shape[1] <= self.num_neighbors:
            return Near(near, np.ones(near.shape))
        share = np.empty((len(x), self.num_neighbors))
        for part in row_blocks(len(x), _SHARES_AT_ONCE):
            rows = np.asarray(self.x)[near[part]] / self.scales
            apart = np.sqrt(np.sum(np.square((x[part] / self.scales)[:, None] - rows), axis=2))
            share[part] = taper(apart[:, :-1], apart[:, -1:], x.shape[1], np)
        return Near(near[:, :-1], share)

    def local(self, basis: AbstractBasis, x: Float[np.ndarray, "T D"], near: Near) -> Local:
        """What the neighbours say about the residual at the rows of `x`."""
        psi = np.asarray(basis.whitened_mean(x)).astype(self.psi.dtype, copy=False)
        return local_conditionals(basis.prior, self._rows, x, psi, near.rows, near.share)

    def conditional(
        self, basis: AbstractBasis, x: Float[np.ndarray, "T D"], near: Near | Everything | None = None
    ) -> Conditional:
        """f at the rows of `x` given w and the sites of their neighbours, which `near` may give."""
        near = self.nearest(x) if near is None else near
        offset = np.asarray(basis.prior.mean_at(x)) if len(x) else np.empty(0)
        error = np.asarray(self.location) - np.asarray(self.mean)
        if isinstance(near, Everything):
            return self._given_all(basis, x, offset)
        return conditional_of(self.local(basis, x, near), near.rows, offset, error)

    def all_rows(self, basis: AbstractBasis) -> AllRows:
        """The factor of all rows; made once, and kept as long as factors of others leave room for it."""
        with _making:
            known = _factors.get(self)
            if known is None:
                room = (largest_process() // 2) ** 2 - self.x.shape[0] ** 2
                while _factors and sum(len(other.rows.x) ** 2 for other in _factors.values()) > room:
                    _factors.pop(next(iter(_factors.keys())))
                known = AllRows(basis.prior, self._rows, np.asarray(self.location) - np.asarray(self.mean))
                _factors[self] = known
            return known

    @property
    def _rows(self) -> Rows:
        return Rows(np.asarray(self.x), np.asarray(self.psi), np.asarray(self.precision))

    def _given_all(
        self, basis: AbstractBasis, x: Float[np.ndarray, "T D"], offset: Float[np.ndarray, " T"]
    ) -> Conditional:
        if not len(x):
            return Conditional(np.empty((0, basis.size)), offset, np.empty(0))
        psi = np.asarray(basis.whitened_mean(x))
        moved, known, removed = self.all_rows(basis).explained(x, psi)
        left = np.asarray(basis.prior.variance(x)) - np.einsum("tm,tm->t", psi, psi)
        return Conditional(psi - known, offset + moved, np.maximum(left - removed, 0.0))

    def left_out(self, basis: AbstractBasis, rows: Int[np.ndarray, " T"]) -> Conditional:
        """f at some rows given w and the sites of all others.

        With A the rows of (R + W⁻¹)⁻¹ and κ the diagonal of it, the site of row n, given w and all others, is normal
        with mean t_n − A_n(t − m − Ψw)/κ_n and variance 1/κ_n, which is that of f_n and 1/W_n together.
        """
        precision = np.asarray(self.precision)[rows]
        says = precision * np.asarray(basis.prior.variance(np.asarray(self.x)[rows])) > _NOTHING
        if not np.all(says):
            # A site that says nothing is no different when it is left out.
            found = self.conditional(basis, np.asarray(self.x)[rows], Everything())
            for own, other in zip(found, self.left_out(basis, rows[says]), strict=True):
                own[says] = other
            return found
        places = np.arange(len(rows))
        chosen = np.zeros((self.x.shape[0], len(rows)))
        chosen[rows, places] = 1.0
        solved = self.all_rows(basis).weighted(chosen)
        level, location = solved[rows, places], np.asarray(self.location)
        return Conditional(
            solved.T @ np.asarray(self.psi) / level[:, None],
            location[rows] - solved.T @ (location - np.asarray(self.mean)) / level,
            np.maximum(1.0 / level - 1.0 / precision, 0.0),
        )

    def one_after_the_other(self, basis: AbstractBasis) -> Conditional:
        """f at each row given w and the sites of all rows that are stored before it.

        L⁻¹W^½(t − m − Ψw) are the errors of these predictions of sites, in units of their deviations L_nn/√W_n.
        """
        rows, precision = self.all_rows(basis), np.asarray(self.precision)
        says = precision * np.asarray(basis.prior.variance(self.x)) > _NOTHING
        unit = np.where(says, rows.diagonal / np.sqrt(np.where(says, precision, 1.0)), 0.0)
        white = rows.whitened(np.column_stack([np.asarray(self.location) - np.asarray(self.mean), self.psi]))
        left = np.asarray(basis.prior.variance(self.x)) - np.sum(np.square(self.psi), axis=1)
        own = (np.square(rows.diagonal) - 1.0) / np.where(says, precision, 1.0)
        return Conditional(
            np.where(says[:, None], white[:, 1:] * unit[:, None], np.asarray(self.psi)),
            np.asarray(self.location) - white[:, 0] * unit,
            np.maximum(np.where(says, own, left), 0.0),
        )


# One thread makes a factor, and the others wait for it.
_making = threading.RLock()
_factors: weakref.WeakKeyDictionary[Neighborhood, AllRows] = weakref.WeakKeyDictionary()
_searches: weakref.WeakKeyDictionary[Neighborhood, Nearest] = weakref.WeakKeyDictionary()


def _search(neighborhood: Neighborhood, said: Int[np.ndarray, " n"]) -> Nearest:
    """What finds the nearest of the rows that say something, made once: predictions ask block by block."""
    if neighborhood not in _searches:
        x, scales = np.asarray(neighborhood.x), np.asarray(neighborhood.scales)
        _searches[neighborhood] = Nearest(_in_units(x, scales, said if len(said) < len(x) else None))
    return _searches[neighborhood]


def taper(distance: Array, next_distance: Array, num_columns: int, numpy: Any) -> Array:
    """τ, from 1 for a near row to 0 for one as far as the first that is no neighbour, with NumPy or JAX.

    A site of precision τW says nothing at τ = 0, so that f and its variance do not jump where neighbours change. By
    volume, since in many columns most neighbours are almost as far as that. Where most of them tie with it, all count.
    """
    ratio = distance / numpy.where(next_distance > 0, next_distance, 1.0)
    # Squared, because the noise of a site enters a draw with the root of its precision.
    share = numpy.square(numpy.clip((1.0 - ratio**num_columns) / _TAPERED, 0.0, 1.0))
    is_tied = numpy.mean(ratio > 1.0 - 1e-9, axis=-1, keepdims=True) > 0.5
    return numpy.where(is_tied | (next_distance <= 0), 1.0, share)


def conditional_of(
    found: Local,
    index: Int[np.ndarray, "T m"],
    offset: Float[np.ndarray, " T"],
    error: Float[np.ndarray, " N"],
) -> Conditional:
    """b, ψ̌ and D from the weights of neighbours, with `error` = t − m at all rows."""
    return Conditional(found.psi, offset + np.einsum("tk,tk->t", found.weights, error[index]), found.variance)


def features_at_rows(
    basis: AbstractBasis,
    x: Float[np.ndarray, "N D"],
    num_neighbors: int,
    room: Room = USUAL,
    features: Callable[[Array], Array] | None = None,
) -> Float[np.ndarray, "N M"]:
    """Ψ as it is stored, by `features` if given: in single precision where it is much, unless all pairs are more."""
    features = basis.whitened_mean if features is None else features
    size = max(1, _FEATURES_AT_ONCE // max(1, basis.size))
    is_single = len(x) * basis.size > min(SINGLE_ABOVE, room.features // 8)
    if num_neighbors >= len(x) or (len(x) <= size and not is_single):
        return np.asarray(features(x))
    found = np.empty((len(x), basis.size), dtype=np.float32 if is_single else np.float64)
    for part in host_blocks(len(x), size):
        found[part] = features(x[part])
    return found


def earlier_rows(
    x: Float[np.ndarray, "N D"],
    y: Float[np.ndarray, " N"],
    weights: Float[np.ndarray, " N"] | None,
    scales: Float[np.ndarray, " D"],
    number: int,
) -> Int[np.ndarray, "N m"]:
    """For each row the m nearest of those before it in the order of `row_order`; −1 in places that are empty.

    Rows of weight zero have none, and are nobody's.
    """
    counted = np.arange(len(y)) if weights is None else np.flatnonzero(weights > 0)
    order = counted[row_order(x[counted], y[counted])] if len(counted) < len(y) else row_order(x, y)
    number = max(0, min(number, len(order) - 1))
    places = nearest_before(_in_units(x, scales, order), np.arange(len(order)), number)
    index, order = np.full((len(y), number), -1, dtype=np.int32), order.astype(np.int32)
    for part in row_blocks(len(order)):
        index[order[part]] = np.where(places[part] >= 0, order[np.maximum(places[part], 0)], -1)
    return index


def other_rows(
    x: Float[np.ndarray, "N D"],
    weights: Float[np.ndarray, " N"] | None,
    scales: Float[np.ndarray, " D"],
    number: int,
    rows: Int[np.ndarray, " T"] | None = None,
) -> Int[np.ndarray, "T m"]:
    """For each row, or some of them, the m nearest of all others that count; −1 in a place that is empty."""
    counted = np.arange(len(x)) if weights is None else np.flatnonzero(weights > 0)
    points = _in_units(x, scales, counted if len(counted) < len(x) else None)
    asked = points if rows is None and len(counted) == len(x) else _in_units(x, scales, rows)
    places = Nearest(points).query(asked, number + 1)
    rows, counted = np.arange(len(x)) if rows is None else rows, counted.astype(np.int32)
    found = np.empty((len(rows), min(number, places.shape[1])), dtype=np.int32)
    for part in row_blocks(len(rows)):
        near, own = counted[places[part]], rows[part, None]
        # Where many rows are equal, the row itself need not be among the nearest.
        rank = np.argsort(near == own, axis=1, kind="stable")[:, : found.shape[1]]
        chosen = np.take_along_axis(near, rank, 1)
        found[part] = np.where(chosen == own, -1, chosen)
    return found


def _in_units(
    x: Float[np.ndarray, "N D"], scales: Float[np.ndarray, " D"], rows: Int[np.ndarray, " n"] | None
) -> Float[np.ndarray, "n D"]:
    """Some rows, or all, over the units of the columns, as the only copy of them that is made."""
    if rows is None:
        return x / scales
    found = np.asarray(x)[rows]
    found /= scales
    return found


def neighborhood_scales(basis: AbstractBasis, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, " D"]:
    """The lengthscales of the kernel, or standard deviations of columns that have none."""
    return np.asarray(column_scales(basis.prior.kernel, x))
