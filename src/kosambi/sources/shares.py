"""One process's share of the rows of a source."""

from __future__ import annotations

from collections.abc import Iterator

from kosambi._core.groups import Group
from kosambi.errors import InputError
from kosambi.sources.base import AbstractRowSource, Part


class SharedSource(AbstractRowSource):
    """The rows of a source that are one process's of several; `kosambi.parallel.distributed` makes it.

    Sums over all rows are those of the processes, added up. A Parquet file is shared out by row groups, arrays by
    rows; of CSV files and iterators, which must be read from their beginning, every process keeps 8192 rows in turn.

    Arguments:
        source: that all processes have.
        group: the processes.

    >>> import numpy as np, kosambi as ko
    >>> from kosambi._core.groups import ALONE
    >>> source = ko.sources.ArraySource(np.ones((5, 2)), np.arange(5.0))
    >>> [part.y.tolist() for part in source.parts_of(1, 2)], len(next(SharedSource(source, ALONE).parts()).y)
    ([[2.0, 3.0, 4.0]], 5)
    """

    def __init__(self, source: AbstractRowSource, group: Group) -> None:
        if not isinstance(source, AbstractRowSource) or isinstance(source, SharedSource):
            raise InputError(
                f"Processes share a source from `kosambi.sources`, once. Got {source!r}. For example "
                '`kosambi.sources.ParquetSource(path, target="y")`.'
            )
        self.source, self.group = source, group
        self.name, self.columns, self.labels = source.name, source.columns, source.labels

    def parts(self) -> Iterator[Part]:
        """Those of this process."""
        return self.source.parts_of(self.group.index, self.group.count)

    def parts_of(self, index: int, count: int) -> Iterator[Part]:
        """Those of another process."""
        return self.source.parts_of(index, count)

    def first(self) -> Part:
        """The first rows of the source, which each process may read."""
        return self.source.first()

    def facts(self) -> dict[str, object]:
        """Those of the source."""
        return self.source.facts()

    def marks(self) -> dict[str, object]:
        """Those of the source, and how many processes share it."""
        return self.source.marks() | {"the number of processes": self.group.count}
