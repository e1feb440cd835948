"""A line that says how far a long computation is; nothing when the output is not a terminal."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any


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
