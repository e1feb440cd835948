"""Processes that share the rows of one fit, and what they tell each other.

Every process sums over its own rows; sums are added over all of them in the order of their numbers, so that all hold
the same bits afterwards. What each computes for itself from these sums (a factor, a draw) may differ in its last digits
between machines, so where they go on together they take what the first one has (`agreed`).

A process that fails says so in place of what the others wait for, and all of them end with its message.
"""

from __future__ import annotations

import abc
import contextlib
import io
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kosambi.errors import FileError, HostError, InputError, NumericalError

# Numbers that are added at a time: so much of each process is in memory at once.
_AT_ONCE = 2**20
_KINDS: dict[str, type[Exception]] = {kind.__name__: kind for kind in (InputError, FileError, NumericalError)}
_HEADER = np.dtype([("failed", "<u8"), ("step", "<u8"), ("length", "<u8")])


class Group(abc.ABC):
    """Processes that work on one fit; `Alone` is one of them, without others.

    Arguments:
        index: the number of this process, from 0.
        count: how many there are.
    """

    def __init__(self, index: int, count: int) -> None:
        self.index, self.count = index, count
        self._is_inside = self._is_over = False

    @abc.abstractmethod
    def everyones(self, own: np.ndarray) -> np.ndarray:
        """(P, n): the n bytes of every process, in order; all give as many."""

    def exchange(self, what: str, message: bytes, failed: bool = False) -> list[bytes]:
        """The messages of all processes, in order.

        Arguments:
            what: which step this is, for a message where processes are at different ones.
            message: that of this process.
            failed: whether it is about what has ended this process.
        """
        if self.count == 1:
            return [message]
        header = np.zeros(1, dtype=_HEADER)
        header["failed"], header["step"], header["length"] = failed, zlib.crc32(what.encode()), len(message)
        headers = self.everyones(header.view(np.uint8)).view(_HEADER)[:, 0]
        longest = int(np.max(headers["length"]))
        # A power of two, so that programs are compiled for few lengths.
        filled = np.zeros(max(64, 2 ** int(np.ceil(np.log2(max(longest, 1))))), dtype=np.uint8)
        filled[: len(message)] = np.frombuffer(message, dtype=np.uint8)
        found = self.everyones(filled) if longest else np.zeros((self.count, 0), dtype=np.uint8)
        messages = [part[:length].tobytes() for part, length in zip(found, headers["length"], strict=True)]
        if np.any(headers["failed"]):
            self._is_over = True
            if not failed:
                raise _failure(int(np.flatnonzero(headers["failed"])[0]), messages)
        elif len(set(headers["step"].tolist())) > 1:
            self._is_over = True
            raise HostError(
                f"The processes of this run are at different steps; this one, number {self.index}, at: {what}. Give "
                "all of them the same program, data and options, and start them again."
            )
        return messages

    def gathered(self, what: str, *arrays: Any) -> list[tuple[np.ndarray, ...]]:
        """The arrays of all processes, in order."""
        own = tuple(np.asarray(array) for array in arrays)
        if self.count == 1:
            return [own]
        with io.BytesIO() as file:
            np.savez(file, *own)
            message = file.getvalue()
        return [_arrays(each) for each in self.exchange(what, message)]

    def agreed(self, what: str, *arrays: Any) -> tuple[np.ndarray, ...]:
        """The arrays of the first process."""
        return self.gathered(what, *(arrays if self.index == 0 else ()))[0]

    def added(self, what: str, *arrays: Any) -> tuple[np.ndarray, ...]:
        """Each array of float64 added over all processes, in their order."""
        own = tuple(np.asarray(array, dtype=np.float64) for array in arrays)
        if self.count == 1:
            return own
        vector = np.concatenate([array.ravel() for array in own])
        total = np.empty_like(vector)
        for start in range(0, len(vector), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            parts = [np.frombuffer(part) for part in self.exchange(what, vector[some].tobytes())]
            total[some] = np.sum(parts, axis=0)
        ends = np.cumsum([array.size for array in own])[:-1]
        return tuple(part.reshape(array.shape) for part, array in zip(np.split(total, ends), own, strict=True))

    def check_same(self, facts: Mapping[str, object], remedy: str) -> None:
        """Refuse what is not the same on all processes, with the process that differs from the first one."""
        own = {name: str(value) for name, value in facts.items()}
        messages = self.exchange("comparing " + ", ".join(own), json.dumps(own).encode())
        first, *others = (json.loads(message) for message in messages)
        for index, other in enumerate(others, start=1):
            for name, value in first.items():
                if other.get(name) != value:
                    self._is_over = True
                    raise InputError(
                        f"The processes of this run differ in {name}: {value} on process 0, {other.get(name)} on "
                        f"process {index}. {remedy}"
                    )

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Inside, an exception in one process ends all of them; nobody leaves before the others do."""
        if self.count == 1 or self._is_inside:
            yield
            return
        self._is_inside, self._is_over = True, False
        try:
            yield
            self.exchange("the end", b"")
        except Exception as error:
            if not self._is_over and not isinstance(error, HostError):
                said = [type(error).__name__, str(error) or type(error).__name__]
                self.exchange("failure", json.dumps(said).encode(), failed=True)
            raise
        finally:
            self._is_inside = False


class Alone(Group):
    """One process, which has all rows.

    >>> Alone().added("a sum", [1.0, 2.0])
    (array([1., 2.]),)
    """

    def __init__(self) -> None:
        super().__init__(0, 1)

    def everyones(self, own: np.ndarray) -> np.ndarray:
        """Its own."""
        return own[None]


ALONE = Alone()
"""For whoever has no others."""


def _arrays(message: bytes) -> tuple[np.ndarray, ...]:
    with np.load(io.BytesIO(message), allow_pickle=False) as found:
        return tuple(found[name] for name in found.files)


def _failure(index: int, messages: Sequence[bytes]) -> Exception:
    """What another process has said of its end."""
    kind, text = json.loads(messages[index])
    return _KINDS.get(kind, HostError)(f"Process {index} has failed: {text}")
