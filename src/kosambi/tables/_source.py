"""A table on disk as a source of rows, coded as a schema says."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from kosambi._core.checkpoints import described
from kosambi._core.journal import digest_of
from kosambi.errors import InputError
from kosambi.sources import AbstractRowSource, Part
from kosambi.sources.base import written
from kosambi.tables._read import file_facts, read_in_parts
from kosambi.tables._schema import Schema
from kosambi.tables._target import labels_of
from kosambi.tables._typed import Kind, kind_of, typed


class TableSource(AbstractRowSource):
    r"""The rows of a table, coded: categories as columns of 0 and 1, missing values filled in, labels as numbers.

    Arguments:
        path: of a .csv, .tsv (also with .gz) or .parquet file.
        schema: how inputs are coded.
        target_kind: what the target holds.
        classes: labels of the target, in order; None for numbers.
        without: numbers of rows to leave out, such as those held out.

    >>> import pathlib, tempfile, kosambi as ko
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "table.csv"
    ...     _ = path.write_text("c,x,y\nu,1,no\nv,2,yes\nu,3,yes\n")
    ...     columns = ko.tables.Column("c", "categorical", ("u", "v")), ko.tables.Column("x", "numeric")
    ...     source = TableSource(path, ko.tables.Schema("y", columns), "categorical", ("no", "yes"))
    ...     [(part.x.tolist(), part.y.tolist()) for part in source.parts()]
    [([[0.0, 1.0], [1.0, 2.0], [0.0, 3.0]], [0.0, 1.0, 1.0])]
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        schema: Schema,
        target_kind: Kind,
        classes: tuple[str, ...] | None = None,
        without: np.ndarray | None = None,
    ) -> None:
        self.path, self.schema, self.target_kind = path, schema, target_kind
        self.without = np.empty(0, dtype=np.int64) if without is None else without
        self.name = f"`{os.path.basename(os.fspath(path))}`"
        self.columns, self.labels = schema.labels, classes

    def parts(self) -> Iterator[Part]:
        """Coded parts of the table."""
        return self.parts_of(0, 1)

    def parts_of(self, index: int, count: int) -> Iterator[Part]:
        """Coded parts of the rows of one process."""
        for table in self.tables(share=(index, count)):
            if not len(table):
                continue
            with _placed(table):
                x, y = self.schema.encode(table)[0], self.observations(table)
            yield Part(x, y, None, rows=table.index.to_numpy())

    def facts(self) -> dict[str, object]:
        """With what is known of the file."""
        return super().facts() | file_facts(self.path)

    def marks(self) -> dict[str, object]:
        """With the place of the file, how it is coded, and which rows are left out."""
        coded = {"how columns are coded": described(self.schema), "the rows held out": digest_of([self.without])}
        return super().marks() | written(self.path) | coded

    def tables(self, only: np.ndarray | None = None, share: tuple[int, int] = (0, 1)) -> Iterator[Any]:
        """Parts of the table as they are, without rows whose target is missing; `only` those rows, if they are given.

        With `share`, only those of one process of several. Missing targets are refused unless the schema imputes.
        """
        target, wanted = self.schema.target, [*self.schema.names, self.schema.target]
        as_text = [*self.schema.as_text, *([target] if self.target_kind == "categorical" else [])]
        for table in read_in_parts(self.path, columns=wanted, text=as_text, share=share):
            inside = np.isin(table.index, self.without if only is None else only)
            table = table[inside if only is not None else ~inside]
            with _placed(table):
                missing = typed(table[[target]], {target: self.target_kind})[target].isna().to_numpy()
            if missing.any() and not self.schema.impute:
                raise InputError(
                    f"{self.name}, row {table.index[missing][0] + 1:,}: the target `{target}` is missing. Remove such "
                    "rows, or ask for `--impute`, which leaves them out."
                )
            yield table[~missing] if missing.any() else table

    def observations(self, table: Any) -> np.ndarray:
        """(n,): the target of some rows, as numbers."""
        target = self.schema.target
        column = typed(table[[target]], {target: self.target_kind})[target]
        if self.labels is None:
            return np.asarray(column.to_numpy(dtype=np.float64))
        kind = kind_of(column)
        # A number is the label that it equals, however a part of the table is written.
        found = column.to_numpy(dtype=np.float64) if kind == "numeric" else labels_of(column, kind)
        known = [float(label) if kind == "numeric" else label for label in self.labels]
        numbers = {label: float(number) for number, label in enumerate(known)}
        unknown = [label for label in np.unique(found).tolist() if label not in numbers]
        if unknown:
            raise InputError(f"The target `{target}` has labels that were not there before: {unknown[:5]}.")
        return np.array([numbers[label] for label in found.tolist()])


@contextlib.contextmanager
def _placed(table: Any) -> Iterator[None]:
    """Says where in the table rows are that something is wrong with; messages count them in their part."""
    try:
        yield
    except InputError as error:
        if not len(table) or not table.index[0]:
            raise
        first, last = table.index[0] + 1, table.index[-1] + 1
        raise InputError(f"Rows {first:,} to {last:,}, counted anew: {error}") from error
