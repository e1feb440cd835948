"""What an estimator does with rows that are read as a stream, before it learns from a sample of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from kosambi.errors import DataWarning, InputError
from kosambi.estimators._learn import Settings
from kosambi.estimators._rows import extreme_cells
from kosambi.likelihoods import AbstractLikelihood
from kosambi.sources import AbstractRowSource, Block, Survey, survey
from kosambi.streaming import planned


class SourceModel(NamedTuple):
    """What the rows of a source are of."""

    likelihood: AbstractLikelihood
    """Of standardised observations."""
    units: tuple[float, float]
    """Location and scale of the observations."""
    classes: Float[np.ndarray, " C"] | None = None
    """The values of y that are classes; their places are the numbers that a likelihood knows."""


def is_source(X: Any, y: Any, sample_weight: Any, max_memory: Any) -> bool:
    """Whether X is a source; what belongs to the other case is refused."""
    if not isinstance(X, AbstractRowSource):
        if max_memory is not None:
            raise InputError("`max_memory` is for a source from `kosambi.sources`. Leave it out, or give one as X.")
        return False
    for name, value in (("y", y), ("sample_weight", sample_weight)):
        if value is not None:
            raise InputError(f"`{name}` cannot be given with a source of rows, which has its own. Leave it out.")
    return True


def surveyed(
    settings: Settings,
    source: AbstractRowSource,
    max_memory: object,
    check: Callable[[np.ndarray], object] | None,
) -> Survey:
    """The first pass, with as large a sample as memory allows."""
    settings.check()
    if settings.asks_for_neighbors:
        raise InputError(
            "Neighbours cannot be had with a source of rows: near rows would have to be in memory. Leave out "
            "`n_neighbors`, or give arrays."
        )
    if settings.hyperparameters == "average":
        raise InputError(
            '`hyperparameters="average"` is for few rows, and a source has many. Use "evidence" or "auto".'
        )
    if settings.num_points == "all":
        raise InputError('`n_inducing="all"` cannot be had with a source of rows. Give a number, or "auto".')
    first = source.first()
    columns = first.x.shape[1] if first.x.ndim == 2 else 1
    holds = planned(max_memory, columns, settings.num_points, 1, settings.n_samples, source.group)
    found = survey(source, sample_rows=holds.sample_rows, block_rows=holds.block_rows, check=check)
    if (note := extreme_cells(found.sample.x)) is not None:
        warnings.warn(
            f"In a sample of {len(found.sample.y):,} rows: {note} If that stands for a missing value, or is a mistake, "
            "leave the row out or repair it; if it is right, take logarithms or ranks of the column.",
            DataWarning,
            stacklevel=5,
        )
    return found


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
