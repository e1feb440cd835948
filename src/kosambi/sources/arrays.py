"""Sources of arrays: in memory, mapped from a file, or made by an iterator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from kosambi.errors import InputError
from kosambi.sources.base import AT_ONCE, AbstractRowSource, Part


class ArraySource(AbstractRowSource):
    """Rows of arrays: NumPy's, or `numpy.memmap`, of which no more than a block is in memory at a time.

    Arguments:
        x: (N, D), the inputs.
        y: (N,), the observations.
        weights: (N,), how often each row counts; once when None.

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(-1.0, 1.0, 500)[:, None]
    >>> source = ko.sources.ArraySource(x, np.sin(3.0 * x[:, 0]))
    >>> kernel, noise = ko.kernels.Matern52(), ko.likelihoods.Gaussian(0.1)
    >>> posterior = ko.infer(jax.random.key(0), kernel, noise, source, num_inducing=8)
    >>> posterior.predict([[0.5]]).mean.round(1)
    array([1.])
    """

    def __init__(self, x: Any, y: Any, weights: Any = None) -> None:
        # As they are: a copy of a memory map would read all of it.
        self.x, self.y = (value if isinstance(value, np.ndarray) else np.asarray(value) for value in (x, y))
        self.weights = None if weights is None else np.asarray(weights)
        self.name = "the arrays"
        if self.x.ndim != 2:
            raise InputError(f"`x` must be a matrix of shape (N, D). Got shape {self.x.shape}.")
        for what, values in (("y", self.y), ("weights", self.weights)):
            if values is not None and values.shape != (len(self.x),):
                raise InputError(
                    f"`{what}` has shape {values.shape} for {len(self.x)} rows of x. Give one number for each row."
                )

    def parts(self) -> Iterator[Part]:
        """Slices of the arrays."""
        return self.parts_of(0, 1)

    def parts_of(self, index: int, count: int) -> Iterator[Part]:
        """Slices of one of `count` parts of the arrays."""
        end = (index + 1) * len(self.x) // count
        for start in range(index * len(self.x) // count, end, AT_ONCE):
            some = slice(start, min(start + AT_ONCE, end))
            weights = None if self.weights is None else self.weights[some]
            yield Part(self.x[some], self.y[some], weights, rows=np.arange(some.start, some.stop))

    def facts(self) -> dict[str, object]:
        """With the shape, and the first and last row."""
        ends = "; ".join(str([*self.x[row].tolist(), self.y[row].item()]) for row in (0, -1)) if len(self.x) else "none"
        return super().facts() | {"the shape of `x`": self.x.shape, "the first and the last row": ends}


class BlockSource(AbstractRowSource):
    """Rows that a function makes: each call of it begins an iterator of blocks (x, y) or (x, y, weights) anew.

    Arguments:
        blocks: called without arguments, once for each pass over the rows; every call must give the same rows.
        columns: (D,), the names of the input columns.
        name: what messages call the source.

    >>> import numpy as np, kosambi as ko
    >>> def blocks():
    ...     for seed in range(3):
    ...         x = np.random.default_rng(seed).normal(size=(100, 2))
    ...         yield x, x[:, 0] > 0
    >>> ko.sources.survey(ko.sources.BlockSource(blocks)).num_rows
    300
    """

    if_empty = "Give some; they are read several times, so that the iterator must begin anew each time."

    def __init__(
        self, blocks: Callable[[], Iterable[Any]], *, columns: Sequence[str] | None = None, name: str = "the blocks"
    ) -> None:
        if not callable(blocks):
            raise InputError(
                f"`BlockSource` needs a function that begins an iterator, because rows are read several times. Got "
                f"{type(blocks).__name__}. Write `BlockSource(lambda: iterator())`."
            )
        self.blocks, self.name = blocks, name
        self.columns = None if columns is None else tuple(columns)

    def parts(self) -> Iterator[Part]:
        """The blocks, as the function gives them."""
        for number, block in enumerate(self.blocks()):
            if not isinstance(block, tuple | list) or len(block) not in (2, 3):
                raise InputError(
                    f"{self.name}, block {number:,} (counted from 0): a block must be (x, y) or (x, y, weights). Got "
                    f"{type(block).__name__}."
                )
            x, y, *weights = (np.asarray(values) for values in block)
            yield Part(x, y, weights[0] if weights else None, f"block {number:,}")
