"""Names of columns: which are wanted, and which was meant when one is not there."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence

import numpy as np

from kosambi.errors import InputError

UNNAMED = "Unnamed: "
"""What a column without a name is called, with its place, as in pandas."""


def quoted(names: Sequence[object], limit: int = 8) -> str:
    """Names for a message, the first `limit` of them.

    >>> quoted(["a", "b"])
    '`a`, `b`'
    """
    shown = ", ".join(f"`{name}`" for name in names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


def rows_text(positions: Sequence[int] | np.ndarray) -> str:
    """Rows for a message, counted from 1 below the header.

    >>> rows_text([0, 4])
    'rows 1, 5'
    """
    shown = ", ".join(str(int(place) + 1) for place in positions[:5]) + (", ..." if len(positions) > 5 else "")
    return f"row{'s' if len(positions) > 1 else ''} {shown}"


def as_known(name: str, known: Sequence[str], what: str = "The table") -> str:
    """`name` if it is among the `known` columns; else an `InputError` that says which one was probably meant.

    >>> as_known("prce", ["area", "price"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    kosambi.errors.InputError: The table has no column `prce`. Did you mean `price`? It has 2 columns: `area`, ...
    """
    if name in known:
        return name
    folded = {other.casefold(): other for other in known}
    near = difflib.get_close_matches(name.strip().casefold(), folded, n=1, cutoff=0.6)
    hint = f"Did you mean `{folded[near[0]]}`? " if near else ""
    plural = "columns" if len(known) != 1 else "column"
    raise InputError(f"{what} has no column `{name}`. {hint}It has {len(known)} {plural}: {quoted(known)}.")


def choose_columns(
    known: Sequence[str], target: str, *, features: Sequence[str] = (), drop: Sequence[str] = ()
) -> tuple[str, ...]:
    """The input columns: `features`, or all of `known` without them, less the target and those to `drop`.

    Raises:
        InputError: a name is not there, or occurs in two roles, or no input is left.

    >>> choose_columns(["id", "x", "y"], "y", drop=["id"])
    ('x',)
    """
    as_known(target, known)
    for name in (*features, *drop):
        as_known(name, known)
    if target in features:
        raise InputError(f"`{target}` is the target, so it cannot be among the features. Leave it out of `--features`.")
    if target in drop:
        raise InputError(f"`{target}` is the target, so it cannot be dropped. Leave it out of `--drop`.")
    both = [name for name in features if name in drop]
    if both:
        raise InputError(f"{quoted(both)} cannot be both a feature and dropped. Name it once.")
    # In the order of the file, each once, however they were asked for.
    chosen = tuple(n for n in known if n != target and n not in drop and (not features or n in features))
    if not chosen:
        raise InputError(
            f"No input column is left beside the target `{target}`. The table has {quoted(known)}. "
            "Drop fewer columns, or give a table with inputs."
        )
    return chosen


def checked_names(header: Sequence[str], path: str) -> list[str]:
    """The names in a header without spaces around them; names that occur twice are refused.

    >>> checked_names(["", " x", "y "], "table.csv")
    ['Unnamed: 0', 'x', 'y']
    """
    stripped = [name.strip() for name in header]
    while len(stripped) > 1 and not stripped[-1]:
        stripped.pop()
    names = [name or f"{UNNAMED}{place}" for place, name in enumerate(stripped)]
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise InputError(f"`{path}` has several columns of the same name: {quoted(twice)}. Rename or remove them.")
    return names
