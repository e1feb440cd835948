r"""Whether near data inform what the points leave open, how many of them, and how many points stand beside them.

Up to some thousand rows M can follow N, and points carry all that the data say. Beyond that what they leave open is
where the information is, and no number of points that is affordable is enough; near rows then say more, at less cost
(`kosambi.target.neighbors`). A row with m neighbours and M points takes about M·m² products; where sites are updated,
m³ for each update. With Gaussian noise all rows can be neighbours of every input (`kosambi.basis.all_rows`): one
factorisation of an N×N matrix, which is the full process, and needs no points. That is taken where many points are not
enough, up to some thousand rows, and on an accelerator for as many as fit into its memory.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float, Int

from kosambi._core.long_tables import num_distinct
from kosambi._core.threads import platform
from kosambi.basis.all_rows import largest_process
from kosambi.errors import InputError
from kosambi.learning.selected import Selection
from kosambi.learning.selection import TOLERANCE
from kosambi.likelihoods import AbstractLikelihood, Gaussian
from kosambi.priors import AbstractPrior, GaussianProcess
from kosambi.target.neighbors import NEIGHBORS, as_num_neighbors, without_neighbors

NEAR_ROWS, NEAR_ROWS_GAUSSIAN = 5_000, 8_000
"""Rows above which near data are asked; below, points can carry them, with Gaussian noise as many as there are rows."""
NEAR_POINTS, FEWEST_POINTS = 512, 64
"""Points beside neighbours; the second, at least, of very many rows where w is drawn in steps."""
POINTS_AND_ROWS = 1e7
"""Their product with the rows, at most, where w is drawn in steps."""
WORK, WORK_WITH_SITES = 1.0e12, 6.0e9
"""What is affordable: rows times points times squared neighbours, and rows times cubed neighbours where sites take some
rounds."""
FEWEST, MOST = 16, 96
"""Neighbours that are always taken, and at most, unless all rows are."""
PROCESS_FROM = 2_000
"""Rows above which all of them together are the full process without coordinates, where Gaussian noise allows it."""


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


def near_points(num_rows: int, likelihood: AbstractLikelihood) -> int:
    """How many points stand beside neighbours; where w is drawn in steps, fewer of them for very many rows.

    >>> import kosambi as ko
    >>> [near_points(number, ko.likelihoods.Bernoulli()) for number in (8_000, 50_000, 500_000)]
    [512, 128, 64]
    """
    if isinstance(likelihood, Gaussian):
        return 0 if is_process_affordable(num_rows) else NEAR_POINTS
    affordable = 2 ** math.floor(math.log2(max(1.0, POINTS_AND_ROWS / max(num_rows, 1))))
    return max(min(FEWEST_POINTS, NEAR_POINTS), min(affordable, NEAR_POINTS))


def enough_neighbors(num_rows: int, likelihood: AbstractLikelihood) -> int:
    """How many neighbours a row may have in some minutes on two cores; zero where points can carry the data.

    Zero, too, where the likelihood cannot have them. All rows, where an accelerator can factorise their covariance.

    >>> import kosambi as ko
    >>> [enough_neighbors(number, ko.likelihoods.Gaussian()) for number in (8_000, 40_000, 500_000)]
    [0, 96, 56]
    >>> [enough_neighbors(number, ko.likelihoods.Bernoulli()) for number in (5_000, 8_000, 40_000, 500_000)]
    [0, 88, 52, 20]
    """
    is_gaussian = isinstance(likelihood, Gaussian)
    if is_gaussian and is_process_affordable(num_rows):
        return num_rows
    if num_rows <= (NEAR_ROWS_GAUSSIAN if is_gaussian else NEAR_ROWS) or without_neighbors(likelihood) is not None:
        return 0
    if is_gaussian:
        wanted = math.sqrt(WORK / (num_rows * NEAR_POINTS)) // 8 * 8
    else:
        wanted = (WORK_WITH_SITES / num_rows) ** (1.0 / 3.0) // 4 * 4
    return int(np.clip(wanted, FEWEST, MOST))


def is_process_affordable(num_rows: int) -> bool:
    """Whether all rows are taken as neighbours without asking for less: on an accelerator, while they fit.

    >>> is_process_affordable(1_000)
    False
    """
    return num_rows > PROCESS_FROM and platform() != "cpu" and num_rows <= largest_process()


def may_be_process(
    x: Float[np.ndarray, "N D"], prior: AbstractPrior, likelihood: AbstractLikelihood, potential: str
) -> bool:
    """Whether the full process without coordinates can stand in the place of a point for each row.

    Where most rows share their inputs with others, a point for each distinct one takes less.
    """
    is_open = potential in ("auto", NEIGHBORS) and isinstance(prior, GaussianProcess)
    is_open = is_open and isinstance(likelihood, Gaussian) and PROCESS_FROM < len(x) <= largest_process()
    return is_open and not are_replicated(x)


def are_replicated(x: Float[np.ndarray, "N D"]) -> bool:
    """Whether most rows share their inputs with others: the nearest rows are then copies, and say one thing only."""
    return num_distinct(x) < 0.5 * len(x)


def of_all_rows(num_rows: int, seconds: float, tried: Selection | None = None) -> Selection:
    """No points, because all rows inform every input; `tried` are those that were not enough."""
    table = np.array([[0.0], [np.nan], [np.nan], [np.nan], [1.0]])
    if tried is not None:
        scored = np.isfinite(tried.score)
        known = (tried.sizes, tried.score, tried.gap, tried.divergence, tried.residual_share)
        table = np.concatenate([table, np.stack([column[scored] for column in known])], axis=1)
    sizes, (score, gap, divergence, share) = table[0].astype(int), table[1:]
    none = np.arange(0)
    return Selection(none, "process", TOLERANCE, sizes, score, gap, divergence, share, seconds, None, num_rows)


def beside_neighbors(
    indices: Int[np.ndarray, " M"],
    num_neighbors: int,
    residual_share: float,
    seconds: float,
    scores: Float[np.ndarray, "A 2"] | None = None,
) -> Selection:
    """Points that need not be enough, because near rows inform what they leave open."""
    size, unknown = np.array([len(indices)]), np.full(1, np.nan)
    share = np.array([residual_share])
    return Selection(
        indices, "neighbors", TOLERANCE, size, unknown, unknown, unknown, share, seconds, None, num_neighbors, scores
    )
