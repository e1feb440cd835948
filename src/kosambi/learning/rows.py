"""Rows that are learned from: random subsets, and blocks whose dense evidences are added as if they were independent.

Every block's evidence is that of a model of its rows, so a sum over blocks has its maximum, on average, where the
evidence of all rows has it, at a cost that is linear in the number of rows. Blocks of rows drawn at random see how f
varies over the whole domain; blocks of neighbours see short lengthscales, for which random rows lie too far apart.
Half of the blocks are of either sort.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from kosambi._core.long_tables import row_blocks
from kosambi._core.precision import with_fields
from kosambi._core.types import Array
from kosambi.likelihoods import AbstractLikelihood
from kosambi.priors import AbstractPrior, GaussianRandomElement
from kosambi.priors.measures import PointMeasure


class Block(NamedTuple):
    """Some rows of the data."""

    x: Float[Array, "B D"]
    y: Float[Array, " B"]
    counts: Float[Array, " B"]
    """How often each counts; zero for a row that only fills the block up."""
    likelihood: AbstractLikelihood
    """That of these rows, where a noise is given for each."""


def gathered(
    rows: Sequence[Int[np.ndarray, " B"]],
    x: Float[Array, "N D"],
    y: Float[Array, " N"],
    counts: Float[Array, " N"] | None,
    likelihood: AbstractLikelihood,
) -> list[Block]:
    """The blocks with these rows, all of one size: shorter ones are filled up with rows that do not count."""
    times = np.ones(len(x)) if counts is None else np.asarray(counts)
    size = max(map(len, rows))
    blocks = []
    for own in rows:
        filled = np.concatenate([own, np.repeat(own[:1], size - len(own))])
        kept = np.where(np.arange(size) < len(own), times[filled], 0.0)
        blocks.append(Block(np.asarray(x)[filled], np.asarray(y)[filled], kept, likelihood.at_rows(filled)))
    return blocks


def choose_blocks(
    generator: np.random.Generator,
    scaled: Float[np.ndarray, "N D"],
    first: Int[np.ndarray, " B"],
    pool: Int[np.ndarray, " K"],
    most: int,
) -> tuple[np.ndarray, ...]:
    """Disjoint blocks about as large as the first, which is one of them: random ones, and as many of neighbours.

    Arguments:
        generator: of random numbers.
        scaled: inputs in units in which distances matter.
        first: rows of the first block.
        pool: rows that count for something.
        most: blocks, at most.
    """
    rest = np.setdiff1d(pool, first)
    number = min(most - 1, -(-len(rest) // len(first)))
    if number < 1:
        return (first,)
    # No fewer rows than are there for the blocks that there will be.
    size = min(len(first), -(-len(rest) // number))
    blocks = [first]
    for i in range(number):
        if i % 2 == 0 and len(rest) > size:
            near = np.argpartition(_distances(scaled, rest, int(generator.choice(rest))), size - 1)[:size]
            rows = rest[near]
        else:
            rows = generator.choice(rest, size=min(size, len(rest)), replace=False)
        blocks.append(np.sort(rows))
        rest = np.setdiff1d(rest, rows, assume_unique=True)
    return tuple(blocks)


def _distances(scaled: Float[np.ndarray, "N D"], rows: Int[np.ndarray, " n"], centre: int) -> Float[np.ndarray, " n"]:
    """Squares of those of some rows from one of all."""
    found = np.empty(len(rows))
    for part in row_blocks(len(rows)):
        found[part] = np.sum(np.square(scaled[rows[part]] - scaled[centre]), axis=1)
    return found


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
    values, counts_of = np.unique(y[rows], return_counts=True)
    # In place of rows whose value occurs again.
    spare = np.flatnonzero(counts_of[np.searchsorted(values, y[rows])] > 1)
    for i, rows_of in zip(spare[: limit - 1], missing, strict=False):
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
