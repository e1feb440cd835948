"""Factors and inverses in place, and outside Python's lock."""

import threading
import time

import numpy as np
import pytest

from kosambi._core import lapack
from kosambi._core.linalg import one_blas_thread

SIZE = 40


@pytest.fixture(params=["by pointer", "by SciPy"])
def routines(request, monkeypatch):
    if request.param == "by SciPy":
        # As where SciPy was built with integers of another size.
        monkeypatch.setattr(lapack, "_routine", lambda name: None)
    return lapack


@pytest.fixture
def matrix():
    half = np.random.default_rng(0).normal(size=(SIZE, SIZE))
    return half @ half.T + np.eye(SIZE)


def test_factor_inverse_and_product(routines, matrix):
    found = np.array(matrix, order="F")
    lapack.clear_above(found)
    np.testing.assert_array_equal(found, np.tril(matrix))
    assert routines.factorise(found)
    factor = found.copy(order="F")
    np.testing.assert_allclose(factor, np.linalg.cholesky(matrix), rtol=1e-10, atol=1e-12)
    routines.invert_triangle(found)
    np.testing.assert_allclose(found @ factor, np.eye(SIZE), atol=1e-10)
    routines.multiply_triangle(found)
    np.testing.assert_allclose(found, np.tril(np.linalg.inv(matrix)), rtol=1e-8, atol=1e-12)


def test_what_has_no_factor_says_so(routines, matrix):
    assert not routines.factorise(np.array(-matrix, order="F"))
    assert not routines.factorise(np.full((3, 3), np.nan, order="F"))
    assert routines.factorise(np.empty((0, 0), order="F"))


@pytest.mark.parametrize(
    "wrong", [np.eye(3, dtype=np.float32, order="F"), np.arange(9.0).reshape(3, 3), np.eye(6)[::2, ::2]]
)
def test_other_arrays_are_refused(wrong):
    with pytest.raises(ValueError, match="float64 in Fortran's order"):
        lapack.factorise(wrong)


def test_python_goes_on_while_a_matrix_is_factorised():
    half = np.random.default_rng(0).normal(size=(1500, 1500))
    matrix = np.asfortranarray(half @ half.T + 1500.0 * np.eye(1500))
    lapack.factorise(matrix[:5, :5].copy(order="F"))
    steps, done = 0, threading.Event()

    def work():
        with one_blas_thread():
            lapack.factorise(matrix)
            lapack.invert_triangle(matrix)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.is_set():
        time.sleep(1e-4)
        steps += 1
    thread.join()
    # Some 60 ms of work; with the lock held the loop would run once or twice.
    assert steps > 10
