"""Rows that are held in memory, so that near ones inform f: whether they are, how they are read, what is said of it.

The rows of a table are small beside what a fit makes of them. Once a first pass has counted them, and if they fit with
all that neighbours need, they are read once more and the fit goes the way that arrays go: the same code, the same
random keys, the same answer. Otherwise there are M coordinates, and rows are read as often as they are needed.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from kosambi._core.groups import Group
from kosambi._core.journal import recalled
from kosambi._core.process_memory import peak, resident
from kosambi.errors import InputError
from kosambi.learning.memory import Memory, Size
from kosambi.learning.num_neighbors import (
    NEAR_ROWS,
    NEAR_ROWS_GAUSSIAN,
    PROCESS_FROM,
    are_replicated,
    enough_neighbors,
    near_points,
)
from kosambi.likelihoods import AbstractLikelihood, Gaussian
from kosambi.posterior import Posterior
from kosambi.samplers import StreamReport
from kosambi.sources import Survey
from kosambi.sources.memory import PROGRAMS, as_limit
from kosambi.target.neighbors import DEFAULT, NEIGHBORS

BLOCK = 2**14
"""Rows that are read at a time into the arrays that hold all."""
# Matrices with a column for each point, or row, that a fit of few rows holds at once.
_MATRICES = 6


class Asked(NamedTuple):
    """What was asked for, as far as it decides on neighbours."""

    num_neighbors: int | str
    """m, zero for none, or "auto"."""
    num_points: int | str
    """M, "auto" or "all"."""
    potential: str
    otherwise: str = ""
    """What else there is that leaves neighbours no place, such as a basis; nothing, as a rule."""
    name: str = "num_neighbors"
    """What the first is called there."""

    @property
    def is_for_neighbors(self) -> bool:
        """Whether neighbours were asked for, and not left open."""
        return self.potential == NEIGHBORS or self.num_neighbors not in ("auto", 0)


class Choice(NamedTuple):
    """Whether rows are held in memory."""

    memory: Memory | None
    """What there is of it; None where they are not."""
    reason: str = ""
    """Why they are not."""


class HeldRows(NamedTuple):
    """All rows of a source."""

    x: Float[np.ndarray, "N D"]
    y: Float[np.ndarray, " N"]
    weights: Any
    """(N,), how often each counts; of arrays as they were given."""

    @property
    def counts(self) -> Float[np.ndarray, " N"] | None:
        """The weights; None where each row counts once."""
        return self.weights if np.any(self.weights != 1.0) else None


def why_not(asked: Asked, group: Group) -> str | None:
    """Why rows are not held, as far as that is known before they are counted; None if they may be.

    Raises:
        InputError: neighbours were asked for where they cannot be.
    """
    if group.count > 1:
        if asked.is_for_neighbors:
            raise InputError(
                "Neighbours cannot be had where several processes share the rows: near ones would have to be in the "
                f"memory of each. Leave out `{asked.name}`, or start one process."
            )
        return "several processes share the rows"
    if asked.is_for_neighbors:
        return None
    if (asked.num_neighbors, asked.num_points, asked.potential) != ("auto", "auto", "auto"):
        return "coordinates were asked for"
    return asked.otherwise or None


def chosen(shape: tuple[int, ...], likelihood: AbstractLikelihood, asked: Asked, max_memory: object) -> Choice:
    """Whether rows that may be held are, by what they would take together with what a fit makes of them.

    What memory is free is looked at once: a fit that is taken up again goes on with what it had begun with.

    Raises:
        InputError: neighbours were asked for, and do not fit.
    """

    def look() -> tuple[int, int]:
        limit = as_limit(max_memory)
        return limit, limit - resident() - PROGRAMS

    num_rows, num_columns = shape
    memory = Memory(*map(int, recalled("free memory", look, num_rows, num_columns)))
    enough = enough_neighbors(num_rows, likelihood)
    if not enough and not asked.is_for_neighbors:
        return _without_neighbors(num_rows, num_columns, likelihood, memory)
    m = asked.num_neighbors if isinstance(asked.num_neighbors, int) and asked.num_neighbors else enough or DEFAULT
    has_number = isinstance(asked.num_points, int)
    wanted = asked.num_points if isinstance(asked.num_points, int) else near_points(num_rows, likelihood)
    size = Size.of(shape, m, wanted, likelihood)
    least = size if has_number else size._replace(num_points=0)
    if memory.has_room(least):
        return Choice(memory)
    needed = memory.asked(least)
    if not asked.is_for_neighbors:
        return Choice(None, f"near rows would take {needed / 1e9:.3g} GB of memory")
    beside = f" beside {wanted} inducing points" if has_number and wanted else ""
    raise InputError(
        f"{m} neighbours of {num_rows:,} rows{beside} take {needed / 1e9:.3g} GB of memory, and `max_memory` is "
        f"{memory.limit / 1e9:.3g} GB, of which {max(0, memory.limit - memory.free) / 1e9:.2g} GB are taken already. "
        f'Give more, or leave `{asked.name}` to "auto".'
    )


def _without_neighbors(num_rows: int, num_columns: int, likelihood: AbstractLikelihood, memory: Memory) -> Choice:
    """Few rows go the way of arrays, which have a point for each of them, or nearly so; many have no use for it."""
    is_gaussian = isinstance(likelihood, Gaussian)
    if num_rows > (NEAR_ROWS_GAUSSIAN if is_gaussian else NEAR_ROWS):
        return Choice(None, f"`{type(likelihood).__name__}` has no neighbours")
    columns = num_columns + min(num_rows, 4 * PROCESS_FROM if is_gaussian else PROCESS_FROM)
    needed = 8 * _MATRICES * num_rows * columns * likelihood.num_latents
    if needed <= memory.free:
        return Choice(memory)
    return Choice(None, f"in memory they would take {(memory.limit - memory.free + needed) / 1e9:.3g} GB")


def without_use(asked: Asked, x: Float[np.ndarray, "N D"]) -> str:
    """Why rows that are there have no use for neighbours after all; nothing if they have."""
    is_many = len(x) > min(NEAR_ROWS, NEAR_ROWS_GAUSSIAN)
    if asked.is_for_neighbors or not is_many or not are_replicated(x):
        return ""
    return "most rows share their inputs with others"


def read(found: Survey) -> HeldRows:
    """All rows of a survey, as they are, in one more pass."""
    x, filled = np.empty((found.num_rows, len(found.x_mean))), 0
    y, weights = np.empty(found.num_rows), np.empty(found.num_rows)
    for block in found.stream.blocks(BLOCK):
        part = slice(filled, filled + len(block.y))
        x[part], y[part], weights[part], filled = block.x, block.y, block.weights, part.stop
    return HeldRows(x, y, weights)


def reported(
    posterior: Posterior, memory: Memory, found: Survey | None = None, *, num_rows: int | None = None
) -> Posterior:
    """The same posterior, whose report says what was held, and how much memory the process has taken by now.

    `num_rows` is N of arrays of which equal rows were made one.
    """
    if found is not None:
        num_rows = found.num_rows
    elif num_rows is None:
        num_rows = len(posterior.target.y)
    stream = StreamReport(
        num_rows=num_rows,
        sample_rows=num_rows,
        block_rows=0 if found is None else BLOCK,
        passes=0 if found is None else found.stream.passes,
        seconds=0.0 if found is None else float(sum(found.stream.seconds)),
        max_memory=memory.limit,
        peak_memory=peak(),
        pareto_k=-np.inf,
        effective_draws=float(posterior.num_particles),
        steps=0,
        is_held=True,
        reason=_fewer_points(posterior, memory),
    )
    assert posterior.report is not None
    posterior.report = dataclasses.replace(posterior.report, stream=stream)
    return posterior


def _fewer_points(posterior: Posterior, memory: Memory) -> str:
    """What to say where there was no memory for as many points as there would have been."""
    target, selection = posterior.target, posterior.selection
    if selection is None or selection.reason != NEIGHBORS or target.num_neighbors is None:
        return ""
    wanted = near_points(len(target.y), target.likelihood)
    most = memory.num_points(Size.of(target.x.shape, target.num_neighbors, wanted, target.likelihood)) or 0
    return f"{most} inducing points at most instead of {wanted}, for which there is no memory" if most < wanted else ""
