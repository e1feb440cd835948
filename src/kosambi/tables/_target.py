"""The column that is predicted: numbers for a regression, labels for a classification."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import numpy as np

from kosambi.errors import InputError
from kosambi.tables._names import quoted
from kosambi.tables._typed import kind_of

Task = Literal["regression", "classification"]
# More labels than this are no labels, but an identifier or a number.
MAX_CLASSES = 50


@dataclasses.dataclass(frozen=True, eq=False)
class Target:
    """What is predicted. `read_target` makes it."""

    name: str
    """Of the column."""
    task: Task
    """Whether values are numbers or labels."""
    values: np.ndarray
    """(N,): float64 numbers, or labels as text or int64."""
    classes: tuple[str, ...]
    """The labels in order; empty for numbers."""
    hint: str = ""
    """What the user may want to know of the choice."""


def read_target(column: Any, task: Literal["auto", "regression", "classification"] = "auto") -> Target:
    """Decide what a column of `typed`'s asks for, and take its values.

    Text, Boolean values and columns with at most two values are labels, all else is numbers; `task` overrides it.
    Labels that are whole numbers stay so, others are text; Boolean values are `false` and `true`.

    Arguments:
        column: the target, without missing values.
        task: to override the choice.

    Raises:
        InputError: it holds dates, there is a single value or label, too many labels, or text where numbers are needed.

    >>> import pandas as pd
    >>> target = read_target(pd.Series([1.0, 0.0, 1.0], name="y"))
    >>> target.task, target.classes, target.values
    ('classification', ('0', '1'), array([1, 0, 1]))
    """
    name, kind = str(column.name), kind_of(column)
    if kind in ("date", "time"):
        raise InputError(
            f"The target `{name}` holds {'dates' if kind == 'date' else 'times of day'}, and what is predicted must be "
            "numbers or labels. Write it as a number, such as days since a start, or name another column."
        )
    if column.isna().any():
        raise InputError(f"The target `{name}` has {int(column.isna().sum())} missing values. Drop those rows.")
    distinct = column.nunique()
    if distinct < 2:
        only = f" ({column.iloc[0]})" if len(column) else ""
        what = "label" if task == "classification" or kind != "numeric" else "value"
        raise InputError(
            f"The target `{name}` has a single {what}{only} in {len(column)} rows, so there is nothing to learn. "
            "Give rows that differ in it, or name another column as the target."
        )
    if task == "auto":
        task = "classification" if kind != "numeric" or distinct <= 2 else "regression"
    if task == "regression":
        if kind == "categorical":
            levels = quoted(list(column.cat.categories), 5)
            raise InputError(
                f"The target `{name}` holds text ({levels}), and a regression needs numbers. Use `--task "
                "classification`, or code it by numbers."
            )
        values = column.to_numpy(dtype=np.float64)
        return Target(name, "regression", np.ascontiguousarray(values), (), _counts_hint(values, distinct))
    labels = labels_of(column, kind)
    classes = tuple(str(label) for label in np.unique(labels))
    if len(classes) > MAX_CLASSES:
        remedy = "Use `--task regression`" if kind == "numeric" else "Merge rare ones"
        raise InputError(
            f"The target `{name}` has {len(classes)} different labels, and at most {MAX_CLASSES} are possible. "
            f"{remedy}, or name another column as the target."
        )
    hint = ""
    if kind == "numeric" and distinct <= 2:
        hint = f"`{name}` has two values and is taken for a label; `--task regression` takes it for a number."
    return Target(name, "classification", labels, classes, hint)


def labels_of(column: Any, kind: str) -> np.ndarray:
    """Labels of a column of `typed`'s without missing values: text, or whole numbers where all are."""
    if kind == "categorical":
        return column.to_numpy(dtype=object).astype(str)
    values = column.to_numpy(dtype=np.float64)
    if kind == "boolean":
        return np.where(values == 1.0, "true", "false")
    # Whole numbers have an order of their own, and up to 1e15 each is a float64 of its own.
    if np.all((values == np.round(values)) & (np.abs(values) < 1e15)):
        return values.astype(np.int64)
    return np.array([repr(float(value)) for value in values])


def _counts_hint(values: np.ndarray, distinct: int) -> str:
    if np.all(values >= 0) and np.all(values == np.round(values)):
        return "Its values are whole numbers; if they count something, say `--likelihood poisson`."
    if distinct <= 10:
        return f"It has {distinct} values only; if they are labels, say `--task classification`."
    return ""
