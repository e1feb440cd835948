"""What leaves the program: files that are whole or not there, numbers as JSON, names on a terminal, version lists.

Needs nothing but the standard library, and little of it at once, so that the command line answers before JAX is there.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import platform
import secrets
import stat
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO

from kosambi._version import __version__

REQUIRED = (
    "jax",
    "jaxlib",
    "equinox",
    "blackjax",
    "numpy",
    "scipy",
    "scikit-learn",
    "optax",
    "jaxtyping",
    "typer",
    "rich",
)
"""Packages without which kosambi does not run, those that numbers depend on first."""
OPTIONAL = ("pandas", "matplotlib", "pyarrow", "arviz")
"""Packages that some parts of kosambi need."""
DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
"""Failures of a disk, which are known only when something is written."""


def write_atomically(
    path: str | os.PathLike[str],
    content: bytes | str | Callable[[BinaryIO], object],
    *,
    commit: AbstractContextManager[object] | None = None,
) -> None:
    r"""Write a file in one go: whoever looks sees the old file or the new one, never a part of it.

    The new content goes to a temporary file beside the final one, is flushed to disk, and takes the name of the old
    file, whose permissions it keeps. A symbolic link is followed and stays a link. What is no regular file (a folder, a
    FIFO, a device) is refused.

    Arguments:
        path: of the file.
        content: bytes, text (written as UTF-8), or a function that writes to the binary file it is given.
        commit: is entered for the moment in which the new file takes its place, and may refuse it.

    Raises:
        OSError: the file cannot be written there; what was there before still is.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(Path(folder) / "note.txt", "first\n")
    ...     write_atomically(Path(folder) / "note.txt", lambda file: file.write(b"second\n"))
    ...     os.listdir(folder), (Path(folder) / "note.txt").read_text()
    (['note.txt'], 'second\n')
    """
    final = os.path.realpath(path)
    mode = _mode(final)
    folder, name = os.path.split(final)
    temporary = os.path.join(folder, f".{name[:40]}.{secrets.token_hex(8)}.part")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            if callable(content):
                content(file)
            else:
                file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(temporary, mode)
        with commit or contextlib.nullcontext():
            os.replace(temporary, final)
            sync(folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def sync(path: str | os.PathLike[str]) -> None:
    """Flush a file, or the names in a folder, to disk; file systems that cannot flush folders are left alone."""
    if not os.path.isdir(path):
        _sync(path)
    elif os.name == "posix":
        with contextlib.suppress(OSError):
            _sync(path)


def regular_or_absent(path: str | os.PathLike[str]) -> bool:
    """Whether a file of that name, links followed, can be written or replaced: it is a regular file, or not there."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return True


def rescue(write: Callable[[Path], object]) -> str:
    """Write to a new folder away from the place that failed, and say in a sentence where; empty if that fails too.

    Arguments:
        write: writes to the folder it is given, one in the temporary, the home or the current folder.
    """
    import shutil
    import tempfile

    for candidate in (tempfile.gettempdir, lambda: str(Path.home()), os.getcwd):
        folder = None
        try:
            folder = Path(tempfile.mkdtemp(prefix="kosambi-rescued-", dir=candidate()))
            write(folder)
        except Exception:
            # Whatever it is, the failure that led here is the one to hear of.
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
        else:
            return f"So that nothing is lost it was written to `{folder}`: move it to a place with room."
    return ""


def as_json(value: Any) -> Any:
    """The same as JSON would give it back: lists for arrays and tuples, None for NaN and infinities.

    Raises:
        TypeError: something inside is neither a number, text, a list nor a dictionary.

    >>> import numpy as np
    >>> as_json({"a": (1, float("nan")), 2: np.array([0.5, np.inf]), "n": np.int64(3)})
    {'a': [1, None], '2': [0.5, None], 'n': 3}
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(name): as_json(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [as_json(entry) for entry in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):
        return as_json(value.tolist())
    raise TypeError(f"`as_json` knows numbers, text, arrays, lists and dictionaries. Got {type(value).__name__}.")


def versions(*further: str) -> dict[str, str]:
    """Versions of kosambi, Python and the packages it works with, of those that are installed.

    Arguments:
        further: names of more packages to look for.

    >>> list(versions())[:3]
    ['kosambi', 'python', 'jax']
    """
    import importlib.metadata

    found = {"kosambi": __version__, "python": platform.python_version()}
    for name in dict.fromkeys((*REQUIRED, *OPTIONAL, *further)):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def _mode(path: str) -> int | None:
    """The permissions of the file that will be replaced, if there is one."""
    if not regular_or_absent(path):
        raise FileExistsError(errno.EEXIST, "it is a directory, or no regular file")
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except FileNotFoundError:
        return None


def _sync(path: str | os.PathLike[str]) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
