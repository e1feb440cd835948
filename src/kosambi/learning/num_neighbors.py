r"""Whether near data inform what the points leave open, how many of them, and how many points stand beside them.

Up to some thousand rows M can follow N, and points carry all that the data say. Beyond that what they leave open is
where the information is, and no number of points that is affordable is enough; near rows then say more, at less cost
(`kosambi.target.neighbors`). A row with m neighbours and M points takes about M·m² products.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float, Int

from kosambi.errors import InputError
from kosambi.learning.selected import Selection
from kosambi.learning.selection import TOLERANCE
from kosambi.likelihoods import AbstractLikelihood, Gaussian
from kosambi.target.neighbors import as_num_neighbors, without_neighbors

NEAR_ROWS, NEAR_ROWS_GAUSSIAN = 5_000, 8_000
"""Rows above which near data are asked; below, points can carry them, with Gaussian noise as many as there are rows."""
NEAR_POINTS = 512
"""Points beside neighbours."""
WORK, WORK_WITH_SITES = 2.0e11, 4.0e10
"""Rows times points times squared neighbours that are affordable: once, and where sites take some rounds."""
MOST_DRAWN = 10_000
"""Rows up to which a likelihood that is drawn from in steps has neighbours by itself: each step takes an integral for
every row and particle, minutes in all for more of them."""
FEWEST, MOST = 16, 96
"""Neighbours that are always taken, and at most."""


def as_neighbors(name: str, value: object) -> int | str:
    """A checked number of neighbours, with one meaning wherever it is asked for; None is another word for "auto".

    >>> as_neighbors("num_neighbors", None), as_neighbors("num_neighbors", 20)
    ('auto', 20)
    """
    if value is None or (isinstance(value, str) and value == "auto"):
        return "auto"
    if isinstance(value, str):
        raise InputError(f'`{name}` must be a whole number, zero for none, or "auto". Got {value!r}.')
    return as_num_neighbors(name, value)


def enough_neighbors(num_rows: int, num_points: int, likelihood: AbstractLikelihood) -> int:
    """How many neighbours a row may have in about a minute on two cores; zero where points can carry the data.

    Zero, too, where the likelihood cannot have them, or would take long to draw from.

    >>> import kosambi as ko
    >>> [enough_neighbors(number, 512, ko.likelihoods.Gaussian()) for number in (8_000, 40_000, 500_000)]
    [0, 96, 24]
    >>> [enough_neighbors(number, 512, ko.likelihoods.Bernoulli()) for number in (8_000, 40_000)]
    [96, 0]
    """
    is_gaussian = isinstance(likelihood, Gaussian)
    if num_rows <= (NEAR_ROWS_GAUSSIAN if is_gaussian else NEAR_ROWS) or without_neighbors(likelihood) is not None:
        return 0
    if not is_gaussian and num_rows > MOST_DRAWN:
        return 0
    work = WORK if is_gaussian else WORK_WITH_SITES
    wanted = math.sqrt(work / (num_rows * max(num_points, 1))) // 8 * 8
    return int(np.clip(wanted, FEWEST, MOST))


def are_replicated(x: Float[np.ndarray, "N D"]) -> bool:
    """Whether most rows share their inputs with others: the nearest rows are then copies, and say one thing only."""
    return len(np.unique(x, axis=0)) < 0.5 * len(x)


def beside_neighbors(
    indices: Int[np.ndarray, " M"], num_neighbors: int, residual_share: float, seconds: float
) -> Selection:
    """Points that need not be enough, because near rows inform what they leave open."""
    size, unknown = np.array([len(indices)]), np.full(1, np.nan)
    share = np.array([residual_share])
    return Selection(
        indices, "neighbors", TOLERANCE, size, unknown, unknown, unknown, share, seconds, None, num_neighbors
    )
