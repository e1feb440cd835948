r"""What a fit with neighbours takes of memory, and how many points and how large blocks there is room for.

Besides the rows themselves (8·N·D bytes for each copy of the inputs) a fit holds, at its highest stages,

    learning    two more copies of the inputs, in an order and in units of their own
    search      the features Ψ (N×M), a copy of the inputs, the index of neighbours (4·N·m; twice that with sites)
    sites       Ψ, the index, some twenty numbers for each row, a batch of systems, and as many as can be kept
    steps       Ψ, what neighbours leave of it, and that in the frame of the sampler, with a table for each row

so that with less memory first systems are not kept, then Ψ is held in single precision, then there are fewer points.
"""

from __future__ import annotations

from typing import NamedTuple

from kosambi._core.journal import recalled
from kosambi._core.process_memory import resident
from kosambi._core.room import USUAL, Room
from kosambi.likelihoods import AbstractLikelihood, Gaussian
from kosambi.target.neighborhood import SINGLE_ABOVE

# Numbers of each row besides its inputs: observation, weight, order; a search tree; sites and what is known of f; the
# tables of steps.
_PLAIN, _TREE, _SITES, _STEPS = 8, 40, 24, 90
# What learning takes whatever the number of rows, the smallest batch that is not slow, and programs that are compiled
# after learning.
_LEARNING, _LEAST_BATCH, _LATER = 200 * 10**6, 2**27, 150 * 10**6
# Points are left out in such steps.
_STEP = 64


class Size(NamedTuple):
    """The numbers that decide on memory."""

    num_rows: int
    """N."""
    num_columns: int
    """D."""
    num_neighbors: int
    """m."""
    num_points: int
    """M."""
    has_sites: bool
    """Whether the likelihood is another than Gaussian."""

    @classmethod
    def of(cls, shape: tuple[int, ...], num_neighbors: int, num_points: int, likelihood: AbstractLikelihood) -> Size:
        """For inputs of this shape, with no more neighbours than rows."""
        num_rows, num_columns = shape
        neighbors = min(num_neighbors, num_rows)
        return cls(num_rows, num_columns, neighbors, num_points, not isinstance(likelihood, Gaussian))

    @property
    def inputs(self) -> int:
        """Bytes of one copy of the inputs."""
        return 8 * self.num_rows * self.num_columns

    @property
    def near(self) -> int:
        """Bytes of the numbers of neighbours."""
        return 4 * self.num_rows * self.num_neighbors * (2 if self.has_sites else 1)

    @property
    def rows(self) -> int:
        """Bytes of one copy of the rows."""
        return self.inputs + 8 * _PLAIN * self.num_rows

    def held(self, is_single: bool) -> int:
        """Bytes of Ψ, and of square matrices of points."""
        return (4 if is_single else 8) * self.num_rows * self.num_points + 80 * self.num_points**2

    def sites(self, is_single: bool, batch: int) -> int:
        """Bytes of the stage in which sites are found, or least squares summed up, without systems that are kept."""
        return self.rows + self.held(is_single) + self.near + 8 * _SITES * self.num_rows + batch

    def needed(self, is_single: bool) -> int:
        """Bytes of the highest stage, at least, one copy of the rows included."""
        learning = 2 * self.inputs + _LEARNING
        # In many columns a search has them in single precision, too; what it finds has a margin.
        search = self.held(is_single) + self.inputs * 3 // 2 + self.near
        search += 8 * (_TREE + self.num_neighbors) * self.num_rows
        steps = self.held(is_single) + (16 * self.num_points + 8 * (_SITES + _STEPS)) * self.num_rows
        is_stepped = self.has_sites and self.num_points > 0
        highest = max(learning, search, steps if is_stepped else 0)
        return max(self.rows + highest, self.sites(is_single, _LEAST_BATCH))


class Memory(NamedTuple):
    """How many bytes the process may take, and how many of them were left when a fit began.

    >>> import kosambi as ko
    >>> size = Size.of((1_000_000, 8), 40, 512, ko.likelihoods.Gaussian())
    >>> [Memory(limit, limit - 10**9).num_points(size) for limit in (8 * 10**9, 3 * 10**9, 10**9)]
    [512, 192, None]
    """

    limit: int
    free: int

    def has_room(self, size: Size) -> bool:
        """Whether a fit of this size fits."""
        return size.needed(True) <= self.free

    def room(self, size: Size) -> Room:
        """For a fit of this size; the least that there can be where it does not fit."""
        is_single = size.num_rows * size.num_points > SINGLE_ABOVE or size.needed(False) > self.free
        left = self.free - size.sites(is_single, 0)
        batch = min(USUAL.batch, max(_LEAST_BATCH, left // 4))
        return Room(batch, min(USUAL.kept, max(0, left - batch)), 0 if is_single else USUAL.features, self.limit)

    def again(self, num_rows: int, num_columns: int) -> Memory:
        """What is left after learning, as if the rows that are held by now were not, since sizes count them."""

        def look() -> tuple[int]:
            return (self.limit - resident() - _LATER + Size(num_rows, num_columns, 0, 0, False).rows,)

        (free,) = recalled("free memory after learning", look, num_rows, num_columns)
        return self._replace(free=int(free))

    def num_points(self, size: Size) -> int | None:
        """As many points as there is room for, `size.num_points` at most; None where neighbours alone do not fit."""
        number = size.num_points
        while not self.has_room(size._replace(num_points=number)):
            if not number:
                return None
            number = (number - 1) // _STEP * _STEP
        return number

    def asked(self, size: Size) -> int:
        """Bytes that the process would need for neighbours without points, or for the points that were asked for."""
        return self.limit - self.free + size.needed(True)
