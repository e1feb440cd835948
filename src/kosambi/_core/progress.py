"""A line that says how far a long computation is; nothing when the output is not a terminal.

How long a run took, and how much of it JAX spent tracing and compiling.
"""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Any

import jax


class Progress:
    """A progress line with phase, steps, acceptance, R̂ and the time that is left at most.

    Arguments:
        show: True, False, or None to show it on a terminal only.
    """

    def __init__(self, show: bool | None = None) -> None:
        self._show = sys.stderr.isatty() if show is None else bool(show)
        self._display: Any = None
        self._task: Any = None

    def __enter__(self) -> Progress:
        if self._show:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
            from rich.progress import Progress as Display

            columns = (
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("at most"),
                TimeRemainingColumn(),
                TextColumn("{task.fields[note]}"),
            )
            self._display = Display(*columns, console=Console(stderr=True), transient=True)
            self._display.start()
            self._task = self._display.add_task("starting", total=None, note="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._display is not None:
            self._display.stop()

    def update(self, phase: str, done: int, limit: int, note: str = "") -> None:
        """Say where the computation is."""
        if self._display is not None:
            self._display.update(self._task, description=phase, completed=done, total=limit, note=note)


_COMPILE_EVENTS = (
    "/jax/core/compile/jaxpr_trace_duration",
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "/jax/core/compile/backend_compile_duration",
)
_local = threading.local()


def _listen(event: str, duration_secs: float, **kwargs: str | int) -> None:
    del kwargs
    if event in _COMPILE_EVENTS:
        _local.seconds = getattr(_local, "seconds", 0.0) + duration_secs


jax.monitoring.register_event_duration_secs_listener(_listen)


class Clock:
    """Started when made."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._compiled = getattr(_local, "seconds", 0.0)

    @property
    def seconds(self) -> float:
        """Wall clock since the start."""
        return time.perf_counter() - self._start

    @property
    def compile_seconds(self) -> float:
        """What of that this thread spent tracing and compiling; nested traces count once at most."""
        return min(getattr(_local, "seconds", 0.0) - self._compiled, self.seconds)
