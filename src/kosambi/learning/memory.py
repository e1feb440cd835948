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

from kosambi._core.room import USUAL, Room
from kosambi.likelihoods import AbstractLikelihood, Gaussian
from kosambi.target.neighborhood import SINGLE_ABOVE

# Numbers of each row besides its inputs: observation, weight, order; sites and what is known of f; tables of steps.
_PLAIN, _SITES, _STEPS = 8, 24, 90
# What learning takes whatever the number of rows, and the smallest batch that is not slow.
_LEARNING, _LEAST_BATCH = 200 * 10**6, 2**26
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
    def of(
        cls, num_rows: int, num_columns: int, num_neighbors: int, num_points: int, likelihood: AbstractLikelihood
    ) -> Size:
        """For a likelihood, with no more neighbours than rows."""
        neighbors = min(num_neighbors, num_rows)
        return cls(num_rows, num_columns, neighbors, num_points, not isinstance(likelihood, Gaussian))

    @property
    def inputs(self) -> int:
        """Bytes of one copy of the inputs."""
        return 8 * self.num_rows * self.num_columns

    @property
    def index(self) -> int:
        """Bytes of the numbers of neighbours."""
        return 4 * self.num_rows * self.num_neighbors * (2 if self.has_sites else 1)

    def held(self, is_single: bool) -> int:
        """Bytes that stages have in common: one copy of the rows, Ψ, and square matrices of points."""
        psi = (4 if is_single else 8) * self.num_rows * self.num_points
        return self.inputs + 8 * _PLAIN * self.num_rows + psi + 80 * self.num_points**2

    def sites(self, is_single: bool, batch: int) -> int:
        """Bytes of the stage in which sites are found, or least squares summed up, without systems that are kept."""
        return self.held(is_single) + self.index + 8 * _SITES * self.num_rows + batch

    def needed(self, is_single: bool) -> int:
        """Bytes of the highest stage, at least."""
        learning = 3 * self.inputs + 8 * _PLAIN * self.num_rows + _LEARNING
        # In many columns a search has them in single precision, too; what it finds has a margin.
        search = self.held(is_single) + self.inputs * 3 // 2 + self.index + 8 * self.num_rows * self.num_neighbors
        steps = self.held(is_single) + (16 * self.num_points + 8 * (_SITES + _STEPS)) * self.num_rows
        is_stepped = self.has_sites and self.num_points > 0
        return max(learning, search, self.sites(is_single, _LEAST_BATCH), steps if is_stepped else 0)


class Memory(NamedTuple):
    """How many bytes the process may take, and how many of them were left when a fit began.

    >>> import kosambi as ko
    >>> size = Size.of(1_000_000, 8, 40, 512, ko.likelihoods.Gaussian())
    >>> [Memory(limit, limit - 10**9).num_points(size) for limit in (8 * 10**9, 3 * 10**9, 10**9)]
    [512, 320, None]
    """

    limit: int
    free: int

    def room(self, size: Size) -> Room | None:
        """For a fit of this size; None where it does not fit."""
        is_single = size.num_rows * size.num_points > SINGLE_ABOVE or size.needed(False) > self.free
        if size.needed(is_single) > self.free:
            return None
        left = self.free - size.sites(is_single, 0)
        batch = min(USUAL.batch, max(_LEAST_BATCH, left // 4))
        return Room(batch, min(USUAL.kept, max(0, left - batch)), 0 if is_single else USUAL.features)

    def num_points(self, size: Size) -> int | None:
        """As many points as there is room for, `size.num_points` at most; None where neighbours alone do not fit."""
        number = size.num_points
        while self.room(size._replace(num_points=number)) is None:
            if not number:
                return None
            number = (number - 1) // _STEP * _STEP
        return number

    def asked(self, size: Size) -> int:
        """Bytes that the process would need for neighbours without points, or for the points that were asked for."""
        return self.limit - self.free + size.needed(True)
