"""From a file to numbers: read a table, learn what its columns are, and code them as a matrix.

    file ─► read ─► typed ─► Schema.learn ─► Schema.encode ─► (N, D) numbers with one label per column

A `Schema` remembers every choice that was made from the training table (which columns, which levels, what stands for a
missing value), so that new rows are coded the same way. It is plain JSON. Reading needs pandas:
`pip install kosambi[cli]`. `TableTransformer` is the same for a data frame, as a step of a scikit-learn pipeline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kosambi.tables._bad_rows import first_of, listed
from kosambi.tables._columns import Column
from kosambi.tables._date_notes import checked_formats, compact_notes, date_notes, layouts_of
from kosambi.tables._guard import guarded, guarded_table, unguarded_table
from kosambi.tables._leaks import leak_notes
from kosambi.tables._names import as_known, choose_columns
from kosambi.tables._read import column_names, file_facts, is_parquet, pyarrow_modules, read, read_in_parts
from kosambi.tables._remarks import mixed_notes, unit_note, units_of
from kosambi.tables._schema import Schema
from kosambi.tables._seasons import Calendar
from kosambi.tables._source import TableSource
from kosambi.tables._target import Target, read_target
from kosambi.tables._typed import check_complete, kind_of, typed, without_row_numbers
from kosambi.tables._witnesses import Witnesses, gathered_rows

if TYPE_CHECKING:
    from kosambi.tables._transformer import TableTransformer

__all__ = [
    "Calendar",
    "Column",
    "Schema",
    "TableSource",
    "TableTransformer",
    "Target",
    "Witnesses",
    "as_known",
    "check_complete",
    "checked_formats",
    "choose_columns",
    "column_names",
    "compact_notes",
    "date_notes",
    "file_facts",
    "first_of",
    "gathered_rows",
    "guarded",
    "guarded_table",
    "is_parquet",
    "kind_of",
    "layouts_of",
    "leak_notes",
    "listed",
    "mixed_notes",
    "pyarrow_modules",
    "read",
    "read_in_parts",
    "read_target",
    "typed",
    "unguarded_table",
    "unit_note",
    "units_of",
    "without_row_numbers",
]


def __getattr__(name: str) -> Any:
    if name == "TableTransformer":
        # Here, so that whoever reads a table need not wait for scikit-learn.
        from kosambi.tables._transformer import TableTransformer

        return TableTransformer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
