"""How a command ends: exit codes, errors as one readable message, and Ctrl-C or SIGTERM at any moment.

A signal raises `KeyboardInterrupt` in the main thread, which undoes what was begun. Two things can go wrong with that:
compiled code lets no Python run until it returns, and an exception that is raised inside a finaliser is dropped. So a
thread of its own waits for the signal as well and ends the program if that has not ended by itself in a moment; and
nothing takes the place of something older after a signal (`committing`).

Nothing heavy is imported here, so that signals are heeded from the start.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from kosambi.errors import printable

FAILURE, WRONG_USAGE, BAD_DATA, BAD_FILE, NOT_CONVERGED, INTERRUPTED, TERMINATED = 1, 2, 3, 4, 5, 130, 143
EPILOG = (
    "**Exit codes:** 0 fine · 1 unexpected failure · 2 wrong usage · 3 data that cannot be used · "
    "4 a file is in the way, unreadable or damaged · 5 not converged, with --strict only · 130 interrupted (Ctrl-C) · "
    "143 terminated"
)
GRACE = 2.0
"""Seconds that the main thread has to end by itself after a signal."""
# A progress line that is not taken down hides the cursor.
_RESTORE = "\x1b[?25h\n"


class _Ending:
    """What is known of a signal that came, and of what has been written."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self.lock = threading.Lock()
        self.is_committing = False
        self.is_patient = False
        self.is_told = False
        self.written: list[str] = []
        self.partial: set[Path] = set()
        self.kept: Path | None = None

    @property
    def code(self) -> int:
        return TERMINATED if self.signal == signal.SIGTERM else INTERRUPTED

    @property
    def text(self) -> str:
        word = "Terminated" if self.signal == signal.SIGTERM else "Interrupted"
        if self.written:
            return f"{word}. Written before that: {', '.join(f'`{name}`' for name in self.written)}."
        if self.kept is not None and (self.kept / "about.json").exists():
            return (
                f"{word}. No run was written. What was found so far is kept in `{self.kept}`: the same command goes on "
                "from there."
            )
        return f"{word}. Nothing was written."


_ending = _Ending()


@contextlib.contextmanager
def heeding_signals() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end what is inside, with their exit codes; for the program as a whole."""
    _install()
    try:
        yield
    except KeyboardInterrupt:
        _tell()
        _end()
    except SystemExit:
        if _ending.signal is None:
            raise
        # Whatever became of the exception that the signal raised; a command that takes its time has said so.
        if not _ending.is_patient:
            _tell()
        _end()


def _end() -> None:
    """End the program after a signal; what was begun has been undone by now."""
    if _ending.is_patient:
        raise SystemExit(_ending.code) from None
    # At once: to take the interpreter down is to wait for compiled code that still runs, which jaxlib may not survive.
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(_ending.code)


def _tell() -> None:
    """Say once what became of it."""
    if not _ending.is_told:
        _ending.is_told = True
        _say(_ending.text)


def _install() -> None:
    if threading.current_thread() is not threading.main_thread():
        # No other thread is told of signals.
        return
    reading, writing = socket.socketpair()
    writing.setblocking(False)
    for number in (signal.SIGINT, signal.SIGTERM):
        # A shell has background processes ignore Ctrl-C.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _on_signal)
    signal.set_wakeup_fd(writing.detach(), warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reading,), daemon=True).start()


def _on_signal(number: int, frame: object) -> None:
    del frame
    _ending.signal = _ending.signal or number
    if not _ending.is_committing:
        raise KeyboardInterrupt


def _watch(reading: socket.socket) -> None:
    """End the program if the main thread does not; runs beside it, also while that is in compiled code."""
    number = 0
    while number not in (signal.SIGINT, signal.SIGTERM):
        number = reading.recv(1)[0]
    # The handler above may have to wait for compiled code.
    _ending.signal = _ending.signal or number
    time.sleep(GRACE)
    if _ending.is_patient:
        return
    # Whoever commits is done in a moment, and nobody begins to after this.
    _ending.lock.acquire(timeout=10 * GRACE)
    import shutil

    for folder in _ending.partial:
        shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        text = (_RESTORE if os.isatty(2) else "") + ("" if _ending.is_told else f"{printable(_ending.text)}\n")
        os.write(2, text.encode())
    os._exit(_ending.code)


def wait_for_ever() -> None:
    """Leave it to the main thread to end after a signal, however long that takes."""
    _ending.is_patient = True


def check_signals() -> None:
    """Raise `KeyboardInterrupt` again if one was raised before and got lost."""
    if _ending.signal is not None:
        raise KeyboardInterrupt


@contextlib.contextmanager
def committing(what: str | os.PathLike[str]) -> Iterator[None]:
    """Inside, something new takes its place, which is quick: not after a signal, and not cut in two by one."""
    with _ending.lock:
        _ending.is_committing = True
        try:
            check_signals()
            yield
            _ending.written.append(printable(os.fspath(what)))
        finally:
            _ending.is_committing = False
    check_signals()


@contextlib.contextmanager
def partial_folder(folder: Path) -> Iterator[None]:
    """Remove a folder at the end, whichever end that is."""
    import shutil

    _ending.partial.add(folder)
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _ending.partial.discard(folder)


@contextlib.contextmanager
def keeping(folder: Path) -> Iterator[None]:
    """Whoever is interrupted inside is told that the work so far is kept in this folder."""
    _ending.kept = folder
    yield
    # Not after an exception: it is told of later.
    _ending.kept = None


@contextlib.contextmanager
def guarded(*, debug: bool, as_json: bool = False) -> Iterator[None]:
    """Turn what a command raises into a message and an exit code; with `debug`, let it pass.

    Messages go to stderr; with `as_json`, a JSON object that says the same goes to stdout, where a result would be.
    """
    import typer

    _ending.written.clear()
    _ending.is_told, _ending.kept = False, None
    try:
        yield
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except KeyboardInterrupt:
        _tell()
        if as_json:
            print_failure("KeyboardInterrupt", _ending.text, _ending.code)
        raise typer.Exit(_ending.code) from None
    except BrokenPipeError:
        # Whoever read our output has seen enough; nothing more may be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except Exception as error:
        code = exit_code(error)
        text = str(error) or type(error).__name__
        if as_json:
            print_failure(type(error).__name__, text, code)
        if debug:
            raise
        if code == FAILURE and type(error).__name__ != "HostError":
            text = f"{type(error).__name__}: {text}\nAdd `--debug` to see where it happened."
        _say(f"Error: {text}")
        raise typer.Exit(code) from None


def print_failure(kind: str, message: str, code: int) -> None:
    """A failure as one JSON object on stdout: `{"error": {"kind": ..., "message": ..., "exit_code": ...}}`."""
    import json

    text = json.dumps({"error": {"kind": kind, "message": printable(message, lines=True), "exit_code": code}})
    print(text, flush=True)


def exit_code(error: Exception) -> int:
    """The code that says what kind of failure it was."""
    # Not at the top: it imports JAX.
    from kosambi.errors import FileError, InputError

    if isinstance(error, InputError):
        return BAD_DATA
    return BAD_FILE if isinstance(error, FileError | OSError) else FAILURE


def _say(text: str) -> None:
    print(printable(text, lines=True), file=sys.stderr, flush=True)
