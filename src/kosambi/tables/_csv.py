"""Read a table from CSV: its separator, its names and its rows."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import os
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from kosambi.errors import FileError, InputError
from kosambi.tables._names import checked_names
from kosambi.tables._pandas import pandas

SEPARATORS = {".csv": None, ".txt": None, ".tsv": "\t"}
"""How names of such files end, also with .gz; and between fields what that says, if anything."""
KNOWN = ".csv, .tsv (also with .gz) and .parquet"
"""The kinds of files that are read."""
# Besides what pandas takes for missing: the empty field, NA, N/A, NaN, null, None and the like.
_MISSING = ["?"]
_SAMPLE = 2**17


class Layout(NamedTuple):
    """How a CSV file is written."""

    separator: str
    names: list[str]


def _open(path: str) -> io.TextIOWrapper:
    if path.lower().endswith(".gz"):
        return io.TextIOWrapper(gzip.open(path), encoding="utf-8-sig", newline="")
    return open(path, encoding="utf-8-sig", newline="")


def layout_of(path: str, separator: str | None) -> Layout:
    """The separator and the names, from the beginning of a file."""
    try:
        with _open(path) as file:
            sample = file.read(_SAMPLE)
    except UnicodeDecodeError as error:
        raise _not_utf8(path) from error
    except (OSError, EOFError, zlib.error) as error:
        raise unreadable(path, error) from error
    if "\0" in sample:
        raise InputError(f"`{path}` holds binary data, not text. Give a table as {KNOWN}.")
    if not sample.strip():
        raise InputError(f"`{path}` is empty. Give a table with names in the first line and rows below.")
    if len(sample) == _SAMPLE:
        # The last line is probably cut off; a file of one endless line keeps it.
        sample = sample[: sample.rfind("\n") + 1] or sample
    plain = path.lower().removesuffix(".gz")
    separator = separator or SEPARATORS[os.path.splitext(plain)[1]] or _sniffed(sample)
    rows = _rows(sample, separator)
    if not rows:
        raise InputError(
            f"`{path}` has nothing but separators. Give a table with names in the first line and rows below."
        )
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
        if not counts:
            continue
        (usual, times), *_ = Counter(counts).most_common(1)
        # The header decides: decimal commas cut the rows of a file with semicolons too, but not its header.
        score = (times / len(counts) if counts[0] == usual else 0.0, counts[0])
        if counts[0] > 1 and score > most:
            best, most = separator, score
    return best if most[1] else next((s for s in (";", "\t", "|") if s in sample.splitlines()[0]), ",")


def read_csv(path: str, layout: Layout, text: Sequence[str]) -> Any:
    """The rows of a file as a data frame, the columns `text` as text; decimals are read to the last digit."""
    with _explained(path):
        return _parsed(path, layout, text, low_memory=False)


def read_csv_in_parts(path: str, layout: Layout, text: Sequence[str], size: int) -> Iterator[Any]:
    """The same, `size` rows at a time; a column's type is that of its values in each part."""
    with _explained(path):
        yield from _parsed(path, layout, text, low_memory=False, chunksize=size)


def _parsed(path: str, layout: Layout, text: Sequence[str], **options: Any) -> Any:
    pd = pandas()
    # Later versions read decimals exactly by themselves, and warn of the option.
    is_old = tuple(int(part) for part in pd.__version__.split(".")[:2]) < (3, 1)
    exact = {"float_precision": "round_trip"} if is_old else {}
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
        **options,
        **exact,
    )


@contextlib.contextmanager
def _explained(path: str) -> Iterator[None]:
    """What is wrong with a file, in words."""
    pd = pandas()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            yield
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


def unreadable(path: str, error: BaseException) -> FileError:
    """What to say of a file that cannot be read."""
    reason = (getattr(error, "strerror", None) or str(error) or type(error).__name__).splitlines()[0]
    return FileError(f"`{path}` cannot be read: {reason.rstrip('.')}. Check that it is whole and that you may read it.")
