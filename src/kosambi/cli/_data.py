"""From a file and what was asked for to training and held-out rows as matrices.

Which rows a model learns from, and which are held out to judge it, is drawn at random with a seed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from kosambi import tables
from kosambi.errors import InputError


@dataclasses.dataclass(frozen=True)
class DataRequest:
    """What `kosambi fit` was asked for, as far as data go."""

    data: Path
    target: str
    task: str = "auto"
    drop: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    dates: Literal["calendar", "days"] = "calendar"
    """What becomes of dates: their seasons too, or the days alone."""
    date_format: tuple[str, ...] = ()
    """How columns of dates are written, each as COLUMN=FORMAT."""
    impute: bool = False
    holdout: float = 0.2
    max_rows: int = 5_000
    seed: int = 0
    memory: str | None = None
    """How much may be taken by a table that is read as a stream."""
    distributed: bool = False
    """Whether several processes read it, each some of its rows."""

    @property
    def is_stream(self) -> bool:
        """Whether the table is read in blocks, and not as a whole."""
        return self.memory is not None or self.distributed


@dataclasses.dataclass(frozen=True, eq=False)
class Data:
    """Rows to learn from, and rows to be judged by."""

    schema: tables.Schema
    target: tables.Target
    table: Any
    """The typed table of inputs, all rows."""
    training: np.ndarray
    held_out: np.ndarray
    num_rows: int
    """In the file."""

    @property
    def num_training(self) -> int:
        """Rows to learn from."""
        return len(self.training)

    def matrix(self, rows: np.ndarray) -> Any:
        """(n, D): the inputs of some rows, as a data frame with labels."""
        return encoded(self.schema, self.table.iloc[rows])


def encoded(schema: tables.Schema, table: Any) -> Any:
    """The matrix of a table as a data frame, so that the estimator can check the names of its columns."""
    import pandas as pd  # type: ignore[import-untyped]

    matrix, labels = schema.encode(table)
    return pd.DataFrame(matrix, columns=list(labels))


def load(request: DataRequest, note: Callable[[str], None]) -> Data:
    """Read the file, decide what its columns are, and draw the rows."""
    names = tables.column_names(request.data)
    inputs = tables.choose_columns(names, request.target, features=request.features, drop=request.drop)
    kinds, layouts = known_columns(request, inputs)
    raw = tables.read(request.data, columns=[*inputs, request.target], text=list(kinds))
    num_rows = len(raw)
    if num_rows < 3:
        raise InputError(
            f"`{request.data}` has {num_rows} row{'s' if num_rows > 1 else ''} of data. Three at least are needed, and "
            "some tens for a fit that means something."
        )
    raw, notes = tables.without_row_numbers(raw)
    inputs = tuple(name for name in inputs if name in raw)
    table = tables.typed(raw, kinds, layouts)
    read = How(tables.units_of(raw, table), tables.layouts_of(raw, table, layouts))
    notes = (*notes, *tables.mixed_notes(raw, table, inputs, request.categorical))
    notes = (*notes, *tables.compact_notes(raw, table, inputs))
    if request.target in read.units:
        notes = (*notes, tables.unit_note(request.target, read.units[request.target]))
    table, dropped = _with_target(table, request)
    if not request.impute:
        tables.check_complete(_with_values(table[list(inputs)]))
    task = request.task if request.task in ("regression", "classification") else "auto"
    target = tables.read_target(table[request.target], task)  # type: ignore[arg-type]
    dropped = (*dropped, *tables.leak_notes(table[list(inputs)], target))
    labels = target.values if target.task == "classification" else None
    drawn = split(len(table), labels, holdout=request.holdout, max_rows=request.max_rows, seed=request.seed)
    schema, training, held_out, moved = _learned(table, inputs, drawn.training, drawn.held_out, request, read)
    all_notes = (*notes, *dropped, *schema.notes, *(n.text for n in tables.date_notes(schema.columns, raw)), *moved)
    for text in all_notes:
        note(text)
    if target.hint and request.task == "auto":
        note(target.hint)
    unused = len(table) - len(training) - len(held_out)
    if unused:
        note(
            f"The file has {num_rows} rows. {len(training)} of them are learned from (`--max-rows`), {len(held_out)} "
            f"are held out, and {unused} are not used."
        )
    return Data(dataclasses.replace(schema, notes=all_notes), target, table, training, held_out, num_rows)


class How(NamedTuple):
    """How columns were written that are numbers or dates, by name."""

    units: dict[str, Any]
    layouts: dict[str, str]


def known_columns(request: DataRequest, inputs: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, str]]:
    """What columns hold, and how their dates are written, as far as the request says so; these are read as text."""
    for name in request.categorical:
        tables.as_known(name, [*inputs, request.target])
    layouts = {}
    for text in request.date_format:
        # A name may have an equals sign in it, and a format may too.
        places = [place for place, letter in enumerate(text) if letter == "="]
        cuts = [place for place in places if text[:place] in inputs] or places[:1]
        if not cuts:
            raise InputError(f"`--date-format {text}` names no column. Write `--date-format COLUMN=FORMAT`.")
        layouts[text[: cuts[0]]] = text[cuts[0] + 1 :]
    layouts = tables.checked_formats(layouts, inputs)
    both = [name for name in layouts if name in request.categorical]
    if both:
        raise InputError(f"`{both[0]}` cannot have both categories and dates. Leave one of the two options out.")
    kinds: dict[str, Any] = dict.fromkeys(request.categorical, "categorical")
    return kinds | dict.fromkeys(layouts, "date"), layouts


def _with_values(table: Any) -> Any:
    """Without columns that have no values at all, which are left out later."""
    return table.loc[:, table.notna().any()]


def _with_target(table: Any, request: DataRequest) -> tuple[Any, tuple[str, ...]]:
    """Only rows whose target is known."""
    missing = table[request.target].isna().to_numpy()
    count = int(missing.sum())
    if not count:
        return table, ()
    if count == len(table):
        raise InputError(f"The target `{request.target}` has no values at all. Name another column.")
    if not request.impute:
        raise InputError(
            f"The target `{request.target}` is missing in {count} of {len(table)} rows. Remove these rows, or ask for "
            "`--impute`, which leaves them out."
        )
    kept = table[~missing].reset_index(drop=True)
    return kept, (f"{count} rows are left out: their target `{request.target}` is missing.",)


def _learned(
    table: Any,
    inputs: tuple[str, ...],
    training: np.ndarray,
    held_out: np.ndarray,
    request: DataRequest,
    read: How,
) -> tuple[tables.Schema, np.ndarray, np.ndarray, tuple[str, ...]]:
    """The schema of the training rows; rows whose levels occur nowhere else join them."""

    def schema_of(rows: np.ndarray) -> tables.Schema:
        return tables.Schema.learn(
            table.iloc[rows],
            target=request.target,
            inputs=inputs,
            impute=request.impute,
            units=read.units,
            layouts=read.layouts,
            dates=request.dates,
        )

    schema = schema_of(training)
    if not len(held_out):
        return schema, training, held_out, ()
    known = schema.is_known(table.iloc[held_out])
    if known.all():
        return schema, training, held_out, ()
    count = int((~known).sum())
    training = np.sort(np.concatenate([training, held_out[~known]]))
    note = f"{count} held-out rows were moved to the training rows: they have levels that no other row has."
    return schema_of(training), training, held_out[known], (note,)


class Split(NamedTuple):
    """Numbers of rows, in increasing order."""

    training: np.ndarray
    held_out: np.ndarray


def split(num_rows: int, labels: np.ndarray | None, *, holdout: float, max_rows: int, seed: int) -> Split:
    """Draw the rows: at most `max_rows` for training, and held-out ones so that they are a share `holdout` of all used.

    Arguments:
        num_rows: N.
        labels: (N,), of a classification; each keeps its share in both parts, and is in the training rows.
        holdout: in [0, 1).
        max_rows: of the training rows.
        seed: same seed, same rows.

    >>> rows = split(10, None, holdout=0.2, max_rows=100, seed=0)
    >>> len(rows.training), len(rows.held_out)
    (8, 2)
    >>> rows = split(1000, None, holdout=0.2, max_rows=40, seed=0)
    >>> len(rows.training), len(rows.held_out)
    (40, 10)
    """
    used = min(num_rows, round(max_rows / (1.0 - holdout)))
    num_held_out = max(1, round(holdout * used)) if holdout > 0 else 0
    if used - num_held_out < 2:
        raise InputError(
            f"There are {num_rows} rows, and {max(used - num_held_out, 0)} of them to learn from. Two at least are "
            "needed: give more rows, or a smaller `--holdout`."
        )
    generator = np.random.default_rng(seed)
    if labels is None:
        order = generator.permutation(num_rows)[:used]
        return Split(np.sort(order[num_held_out:]), np.sort(order[:num_held_out]))
    training, held_out = [], []
    total = 0.0
    for label in np.unique(labels):
        rows = generator.permutation(np.nonzero(labels == label)[0])
        rows = rows[: max(2, round(len(rows) * used / num_rows))]
        # Rounded in the running total, so that many rare labels together have their share of held-out rows.
        before, total = total, total + holdout * len(rows)
        number = min(int(np.floor(total + 0.5)) - int(np.floor(before + 0.5)), len(rows) - 1)
        held_out.append(rows[:number])
        training.append(rows[number:])
    return Split(np.sort(np.concatenate(training)), np.sort(np.concatenate(held_out)))
