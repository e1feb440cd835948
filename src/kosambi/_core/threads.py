"""One BLAS thread where linear algebra on the host and compiled programs take turns.

SciPy's BLAS keeps a set of threads beside XLA's, and XLA itself calls SciPy's LAPACK. After each call the idle threads
of BLAS spin for a while on the cores that the next compiled program needs, and where the machine has other work to do,
each set waits for the other. Matrices of up to `MOST` rows are factorised in fractions of a second by one thread, so
little is lost by having only one.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

MOST = 2000
"""The side of a matrix above which its factorisation is worth several threads."""

_held = threading.Lock()


@contextlib.contextmanager
def one_blas_thread(size: int = 0) -> Iterator[None]:
    """NumPy's and SciPy's BLAS use one thread inside; a `with` statement or a decorator.

    The number belongs to the process, so one Python thread at a time lowers it, and the same one restores it. Inside
    another use, in the same thread or in another, nothing is done.

    Arguments:
        size: the side of the largest matrix to be factorised; above `MOST` the number of threads stays as it is.
    """
    if size > MOST or not _held.acquire(blocking=False):
        yield
        return
    try:
        with _libraries().limit(limits=1):
            yield
    finally:
        _held.release()


@functools.cache
def _libraries() -> Any:
    import scipy.linalg  # noqa: F401 (a library that is not loaded yet would not be found)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")
