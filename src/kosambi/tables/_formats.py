"""Numbers as people write them: `12%`, `$1,234.50`, `€ 3`, `1,234`.

A column is read so only as a whole, with one unit. The number is the one that is written: `12%` is 12. The unit is
remembered, so that new rows in another one are refused and not taken for a hundred times as much.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

THOUSANDS = "1,234"
"""What stands for the unit of a column that has none, but commas between thousands."""
_SYMBOLS = "%$€£¥₹₩₽₺₪"
_FORMATTED = re.compile(
    rf"(?P<first>[+-]?)\s*(?P<before>[{_SYMBOLS}]?)\s*(?P<second>[+-]?)"
    r"(?P<number>[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?|\d+(?:\.\d*)?|\.\d+)"
    rf"\s*(?P<after>[{_SYMBOLS}]?)"
)


class Written(NamedTuple):
    """Texts as numbers, NaN where they are none in the unit of the others."""

    values: np.ndarray
    unit: str | None
    """The symbol that the numbers have, `1,234` if they have commas between thousands, None if they are plain."""
    example: str
    """A text that is no plain number; empty if there is none."""


def number_of(text: str) -> tuple[float, str] | None:
    """The number that a text stands for and its symbol; None if it stands for something else.

    >>> number_of("$1,234.50"), number_of("-12 %"), number_of("1,5")
    ((1234.5, '$'), (-12.0, '%'), None)
    """
    found = _FORMATTED.fullmatch(text)
    if found is None or (found["before"] and found["after"]) or (found["first"] and found["second"]):
        return None
    value = float(found["number"].replace(",", ""))
    is_negative = "-" in (found["first"], found["second"])
    return (-value if is_negative else value), found["before"] or found["after"]


def bare(text: str) -> str:
    """A text without symbols of units around it.

    >>> bare("€ 3,50")
    '3,50'
    """
    return text.strip(_SYMBOLS + " ")


def as_written(levels: np.ndarray, plain: np.ndarray, counts: np.ndarray) -> Written:
    """The numbers of distinct texts, in the unit that most of the values have.

    Arguments:
        levels: the texts.
        plain: the numbers of those that are plain, NaN for the others.
        counts: how often each text occurs.

    >>> levels = np.array(["12%", "7 %", "n"])
    >>> as_written(levels, np.full(3, np.nan), np.ones(3))
    Written(values=array([12.,  7., nan]), unit='%', example='12%')
    """
    values, units = plain.copy(), np.where(np.isnan(plain), "?", "").astype(object)
    for place in np.nonzero(np.isnan(plain))[0]:
        found = number_of(levels[place])
        if found is not None:
            values[place], units[place] = found
    weights: dict[str, float] = {}
    for unit, count in zip(units, counts, strict=True):
        if unit != "?":
            weights[unit] = weights.get(unit, 0.0) + float(count)
    if not weights:
        return Written(values, None, "")
    # Plain numbers first, so that a tie is theirs.
    unit = max(sorted(weights), key=lambda symbol: weights[symbol])
    values = np.where(units == unit, values, np.nan)
    formatted = [str(level) for level in levels[(units == unit) & np.isnan(plain)]]
    return Written(values, unit or (THOUSANDS if formatted else None), formatted[0] if formatted else "")
