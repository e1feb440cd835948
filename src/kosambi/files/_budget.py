"""How much work a file may ask for, from what it holds.

Objects refer to others, and whoever walks through an object meets what is shared as often as it is referred to: twenty
mixtures, each of twice the one before, are four kilobytes and a million parts. So parts are counted as they would be
met, from the specification alone and before anything is built, and there may be only so many for each object and each
reference in the file. What the objects' arrays weigh is counted in the same way. Both are counts and no clock, so that
a file is refused on every machine or on none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from kosambi.files._annotations import ArrayRef
from kosambi.files._registry import FaultError

# An averaged posterior is met five times over, since it lies about ten deep and little in it is shared.
VISITS, VISITS_EACH = 20_000, 50
"""Parts that may be met: so many in any file, and so many more for each object that is stored."""
BYTES, BYTES_EACH = 2**28, 200
"""Bytes of arrays that may be met: so many in any file, and so many for each byte that is stored."""
MAX_WHERE = 200
"""Characters of the place in an object that a message names."""


class Budget:
    """Counts what a file asks for; `spend` is called once for each object, after those it refers to."""

    def __init__(self, arrays: Mapping[str, ArrayRef]) -> None:
        self._sizes = {name: math.prod(ref.shape) * ref.dtype.itemsize for name, ref in arrays.items()}
        self._most_bytes = BYTES + BYTES_EACH * sum(self._sizes.values())
        self._visits: list[int] = []
        self._bytes: list[int] = []
        self._total_visits = self._total_bytes = self._references = 0
        self._here = [1, 0]

    def refer(self, number: int) -> None:
        """The object that is being read refers to object `number`."""
        self._here[0] += self._visits[number]
        self._here[1] += self._bytes[number]
        self._references += 1

    def hold(self, name: str) -> None:
        """The object that is being read holds the array `name`."""
        self._here[1] += self._sizes[name]
        self._references += 1

    def spend(self) -> None:
        """The object has been read. Raises `FaultError` if the file asks for too much."""
        self._visits.append(self._here[0])
        self._bytes.append(self._here[1])
        self._total_visits += self._here[0]
        self._total_bytes += self._here[1]
        self._here = [1, 0]
        allowed = VISITS + VISITS_EACH * len(self._visits) + self._references
        if self._total_visits > allowed:
            raise FaultError(
                f"its {len(self._visits)} objects refer to each other so often that they stand for "
                f"{_about(self._total_visits)} parts, and {allowed} are allowed. No model is like that: the file was "
                "made to exhaust the machine, or is damaged"
            )
        if self._total_bytes > self._most_bytes:
            raise FaultError(
                f"its objects refer to the same arrays so often that they stand for {_about(self._total_bytes)} bytes, "
                f"and {self._most_bytes} are allowed. Save fewer objects in one file"
            )


def shortened(where: str) -> str:
    """A place inside an object, of which a file chooses the keys, no longer than a message needs.

    >>> shortened("`Report.further`['" + "k" * 1000 + "']")[-8:]
    'kkkkk...'
    """
    return where if len(where) <= MAX_WHERE else where[: MAX_WHERE - 3] + "..."


def _about(number: int) -> str:
    """A number from a file, which may have any number of digits."""
    return str(number) if number < 10**15 else f"about 10^{number.bit_length() * 3 // 10}"
