"""Read a table from CSV or Parquet, with pandas, and say plainly what is wrong with a file that is none."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from kosambi.errors import FileError, InputError
from kosambi.sources.base import IN_TURN
from kosambi.sources.csv import text_facts
from kosambi.sources.parquet import index_facts, read_groups
from kosambi.tables._csv import KNOWN, SEPARATORS, layout_of, read_csv, read_csv_in_parts, unreadable
from kosambi.tables._names import as_known, checked_names
from kosambi.tables._pandas import pandas

PARQUET = (".parquet", ".pq")
"""How names of Parquet files end."""


def column_names(path: str | os.PathLike[str]) -> list[str]:
    r"""The names of a file's columns, without reading its rows.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "table.csv"
    ...     _ = path.write_text("x; y\n1; 2\n")
    ...     column_names(path)
    ['x', 'y']
    """
    path = _as_file(path)
    if is_parquet(path):
        return _parquet_names(path)
    return layout_of(path, None).names


def read(
    path: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    text: Sequence[str] = (),
    separator: str | None = None,
) -> Any:
    r"""A table as a pandas data frame, with the rows of the file.

    A CSV file is UTF-8 with names in its first line; commas, semicolons, tabs and bars are recognised as separators.
    What pandas takes for missing (an empty field, `NA`, `null`, ...) is missing, and `?` too.

    Arguments:
        path: of a .csv, .tsv (also with .gz) or .parquet file.
        columns: the only ones to return, in this order.
        text: columns to read as text although they may look like numbers.
        separator: between fields; recognised if not given.

    Raises:
        FileError: the file is not there, or cannot be read.
        InputError: it holds no table, or not these columns.
        ImportError: pandas (or pyarrow, for Parquet) is not installed.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "table.csv"
    ...     _ = path.write_text("x,y\n1,a\n?,b\n")
    ...     read(path, columns=["y", "x"]).to_dict("list")
    {'y': ['a', 'b'], 'x': [1.0, nan]}
    """
    path = _as_file(path)
    if is_parquet(path):
        return _read_parquet(path, columns)
    layout = layout_of(path, separator)
    what = f"`{path}` (separated by {layout.separator!r})"
    for name in columns or ():
        as_known(name, layout.names, what)
    table = read_csv(path, layout, [name for name in text if name in layout.names])
    if len(table) == 0:
        raise InputError(f"`{path}` has a header and no rows. Give a table with data.")
    return table if columns is None else table[list(columns)]


def read_in_parts(
    path: str | os.PathLike[str],
    *,
    columns: Sequence[str],
    text: Sequence[str] = (),
    size: int = 2**16,
    share: tuple[int, int] = (0, 1),
) -> Iterator[Any]:
    r"""The rows of a table as data frames, some at a time, so that no more than these are in memory.

    The index of a frame has the numbers of its rows in the file, from 0.

    Arguments:
        path: of a .csv, .tsv (also with .gz) or .parquet file.
        columns: the only ones to return, in this order.
        text: columns to read as text although they may look like numbers.
        size: rows at a time, at most.
        share: the number of a process and how many share the rows: row groups of Parquet, 8192 rows in turn of CSV,
            which all of them read. A process without any gets an empty frame.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "table.csv"
    ...     _ = path.write_text("x,y\n1,a\n?,b\n3,c\n")
    ...     [part.to_dict("list") for part in read_in_parts(path, columns=["x"], size=2)]
    [{'x': [1.0, nan]}, {'x': [3]}]
    """
    name = _as_file(path)
    known = column_names(name)
    for each in columns:
        as_known(each, known, f"`{name}`")
    index, count = share
    in_groups, is_empty = is_parquet(name), True
    as_text = [each for each in text if each in known]
    for start, frame in _groups(name, columns, *share) if in_groups else _lines(name, as_text, size):
        is_empty = False
        frame = frame[list(columns)]
        frame.index = pandas().RangeIndex(start, start + len(frame))
        yield frame if in_groups or count == 1 else frame[frame.index // IN_TURN % count == index]
    if is_empty and count == 1:
        raise InputError(f"`{name}` has no rows. Give a table with data.")
    if is_empty:
        yield _schema(name).empty_table().to_pandas()[list(columns)]


def _groups(path: str, columns: Sequence[str], index: int, count: int) -> Iterator[tuple[int, Any]]:
    """Rows of a Parquet file, with the number of the first."""
    pandas()
    for batch, _, start in read_groups(path, list(columns), index, count):
        yield start, batch.to_pandas()


def _lines(path: str, text: Sequence[str], size: int) -> Iterator[tuple[int, Any]]:
    """Rows of a CSV file, with the number of the first."""
    start = 0
    for frame in read_csv_in_parts(path, layout_of(path, None), list(text), size):
        yield start, frame
        start += len(frame)


def file_facts(path: str | os.PathLike[str]) -> dict[str, object]:
    """What differs between two files with different tables, without reading all rows."""
    name = _as_file(path)
    return index_facts(name) if is_parquet(name) else text_facts(name)


def is_parquet(path: str | os.PathLike[str]) -> bool:
    """Whether a file's name is that of a Parquet file."""
    return os.fspath(path).lower().endswith(PARQUET)


def _as_file(path: str | os.PathLike[str]) -> str:
    name = os.fspath(path)
    if os.path.isdir(name):
        raise FileError(f"`{name}` is a directory. Give the path of a table: {KNOWN}.")
    if not os.path.exists(name):
        raise FileError(f"There is no file `{name}`. Check the path.")
    plain = name.lower().removesuffix(".gz")
    if not plain.endswith((*SEPARATORS, *PARQUET)) or (plain != name.lower() and plain.endswith(PARQUET)):
        raise FileError(f"`{name}` is of a kind that is not read. Give a table as {KNOWN}, exporting it first.")
    return name


def _parquet_names(path: str) -> list[str]:
    """The names of a file's columns."""
    return checked_names([str(name) for name in _schema(path).names], path)


def _schema(path: str) -> Any:
    """The names and types of a Parquet file's columns, as pyarrow has them."""
    parquet, arrow = pyarrow_modules()
    try:
        return parquet.read_schema(path)
    except (OSError, arrow.ArrowException) as error:
        raise unreadable(path, error) from error


def _read_parquet(path: str, columns: Sequence[str] | None) -> Any:
    """A table as a pandas data frame, or some columns of it."""
    pandas()
    names = _parquet_names(path)
    for name in columns or ():
        as_known(name, names, f"`{path}`")
    parquet, arrow = pyarrow_modules()
    try:
        table = parquet.read_table(path, columns=None if columns is None else list(columns))
    except (OSError, arrow.ArrowException) as error:
        raise unreadable(path, error) from error
    if table.num_rows == 0:
        raise InputError(f"`{path}` has no rows. Give a table with data.")
    # Without what pandas wrote about itself: the row labels of a data frame are a column like any other.
    frame = table.to_pandas(ignore_metadata=True)
    return frame if columns is None else frame[list(columns)]


def pyarrow_modules() -> tuple[Any, Any]:
    """`pyarrow.parquet` and `pyarrow`, or the remedy."""
    try:
        import pyarrow as arrow  # type: ignore[import-untyped]
        import pyarrow.parquet as parquet  # type: ignore[import-untyped]
    except ImportError as error:
        raise ImportError("Parquet needs pyarrow. Install it with `pip install kosambi[parquet]`.") from error
    return parquet, arrow
