"""Fewer rows: random subsets of the data and of the measure."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from kosambi._core.precision import with_fields
from kosambi.priors import AbstractPrior, GaussianRandomElement
from kosambi.priors.measures import PointMeasure


def subset(
    generator: np.random.Generator, y: np.ndarray, counts: np.ndarray | None, limit: int, num_labels: int | None
) -> Int[np.ndarray, " n"]:
    """At most `limit` row numbers, in order, with every label among them, and not one value of y only.

    Rows that count for nothing are left out where there are too many.
    """
    if len(y) <= limit:
        return np.arange(len(y))
    pool = np.arange(len(y)) if counts is None else np.flatnonzero(counts)
    if len(pool) <= limit:
        return pool
    rows = generator.choice(pool, size=limit, replace=False)
    rare = [pool[y[pool] == label] for label in np.unique(y[pool])] if num_labels is not None else []
    missing = [rows_of for rows_of in rare if not np.isin(rows_of, rows).any()]
    if num_labels is None and np.all(y[rows] == y[rows[0]]):
        missing = [others] if len(others := pool[y[pool] != y[rows[0]]]) else []
    for i, rows_of in enumerate(missing[: limit - 1]):
        rows[i] = generator.choice(rows_of)
    return np.unique(rows)


def thinned(generator: np.random.Generator, prior: AbstractPrior, limit: int) -> AbstractPrior:
    """The prior with no more than `limit` support points; r is then an average over fewer of them."""
    if not isinstance(prior, GaussianRandomElement) or not isinstance(prior.measure, PointMeasure):
        return prior
    points, weights = prior.measure.points, prior.measure.weights
    # Points of weight zero carry nothing.
    pool = np.flatnonzero(weights > 0)
    if len(pool) <= limit:
        return prior
    if np.ptp(weights[pool]) <= 1e-12 * np.max(weights):
        rows = np.sort(generator.choice(pool, size=limit, replace=False))
    else:
        # Evenly spaced in the cumulative weight: a heavy point occurs as often as it should.
        levels = (np.arange(limit) + generator.uniform()) / limit * np.sum(weights[pool])
        rows = pool[np.minimum(np.searchsorted(np.cumsum(weights[pool]), levels), len(pool) - 1)]
    return with_fields(prior, measure=PointMeasure(points[rows]))


def num_support(prior: AbstractPrior) -> int | None:
    """How many points the measure has; None without a measure made of points."""
    measure = prior.measure if isinstance(prior, GaussianRandomElement) else None
    return len(measure.points) if isinstance(measure, PointMeasure) else None
