"""What a person sees while a command runs: stages with their time on a terminal, notes, and results on stdout."""

from __future__ import annotations

import contextlib
import json
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

from kosambi._core.writing import as_json
from kosambi.cli._exits import check_signals
from kosambi.errors import printable


class Screen:
    """Messages go to stderr, results to stdout.

    Arguments:
        quiet: no stages and no notes; warnings stay.
        as_json: results as one JSON object instead of text.
    """

    def __init__(self, *, quiet: bool = False, as_json: bool = False) -> None:
        self.quiet, self.as_json = quiet, as_json
        self.seconds: dict[str, float] = {}
        """How long each stage took."""
        self.warnings: list[str] = []
        """What was warned of in stages."""

    @property
    def is_live(self) -> bool:
        """Whether progress can be shown."""
        return not self.quiet and sys.stderr.isatty()

    @contextlib.contextmanager
    def stage(self, name: str, text: str, *, spinner: bool = True) -> Iterator[None]:
        """Time a part of the work, show that it goes on, and repeat its warnings afterwards.

        Arguments:
            name: under which the time is kept.
            text: what goes on.
            spinner: whether to show a line meanwhile; not where the work shows one of its own.
        """
        # Not at the top: it imports JAX.
        from kosambi._core.progress import Progress

        check_signals()
        start = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            with Progress(self.is_live and spinner) as line:
                line.update(printable(text))
                yield
        self.seconds[name] = round(self.seconds.get(name, 0.0) + time.perf_counter() - start, 3)
        if self.is_live:
            self.say(f"{text}: {time.perf_counter() - start:.1f} s")
        for entry in caught:
            # Of use to people who run a model, not to those who maintain its code.
            if issubclass(entry.category, UserWarning | RuntimeWarning) and str(entry.message) not in self.warnings:
                self.warnings.append(str(entry.message))
                self.say(f"Warning: {entry.message}", always=True)

    def note(self, text: str) -> None:
        """Say something that the user may want to know."""
        if not self.quiet:
            self.say(f"Note: {text}")

    def say(self, text: str, *, always: bool = False) -> None:
        """A line on stderr."""
        if always or not self.quiet:
            print(printable(text, lines=True), file=sys.stderr, flush=True)

    def result(self, text: str, data: dict[str, Any]) -> None:
        """What the command found, as text or as JSON."""
        if self.as_json:
            print(json.dumps(as_json(data), allow_nan=False), flush=True)
        elif not self.quiet:
            print(printable(text, lines=True), flush=True)
