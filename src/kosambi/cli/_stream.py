"""`kosambi fit --memory`: a table that is read as a stream, all of its rows, with some held out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from kosambi import tables
from kosambi._core.groups import ALONE, Group
from kosambi.cli._data import DataRequest, encoded, known_columns
from kosambi.errors import InputError
from kosambi.parallel import distributed
from kosambi.sources import AbstractRowSource
from kosambi.sources.base import where

# Rows that are looked at to learn what columns are, and rows held out at most: more would judge no better.
_LOOKED_AT, _MOST_HELD_OUT = 20_000, 10_000


@dataclasses.dataclass(frozen=True, eq=False)
class StreamData:
    """Rows to learn from, on disk, and rows to be judged by; what `Data` is for tables in memory."""

    schema: tables.Schema
    target: tables.Target
    """Of the rows held out; its classes are those of all rows."""
    table: Any
    """The typed table of the rows held out."""
    held_out: np.ndarray
    """Their places in it."""
    num_rows: int
    """In the file."""
    num_training: int
    source: AbstractRowSource

    def matrix(self, rows: np.ndarray) -> Any:
        """(n, D): the inputs of some of the rows held out, as a data frame with labels."""
        return encoded(self.schema, self.table.iloc[rows])


def load_stream(request: DataRequest, note: Callable[[str], None], group: Group = ALONE) -> StreamData:
    """Read the file once to learn what its columns are, and once for the rows that are held out.

    Of a Parquet file every process of `group` reads its row groups; a CSV file is read as a whole by all of them.
    """
    group.check_same(tables.file_facts(request.data), "Give all of them the same file, and start them again.")
    readers = group if tables.is_parquet(request.data) else ALONE
    share = readers.index, readers.count
    names = tables.column_names(request.data)
    inputs = tables.choose_columns(names, request.target, features=request.features, drop=request.drop)
    kinds, layouts = known_columns(request, inputs)
    parts = tables.read_in_parts(request.data, columns=[*inputs, request.target], text=list(kinds), share=share)
    found = tables.Witnesses(parts, request.target, _LOOKED_AT).over(readers)
    if found.num_rows < 3:
        raise InputError(f"`{request.data}` has {found.num_rows} rows of data. Three at least are needed.")
    raw, notes = tables.without_row_numbers(found.rows)
    inputs = tuple(name for name in inputs if name in raw)
    table = tables.typed(raw, kinds, layouts)
    if not request.impute:
        _check_complete(table[[*inputs, request.target]], request)
    seen = table[table[request.target].notna()]
    task = request.task if request.task in ("regression", "classification") else "auto"
    target = tables.read_target(seen[request.target], task)  # type: ignore[arg-type]
    layouts = tables.layouts_of(raw, table[list(inputs)], layouts)
    schema = tables.Schema.learn(
        seen, target=request.target, inputs=inputs, impute=request.impute, layouts=layouts, dates=request.dates
    )
    read = [note.text for note in tables.date_notes(schema.columns, raw)]
    compact = tables.compact_notes(raw, table, inputs)
    schema = dataclasses.replace(schema, notes=(*notes, *compact, *schema.notes, *read))
    for text in schema.notes:
        note(text)
    if target.hint and request.task == "auto":
        note(target.hint)
    held = _held_out(found.num_rows, request)
    kind = tables.kind_of(table[request.target])
    source = tables.TableSource(request.data, schema, kind, target.classes or None, held)
    rows = seen.iloc[:0] if not len(held) else _collected(source, held, readers)
    values = _values(source, rows, target)
    note(
        f"All {found.num_rows - len(rows):,} of {found.num_rows:,} rows that are not held out are learned from, in "
        f"blocks; what columns are was learned from {len(found.rows):,} rows."
    )
    return StreamData(
        schema,
        dataclasses.replace(target, values=values),
        rows,
        np.arange(len(rows)),
        found.num_rows,
        found.num_rows - len(held),
        distributed(source) if request.distributed else source,
    )


def _check_complete(table: Any, request: DataRequest) -> None:
    """Refuse missing values, with the place of the first one, which is among the rows that were looked at."""
    # Columns that do not vary are left out.
    used = [name for name in table if name == request.target or table[name].nunique() > 1]
    missing = table[used].isna()
    if not (rows := np.flatnonzero(missing.any(axis=1))).size:
        return
    name = missing.columns[np.flatnonzero(missing.iloc[rows[0]])[0]]
    others = [f"`{other}`" for other in used if missing[other].any() and other != name]
    also = f" Values are missing in {', '.join(others)} too." if others else ""
    raise InputError(
        f"{where(f'`{request.data.name}`', int(table.index[rows[0]]))}: column `{name}` has no value.{also} Fill them, "
        "drop those columns or rows, or ask for `--impute`, which fills inputs in and leaves rows without a target out."
    )


def _held_out(num_rows: int, request: DataRequest) -> np.ndarray:
    """Numbers of the rows held out: a share of all, but no more than judge a fit well."""
    number = min(round(request.holdout * num_rows), _MOST_HELD_OUT) if request.holdout > 0 else 0
    chosen = np.random.default_rng(request.seed).choice(num_rows, number, replace=False, shuffle=False)
    return np.sort(chosen)


def _collected(source: tables.TableSource, rows: np.ndarray, readers: Group) -> Any:
    """The typed inputs and target of some rows."""
    import pandas as pd  # type: ignore[import-untyped]

    own = pd.concat(list(source.tables(only=rows, share=(readers.index, readers.count))))
    raw = tables.gathered_rows(readers, own).reset_index(drop=True)
    kinds = {**source.schema.kinds, source.schema.target: source.target_kind}
    return tables.typed(raw, kinds, source.schema.layouts)


def _values(source: tables.TableSource, rows: Any, target: tables.Target) -> np.ndarray:
    """The target of the rows held out, as an estimator has it."""
    if not len(rows):
        return target.values[:0]
    numbers = source.observations(rows)
    return np.array(target.classes)[numbers.astype(int)] if source.labels is not None else numbers
