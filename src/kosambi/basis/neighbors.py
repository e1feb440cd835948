r"""Which rows are near: the m nearest of all rows, or of the rows that stand before a row in a fixed order.

Distances are Euclidean in units that the caller chooses, such as lengthscales. SciPy's k-d tree is asked for few
columns, and for many if the rows fill few dimensions of them, as columns that depend on each other and those with long
lengthscales leave them. Where they fill many a tree sees almost every row. Then scikit-learn's exhaustive search is
asked, which is a matrix product; and of very many rows those in the nearest *cells*, around centres of clusters, which
are most of the nearest, if not all.

**Rows before.** A row at place p of an order asks a search structure of the first P ≥ p rows, P at most a third more
than p, for some more than it needs and keeps those before it. Where that leaves too few it asks for more.

**The order** (`row_order`) is that of a hash of the rows, so that it is as good as random, and yet the data alone
determine it: the same on every machine, and whatever order the rows were given in.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from kosambi._core.long_tables import row_blocks, row_hashes

MOST_TREE_COLUMNS, MOST_TREE_DIMENSION = 15, 12.0
"""Columns up to which a k-d tree is asked, and dimensions that rows with more columns may fill for it to be."""
MOST_EXHAUSTIVE = 50_000
"""Points up to which all of them are looked at, where a tree would do so too."""
PROBED = 12
"""Cells that are looked at for each input, at least."""
# Neighbours asked for, in multiples of m, the growth of the structures, and how often too few are asked for again.
_MARGIN, _GROWTH, _RETRIES = 1.6, 4.0 / 3.0, 4
# Points that their dimension is estimated from, and those whose distances are taken.
_SAMPLE, _ASKED = 2000, 200


@dataclasses.dataclass(frozen=True)
class Neighbors:
    """Rows, and the rows before them that are nearest."""

    targets: Int[np.ndarray, " T"]
    neighbors: Int[np.ndarray, "T m"]
    """Row numbers; where there are fewer than m, the target itself, which `present` tells apart."""
    present: Float[np.ndarray, "T m"]
    """1 for a neighbour, 0 for a place that is empty."""


def row_order(
    x: Float[np.ndarray, "N D"], y: Float[np.ndarray, " N"], weights: Float[np.ndarray, " N"] | None = None
) -> Int[np.ndarray, " N"]:
    """Row numbers in the order of a hash of each row of `x`; equal rows by y, by their weights, then by their numbers.

    >>> import numpy as np
    >>> x, y = np.array([[1.0], [2.0], [3.0], [2.0]]), np.array([0.0, 5.0, 0.0, 4.0])
    >>> order, turned = row_order(x, y), row_order(x[::-1], y[::-1])
    >>> bool(np.all(order == 3 - turned))
    True
    """
    mixed = row_hashes(x)
    number = np.arange(len(mixed))
    return np.lexsort((number, number if weights is None else weights, y, mixed))


def nearest_before(
    points: Float[np.ndarray, "P D"], targets: Int[np.ndarray, " T"], number: int
) -> Int[np.ndarray, "T m"]:
    """The places of the `number` points nearest to each target among those before it; −1 where there are no more.

    Arguments:
        points: in the order of the factorisation, in units of the lengthscales.
        targets: places in that order.
        number: m.

    >>> nearest_before(np.array([[0.0], [5.0], [4.0]]), np.arange(3), 2)
    array([[-1, -1],
           [ 0, -1],
           [ 1,  0]], dtype=int32)
    """
    found = np.full((len(targets), number), -1, dtype=np.int32)
    search: Nearest | None = None
    levels = np.ceil(np.log(np.maximum(targets, 1) + 1) / np.log(_GROWTH)).astype(int)
    for level in np.unique(levels) if number else ():
        which = np.flatnonzero(levels == level)
        size = min(int(np.ceil(_GROWTH ** int(level))) + 1, len(points))
        # Two of them would take twice as much.
        del search
        search, asked = Nearest(points[:size]), int(_MARGIN * number) + 8
        for _ in range(_RETRIES):
            near, too_few = search.query(points[targets[which]], min(size, asked)), []
            for part in row_blocks(len(which)):
                at = targets[which[part]]
                is_before = near[part] < at[:, None]
                # Stable, so that the nearest come first.
                rank = np.argsort(~is_before, axis=1, kind="stable")[:, :number]
                chosen, is_one = np.take_along_axis(near[part], rank, 1), np.take_along_axis(is_before, rank, 1)
                found[which[part], : rank.shape[1]] = np.where(is_one, chosen, -1)
                too_few.append(which[part][np.sum(is_one, axis=1) < np.minimum(number, at)])
            which = np.concatenate(too_few)
            if not len(which) or asked >= size:
                break
            asked *= 2
    return found


class Nearest:
    """Asks for the nearest of some points, any number of times."""

    def __init__(self, points: Float[np.ndarray, "N D"]) -> None:
        self.num_points = len(points)
        self.is_tree = points.shape[1] <= MOST_TREE_COLUMNS or _dimension(points) <= MOST_TREE_DIMENSION
        if self.is_tree:
            from scipy.spatial import cKDTree

            # Without balancing, which finds medians, building takes less and asking no more.
            self.search = cKDTree(points, balanced_tree=False, compact_nodes=False)
            return
        # Single precision is enough around zero, and not far from it.
        self.centre = np.mean(points, axis=0)
        near = self._shifted(points)
        if len(points) > MOST_EXHAUSTIVE:
            self.search = Cells(near)
            return
        self.search = _exhaustive(near)

    def query(self, inputs: Float[np.ndarray, "Q D"], number: int) -> Int[np.ndarray, "Q k"]:
        """Numbers of the `number` points, at most as many as there are, that are nearest to each input, in order."""
        number = min(number, self.num_points)
        found = np.empty((len(inputs), number), dtype=np.int32)
        if not len(inputs) or not number:
            return found
        if not self.is_tree:
            found[:] = self.search.kneighbors(self._shifted(inputs), n_neighbors=number, return_distance=False)
            return found
        for part in row_blocks(len(inputs)):
            # With distances, which are not wanted and take twice as much memory.
            found[part] = self.search.query(inputs[part], k=number, workers=-1)[1].reshape(-1, number)
        return found

    def _shifted(self, points: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N D"]:
        """Around zero, in single precision."""
        found = np.empty(points.shape, dtype=np.float32)
        for part in row_blocks(len(points)):
            found[part] = points[part] - self.centre
        return found


class Cells:
    """Points by the nearest of some centres; asks those of the nearest cells only, in single precision."""

    def __init__(self, points: Float[np.ndarray, "N D"]) -> None:
        from sklearn.cluster import MiniBatchKMeans

        self.points, number = points, int(np.sqrt(len(points)))
        clusters = MiniBatchKMeans(number, batch_size=4096, max_iter=2, n_init=1, init="random", random_state=0)
        some = np.linspace(0, len(points) - 1, min(len(points), 50 * number)).astype(int)
        self.centres = _exhaustive(clusters.fit(points[some]).cluster_centers_.astype(np.float32))
        label = self.centres.kneighbors(points, 1, return_distance=False)[:, 0]
        self.members = np.argsort(label, kind="stable")
        self.starts = np.searchsorted(label[self.members], np.arange(number + 1))

    def kneighbors(
        self, inputs: Float[np.ndarray, "Q D"], n_neighbors: int, return_distance: bool = False
    ) -> Int[np.ndarray, "Q k"]:
        """Numbers of points, as scikit-learn's `NearestNeighbors` has it."""
        del return_distance
        probed = min(PROBED, len(self.starts) - 1)
        cells = self.centres.kneighbors(inputs, probed, return_distance=False)
        found = np.empty((len(inputs), n_neighbors), dtype=np.int32)
        # Inputs with the same nearest cell share the others for the most part: all of theirs are asked together.
        order = np.argsort(cells[:, 0], kind="stable")
        edges = np.flatnonzero(np.diff(cells[order, 0])) + 1
        for group in np.split(order, edges):
            names, counts = np.unique(cells[group], return_counts=True)
            names = names[np.argsort(-counts, kind="stable")]
            sizes = np.cumsum(self.starts[names + 1] - self.starts[names])
            # Those that most of them ask for, and as many as it takes to have enough points.
            enough = max(2 * PROBED, int(np.searchsorted(sizes, 4 * n_neighbors)) + 1)
            asked = np.concatenate([self.members[self.starts[c] : self.starts[c + 1]] for c in names[:enough]])
            if len(asked) < n_neighbors:
                asked = np.arange(len(self.points))
            near = _exhaustive(self.points[asked]).kneighbors(inputs[group], n_neighbors, return_distance=False)
            found[group] = asked[near]
        return found


def _exhaustive(points: Float[np.ndarray, "N D"]) -> Any:
    """scikit-learn's search of all points, which holds few distances at once."""
    from sklearn.neighbors import NearestNeighbors

    return NearestNeighbors(algorithm="brute").fit(points)


def _dimension(points: Float[np.ndarray, "N D"]) -> float:
    """How many dimensions the points fill, by how fast the distances to further neighbours of some of them grow."""
    some = points[np.linspace(0, len(points) - 1, min(len(points), _SAMPLE)).astype(int)]
    asked = some[:: max(1, len(some) // _ASKED)]
    apart = np.sum(np.square(some), axis=1) + np.sum(np.square(asked), axis=1)[:, None] - 2.0 * (asked @ some.T)
    apart = np.sort(np.maximum(apart, 0.0), axis=1)
    few, many = len(some) // 100, len(some) // 10
    if few < 2:
        return float(points.shape[1])
    inner, outer = np.sqrt(apart[:, few]), np.sqrt(apart[:, many])
    is_apart = inner > 1e-9 * np.max(outer, initial=0.0)
    if not is_apart.any():
        return 0.0
    # The number of points within r grows like r to the power of the dimension.
    growth = float(np.median(np.log(outer[is_apart] / inner[is_apart])))
    return float(np.log(many / few)) / max(growth, 1e-12)
