"""The evidence with inducing points, of any likelihood, on all rows in chunks: a function to be searched.

The bound and its gradient are those of `kosambi.learning.at_points`.
"""

from __future__ import annotations

import contextlib
import dataclasses

import numpy as np
from jaxtyping import Float

from kosambi._core.linalg import all_blas_threads
from kosambi._core.precision import lift
from kosambi._core.types import Array
from kosambi.learning.at_points import Chunk, NormalAtPoints
from kosambi.learning.layout import Layout, Model
from kosambi.learning.sites import SETTLED, Fitted, Sites, SiteStore, settle
from kosambi.learning.starts import Limits, penalty
from kosambi.likelihoods import Gaussian
from kosambi.priors import AbstractPrior

POINTS = "points"
CHUNK = 2048
"""Rows at a time, at most."""
# Rows times squared points from which several threads of the BLAS are worth it: they wait for each other by turning in
# circles, and where other work has the cores, small products then take a hundred times as long.
_MUCH = 2**30
# To a multiple of this the rows of a chunk are rounded up, so that data of about as many rows compile nothing again.
_ROUNDED = 128


class PointEvaluator(SiteStore):
    """Minus the bound and minus the log of the weak prior, in the free numbers and the inducing points.

    Sites begin where those of the best evaluation so far ended.

    Arguments:
        layout: which parameters are free.
        given: the model whose other parameters stand still.
        prior: whose kernel and mean are replaced.
        x: (N, D).
        y: (N,).
        counts: (N,), how often each observation counts; once when None.
        bounds: the weak prior; none when None.
        chunk: rows of a chunk; None for `chunk_rows`.
    """

    def __init__(
        self,
        layout: Layout,
        given: Model,
        prior: AbstractPrior,
        x: Float[Array, "N D"],
        y: Float[Array, " N"],
        counts: Float[Array, " N"] | None,
        bounds: Limits | None,
        chunk: int | None = None,
    ) -> None:
        self.layout, self.bounds, self.evidence = layout, bounds, -np.inf
        self.is_settled, self.tolerance = True, SETTLED
        self._lowest, self._given, self._prior = np.inf, lift(given), lift(prior)
        self._best: Sites | None = None
        self._is_held = False
        size = chunk_rows(len(x)) if chunk is None else chunk
        times = np.ones(len(x)) if counts is None else np.asarray(counts)
        self._chunks = []
        for start in range(0, len(x), size):
            rows = np.arange(start, min(start + size, len(x)))
            filled = np.concatenate([rows, np.repeat(rows[:1], size - len(rows))])
            own = np.where(np.arange(size) < len(rows), times[filled], 0.0)
            model = given._replace(likelihood=given.likelihood.at_rows(filled))
            arrays = np.asarray(x)[filled], np.asarray(y)[filled], own
            self._chunks.append(Chunk(slice(start, start + size), *lift(arrays), lift(model)))

    def held(self, vector: Float[np.ndarray, " P"], points: Float[np.ndarray, "M D"]) -> PointDensity:
        """A function of the free numbers alone, whose evaluations all begin with the sites at `vector`."""
        self(vector, points)
        self._is_held = True
        return PointDensity(self, points)

    def value(self, vector: Float[np.ndarray, " P"], points: Float[np.ndarray, "M D"]) -> float:
        """The value alone, in less time; +∞ where there is no evidence. Nothing of it is kept."""
        with self._threads(points):
            _, found, _ = self._settled(vector, points)
        return np.inf if found is None else penalty(self.bounds, vector)[0] - found.bound

    def __call__(
        self, vector: Float[np.ndarray, " P"], points: Float[np.ndarray, "M D"]
    ) -> tuple[float, Float[np.ndarray, " P"], Float[np.ndarray, "M D"]]:
        """Value, and gradients in the free numbers and in the points; not finite where there is no evidence."""
        with self._threads(points):
            q, found, has_settled = self._settled(vector, points)
            if q is None or found is None:
                return np.inf, np.full(len(vector), np.nan), np.full(points.shape, np.nan)
            slope, push = q.gradient(found)
        away, pull = penalty(self.bounds, vector)
        value = away - found.bound
        if value < self._lowest:
            self._lowest, self.evidence, self.is_settled = value, found.bound, has_settled
            if not self._is_held:
                self._best = found.sites
        return value, pull - slope, -push

    def _threads(self, points: Float[np.ndarray, "M D"]) -> contextlib.AbstractContextManager[None]:
        """All threads of BLAS where there is enough to do for them."""
        work = len(self._chunks) * self._chunks[0].y.shape[0] * len(points) ** 2
        return all_blas_threads() if work > _MUCH else contextlib.nullcontext()

    def _settled(
        self, vector: Float[np.ndarray, " P"], points: Float[np.ndarray, "M D"]
    ) -> tuple[NormalAtPoints | None, Fitted | None, bool]:
        """q at the best sites, and whether they have settled; None where there is no evidence."""
        q = NormalAtPoints.of(self.layout, vector, self._given, self._prior, self._chunks, points)
        if q is None:
            return None, None, False
        # Those of Gaussian noise are known.
        start = None if isinstance(self._given.likelihood, Gaussian) else self._best
        found, has_settled = settle(q.fitted, q.first, start, self.tolerance)
        return q, found if np.isfinite(found.bound) else None, has_settled


@dataclasses.dataclass(frozen=True)
class PointDensity:
    """A log density of the free numbers, turned around, for points that stand still; see `PointEvaluator.held`."""

    bound: PointEvaluator
    points: Float[np.ndarray, "M D"]

    def __call__(self, vector: Float[np.ndarray, " P"]) -> tuple[float, Float[np.ndarray, " P"]]:
        return self.bound(vector, self.points)[:2]

    def value(self, vector: Float[np.ndarray, " P"]) -> float:
        """The value alone."""
        return self.bound.value(vector, self.points)


def chunk_rows(num_rows: int) -> int:
    """Rows of each of as few chunks as will do, about as many in all of them."""
    number = -(-num_rows // CHUNK)
    return num_rows if number <= 1 else _ROUNDED * -(-num_rows // (_ROUNDED * number))
