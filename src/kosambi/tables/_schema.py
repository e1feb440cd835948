"""What was learned about the columns of a training table, so that new rows are coded the same way."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kosambi.errors import InputError
from kosambi.tables._bad_rows import check_units, row_faults
from kosambi.tables._formats import THOUSANDS, Written
from kosambi.tables._names import as_known, quoted
from kosambi.tables._remarks import mixed_note, unit_note, units_of
from kosambi.tables._typed import KINDS, Kind, check_complete, kind_of, typed

MISSING = "(missing)"
"""The level that stands for a missing value."""
# More levels than this would make more columns than a kernel can use.
MAX_LEVELS = 100
_FILL = "Fill them, or fit again with `--impute`."


@dataclasses.dataclass(frozen=True)
class Column:
    """One input column."""

    name: str
    """In the table."""
    kind: Kind
    """What it holds."""
    levels: tuple[str, ...] = ()
    """Of a boolean or categorical column, in order; `(missing)` is last, if values were missing."""
    fill: float | None = None
    """What stands for a missing number: the median of the others. None when imputation was not asked for."""
    has_indicator: bool = False
    """Whether a further column says where numbers were missing."""
    unit: str | None = None
    """How numbers were written in the training table: %, a currency's symbol, `1,234` for thousands, None for plain."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the columns it is coded by."""
        if self.kind == "numeric":
            return (self.name, f"{self.name} {MISSING}") if self.has_indicator else (self.name,)
        if self.kind == "boolean" and len(self.levels) == 2:
            return (self.name,)
        shown = self.levels[1:] if len(self.levels) == 2 else self.levels
        return tuple(f"{self.name}={level}" for level in shown)


@dataclasses.dataclass(frozen=True)
class Schema:
    """How a table is coded as a matrix. `Schema.learn` makes it."""

    target: str
    """The name of the column that is predicted."""
    columns: tuple[Column, ...]
    """The input columns, in the order of the matrix."""
    impute: bool = False
    """Whether missing inputs are filled in."""
    notes: tuple[str, ...] = ()
    """What was done that the user may want to know, such as columns left out."""

    @property
    def labels(self) -> tuple[str, ...]:
        """(D,): the names of the columns of the matrix."""
        return tuple(label for column in self.columns for label in column.labels)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the input columns in the table."""
        return tuple(column.name for column in self.columns)

    @property
    def kinds(self) -> dict[str, Kind]:
        """What each input column holds."""
        return {column.name: column.kind for column in self.columns}

    @classmethod
    def learn(
        cls,
        table: Any,
        *,
        target: str,
        inputs: Sequence[str],
        impute: bool = False,
        units: Mapping[str, Written] | None = None,
    ) -> Schema:
        """Look at the inputs of a training table.

        Numbers stay as they are, Boolean values become 0 and 1, and text is one-hot encoded: a column of 0 and 1 per
        level, or one for two levels. With `impute`, a missing number becomes the median, with a further column that
        says where, and a missing level is a level of its own.

        Arguments:
            table: a data frame as `read` or `typed` gives it.
            target: the name of the column that is predicted; the table need not have it.
            inputs: the names of the input columns.
            impute: whether to fill in missing inputs.
            units: how numbers were written, as `units_of` finds it, where `table` has been through `typed` already.

        Raises:
            InputError: missing values without `impute`, columns that look like identifiers, or no column that varies.

        >>> import pandas as pd
        >>> table = pd.DataFrame({"x": [1.0, None, 5.0], "c": ["u", "v", "u"], "one": [1, 1, 1]})
        >>> schema = Schema.learn(table, target="y", inputs=["x", "c", "one"], impute=True)
        >>> schema.labels, schema.notes
        (('x', 'x (missing)', 'c=v'), ('Column `one` is left out: it has one value, 1.0.',))
        >>> schema.encode(table)[0]
        array([[1., 0., 0.],
               [3., 1., 1.],
               [5., 0., 0.]])
        """
        frame = typed(table[list(inputs)])
        written = units_of(table[list(inputs)], frame) if units is None else units
        columns, notes = [], []
        for name in inputs:
            values = frame[name]
            distinct = values.dropna().unique()
            if len(distinct) < 2:
                notes.append(_left_out(name, distinct, int(values.isna().sum())))
                continue
            columns.append(_learned(name, values, impute))
            if name in written and columns[-1].kind == "numeric":
                columns[-1] = dataclasses.replace(columns[-1], unit=written[name].unit)
                notes.append(unit_note(name, written[name]))
        if not columns:
            raise InputError(
                f"None of the input columns varies: {quoted(list(inputs))}. Give a table whose inputs differ by row."
            )
        if not impute:
            check_complete(frame[[column.name for column in columns]])
        return cls(target, tuple(columns), impute, tuple(notes))

    def encode(self, table: Any) -> tuple[np.ndarray, tuple[str, ...]]:
        """The matrix (N, D) of a table, and its (D,) labels.

        Columns are found by name, so their order does not matter and others may be there.

        Raises:
            InputError: a column is not there, or holds levels or values that it cannot hold.
        """
        names = [str(name) for name in table.columns]
        for name in self.names:
            as_known(name, names)
        check_units(self.columns, table, is_raw=False)
        frame = typed(table[list(self.names)], self.kinds)
        if not self.impute:
            check_complete(frame, _FILL)
        parts = [_coded(column, frame[column.name]) for column in self.columns]
        return np.ascontiguousarray(np.column_stack(parts)), self.labels

    def is_known(self, table: Any) -> np.ndarray:
        """(N,): whether a row has only levels that were there when the schema was learned."""
        frame = typed(table[list(self.names)], self.kinds)
        known = np.ones(len(frame), dtype=bool)
        for column in self.columns:
            if column.kind != "numeric":
                known &= np.isin(_levels(frame[column.name]), column.levels)
        return known

    def faults(self, table: Any) -> np.ndarray:
        """(N,) texts: why a row of a table as `read` gives it cannot be coded; empty for rows that can.

        Raises:
            InputError: a column is not there, or is written in another unit than in training.

        >>> schema = Schema("y", (Column("c", "categorical", ("u", "v")),))
        >>> import pandas as pd
        >>> schema.faults(pd.DataFrame({"c": ["u", "w", None]})).tolist()
        ['', '`c` is `w`, which was not there in training', '`c` is missing']
        """
        self.check_units(table)
        return row_faults(self.columns, table, impute=self.impute)

    def check_units(self, table: Any) -> None:
        """Refuse a table as `read` gives it whose numbers are written in another unit than those of the training rows.

        Raises:
            InputError: a column is not there, or has percent where it had none, or dollars where it had euros.
        """
        for name in self.names:
            as_known(name, [str(name) for name in table.columns])
        check_units(self.columns, table, is_raw=True)

    def to_dict(self) -> dict[str, Any]:
        """As plain lists and dictionaries, for JSON."""
        return {
            "target": self.target,
            "columns": [dataclasses.asdict(column) | {"levels": list(column.levels)} for column in self.columns],
            "impute": self.impute,
            "notes": list(self.notes),
        }

    @classmethod
    def from_dict(cls, data: object) -> Schema:
        """What `to_dict` gave; refused if it is anything else.

        >>> schema = Schema("y", (Column("x", "numeric"),))
        >>> Schema.from_dict(schema.to_dict()) == schema
        True
        """
        fields = _fields(data, {"target": str, "columns": list, "impute": bool, "notes": list}, "a schema")
        columns = tuple(_column_from(entry) for entry in fields["columns"])
        names = [column.name for column in columns]
        if not columns or len(set(names)) != len(names) or not all(isinstance(n, str) for n in fields["notes"]):
            raise InputError("A schema needs input columns, each with a name of its own, and notes of text.")
        return cls(fields["target"], columns, fields["impute"], tuple(fields["notes"]))


def _left_out(name: str, distinct: Any, num_missing: int) -> str:
    if not len(distinct):
        return f"Column `{name}` is left out: it has no values."
    also = f" (and {num_missing} missing)" if num_missing else ""
    return f"Column `{name}` is left out: it has one value, {distinct[0]}{also}."


def _learned(name: str, values: Any, impute: bool) -> Column:
    kind, has_missing = kind_of(values), bool(values.isna().any())
    if kind == "numeric":
        return Column(name, kind, (), float(values.median()) if impute else None, impute and has_missing)
    present = np.unique(_levels(values.dropna())).tolist()
    num_rows = int(values.notna().sum())
    # Nearly every row has a value of its own: a name or a number of the row, which says nothing about other rows.
    if len(present) > 2 and (len(present) == num_rows or (len(present) > 10 and len(present) >= 0.8 * num_rows)):
        raise InputError(
            f"Column `{name}` has {len(present)} different texts in {num_rows} rows, so it looks like an identifier. "
            f"Leave it out: `--drop {name}`. {mixed_note(name, values)}".rstrip()
        )
    if len(present) > MAX_LEVELS:
        raise InputError(
            f"Column `{name}` has {len(present)} levels, and at most {MAX_LEVELS} are coded. Merge rare ones, or leave "
            f"it out: `--drop {name}`."
        )
    if MISSING in present:
        raise InputError(f"Column `{name}` has a level called {MISSING!r}, which is kosambi's own. Rename it.")
    return Column(name, kind, (*present, MISSING) if has_missing and impute else tuple(present))


def _levels(values: Any) -> np.ndarray:
    """A boolean or categorical column as text."""
    if kind_of(values) == "boolean":
        numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
        return np.where(np.isnan(numbers), MISSING, np.where(numbers == 1.0, "true", "false"))
    texts = np.array([*values.cat.categories, MISSING], dtype=object).astype(str)
    return np.asarray(texts[values.cat.codes.to_numpy()])


def _coded(column: Column, values: Any) -> np.ndarray:
    if column.kind == "numeric":
        numbers = values.to_numpy(dtype=np.float64)
        missing = np.isnan(numbers)
        filled = np.where(missing, column.fill, numbers) if missing.any() else numbers
        return np.column_stack([filled, missing] if column.has_indicator else [filled])
    texts = _levels(values)
    unseen = Counter(texts[~np.isin(texts, column.levels)].tolist())
    if unseen:
        shown = ", ".join(f"`{text}` ({count} rows)" for text, count in unseen.most_common(5))
        more = f" and {len(unseen) - 5} more" if len(unseen) > 5 else ""
        raise InputError(
            f"Column `{column.name}` has levels that were not there in training: {shown}{more}. Known are "
            f"{quoted(column.levels)}. Correct or remove these rows, or fit again with them."
        )
    coded = texts[:, None] == np.array(column.levels)
    return (coded[:, 1:] if len(column.levels) == 2 else coded).astype(np.float64)


def _column_from(entry: object) -> Column:
    kinds: dict[str, Any] = {
        "name": str,
        "kind": str,
        "levels": list,
        "fill": (float, int, type(None)),
        "has_indicator": bool,
    }
    # Runs of format 1 have no units.
    entry = {"unit": None} | entry if isinstance(entry, dict) else entry
    fields = _fields(entry, kinds | {"unit": (str, type(None))}, "a column of a schema")
    name, kind, levels, fill = fields["name"], fields["kind"], tuple(fields["levels"]), fields["fill"]
    if kind not in KINDS:
        raise InputError(f"Column `{name}` of a schema has the kind {kind!r}. Kinds are {quoted(KINDS)}.")
    is_numeric = kind == "numeric"
    if not all(isinstance(level, str) for level in levels) or len(set(levels)) != len(levels):
        raise InputError(f"Column `{name}` of a schema has levels that are no different texts.")
    if is_numeric == bool(levels) or (not is_numeric and len(levels) < 2):
        raise InputError(f"Column `{name}` of a schema is {kind} and has {len(levels)} levels.")
    if isinstance(fill, bool) or (fill is not None and not (is_numeric and math.isfinite(fill))):
        raise InputError(f"Column `{name}` of a schema has no finite number to fill in: {fill!r}.")
    if fields["has_indicator"] and fill is None:
        raise InputError(f"Column `{name}` of a schema says where numbers were missing, but not what stands for them.")
    unit = fields["unit"]
    if unit is not None and (not is_numeric or len(unit) > len(THOUSANDS)):
        raise InputError(f"Column `{name}` of a schema is {kind} and has the unit {unit[:20]!r}.")
    return Column(name, kind, levels, None if fill is None else float(fill), fields["has_indicator"], unit)


def _fields(data: object, kinds: Mapping[str, Any], what: str) -> dict[str, Any]:
    if not isinstance(data, dict) or set(data) != set(kinds):
        given = sorted(data) if isinstance(data, dict) else type(data).__name__
        raise InputError(f"This is not {what}: it needs {quoted(list(kinds))}. Got {given}.")
    for name, kind in kinds.items():
        if not isinstance(data[name], kind):
            raise InputError(f"`{name}` of {what} has the wrong type: {type(data[name]).__name__}.")
    return data
