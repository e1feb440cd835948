"""Cholesky factors and inverses in place, outside Python's lock, so that threads have them side by side.

SciPy's own wrappers of LAPACK keep the lock: two threads that factorise matrices take as long as one after the other.
The routines are the same ones, found where SciPy offers them to Cython, and called through `ctypes`, which lets go of
the lock. Matrices are float64 in Fortran's order; only their lower triangles are read and written.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

Matrix = Float[np.ndarray, "N N"]
_LOWER, _PLAIN = b"L", b"N"


def factorise(matrix: Matrix) -> bool:
    """The lower Cholesky factor in the place of a symmetric matrix; False where it has none that is finite.

    >>> matrix = np.array([[4.0, 2.0], [2.0, 5.0]], order="F")
    >>> factorise(matrix), np.tril(matrix).tolist()
    (True, [[2.0, 0.0], [1.0, 2.0]])
    """
    return _call("dpotrf", matrix, _LOWER) == 0 and bool(np.all(np.isfinite(np.diagonal(matrix))))


def invert_triangle(factor: Matrix) -> None:
    """L⁻¹ in the place of L, whose diagonal has no zero."""
    _call("dtrtri", factor, _LOWER, _PLAIN)


def multiply_triangle(triangle: Matrix) -> None:
    """The lower triangle of TᵀT in the place of T; of L⁻¹ this makes (LLᵀ)⁻¹."""
    _call("dlauum", triangle, _LOWER)


def clear_above(matrix: Matrix) -> None:
    """Zeros above the diagonal, where the routines leave what was there."""
    for column in range(1, len(matrix)):
        matrix[:column, column] = 0.0


def _call(name: str, matrix: Matrix, *letters: bytes) -> int:
    """LAPACK's status after name(*letters, n, matrix, n, status)."""
    if not (matrix.flags.f_contiguous and matrix.flags.writeable and matrix.dtype == np.float64):
        raise ValueError("LAPACK works in place on float64 in Fortran's order.")
    routine = _routine(name)
    if routine is None:
        return _by_scipy(name, matrix)
    size, status = ctypes.c_int(len(matrix)), ctypes.c_int(0)
    words = [ctypes.c_char(letter) for letter in letters]
    routine(
        *map(ctypes.byref, words),
        ctypes.byref(size),
        ctypes.c_void_p(matrix.ctypes.data),
        # The leading dimension, which must be one at least.
        ctypes.byref(ctypes.c_int(max(1, len(matrix)))),
        ctypes.byref(status),
    )
    return status.value


@functools.cache
def _routine(name: str) -> Callable[..., None] | None:
    """The routine itself; None where SciPy was built with integers of another size."""
    from scipy.linalg import cython_lapack

    capsule = cython_lapack.__pyx_capi__[name]
    api: Any = ctypes.pythonapi
    api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    signature: bytes = api.PyCapsule_GetName(capsule)
    if b" int *" not in signature:
        return None
    return ctypes.CFUNCTYPE(None)(api.PyCapsule_GetPointer(capsule, signature))


def _by_scipy(name: str, matrix: Matrix) -> int:
    from scipy.linalg import lapack

    first = "c" if name != "dpotrf" else "a"
    found, status = getattr(lapack, name)(matrix, lower=1, **{f"overwrite_{first}": 1})
    if found is not matrix:
        matrix[:] = found
    return int(status)
