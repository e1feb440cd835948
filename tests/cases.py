"""The cases of a parametrised test, with those that take long marked where the test stands."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest


def cases(*axes: Iterable, slow: Iterable[str] | None = None, quick: Iterable[str] | None = None) -> list:
    """Every combination of the values of the axes, for `pytest.mark.parametrize`.

    Arguments:
        axes: the values, one sequence for each argument of the test; the first varies slowest.
        slow: names of the combinations that only `make test-slow` runs. A name is the values joined by "-".
        quick: instead of `slow`, the names of those that always run; all others are slow.

    >>> [case.id for case in cases([0, 1], ["a", "b"], slow=["1-b"]) if case.marks]
    ['1-b']
    """
    found = {"-".join(map(str, values)): values for values in itertools.product(*axes)}
    named = set(slow or ()) | set(quick or ())
    if (slow is None) == (quick is None) or not named <= set(found):
        raise ValueError(f"Name slow cases or quick ones, out of {list(found)}. Got slow={slow}, quick={quick}.")
    marked = {name for name in found if (name in named) == (slow is not None)}
    return [
        pytest.param(*values, id=name, marks=[pytest.mark.slow] * (name in marked)) for name, values in found.items()
    ]
