"""Means over splits, paired differences, and tests that are corrected for their number."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from reproduction.comparison.plan import cell_name
from reproduction.experiment import Found

Values = dict[int, float]
"""A number for each split."""


class Difference(NamedTuple):
    """Of two methods over the splits that both have."""

    mean: float
    error: float
    """The standard error of the mean; infinite with one split."""
    p_value: float
    """Of a paired t-test that the mean is zero; 1 with one split."""
    number: int


def values(found: Found, data: str, likelihood: str, method: str, metric: str) -> Values:
    """What a method scored in the splits that are there."""
    beginning = cell_name(data, likelihood, method, 0)[:-1]
    some = {}
    for name, cell in found.items():
        seed = name.removeprefix(beginning)
        if name.startswith(beginning) and seed.isdigit() and isinstance(cell.get(metric), int | float):
            some[int(seed)] = float(cell[metric])
    return dict(sorted(some.items()))


def mean(some: Values) -> float:
    """The mean over splits."""
    return float(np.mean(list(some.values())))


def deviation(some: Values) -> float:
    """The sample standard deviation over splits; 0 for a single one."""
    return float(np.std(list(some.values()), ddof=1)) if len(some) > 1 else 0.0


def difference(first: Values, second: Values) -> Difference | None:
    """First minus second, split by split; None where they have no split in common.

    >>> difference({0: 1.0, 1: 2.0}, {0: 0.5, 1: 1.0, 2: 9.0})[:2]
    (0.75, 0.25)
    """
    from scipy.stats import ttest_1samp

    common = sorted(set(first) & set(second))
    if not common:
        return None
    gaps = np.array([first[seed] - second[seed] for seed in common])
    if len(gaps) == 1:
        return Difference(float(gaps[0]), float("inf"), 1.0, 1)
    error = float(gaps.std(ddof=1) / np.sqrt(len(gaps)))
    # Gaps that are all the same have no t: either nothing differs, or everything does, always.
    p_value = float(ttest_1samp(gaps, 0.0).pvalue) if error > 0.0 else float(not gaps.any())
    return Difference(float(gaps.mean()), error, p_value, len(gaps))


def speed(found: Found, data: str, likelihood: str, slow: str, fast: str) -> float | None:
    """How many times as long the first method takes, over the splits that both did on the same kind of machine."""
    common = []
    both = [values(found, data, likelihood, method, "seconds") for method in (slow, fast)]
    for seed in sorted(set(both[0]) & set(both[1])):
        places = [found[cell_name(data, likelihood, method, seed)].get("machine") for method in (slow, fast)]
        if places[0] is not None and places[0] == places[1]:
            common.append(seed)
    if not common:
        return None
    return sum(both[0][seed] for seed in common) / sum(both[1][seed] for seed in common)


def holm(p_values: list[float]) -> list[float]:
    """Holm's correction for several tests at once, in the order given.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected


def stars(p_value: float) -> str:
    """The paper's: one for 95 %, two for 99 %."""
    return "**" if p_value < 0.01 else "*" if p_value < 0.05 else ""
