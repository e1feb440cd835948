"""Read a table from CSV or Parquet, with pandas, and say plainly what is wrong with a file that is none."""

from __future__ import annotations

import csv
import gzip
import io
import os
import warnings
import zlib
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from kosambi._core.errors import FileError, InputError
from kosambi.tables._names import as_known, checked_names
from kosambi.tables._parquet import PARQUET, parquet_names, read_parquet, unreadable
from kosambi.tables._typed import pandas

_SEPARATORS = {".csv": None, ".txt": None, ".tsv": "\t"}
_KNOWN = ".csv, .tsv (also with .gz) and .parquet"
# Besides what pandas takes for missing: the empty field, NA, N/A, NaN, null, None and the like.
_MISSING = ["?"]
_SAMPLE = 2**17


class Layout(NamedTuple):
    """How a CSV file is written."""

    separator: str
    names: list[str]


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
    if path.lower().endswith(PARQUET):
        return parquet_names(path)
    return _layout(path, None).names


def read(
    path: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    text: Sequence[str] = (),
    separator: str | None = None,
) -> Any:
    r"""A table as a pandas data frame, one row a row of the file.

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
    if path.lower().endswith(PARQUET):
        return read_parquet(path, columns)
    layout = _layout(path, separator)
    what = f"`{path}` (separated by {layout.separator!r})"
    for name in columns or ():
        as_known(name, layout.names, what)
    table = _read_csv(path, layout, [name for name in text if name in layout.names])
    if len(table) == 0:
        raise InputError(f"`{path}` has a header and no rows. Give a table with data.")
    return table if columns is None else table[list(columns)]


def _as_file(path: str | os.PathLike[str]) -> str:
    name = os.fspath(path)
    if os.path.isdir(name):
        raise FileError(f"`{name}` is a directory. Give the path of a table: {_KNOWN}.")
    if not os.path.exists(name):
        raise FileError(f"There is no file `{name}`. Check the path.")
    plain = name.lower().removesuffix(".gz")
    if not plain.endswith((*_SEPARATORS, *PARQUET)) or (plain != name.lower() and plain.endswith(PARQUET)):
        raise FileError(f"`{name}` is of a kind that is not read. Give a table as {_KNOWN}, exporting it first.")
    return name


def _open(path: str) -> io.TextIOWrapper:
    if path.lower().endswith(".gz"):
        return io.TextIOWrapper(gzip.open(path), encoding="utf-8-sig", newline="")
    return open(path, encoding="utf-8-sig", newline="")


def _layout(path: str, separator: str | None) -> Layout:
    """The separator and the names, from the beginning of a file."""
    try:
        with _open(path) as file:
            sample = file.read(_SAMPLE)
    except UnicodeDecodeError as error:
        raise _not_utf8(path) from error
    except (OSError, EOFError, zlib.error) as error:
        raise unreadable(path, error) from error
    if "\0" in sample:
        raise InputError(f"`{path}` holds binary data, not text. Give a table as {_KNOWN}.")
    if not sample.strip():
        raise InputError(f"`{path}` is empty. Give a table with names in the first line and rows below.")
    if len(sample) == _SAMPLE:
        # The last line is probably cut off; a file of one endless line keeps it.
        sample = sample[: sample.rfind("\n") + 1] or sample
    plain = path.lower().removesuffix(".gz")
    separator = separator or _SEPARATORS[os.path.splitext(plain)[1]] or _sniffed(sample)
    rows = _rows(sample, separator)
    names = checked_names(rows[0], path)
    longest = max((len(row) for row in rows[1:]), default=0)
    # Separators at the ends of lines are harmless.
    if longest > len(names) and any("".join(row[len(names) :]).strip() for row in rows[1:]):
        raise _too_long(path, f"rows with {longest} fields under a header with {len(names)}")
    return Layout(separator, names)


def _rows(sample: str, separator: str, limit: int = 200) -> list[list[str]]:
    lines = csv.reader(sample.splitlines(keepends=True), delimiter=separator, skipinitialspace=True)
    rows: list[list[str]] = []
    try:
        for row in lines:
            if any(field.strip() for field in row):
                rows.append(row)
            if len(rows) == limit:
                break
    except csv.Error as error:
        raise InputError(f"The table is no CSV: {error}. Check its quotes.") from error
    return rows


def _sniffed(sample: str) -> str:
    """The separator that cuts most lines into the same number of fields, the more the better; a comma if none does."""
    best, most = ",", (0.0, 0)
    for separator in (",", ";", "\t", "|"):
        counts = [len(row) for row in _rows(sample, separator)]
        (usual, times), *_ = Counter(counts).most_common(1)
        # The header decides: decimal commas cut the rows of a file with semicolons too, but not its header.
        score = (times / len(counts) if counts[0] == usual else 0.0, counts[0])
        if counts[0] > 1 and score > most:
            best, most = separator, score
    return best if most[1] else next((s for s in (";", "\t", "|") if s in sample.splitlines()[0]), ",")


def _read_csv(path: str, layout: Layout, text: Sequence[str]) -> Any:
    pd = pandas()
    # Later versions read decimals exactly by themselves, and warn of the option.
    is_old = tuple(int(part) for part in pd.__version__.split(".")[:2]) < (3, 1)
    exact = {"float_precision": "round_trip"} if is_old else {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(
                path,
                sep=layout.separator,
                header=0,
                names=layout.names,
                index_col=False,
                dtype=dict.fromkeys(text, str),
                na_values=_MISSING,
                skipinitialspace=True,
                encoding="utf-8-sig",
                low_memory=False,
                **exact,
            )
    except UnicodeDecodeError as error:
        raise _not_utf8(path) from error
    except pd.errors.ParserWarning as error:
        raise _too_long(path, "rows with more fields than its header") from error
    except pd.errors.ParserError as error:
        reason = str(error).strip().removeprefix("Error tokenizing data. C error: ")
        raise _too_long(path, f"rows that do not fit its header ({reason})") from error
    except (OSError, EOFError, zlib.error) as error:
        raise unreadable(path, error) from error


def _too_long(path: str, what: str) -> InputError:
    return InputError(
        f"`{path}` has {what}. If its numbers have decimal commas, write them with decimal points; "
        "if its text holds separators, put it into quotes."
    )


def _not_utf8(path: str) -> InputError:
    return InputError(
        f"`{path}` is not written in UTF-8. Convert it, for example by `iconv -f latin1 -t utf-8`, and try again."
    )
