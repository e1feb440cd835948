"""What an estimator does with a source of rows before it learns from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from kosambi.errors import InputError
from kosambi.estimators._learn import Settings
from kosambi.learning.num_neighbors import as_neighbors
from kosambi.likelihoods import AbstractLikelihood
from kosambi.sources import AbstractRowSource, Block, Survey, survey
from kosambi.streaming import Asked, planned


class SourceModel(NamedTuple):
    """What the rows of a source are of."""

    likelihood: AbstractLikelihood
    """Of standardised observations."""
    units: tuple[float, float]
    """Location and scale of the observations."""
    classes: Float[np.ndarray, " C"] | None = None
    """The values of y that are classes; their places are the numbers that a likelihood knows."""


def is_source(X: Any, y: Any, sample_weight: Any) -> bool:
    """Whether X is a source; what it has already is refused."""
    if not isinstance(X, AbstractRowSource):
        return False
    for name, value in (("y", y), ("sample_weight", sample_weight)):
        if value is not None:
            raise InputError(f"`{name}` cannot be given with a source of rows, which has its own. Leave it out.")
    return True


def asked_of(settings: Settings) -> Asked:
    """What was asked for, as far as it decides on neighbours."""
    near = as_neighbors("n_neighbors", settings.n_neighbors)
    return Asked(near, settings.num_points, settings.potential, name="n_neighbors")


def refuse_in_blocks(settings: Settings) -> None:
    """Refuse what rows that are read in blocks cannot have."""
    if settings.hyperparameters == "average":
        raise InputError(
            '`hyperparameters="average"` is for few rows that are held in memory. Use "evidence" or "auto" where they '
            "are read in blocks."
        )
    if settings.num_points == "all":
        raise InputError('`n_inducing="all"` cannot be had where rows are read in blocks. Give a number, or "auto".')


def surveyed(
    settings: Settings,
    source: AbstractRowSource,
    max_memory: object,
    check: Callable[[np.ndarray], object] | None,
) -> Survey:
    """The first pass, with as large a sample as memory allows."""
    first = source.first()
    columns = first.x.shape[1] if first.x.ndim == 2 else 1
    holds = planned(max_memory, columns, settings.num_points, 1, settings.n_samples, source.group)
    return survey(source, sample_rows=holds.sample_rows, block_rows=holds.block_rows, check=check)


def standardised_rows(
    found: Survey,
    classes: Float[np.ndarray, " C"] | None,
    mean: Float[np.ndarray, " D"],
    scale: Float[np.ndarray, " D"],
) -> Survey:
    """The same rows as (x − mean)/scale, and with the numbers of their classes."""

    def transform(block: Block) -> Block:
        y = block.y if classes is None else np.searchsorted(classes, block.y).astype(np.float64)
        return Block(block.rows, (block.x - mean) / scale, y, block.weights)

    return found.mapped(transform)
