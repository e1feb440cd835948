"""Work in threads, for code that leaves Python's lock: LAPACK, NumPy's products, compiled programs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import jax

from kosambi._core.journal import Scope, branches, entered
from kosambi._core.progress import Clock, add_compile_seconds

Item = TypeVar("Item")
Result = TypeVar("Result")


def platform() -> str:
    """What JAX computes on here: "cpu", or an accelerator's name; `jax.default_device` has the first word."""
    device: Any = jax.config.jax_default_device  # type: ignore[attr-defined]
    if device is None:
        return jax.default_backend()
    return device.split(":")[0] if isinstance(device, str) else device.platform


def in_threads(function: Callable[[Item], Result], items: Sequence[Item], most: int = 64) -> list[Result]:
    """function(item) of each, in order, at most one thread for each core.

    JAX's switches belong to a thread: in each there are float64 and the caller's default device. What threads spend on
    compiling, side by side, counts for the caller. After an exception, or Ctrl-C, nothing more is begun. In a journal
    each item has a place of its own.
    """
    device: Any = jax.config.jax_default_device  # type: ignore[attr-defined]

    def one(scope: Scope | None, item: Item) -> tuple[Result, float]:
        clock = Clock()
        chosen = contextlib.nullcontext() if device is None else jax.default_device(device)
        with jax.enable_x64(True), chosen, entered(scope):
            return function(item), clock.compile_seconds

    number = min(len(items), os.cpu_count() or 1, most)
    with ThreadPoolExecutor(max(1, number)) as pool:
        try:
            found = list(pool.map(one, branches(len(items)), items))
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    add_compile_seconds(sum(seconds for _, seconds in found) / max(1, number))
    return [result for result, _ in found]
