"""Columns that belong together because they code one category: `city=Bonn`, `city=Köln`, `city=Ulm`.

Taken one by one they would be set to values that no row has, two cities at once or none. The effect of the category
sets all of them to one level after the other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from kosambi.plots.average import Effect, averaged_inputs
from kosambi.plots.style import spread


@dataclasses.dataclass(frozen=True)
class Category:
    """One category, as `kosambi.tables` codes it."""

    name: str
    """Of the column in the table."""
    columns: tuple[int, ...]
    """Of the matrix; one where there are two levels."""
    levels: tuple[str, ...]
    """Their names; of two levels the first has no name in the matrix and is called `other`."""

    def coded(self) -> Float[np.ndarray, "L K"]:
        """The values of the columns at each level."""
        identity = np.eye(len(self.levels))
        return identity if len(self.columns) == len(self.levels) else identity[:, 1:]


def categories(names: Sequence[str], X: Float[np.ndarray, "N D"]) -> list[Category]:
    """The categories among the columns of a matrix: labels `name=level` of columns of 0 and 1, of which a row has one.

    >>> X = np.array([[1.0, 0.0, 0.0, 5.0], [0.0, 0.0, 1.0, 6.0], [0.0, 1.0, 0.0, 7.0]])
    >>> categories(["city=Bonn", "city=Köln", "city=Ulm", "size"], X)
    [Category(name='city', columns=(0, 1, 2), levels=('Bonn', 'Köln', 'Ulm'))]
    """
    # Inputs that were standardised and carried back are off by a rounding.
    X = np.round(X, 9)
    groups: dict[str, list[int]] = {}
    for column, name in enumerate(names):
        if "=" in name[1:] and np.all(np.isin(X[:, column], (0.0, 1.0))):
            groups.setdefault(name[0] + name[1:].split("=", 1)[0], []).append(column)
    found = []
    for name, columns in groups.items():
        levels = tuple(names[column][len(name) + 1 :] for column in columns)
        if len(columns) == 1:
            found.append(Category(name, tuple(columns), ("other", *levels)))
        elif np.all(X[:, columns].sum(axis=1) == 1.0):
            found.append(Category(name, tuple(columns), levels))
    return found


def averaged_category(
    estimator: Any,
    X: Float[np.ndarray, "N D"],
    category: Category,
    *,
    coverage: float = 0.95,
    max_rows: int = 40,
    num_samples: int | None = None,
    random_state: int = 0,
) -> Effect:
    """The effect of a category: the average over rows with all of its columns set to one level after the other."""
    rows, coded = X[spread(len(X), max_rows)], category.coded()
    table = np.tile(rows, (len(coded), 1))
    table[:, list(category.columns)] = np.repeat(coded, len(rows), axis=0)
    own = X[:, list(category.columns)]
    level = own.argmax(axis=1) if len(category.columns) > 1 else np.round(own[:, 0])
    return averaged_inputs(
        estimator,
        table,
        column=category.columns[0],
        values=np.arange(len(coded), dtype=np.float64),
        data=np.asarray(level, dtype=np.float64),
        is_few=True,
        levels=category.levels,
        coverage=coverage,
        num_samples=num_samples,
        random_state=random_state,
    )


def influence(effect: Effect) -> float:
    """The variance of the effect of a category over the data, as `influences` has it for other columns."""
    shares = np.array([np.mean(effect.data == value) for value in effect.values])[:, None]
    middle = np.sum(shares * effect.mean, axis=0)
    return float(np.sum(shares * np.square(effect.mean - middle)))
