"""What was learned about the columns of a training table, so that new rows are coded the same way."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kosambi.errors import InputError
from kosambi.tables._bad_rows import check_units, row_faults
from kosambi.tables._columns import Column, checked_fields, levels_of
from kosambi.tables._date_notes import layouts_of
from kosambi.tables._formats import Written
from kosambi.tables._names import as_known, quoted
from kosambi.tables._remarks import unit_note, units_of
from kosambi.tables._seasons import Dates, check_dates
from kosambi.tables._typed import Kind, check_complete, typed

_FILL = "Fill them, or fit again with `--impute`."


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

    @property
    def as_text(self) -> list[str]:
        """The input columns that a file is to be read as text for, so that nothing is taken for a number."""
        return [column.name for column in self.columns if column.kind in ("categorical", "date", "time")]

    @property
    def layouts(self) -> dict[str, str]:
        """How columns of dates are written, where the training table had them as text."""
        return {
            column.name: column.calendar.layout
            for column in self.columns
            if column.calendar is not None and column.calendar.layout is not None
        }

    @classmethod
    def learn(
        cls,
        table: Any,
        *,
        target: str,
        inputs: Sequence[str],
        impute: bool = False,
        units: Mapping[str, Written] | None = None,
        layouts: Mapping[str, str] | None = None,
        dates: Dates = "calendar",
    ) -> Schema:
        """Look at the inputs of a training table.

        Numbers stay as they are, Boolean values become 0 and 1, and text is one-hot encoded: a column of 0 and 1 per
        level, or one for two levels. A date becomes a number of days, with two columns for each season that the times
        allow: where it stands in its day, its week, its year, as a point on a circle. With `impute`, a missing number
        becomes the median, with a further column that says where, and a missing level is a level of its own.

        Arguments:
            table: a data frame as `read` or `typed` gives it.
            target: the name of the column that is predicted; the table need not have it.
            inputs: the names of the input columns.
            impute: whether to fill in missing inputs.
            units: how numbers were written, as `units_of` finds it, where `table` has been through `typed` already.
            layouts: how dates were written, as `layouts_of` finds it, likewise.
            dates: "calendar" for the seasons of dates too, "days" for the number alone.

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
        check_dates(dates)
        raw = table[list(inputs)]
        frame = typed(raw, None, layouts)
        written = units_of(raw, frame) if units is None else units
        forms = layouts_of(raw, frame) if layouts is None else layouts
        columns, notes = [], []
        for name in inputs:
            values = frame[name]
            distinct = values.dropna().unique()
            if len(distinct) < 2:
                notes.append(_left_out(name, distinct, int(values.isna().sum())))
                continue
            columns.append(Column.learn(name, values, impute=impute, layout=forms.get(name), dates=dates))
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
        frame = typed(table[list(self.names)], self.kinds, self.layouts)
        if not self.impute:
            check_complete(frame, _FILL)
        parts = [column.coded(frame[column.name]) for column in self.columns]
        return np.ascontiguousarray(np.column_stack(parts)), self.labels

    def is_known(self, table: Any) -> np.ndarray:
        """(N,): whether a row has only levels that were there when the schema was learned."""
        frame = typed(table[list(self.names)], self.kinds, self.layouts)
        known = np.ones(len(frame), dtype=bool)
        for column in self.columns:
            if not column.is_measured:
                known &= np.isin(levels_of(frame[column.name]), column.levels)
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
            "columns": [column.to_dict() for column in self.columns],
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
        fields = checked_fields(data, {"target": str, "columns": list, "impute": bool, "notes": list}, "a schema")
        columns = tuple(Column.from_dict(entry) for entry in fields["columns"])
        names = [column.name for column in columns]
        if not columns or len(set(names)) != len(names) or not all(isinstance(n, str) for n in fields["notes"]):
            raise InputError("A schema needs input columns, each with a name of its own, and notes of text.")
        return cls(fields["target"], columns, fields["impute"], tuple(fields["notes"]))


def _left_out(name: str, distinct: Any, num_missing: int) -> str:
    if not len(distinct):
        return f"Column `{name}` is left out: it has no values."
    also = f" (and {num_missing} missing)" if num_missing else ""
    return f"Column `{name}` is left out: it has one value, {distinct[0]}{also}."
