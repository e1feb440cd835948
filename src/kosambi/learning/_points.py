"""Inducing points that are moved off the rows of the data, to where the bound on the evidence is highest."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from kosambi._core.precision import lift
from kosambi._core.types import Array
from kosambi.learning._objective import first_mode, points_objective
from kosambi.learning._search import Record, minimise
from kosambi.likelihoods import AbstractLikelihood
from kosambi.priors import AbstractPrior

MAX_ITERATIONS = 60
"""Of the search, which need not end: the first steps gain the most."""


def move_points(
    prior: AbstractPrior,
    likelihood: AbstractLikelihood,
    x: Float[Array, "N D"],
    y: Float[Array, " N"],
    counts: Float[Array, " N"] | None,
    points: Float[np.ndarray, "M D"],
    bound: float,
    record: Record,
) -> tuple[Float[np.ndarray, "M D"], float]:
    """Better points, within the range of the data, and the log evidence with them; hyperparameters stand still.

    `bound` is the log evidence with the points given.
    """
    spread = np.std(x, axis=0)
    scales = np.where(spread > 0, spread, 1.0)
    held = lift((prior, likelihood, x, y, counts))
    mode = first_mode(*held[:-1], points)
    # Not part of the trace of the hyperparameters, which is another objective.
    own = Record(show=record.show)

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal mode
        (value, found), gradient = points_objective(flat.reshape(points.shape) * scales, *held, mode)
        slope = (np.asarray(gradient) * scales).ravel()
        if np.isfinite(value) and np.all(np.isfinite(slope)):
            mode = found
        return float(value), slope

    lower, upper = (np.tile(edge / scales, len(points)) for edge in (x.min(axis=0), x.max(axis=0)))
    best = minimise(objective, (points / scales).ravel(), lower, upper, MAX_ITERATIONS, own)
    record.failures += own.failures
    record.moves += len(own.values)
    if not -best.value >= bound:
        # A kernel of one's own may have no derivative in its inputs.
        return points, bound
    return best.vector.reshape(points.shape) * scales, -best.value
