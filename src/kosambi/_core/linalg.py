"""Positive semi-definite linear algebra that says what it threw away.

Everything here is dense, float64 and small (M×M, or tall and thin), and runs once a model. Nothing adds jitter: what is
numerically singular is cut off by a stated tolerance, and the callers report the cut.

Row blocks: matrices that are wide are made a few rows at a time, so that memory stays bounded.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from kosambi._core.checks import is_traced
from kosambi._core.precision import compiled
from kosambi._core.types import Array
from kosambi.errors import NumericalError

MOST = 2000
"""The side of a matrix above which its factorisation is worth several threads."""

_held = threading.Lock()
# The Python thread that has lowered the number of BLAS threads, and what that was before.
_holder: tuple[int, int] | None = None


@contextlib.contextmanager
def one_blas_thread(size: int = 0) -> Iterator[None]:
    """NumPy's and SciPy's BLAS use one thread inside; a `with` statement or a decorator.

    The number belongs to the process, so one Python thread at a time lowers it, and the same one restores it. Inside
    another use, in the same thread or in another, nothing is done.

    Arguments:
        size: the side of the largest matrix to be factorised; above `MOST` the number of threads stays as it is.
    """
    global _holder
    if size > MOST or not _held.acquire(blocking=False):
        yield
        return
    try:
        before = max((library["num_threads"] for library in _libraries().info()), default=1)
        _holder = threading.get_ident(), before
        with _libraries().limit(limits=1):
            yield
    finally:
        _holder = None
        _held.release()


@contextlib.contextmanager
def all_blas_threads() -> Iterator[None]:
    """Inside `one_blas_thread`, as many threads as before it; elsewhere nothing is done.

    For products of large matrices with nothing compiled beside them.
    """
    if _holder is None or _holder[0] != threading.get_ident():
        yield
        return
    with _libraries().limit(limits=_holder[1]):
        yield


@functools.cache
def _libraries() -> Any:
    import scipy.linalg  # noqa: F401 (a library that is not loaded yet would not be found)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


HOST_ELEMENTS = 2**20
"""Numbers of a matrix up to which it is left to the host where there is an accelerator."""


def is_for_host(num_elements: int) -> bool:
    """Whether a matrix is factorised with LAPACK on the host: always, unless an accelerator has enough to do.

    Nothing is compiled for its shape then, which would take longer than the work itself for all but large matrices.
    """
    return num_elements <= HOST_ELEMENTS or jax.default_backend() == "cpu"


@compiled
def eigh_decreasing(matrix: Float[Array, "M M"]) -> tuple[Float[Array, " M"], Float[Array, "M M"]]:
    """Eigenvalues, largest first, and eigenvectors as columns, each with its largest entry positive."""
    values, vectors = jnp.linalg.eigh(0.5 * (matrix + matrix.T))
    return values[::-1], _fix_signs(vectors[:, ::-1])


@compiled
def thin_svd(matrix: Float[Array, "S M"]) -> tuple[Float[Array, "S K"], Float[Array, " K"], Float[Array, "K M"]]:
    """The singular value decomposition of a matrix that may be tall, through QR so that only a square one is left."""
    if matrix.shape[0] <= matrix.shape[1]:
        return tuple(jnp.linalg.svd(matrix, full_matrices=False))
    orthonormal, triangle = jnp.linalg.qr(matrix)
    left, values, right = jnp.linalg.svd(triangle, full_matrices=False)
    return orthonormal @ left, values, right


@compiled
def positive_qr(matrix: Float[Array, "S M"]) -> tuple[Float[Array, "S K"], Float[Array, "K M"]]:
    """QR with a positive diagonal in R, which makes Rᵀ the Cholesky factor of matrixᵀ matrix."""
    orthonormal, triangle = jnp.linalg.qr(matrix)
    signs = jnp.where(jnp.diagonal(triangle) < 0, -1.0, 1.0)
    return orthonormal * signs, signs[:, None] * triangle


def check_gram(name: str, matrix: Float[Array, "N M"]) -> Float[Array, "N M"]:
    """Refuse a matrix that has overflowed."""
    if not np.all(np.isfinite(np.asarray(matrix))):
        raise NumericalError(f"{name} has overflowed. Use a kernel with a smaller variance, or scale the data.")
    return matrix


def count_above(values: Float[Array, " M"], tolerance: float) -> int:
    """How many of decreasing non-negative `values` exceed `tolerance` times the first."""
    values = np.asarray(values)
    return int(np.sum(values > tolerance * values[0])) if values.size and values[0] > 0 else 0


def cholesky(matrix: Float[Array, "M M"], advice: str) -> Float[Array, "M M"]:
    """The lower Cholesky factor; a matrix that is not numerically positive definite raises with `advice`."""
    if is_traced(matrix):
        return jnp.linalg.cholesky(matrix)
    import scipy.linalg  # here, because it doubles what `import kosambi` adds to `import jax`

    try:
        with one_blas_thread(len(matrix)):
            return np.ascontiguousarray(scipy.linalg.cholesky(np.asarray(matrix), lower=True))
    except np.linalg.LinAlgError as error:
        raise NumericalError(f"A covariance matrix is not numerically positive definite. {advice}") from error


def independent_rows(gram: Float[Array, "M M"], tolerance: float) -> Int[np.ndarray, " K"]:
    """Rows of a covariance whose variance given the rows kept before exceeds `tolerance` of the largest variance.

    Pivoted Cholesky (LAPACK's pstrf): rows are taken in the order of what they add; returned in increasing order.
    """
    matrix = np.array(gram, order="F")
    largest = float(np.max(np.diagonal(matrix)))
    if not largest > 0:
        return np.empty(0, dtype=np.intp)
    import scipy.linalg

    with one_blas_thread(len(matrix)):
        _, pivots, rank, _ = scipy.linalg.lapack.dpstrf(matrix, tol=tolerance * largest, lower=1)
    return np.sort(pivots[:rank] - 1).astype(np.intp)


class PivotedQR(NamedTuple):
    """matrix[:, pivots] = basis @ triangle, each column the one least explained by those before it."""

    basis: Float[Array, "S K"]
    triangle: Float[np.ndarray, "K M"]
    pivots: Int[np.ndarray, " M"]


def pivoted_qr(matrix: Float[Array, "S M"]) -> PivotedQR:
    """QR with column pivoting of a tall matrix, through a plain QR so that LAPACK pivots a square one."""
    import scipy.linalg

    with one_blas_thread(matrix.shape[1]):
        tall, square = positive_qr(matrix)
        rotation, triangle, pivots = scipy.linalg.qr(np.asarray(square), pivoting=True)
    return PivotedQR(tall @ rotation, triangle, pivots)


def _fix_signs(vectors: Float[Array, "M K"]) -> Float[Array, "M K"]:
    # Eigenvectors have no sign of their own; one rule makes results agree between machines.
    largest = jnp.argmax(jnp.abs(vectors), axis=0)
    return vectors * jnp.where(jnp.take_along_axis(vectors, largest[None], axis=0) < 0, -1.0, 1.0)


# Elements of the widest intermediate matrix: 2**24 float64 numbers are 128 MiB.
MAX_ELEMENTS = 2**24


def by_rows(
    function: Callable[[Array], Array],
    x: Float[Array, "N D"],
    elements_per_row: int,
    max_elements: int | None = None,
) -> Array:
    """`function(x)` for a function that treats rows independently, over blocks of rows when N is large.

    Arguments:
        function: maps (B, D) to (B, ...), row by row.
        x: the rows.
        elements_per_row: how many numbers `function` holds at once for each row.
        max_elements: the most numbers to hold at once; `MAX_ELEMENTS` when None.
    """
    num_rows = x.shape[0]
    size = max(1, (max_elements or MAX_ELEMENTS) // max(1, elements_per_row))
    if num_rows <= size:
        return function(x)
    full = num_rows // size
    head = jax.lax.map(function, x[: full * size].reshape(full, size, x.shape[1]))
    head = head.reshape(full * size, *head.shape[2:])
    if full * size == num_rows:
        return head
    return jnp.concatenate([head, function(x[full * size :])])


def host_blocks(num_rows: int, size: int) -> Iterator[slice]:
    """Slices of `size` rows that cover all of them, for a loop on the host.

    The last one is moved back to full length, so that all have the shape that was compiled.
    """
    size = max(1, min(size, num_rows))
    for start in range(0, num_rows, size):
        first = min(start, num_rows - size)
        yield slice(first, first + size)
