"""A Parquet file as a source: row group after row group, with pyarrow."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kosambi.errors import FileError, InputError
from kosambi.sources.base import AT_ONCE, AbstractRowSource, Part, written


class ParquetSource(AbstractRowSource):
    """The rows of a Parquet file whose columns are numbers. Needs pyarrow: `pip install kosambi[parquet]`.

    Categories and missing values are for `kosambi fit`, which codes them.

    Arguments:
        path: of the file.
        target: the name of the column y.
        inputs: the names of the input columns; all others when None.
        weights: the name of a column that says how often each row counts.

    >>> import pathlib, tempfile, numpy as np, kosambi as ko, pyarrow as pa, pyarrow.parquet as pq
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "rows.parquet"
    ...     pq.write_table(pa.table({"a": np.arange(9.0), "y": np.ones(9)}), path, row_group_size=4)
    ...     ko.sources.survey(ko.sources.ParquetSource(path, target="y")).num_rows
    9
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        target: str,
        inputs: Sequence[str] | None = None,
        weights: str | None = None,
    ) -> None:
        self.path, self.target, self.weights = os.fspath(path), target, weights
        self.name = f"`{os.path.basename(self.path)}`"
        with _opened(self.path) as file:
            known = list(file.schema_arrow.names)
        others = (target, weights)
        self.columns = tuple(name for name in known if name not in others) if inputs is None else tuple(inputs)
        for name in (*self.columns, target, *([] if weights is None else [weights])):
            if name not in known:
                raise InputError(f"{self.name} has no column `{name}`. It has {', '.join(f'`{n}`' for n in known)}.")
        if not self.columns:
            raise InputError(f"{self.name} has no input column beside `{target}`. Give a table with inputs.")

    def parts(self) -> Iterator[Part]:
        """Batches of each row group."""
        return self.parts_of(0, 1)

    def parts_of(self, index: int, count: int) -> Iterator[Part]:
        """Batches of the row groups of one process; no others are read."""
        assert self.columns is not None
        wanted = [*self.columns, self.target, *([] if self.weights is None else [self.weights])]
        for batch, place, row in read_groups(self.path, wanted, index, count):
            values = {name: _numbers(self.name, row, place, name, batch.column(name)) for name in wanted}
            x = np.column_stack([values[name] for name in self.columns])
            weights = None if self.weights is None else values[self.weights]
            yield Part(x, values[self.target], weights, place, row + np.arange(len(x)))

    def facts(self) -> dict[str, object]:
        """With what the index of the file says."""
        return super().facts() | index_facts(self.path) | {"the target": self.target, "the weights": self.weights}

    def marks(self) -> dict[str, object]:
        """With the place of the file, and when it was written."""
        return super().marks() | written(self.path)


def shared_out(sizes: Sequence[int], count: int) -> np.ndarray:
    """Which process has which row group, for groups of so many rows: parts of about equal size, in order.

    >>> shared_out([10, 10, 10, 10, 40], 2)
    array([0, 0, 0, 0, 1])
    """
    ends = np.cumsum(sizes)
    # A file without rows may have groups.
    return ((ends - 0.5 * np.asarray(sizes)) * count / max(ends[-1], 1)).astype(int) if len(sizes) else ends


def index_facts(path: str) -> dict[str, object]:
    """What the index of a Parquet file says, which differs where the rows do: sizes, ranges, places."""
    with _opened(path) as file:
        found = file.metadata
        columns = [f"{field.name}: {field.type}" for field in file.schema_arrow]
        groups = [found.row_group(group).to_dict() for group in range(found.num_row_groups)]
    return {
        "the columns of the file": ", ".join(columns),
        "the number of rows in the file": found.num_rows,
        "the number of row groups": found.num_row_groups,
        "the size of the file": os.path.getsize(path),
        "the index of the file (its values differ)": f"sha256 {hashlib.sha256(repr(groups).encode()).hexdigest()[:16]}",
    }


def read_groups(path: str, columns: Sequence[str], index: int = 0, count: int = 1) -> Iterator[tuple[Any, str, int]]:
    """Batches of rows of a Parquet file, as pyarrow has them, each with its row group and the number of its first row.

    Arguments:
        path: of the file.
        columns: that are read.
        index: the number of the process whose row groups are read.
        count: how many processes share them.
    """
    import pyarrow as arrow  # type: ignore[import-untyped]

    with _opened(path) as file:
        number = file.num_row_groups
        sizes = [file.metadata.row_group(group).num_rows for group in range(number)]
        starts = np.cumsum([0, *sizes])
        for group in np.flatnonzero(shared_out(sizes, count) == index).tolist():
            place = f"row group {group + 1} of {number}"
            expected, found = sizes[group], 0
            try:
                for batch in file.iter_batches(batch_size=AT_ONCE, row_groups=[group], columns=list(columns)):
                    found += batch.num_rows
                    yield batch, place, int(starts[group]) + found - batch.num_rows
            except (OSError, arrow.ArrowException) as error:
                raise FileError(
                    f"`{os.path.basename(path)}` cannot be read in {place}: {str(error).splitlines()[0]}. The file is "
                    "damaged or was not written to its end. Write it again."
                ) from error
            if found != expected:
                raise FileError(
                    f"`{os.path.basename(path)}` has {found:,} rows in {place}, where its index says {expected:,}. "
                    "Write it again."
                )


def _numbers(name: str, row: int, place: str, column: str, values: Any) -> np.ndarray:
    import pyarrow as arrow

    kind = values.type
    if not (arrow.types.is_integer(kind) or arrow.types.is_floating(kind) or arrow.types.is_boolean(kind)):
        raise InputError(
            f"{name}, column `{column}` holds {kind}, and a `ParquetSource` takes numbers. Leave it out of `inputs`, "
            "code it by numbers, or use `kosambi fit`, which codes categories."
        )
    if values.null_count:
        first = row + int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
        raise InputError(
            f"{name}, row {first:,} (counted from 0; {place}): column `{column}` has no value. Fill it or leave the "
            "row out, or use `kosambi fit --impute`."
        )
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float64)


def _opened(path: str) -> Any:
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet  # type: ignore[import-untyped]
    except ImportError as error:
        raise ImportError("Parquet needs pyarrow. Install it with `pip install kosambi[parquet]`.") from error
    if not os.path.exists(path):
        raise FileError(f"There is no file `{path}`. Check the path.")
    try:
        return parquet.ParquetFile(path)
    except (OSError, arrow.ArrowException) as error:
        raise FileError(
            f"`{path}` cannot be read: {str(error).splitlines()[0]}. A Parquet file ends with its index; if that is "
            "cut off, the file was not written to its end. Write it again."
        ) from error
