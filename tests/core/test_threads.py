"""BLAS threads: one inside, as many as before outside, whichever thread of Python comes and goes."""

from __future__ import annotations

import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from threadpoolctl import ThreadpoolController, threadpool_limits

import kosambi as ko
from kosambi._core.linalg import MOST, one_blas_thread
from kosambi._core.progress import Clock
from kosambi._core.threads import in_threads, platform
from kosambi.learning import exact
from kosambi.samplers import run as _run


def numbers() -> set[int]:
    return {library["num_threads"] for library in ThreadpoolController().info() if library["user_api"] == "blas"}


def elsewhere(function):
    """Run in a thread that has ended before this returns: it holds no limit that another could not change."""
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


@pytest.fixture(autouse=True)
def two_threads():
    """Whatever the environment says."""
    assert scipy.linalg
    (before,) = numbers()
    elsewhere(lambda: threadpool_limits(limits=2, user_api="blas"))
    yield
    elsewhere(lambda: threadpool_limits(limits=before, user_api="blas"))


def test_one_thread_inside_and_the_old_number_outside():
    assert numbers() == {2}
    with one_blas_thread():
        assert numbers() == {1}
        with one_blas_thread():
            assert numbers() == {1}
        assert numbers() == {1}
    assert numbers() == {2}


def test_restored_after_an_error():
    with pytest.raises(ZeroDivisionError), one_blas_thread():
        _ = 1 / 0
    assert numbers() == {2}
    with one_blas_thread():
        assert numbers() == {1}


def test_large_matrices_keep_their_threads():
    with one_blas_thread(MOST + 1):
        assert numbers() == {2}
    with one_blas_thread(MOST):
        assert numbers() == {1}


@pytest.mark.parametrize("leaves_first", ["who came first", "who came second"])
def test_two_threads_at_once_leave_the_old_number(leaves_first):
    inside, may_leave, has_left = threading.Event(), threading.Event(), threading.Event()

    def other():
        with one_blas_thread():
            inside.set()
            may_leave.wait()
        has_left.set()

    thread = threading.Thread(target=other)
    if leaves_first == "who came first":
        thread.start()
        inside.wait()
        assert numbers() == {1}
        with one_blas_thread():
            may_leave.set()
            has_left.wait()
    else:
        with one_blas_thread():
            thread.start()
            inside.wait()
            may_leave.set()
            has_left.wait()
            assert numbers() == {1}
    thread.join()
    assert numbers() == {2}
    with one_blas_thread():
        assert numbers() == {1}


def test_fitting_and_sampling_use_one(monkeypatch):
    seen = []

    def spied(function):
        def call(*args, **kwargs):
            seen.append(numbers())
            return function(*args, **kwargs)

        return call

    monkeypatch.setattr(exact.ExactEvaluator, "__call__", spied(exact.ExactEvaluator.__call__))
    monkeypatch.setattr(_run, "draw_exactly", spied(_run.draw_exactly))
    rng = np.random.default_rng(0)
    x = rng.uniform(-3.0, 3.0, (40, 1))
    y = np.sin(x[:, 0]) + 0.1 * rng.normal(size=40)
    kernel, likelihood, _ = ko.fit_hyperparameters(
        jax.random.key(0), ko.kernels.Matern52(1.0), ko.likelihoods.Gaussian(), x, y
    )
    searched = len(seen)
    ko.infer(jax.random.key(1), kernel, likelihood, x, y, num_inducing=10, num_particles=20)
    assert len(seen) == searched + 1 > 4
    assert all(number == {1} for number in seen)
    assert numbers() == {2}


def test_work_in_threads_has_the_callers_switches_and_counts_what_it_compiles():
    assert platform() == "cpu"
    with jax.default_device(jax.devices("cpu")[0]):
        assert platform() == "cpu"

    def one(number):
        return jax.jit(lambda v: jnp.sin(v) * number)(jnp.asarray(1.0)).dtype, number

    clock = Clock()
    found = in_threads(one, range(5))
    assert [number for _, number in found] == list(range(5))
    assert all(dtype == np.float64 for dtype, _ in found)
    assert clock.compile_seconds > 0.0


def test_after_an_exception_nothing_more_is_begun():
    begun = []

    def one(number):
        begun.append(number)
        if number == 0:
            raise KeyboardInterrupt
        time.sleep(0.02)

    with pytest.raises(KeyboardInterrupt):
        in_threads(one, range(200))
    assert len(begun) < 100
