"""A line that says how far a long computation is, how long it took, and what an interruption does to it.

The line is drawn by a thread of its own, so that it moves while compiled code runs, and it says so while JAX is
tracing or compiling. Nothing is drawn when stderr is no terminal.
"""

from __future__ import annotations

import sys
import threading
import time
from types import FrameType, TracebackType
from typing import Any

import jax

from kosambi.errors import InputError

# Whoever is in one of these modules is tracing, lowering or compiling; to run what is compiled passes through none.
_COMPILING = frozenset({"jax._src.interpreters.partial_eval", "jax._src.interpreters.mlir", "jax._src.compiler"})


class Progress:
    """A progress line with phase, steps, the time that passed, the time that is left at most, and a note.

    Arguments:
        show: True, False, or None to show it on a terminal only.
    """

    def __init__(self, show: bool | None = None) -> None:
        self._show = sys.stderr.isatty() if show is None else bool(show)
        self._display: Any = None
        self._task: Any = None
        self._done = 0

    def __enter__(self) -> Progress:
        if self._show:
            from rich.console import Console
            from rich.progress import Progress as Display

            columns = _columns(threading.get_ident())
            self._display = Display(*columns, console=Console(stderr=True), transient=True)
            self._display.start()
            self._task = self._display.add_task("starting", total=None, note="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._display is not None:
            self._display.stop()

    def update(self, phase: str, done: int = 0, limit: int | None = None, note: str = "") -> None:
        """Say where the computation is; `limit` is None where it is not known how much there is to do."""
        self._done = done
        if self._display is not None:
            self._display.update(self._task, description=phase, completed=done, total=limit, note=note)
            if limit is None:
                # `update` takes None for "as it was".
                self._display.tasks[0].total = None

    def step(self, number: int, note: str) -> None:
        """Say that `number` more steps of this phase are done than when it was announced."""
        if self._display is not None:
            self._display.update(self._task, completed=self._done + number, note=note)


def _columns(worker: int) -> tuple[Any, ...]:
    from rich import progress as rich
    from rich.text import Text

    class Phase(rich.ProgressColumn):
        """What goes on, and whether JAX is compiling for it."""

        def render(self, task: Any) -> Text:
            return Text(f"{task.description}: compiling" if is_compiling(worker) else task.description)

    class Steps(rich.ProgressColumn):
        """How much of how much, where that is known."""

        def render(self, task: Any) -> Text:
            return Text("" if task.total is None else f"{int(task.completed)}/{int(task.total)}")

    class Left(rich.TimeRemainingColumn):
        """How long it takes at most, where that is known."""

        def render(self, task: Any) -> Text:
            return Text("") if task.total is None else Text("at most ") + super().render(task)

    note = rich.TextColumn("{task.fields[note]}", markup=False)
    return Phase(), rich.BarColumn(bar_width=24), Steps(), rich.TimeElapsedColumn(), Left(), note


def is_compiling(thread: int) -> bool:
    """Whether JAX is tracing, lowering or compiling in a thread, by the modules that it is in."""
    frame: FrameType | None = sys._current_frames().get(thread)
    while frame is not None:
        if frame.f_globals.get("__name__") in _COMPILING:
            return True
        frame = frame.f_back
    return False


class Interruption:
    """What Ctrl-C does to a computation that has something to return before its end.

        stop = Interruption(on_interrupt)
        with stop:
            ...
        if stop.happened: ...

    Arguments:
        on_interrupt: "raise" lets `KeyboardInterrupt` pass. "return" ends the block inside `with`, and what is there
            by then is used.
    """

    def __init__(self, on_interrupt: str = "raise") -> None:
        if on_interrupt not in ("raise", "return"):
            raise InputError(
                f'`on_interrupt` must be "raise", or "return" to be given what there is after Ctrl-C. '
                f"Got {on_interrupt!r}."
            )
        self.returns = on_interrupt == "return"
        self.happened = False
        """Whether the block was cut short."""

    def __enter__(self) -> Interruption:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if self.returns and kind is not None and issubclass(kind, KeyboardInterrupt):
            self.happened = True
            return True
        return False


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


def add_compile_seconds(seconds: float) -> None:
    """Count what other threads spent compiling for this one."""
    _local.seconds = getattr(_local, "seconds", 0.0) + seconds


class Clock:
    """How long something takes, and how much of it JAX spends compiling; started when made."""

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
