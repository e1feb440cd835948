"""How a limit of memory becomes blocks, precision and a number of points."""

from __future__ import annotations

import pytest

import kosambi as ko
from kosambi.learning.memory import Memory, Size

GAUSSIAN, LABELS = ko.likelihoods.Gaussian(), ko.likelihoods.Bernoulli()
MB, GB = 10**6, 10**9
SIZES = [
    Size.of((1_000_000, 8), 40, 512, GAUSSIAN),
    Size.of((1_000_000, 8), 16, 64, LABELS),
    Size.of((500_000, 54), 20, 64, LABELS),
    Size.of((20_000, 3), 96, 512, GAUSSIAN),
]


@pytest.mark.parametrize("size", SIZES)
def test_less_memory_is_never_more_of_anything(size):
    before = None
    for free in range(20 * GB, 0, -250 * MB):
        memory = Memory(free + GB, free)
        number = memory.num_points(size)
        if number is None:
            assert size._replace(num_points=0).needed(True) > free
            continue
        assert 0 <= number <= size.num_points
        chosen = size._replace(num_points=number)
        room = memory.room(chosen)
        # What there is room for fits.
        is_single = room.features == 0
        assert chosen.needed(is_single) <= free
        assert chosen.sites(is_single, room.batch) + room.kept <= free
        if number < size.num_points:
            assert not memory.has_room(size)
        if before is not None:
            assert number <= before[0]
            # Where features are in single precision there is more for everything else.
            has_same = number == before[0] and room.features == before[1].features
            assert not has_same or (room.batch <= before[1].batch and room.kept <= before[1].kept)
        before = number, room


def test_without_a_limit_that_matters_all_is_as_usual():
    for size in SIZES:
        memory = Memory(201 * GB, 200 * GB)
        assert memory.num_points(size) == size.num_points
        room = memory.room(size)
        assert (room.batch, room.kept) == (ko._core.room.USUAL.batch, ko._core.room.USUAL.kept)


def test_what_takes_memory():
    """The features of Gaussian noise; two indices and tables with sites; no more neighbours than rows."""
    gaussian, labels = SIZES[0], SIZES[1]
    assert gaussian.needed(False) - gaussian.needed(True) == 4 * 1_000_000 * 512
    assert labels.near == 2 * 4 * 1_000_000 * 16
    assert labels.needed(True) > labels._replace(num_points=0).needed(True)
    assert Size.of((100, 2), 1000, 5, GAUSSIAN).num_neighbors == 100
    assert Memory(3 * GB, GB).asked(gaussian) == 2 * GB + gaussian.needed(True)
