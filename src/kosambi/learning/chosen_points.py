"""Inducing points among the rows, in the way that was asked for."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from kosambi._core.long_tables import frozen
from kosambi._core.types import Array, Key
from kosambi.basis import inducing
from kosambi.kernels import column_scales
from kosambi.learning.memory import Memory, Size
from kosambi.learning.num_neighbors import FEWEST_POINTS, near_points
from kosambi.learning.selected import Selection
from kosambi.learning.worth_of_points import LITTLE, worth_of_points
from kosambi.likelihoods import AbstractLikelihood, Gaussian
from kosambi.priors import AbstractPrior


def beside_neighbors_of(
    key: Key,
    prior: AbstractPrior,
    likelihood: AbstractLikelihood,
    x: Float[np.ndarray, "N D"],
    y: Float[np.ndarray, " N"],
    num_neighbors: int,
    may_be_none: bool,
    memory: Memory | None = None,
) -> Int[np.ndarray, " M"]:
    """Rows spread evenly in units of the lengthscales, which leave neighbours the least to say.

    None of them, if that `may_be`, where rows are very many and points would add next to nothing to the near ones; and
    no more than there is memory for.
    """
    wanted = near_points(len(x), likelihood)
    if memory is not None:
        wanted = memory.num_points(Size.of(x.shape, num_neighbors, wanted, likelihood)) or 0
    most = min(wanted, len(inducing.distinct_rows(x)))
    if not most:
        return np.arange(0)
    chosen = inducing.kmeans(key, frozen(x / column_scales(prior.kernel, x)), most)
    is_stepped = may_be_none and not isinstance(likelihood, Gaussian) and wanted <= FEWEST_POINTS
    if is_stepped and worth_of_points(prior, likelihood, x, y, x[chosen], num_neighbors) < LITTLE:
        return np.arange(0)
    return chosen


def points_among(
    key: Key, prior: AbstractPrior, x: Array, number: int | str, how: str | Array, selection: Selection | None
) -> Float[Array, "M D"]:
    """The points that were given, all rows, those of a selection, or `number` of them by the method `how`."""
    if not isinstance(how, str):
        return how
    if number == "all":
        return x[inducing.distinct_rows(np.asarray(x))]
    if selection is not None:
        if how == "greedy":
            return x[selection.indices]
        number = selection.num_inducing
    assert isinstance(number, int)
    if not number:
        return x[:0]
    if how == "greedy":
        return x[inducing.greedy_variance(prior, x, number)]
    if how == "kmeans":
        return x[inducing.kmeans(key, x / column_scales(prior.kernel, np.asarray(x)), number)]
    return x[inducing.uniform(key, x, number)]
