"""Numbers rounded up to few, so that what was compiled for one serves all that are rounded up to it."""

from __future__ import annotations

SMALLEST_BUCKET = 32
"""Rows, at least, that computations are compiled for."""


def bucket(number: int, smallest: int = SMALLEST_BUCKET) -> int:
    """The smallest size that is not below `number`: at most a sixteenth more where that is large.

    Arguments:
        number: how many there are.
        smallest: the first size, and the least that two sizes differ by.

    >>> [bucket(number) for number in (1, 33, 65, 500, 6553)], [bucket(number, 8) for number in (5, 25, 64, 300)]
    ([32, 64, 96, 512, 6656], [8, 32, 64, 304])
    """
    step = max(smallest, 2 ** (max(number, 1).bit_length() - 5))
    return -(-max(number, 1) // step) * step
