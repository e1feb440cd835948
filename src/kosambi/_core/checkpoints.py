"""A computation that can be taken up again: its journal in a folder, written about once a minute.

    path/about.json           what the computation is of: data, settings, versions, machine
    path/answers-000001       answers that were new when it was written (`records`), and so on
    path/state-<digest>       the last memory of one keeper, replaced when it has changed
    path/lock                 held by the process that computes

Every file is whole or not there. Answers are written before memories, and answers that came after a memory are not
used, so that the two fit together whenever a process is killed. When the computation ends the folder is removed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import platform
import re
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from kosambi._core.checks import as_positive
from kosambi._core.groups import Group
from kosambi._core.journal import Answer, Book, Scope, State, entered
from kosambi._core.records import read_records, write_records
from kosambi._core.writing import versions, write_atomically
from kosambi.errors import CheckpointWarning, FileError, InputError

EVERY = 60.0
"""Seconds between two writings."""
FORMAT = "kosambi checkpoint 1"
ABOUT, LOCK = "about.json", "lock"
_ANSWERS, _STATE = re.compile(r"answers-\d{6,}"), re.compile(r"state-[0-9a-f]{16}")
# That of one process of several, inside the folder of all of them.
_PART = re.compile(r"process-\d+")
# Numbers depend on these.
_PACKAGES = ("kosambi", "python", "jax", "jaxlib", "equinox", "numpy", "scipy", "scikit-learn", "optax")
_BEGIN_AGAIN = "Start with the same data and arguments, or remove the folder to begin again."


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """Where a fit keeps what it has found so far, and how often that is written.

    Arguments:
        path: a folder, which is made, and removed when the fit has ended.
        every: seconds between two writings, at least: what is lost at most when the process is killed.
        stays: whether the folder is still there when the fit has ended, for something that comes after it: the same fit
            then takes its answers from there. `remove` ends that.

    >>> import tempfile
    >>> import numpy as np, kosambi as ko
    >>> x = np.linspace(0.0, 6.0, 30)[:, None]
    >>> y = np.sin(x[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=30)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint = ko.Checkpoint(f"{folder}/fit", every=10.0)
    ...     model = ko.ProjectedLangevinRegressor(n_samples=10).fit(x, y, checkpoint=checkpoint)
    ...     checkpoint.path.exists()
    False
    """

    path: Path
    every: float = EVERY
    stays: bool = False

    def __init__(self, path: Any, every: Any = EVERY, stays: bool = False) -> None:
        if not isinstance(path, str | os.PathLike):
            raise InputError(f"`checkpoint` must be the path of a folder, or a `Checkpoint`. Got {path!r}.")
        object.__setattr__(self, "path", Path(path))
        object.__setattr__(self, "every", float(as_positive("Checkpoint(every=...)", every)))
        object.__setattr__(self, "stays", bool(stays))

    @classmethod
    def of(cls, value: Any) -> Checkpoint:
        """A checkpoint from itself, or from the path of a folder."""
        return value if isinstance(value, Checkpoint) else cls(value)

    @property
    def is_there(self) -> bool:
        """Whether there is something to go on from."""
        return (self.path / ABOUT).is_file()

    def part(self, group: Group) -> Checkpoint:
        """That of one process of several: a folder inside this one; itself where there are no others.

        Raises:
            FileError: this one was written by a fit of one process.
        """
        if group.count == 1:
            return self
        if self.is_there:
            raise FileError(
                f"`{self.path}` is the checkpoint of a fit in one process, and this one has {group.count}. Start one, "
                "or remove the folder to begin again."
            )
        return Checkpoint(self.path / f"process-{group.index}", self.every, self.stays)

    def remove(self) -> None:
        """Remove the folder, if it is there and is a checkpoint.

        Raises:
            FileError: it holds what is not part of one, or is in use.
        """
        if self.path.is_dir():
            with _held(self.path):
                _cleared(self.path)


@contextlib.contextmanager
def resumable(checkpoint: Any, about: Mapping[str, str]) -> Iterator[Book | None]:
    """A block whose expensive answers are kept in a folder, and are there when it is entered again.

    Nothing is written without a checkpoint. An exception, Ctrl-C included, leaves the folder up to date; but rows or
    arguments that are refused at the first attempt leave none, because the same call would be refused again.

    Arguments:
        checkpoint: a `Checkpoint`, the path of a folder, or None.
        about: what the answers depend on, by name; versions and the machine are added.

    Raises:
        FileError: the folder is of another computation, is in use, or cannot be written.
    """
    if checkpoint is None:
        yield None
        return
    chosen = Checkpoint.of(checkpoint)
    with _held(chosen.path):
        folder = _Folder(chosen, {**about, **_surroundings()})
        try:
            with entered(Scope(folder.book)):
                yield folder.book
        except BaseException as error:
            known = folder.book.recalled if isinstance(error, InputError) else folder.book.answers
            if isinstance(error, InputError | FileError) and not known:
                _cleared(chosen.path)
            else:
                folder.flush()
                error.add_note(f"What was found so far is kept in `{chosen.path}`: the same call goes on from there.")
            raise
        if chosen.stays:
            folder.flush()
        else:
            _cleared(chosen.path)


class _Folder:
    """A book on disk."""

    def __init__(self, checkpoint: Checkpoint, about: dict[str, str]) -> None:
        self._path, self._every = checkpoint.path, checkpoint.every
        self._writing, self._written = threading.RLock(), time.monotonic()
        names = _contents(self._path)
        known = [name for name in names if _ANSWERS.fullmatch(name)]
        self._parts = max((int(name.split("-")[1]) for name in known), default=0)
        if ABOUT in names:
            _check_about(self._path, about)
            answers, states = _read(self._path, names)
            self.book = Book(answers, states, self._on_answer)
        else:
            # One was killed before it had anything, or while it cleared up.
            for name in names:
                (self._path / name).unlink()
            self._parts = 0
            content = json.dumps({"format": FORMAT, "about": about}, indent=2, ensure_ascii=False)
            with _as_file_error(self._path):
                write_atomically(self._path / ABOUT, content + "\n")
            self.book = Book(on_answer=self._on_answer)

    def _on_answer(self) -> None:
        if time.monotonic() - self._written >= self._every:
            self.flush()

    def flush(self) -> None:
        """Write what is new; a disk that fails is warned of, and tried again later."""
        book = self.book
        with self._writing:
            with book.lock:
                new, states = list(book.new), {path: book.states[path] for path in book.changed}
            try:
                if new:
                    name = f"answers-{self._parts + 1:06d}"
                    records = [(json.dumps([path, at, one.digest, one.is_kept]), one.parts) for path, at, one in new]
                    write_records(self._path / name, records)
                    self._parts += 1
                    with book.lock:
                        del book.new[: len(new)]
                for path, state in states.items():
                    write_records(self._path / _state_name(path), [(json.dumps([path, state.number]), state.parts)])
                    with book.lock:
                        if book.states[path] is state:
                            book.changed.discard(path)
            except OSError as error:
                text = f"The checkpoint `{self._path}` cannot be written: {error.strerror}. The fit goes on without."
                warnings.warn(text, CheckpointWarning, stacklevel=2)
            self._written = time.monotonic()


def _cleared(folder: Path) -> None:
    """Remove all our files; what they are of goes first, without which the others are not read."""
    for name in sorted(_contents(folder), key=lambda name: name != ABOUT):
        with contextlib.suppress(OSError):
            (folder / name).unlink()


def _state_name(path: str) -> str:
    return f"state-{hashlib.blake2b(path.encode(), digest_size=8).hexdigest()}"


def _contents(folder: Path) -> list[str]:
    """Names of our files; a folder with others is not ours. What a killed process was writing is removed."""
    names = []
    for entry in folder.iterdir():
        if re.fullmatch(r"\..*\.part", entry.name):
            entry.unlink()
        elif entry.name in (ABOUT, LOCK) or _ANSWERS.fullmatch(entry.name) or _STATE.fullmatch(entry.name):
            names.append(entry.name)
        elif _PART.fullmatch(entry.name):
            raise FileError(
                f"`{folder}` is the checkpoint of a fit in several processes. Start as many, or remove the folder to "
                "begin again."
            )
        else:
            raise FileError(
                f"`{folder}` holds what is not part of a checkpoint: `{entry.name}`. Choose another folder."
            )
    return sorted(name for name in names if name != LOCK)


def _read(folder: Path, names: list[str]) -> tuple[dict[str, list[Answer]], dict[str, State]]:
    answers: dict[str, list[Answer]] = {}
    states: dict[str, State] = {}
    try:
        for name in names:
            for title, parts in read_records(folder / name) if name != ABOUT else []:
                if _ANSWERS.fullmatch(name):
                    path, at, digest, is_kept = json.loads(title)
                    every = answers.setdefault(path, [])
                    if at > len(every):
                        raise ValueError(name)
                    # Those that had come after their memory, and were found once more.
                    del every[at:]
                    every.append(Answer(digest, parts, is_kept))
                else:
                    path, number = json.loads(title)
                    states[path] = State(number, parts)
    except (OSError, ValueError, TypeError) as error:
        raise FileError(f"The checkpoint `{folder}` cannot be read: {error}. Remove the folder.") from error
    return answers, states


def _check_about(folder: Path, about: dict[str, str]) -> None:
    """Refuse a folder of another computation, and say what differs."""
    try:
        content = json.loads((folder / ABOUT).read_text("utf-8"))
        then = {str(name): str(value) for name, value in content["about"].items()}
        is_ours = content["format"] == FORMAT
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise FileError(f"`{folder / ABOUT}` cannot be read. Remove the folder, or choose another.") from error
    if not is_ours:
        raise FileError(f"`{folder}` is no checkpoint that this version reads. Remove it, or choose another folder.")
    different = [name for name in {**then, **about} if then.get(name) != about.get(name)]
    if different:
        shown = "; ".join(
            f"{name} ({then.get(name, 'none')[:60]} then, {about.get(name, 'none')[:60]} now)" for name in different[:5]
        )
        raise FileError(f"`{folder}` is the checkpoint of another fit. Different: {shown}. {_BEGIN_AGAIN}")


def _surroundings() -> dict[str, str]:
    """What numbers depend on beside data and settings."""
    found = versions()
    device = jax.devices()[0]
    machine = (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {device.platform} {device.device_kind}"
    )
    return {**{f"version of {name}": found.get(name, "none") for name in _PACKAGES}, "machine": machine}


def described(value: Any) -> str:
    """A setting in a word or two, with a digest of its numbers where it has some; the same in every process.

    >>> described("auto"), described(None), described(3)
    ("'auto'", 'None', '3')
    """
    if value is None or isinstance(value, str | int | float | bool):
        return repr(value)
    leaves, structure = jax.tree.flatten(value)
    found = hashlib.blake2b(re.sub(r" at 0x[0-9a-f]+", "", str(structure)).encode(), digest_size=8)
    for leaf in leaves:
        array = np.asarray(leaf) if isinstance(leaf, np.ndarray | np.generic | jax.Array | int | float) else None
        text = re.sub(r" at 0x[0-9a-f]+", "", repr(leaf)) if array is None else f"{array.dtype.str}{array.shape}"
        found.update(text.encode() + (b"" if array is None else np.ascontiguousarray(array).tobytes()))
    return f"{type(value).__name__} {found.hexdigest()}"


@contextlib.contextmanager
def _as_file_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FileError(
            f"The checkpoint `{path}` cannot be written: {error.strerror}. Choose another folder."
        ) from error


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[None]:
    """The folder, made if need be, for this process alone; removed at the end if it is empty."""
    with _as_file_error(folder):
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if os.name == "posix":
            import fcntl

            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise FileError(
                    f"The checkpoint `{folder}` is in use by another process. Wait for it, or choose another folder."
                ) from error
        try:
            yield
        finally:
            if not (folder / ABOUT).exists():
                with contextlib.suppress(OSError):
                    (folder / LOCK).unlink()
                    folder.rmdir()
                    if _PART.fullmatch(folder.name):
                        folder.parent.rmdir()
    finally:
        os.close(handle)
