"""Exit codes, and how errors become one readable message instead of a traceback."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

import typer

FAILURE, BAD_DATA, BAD_FILE, NOT_CONVERGED, INTERRUPTED = 1, 3, 4, 5, 130
EPILOG = (
    "**Exit codes:** 0 fine · 1 unexpected failure · 2 wrong usage · 3 data that cannot be used · "
    "4 a file is in the way, unreadable or damaged · 5 not converged, with --strict only · 130 interrupted"
)


@contextlib.contextmanager
def guarded(*, debug: bool) -> Iterator[None]:
    """Turn what a command raises into a message and an exit code; with `debug`, let it pass."""
    try:
        yield
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except KeyboardInterrupt:
        _say("Interrupted. Nothing was written.")
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        # Whoever read our output has seen enough; nothing more may be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except Exception as error:
        if debug:
            raise
        code = exit_code(error)
        text = str(error) or type(error).__name__
        if code == FAILURE:
            text = f"{type(error).__name__}: {text}\nAdd `--debug` to see where it happened."
        _say(f"Error: {text}")
        raise typer.Exit(code) from None


def exit_code(error: Exception) -> int:
    """The code that says what kind of failure it was."""
    # Not at the top: it imports JAX.
    from kosambi._core.errors import FileError, InputError

    if isinstance(error, InputError):
        return BAD_DATA
    return BAD_FILE if isinstance(error, FileError | OSError) else FAILURE


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
