"""Read a table from Parquet, with pyarrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kosambi._core.errors import FileError, InputError
from kosambi.tables._names import as_known, checked_names
from kosambi.tables._typed import pandas

PARQUET = (".parquet", ".pq")
"""How names of such files end."""


def parquet_names(path: str) -> list[str]:
    """The names of a file's columns."""
    parquet, arrow = pyarrow_modules()
    try:
        return checked_names([str(name) for name in parquet.read_schema(path).names], path)
    except (OSError, arrow.ArrowException) as error:
        raise unreadable(path, error) from error


def read_parquet(path: str, columns: Sequence[str] | None) -> Any:
    """A table as a pandas data frame, or some columns of it."""
    pandas()
    names = parquet_names(path)
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


def unreadable(path: str, error: BaseException) -> FileError:
    """What to say of a file that cannot be read."""
    reason = (getattr(error, "strerror", None) or str(error) or type(error).__name__).splitlines()[0]
    return FileError(f"`{path}` cannot be read: {reason.rstrip('.')}. Check that it is whole and that you may read it.")


def pyarrow_modules() -> tuple[Any, Any]:
    """`pyarrow.parquet` and `pyarrow`, or the remedy."""
    try:
        import pyarrow as arrow  # type: ignore[import-untyped]
        import pyarrow.parquet as parquet  # type: ignore[import-untyped]
    except ImportError as error:
        raise ImportError("Parquet needs pyarrow. Install it with `pip install kosambi[parquet]`.") from error
    return parquet, arrow
