"""A CSV file as a source: some rows at a time, with pandas."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kosambi.errors import FileError, InputError
from kosambi.sources.base import AT_ONCE, AbstractRowSource, Part, where, written


class CSVSource(AbstractRowSource):
    r"""The rows of a CSV file whose columns are numbers. Needs pandas: `pip install kosambi[pandas]`.

    Categories and missing values are for `kosambi fit`, which codes them.

    Arguments:
        path: of the file, UTF-8 with names in its first line; also compressed, with .gz.
        target: the name of the column y.
        inputs: the names of the input columns; all others when None.
        weights: the name of a column that says how often each row counts.
        separator: between fields.

    >>> import pathlib, tempfile, kosambi as ko
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "rows.csv"
    ...     _ = path.write_text("a,y\n1,2\n3,4\n")
    ...     ko.sources.survey(ko.sources.CSVSource(path, target="y")).num_rows
    2
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        target: str,
        inputs: Sequence[str] | None = None,
        weights: str | None = None,
        separator: str = ",",
    ) -> None:
        self.path, self.target, self.weights, self.separator = os.fspath(path), target, weights, separator
        self.name = f"`{os.path.basename(self.path)}`"
        (head,) = self._chunks(nrows=0)
        known = [str(name) for name in head.columns]
        others = (target, weights)
        self.columns = tuple(name for name in known if name not in others) if inputs is None else tuple(inputs)
        for name in (*self.columns, target, *([] if weights is None else [weights])):
            if name not in known:
                raise InputError(f"{self.name} has no column `{name}`. It has {', '.join(f'`{n}`' for n in known)}.")
        if not self.columns:
            raise InputError(f"{self.name} has no input column beside `{target}`. Give a table with inputs.")

    def parts(self) -> Iterator[Part]:
        """Chunks of the file."""
        assert self.columns is not None
        wanted = [*self.columns, self.target, *([] if self.weights is None else [self.weights])]
        row = 0
        for chunk in self._chunks(chunksize=AT_ONCE):
            values = {name: self._numbers(row, name, chunk[name]) for name in wanted}
            x = np.column_stack([values[name] for name in self.columns])
            yield Part(x, values[self.target], None if self.weights is None else values[self.weights])
            row += len(chunk)

    def facts(self) -> dict[str, object]:
        """With the size of the file, and its first and last bytes."""
        return super().facts() | text_facts(self.path) | {"the target": self.target, "the weights": self.weights}

    def marks(self) -> dict[str, object]:
        """With the place of the file, and when it was written."""
        return super().marks() | written(self.path)

    def _chunks(self, **options: Any) -> Iterator[Any]:
        try:
            import pandas as pd  # type: ignore[import-untyped]
        except ImportError as error:
            raise ImportError("CSV is read with pandas. Install it with `pip install kosambi[pandas]`.") from error
        try:
            found = pd.read_csv(self.path, sep=self.separator, skipinitialspace=True, index_col=False, **options)
            yield from ([found] if "nrows" in options else found)
        except (OSError, EOFError, UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
            reason = str(error).strip().splitlines()[0]
            raise FileError(f"`{self.path}` cannot be read: {reason}. Check that it is a whole CSV file.") from error

    def _numbers(self, row: int, name: str, values: Any) -> np.ndarray:
        import pandas as pd

        numbers = np.asarray(pd.to_numeric(values, errors="coerce"), dtype=np.float64)
        wrong = np.flatnonzero(np.isnan(numbers))
        if len(wrong):
            held = values.iloc[int(wrong[0])]
            what = "has no value" if pd.isna(held) else f"holds {held!r}, which is no number"
            raise InputError(
                f"{where(self.name, row + int(wrong[0]))}: column `{name}` {what}. Correct it, or use `kosambi fit`, "
                "which codes categories and missing values."
            )
        return numbers


def text_facts(path: str) -> dict[str, object]:
    """The size of a file, and a digest of its first and last 64 KB."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        head = file.read(2**16)
        file.seek(max(0, size - 2**16))
        ends = hashlib.sha256(head + file.read()).hexdigest()[:16]
    return {"the size of the file": size, "the first and last bytes of the file": f"sha256 {ends}"}
