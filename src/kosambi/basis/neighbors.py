r"""Which rows are near: the m nearest of all rows, or of the rows that stand before a row in a fixed order.

Distances are Euclidean in units that the caller chooses, such as lengthscales. SciPy's k-d tree is asked for few
columns; for many, where a tree sees almost every row, scikit-learn's exhaustive search, which is a matrix product.

**Rows before.** A row at place p of an order asks a search structure of the first P ≥ p rows, P at most a third more
than p, for some more than it needs and keeps those before it. Where that leaves too few it asks for more.

**The order** (`row_order`) is that of a hash of the rows, so that it is as good as random, and yet the data alone
determine it: the same on every machine, and whatever order the rows were given in.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float, Int

MOST_TREE_COLUMNS = 15
"""Columns up to which a k-d tree is asked."""
# Neighbours asked for, in multiples of m, the growth of the structures, and how often too few are asked for again.
_MARGIN, _GROWTH, _RETRIES = 1.6, 4.0 / 3.0, 4


@dataclasses.dataclass(frozen=True)
class Neighbors:
    """Rows, and the rows before them that are nearest."""

    targets: Int[np.ndarray, " T"]
    neighbors: Int[np.ndarray, "T m"]
    """Row numbers; where there are fewer than m, the target itself, which `present` tells apart."""
    present: Float[np.ndarray, "T m"]
    """1 for a neighbour, 0 for a place that is empty."""


def row_order(x: Float[np.ndarray, "N D"], y: Float[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
    """Row numbers in the order of a hash of each row of `x`; equal rows by y, and then by their numbers.

    >>> import numpy as np
    >>> x, y = np.array([[1.0], [2.0], [3.0], [2.0]]), np.array([0.0, 5.0, 0.0, 4.0])
    >>> order, turned = row_order(x, y), row_order(x[::-1], y[::-1])
    >>> bool(np.all(order == 3 - turned))
    True
    """
    # Zero of either sign is one number, with one pattern of bits.
    bits = np.ascontiguousarray(np.asarray(x, dtype=np.float64) + 0.0).view(np.uint64)
    mixed = np.full(len(bits), 0x9E3779B97F4A7C15, dtype=np.uint64)
    for column in bits.T:
        # The finaliser of splitmix64, after each column.
        mixed = (mixed ^ column) + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed = mixed ^ (mixed >> np.uint64(31))
    return np.lexsort((np.arange(len(mixed)), y, mixed))


def find_neighbors(
    scaled: Float[np.ndarray, "N D"], order: Int[np.ndarray, " P"], targets: Int[np.ndarray, " T"], number: int
) -> Neighbors:
    """The `number` nearest rows before each target.

    Arguments:
        scaled: inputs in units of the lengthscales.
        order: row numbers in the order of the factorisation; rows that are not in it are nobody's neighbours.
        targets: places in that order.
        number: m.
    """
    found = np.zeros((len(targets), number), dtype=np.int64)
    present = np.zeros((len(targets), number))
    points = np.ascontiguousarray(scaled[order])
    levels = np.ceil(np.log(np.maximum(targets, 1) + 1) / np.log(_GROWTH)).astype(int)
    for level in np.unique(levels) if number else ():
        which = np.flatnonzero(levels == level)
        size = min(int(np.ceil(_GROWTH ** int(level))) + 1, len(points))
        search, asked = Nearest(points[:size]), int(_MARGIN * number) + 8
        for _ in range(_RETRIES):
            at = targets[which]
            near = search.query(points[at], min(size, asked))
            is_before = near < at[:, None]
            # Stable, so that the nearest come first.
            rank = np.argsort(~is_before, axis=1, kind="stable")[:, :number]
            chosen, is_one = np.take_along_axis(near, rank, 1), np.take_along_axis(is_before, rank, 1)
            found[which, : rank.shape[1]] = np.where(is_one, chosen, at[:, None])
            present[which, : rank.shape[1]] = is_one
            which = which[np.sum(is_one, axis=1) < np.minimum(number, at)]
            if not len(which) or asked >= size:
                break
            asked *= 2
    empty = present == 0
    found[empty] = np.broadcast_to(targets[:, None], found.shape)[empty]
    return Neighbors(order[targets], order[found], present)


class Nearest:
    """Asks for the nearest of some points, any number of times."""

    def __init__(self, points: Float[np.ndarray, "N D"]) -> None:
        self.is_tree = points.shape[1] <= MOST_TREE_COLUMNS
        self.num_points = len(points)
        if self.is_tree:
            from scipy.spatial import cKDTree

            # Without balancing, which finds medians, building takes less and asking no more.
            self.search = cKDTree(points, balanced_tree=False, compact_nodes=False)
        else:
            from sklearn.neighbors import NearestNeighbors

            # Single precision is enough around zero, and not far from it.
            self.centre = np.mean(points, axis=0)
            self.search = NearestNeighbors(algorithm="brute").fit((points - self.centre).astype(np.float32))

    def query(self, inputs: Float[np.ndarray, "Q D"], number: int) -> Int[np.ndarray, "Q k"]:
        """Numbers of the `number` points, at most as many as there are, that are nearest to each input, in order."""
        number = min(number, self.num_points)
        if not len(inputs) or not number:
            return np.zeros((len(inputs), number), dtype=np.int64)
        if self.is_tree:
            near = self.search.query(inputs, k=number, workers=-1)[1]
        else:
            shifted = (inputs - self.centre).astype(np.float32)
            near = self.search.kneighbors(shifted, n_neighbors=number, return_distance=False)
        return np.asarray(near, dtype=np.int64).reshape(len(inputs), number)
