"""Fewer rows: random subsets of the data and of the measure, and of a noise that is given for each datum."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from kosambi.hyperparameters._layout import with_fields
from kosambi.likelihoods import AbstractLikelihood
from kosambi.measures import PointMeasure
from kosambi.priors import AbstractPrior, GaussianRandomElement


def subset(generator: np.random.Generator, num_rows: int, limit: int) -> Int[np.ndarray, " n"]:
    """At most `limit` row numbers, in order."""
    if num_rows <= limit:
        return np.arange(num_rows)
    return np.sort(generator.choice(num_rows, size=limit, replace=False))


def thinned(generator: np.random.Generator, prior: AbstractPrior, limit: int) -> AbstractPrior:
    """The prior with no more than `limit` support points; r is then an average over fewer of them."""
    if not isinstance(prior, GaussianRandomElement) or not isinstance(prior.measure, PointMeasure):
        return prior
    # Points of weight zero carry nothing.
    pool = np.flatnonzero(prior.measure.weights > 0)
    if len(pool) <= limit:
        return prior
    rows = np.sort(generator.choice(pool, size=limit, replace=False))
    return with_fields(prior, measure=PointMeasure(prior.measure.points[rows], prior.measure.weights[rows]))


def num_support(prior: AbstractPrior) -> int | None:
    """How many points the measure has; None without a measure made of points."""
    measure = prior.measure if isinstance(prior, GaussianRandomElement) else None
    return len(measure.points) if isinstance(measure, PointMeasure) else None


def at_rows(likelihood: AbstractLikelihood, given: AbstractLikelihood, rows: np.ndarray) -> AbstractLikelihood:
    """`likelihood` for some rows of the data, where `given` has a noise for each."""
    noise = getattr(given, "noise", None)
    if noise is None or np.ndim(noise) == 0:
        return likelihood
    return with_fields(likelihood, noise=np.ascontiguousarray(np.asarray(noise)[rows]))
