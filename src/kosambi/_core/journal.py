"""What a long computation has found so far, so that a second run of it need not find it again.

A fit is deterministic: run twice on one machine it asks the same questions in the same order. A `Book` holds the
answers to the expensive ones (the evidence at a vector, a stretch of a chain), each under a path that says where in the
computation it was asked. A run with a book of an earlier one is the same run, in which those answers are there at once;
everything else is computed again. So what is not in the book costs time and changes nothing.

An answer is a few small arrays. What is large and changes with every answer, such as particles, is the *memory* of a
keeper: of it the book has the last one only, which is recalled together with the last answer that is known.
"""

from __future__ import annotations

import contextlib
import contextvars
import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from kosambi.errors import FileError

Arrays = tuple[np.ndarray | None, ...]
# Bytes of an array that is not copied for its digest.
_LARGE = 2**20


@runtime_checkable
class Keeper(Protocol):
    """Something that changes from one answer to the next."""

    def memory(self) -> Sequence[Any]:
        """Arrays, or None for one that is not there, from which the next answers follow; never changed in place."""

    def recall(self, memory: Arrays) -> None:
        """Be as it was then."""


class Answer(NamedTuple):
    """What was found once."""

    digest: str
    """Of what was asked."""
    parts: Arrays
    is_kept: bool
    """Whether a memory belongs to it."""


class State(NamedTuple):
    """The last memory of a keeper."""

    number: int
    """Of answers that it comes after."""
    parts: Sequence[Any]


class Book:
    """Answers and memories by path.

    Arguments:
        answers: those that are known.
        states: the memories that belong to the last of them; answers that came after a memory are left out.
        on_answer: is called after every new answer.
    """

    def __init__(
        self,
        answers: dict[str, list[Answer]] | None = None,
        states: dict[str, State] | None = None,
        on_answer: Callable[[], None] = lambda: None,
    ) -> None:
        self.lock = threading.RLock()
        self.states = {} if states is None else states
        self.answers: dict[str, list[Answer]] = {}
        self.on_answer = on_answer
        for path, every in ({} if answers is None else answers).items():
            most = len(every)
            if any(answer.is_kept for answer in every):
                most = min(most, self.states[path].number) if path in self.states else 0
            self.answers[path] = every[:most]
        self.new: list[tuple[str, int, Answer]] = []
        """Answers that nobody has taken yet, with their places."""
        self.changed: set[str] = set()
        """Paths with memories of that kind."""
        self.recalled = 0
        """Answers that were known."""

    def add(self, path: str, answer: Answer, memory: Sequence[Any] | None) -> None:
        """Write an answer down, with the memory that follows it."""
        with self.lock:
            every = self.answers.setdefault(path, [])
            self.new.append((path, len(every), answer))
            # Nobody asks for it again in this run.
            every.append(answer._replace(parts=()))
            if memory is not None:
                self.states[path] = State(len(every), memory)
                self.changed.add(path)
        self.on_answer()


class Scope:
    """A place in a computation: its path, and how often each kind of question was asked there."""

    def __init__(self, book: Book, path: str = "") -> None:
        self.book, self.path = book, path
        self._counts: dict[str, int] = {}

    def path_of(self, what: str) -> str:
        """The path of the next question of this kind."""
        number = self._counts.get(what, 0)
        self._counts[what] = number + 1
        return f"{self.path}/{what}.{number}"


_scope: contextvars.ContextVar[Scope | None] = contextvars.ContextVar("kosambi_journal", default=None)


@contextlib.contextmanager
def entered(scope: Scope | None) -> Iterator[None]:
    """Questions inside are asked at this place; at none, where nothing is written down, if it is None."""
    token = _scope.set(scope)
    try:
        yield
    finally:
        _scope.reset(token)


def branches(number: int) -> list[Scope | None]:
    """Places for `number` computations side by side, none of which depends on when another runs."""
    scope = _scope.get()
    if scope is None:
        return [None] * number
    path = scope.path_of("side by side")
    return [Scope(scope.book, f"{path}/{i}") for i in range(number)]


class Steps:
    """Questions that are asked one after the other, by one thread at a time.

    Arguments:
        what: a name for them; places where the same is asked several times are numbered.
        keeper: what changes from one answer to the next; None where an answer depends on its question alone.
    """

    def __init__(self, what: str, keeper: Keeper | None = None) -> None:
        scope = _scope.get()
        self._book = None if scope is None else scope.book
        self._path = "" if scope is None else scope.path_of(what)
        self._keeper, self._number = keeper, 0

    def next(self, compute: Callable[[], Sequence[Any]], *asked: Any, nested: bool = False) -> tuple[Any, ...]:
        """The arrays that `compute` returns, or has returned in an earlier run.

        Arguments:
            compute: finds the answer.
            asked: arrays on which it depends, which must be those of the earlier run.
            nested: whether questions inside it are written down, too.
        """
        book = self._book
        if book is None:
            return tuple(compute())
        digest, known = digest_of(asked), book.answers.get(self._path, [])
        if self._number < len(known):
            answer = known[self._number]
            if answer.digest != digest:
                raise FileError(
                    f"The checkpoint does not belong to this run: question {self._number} at `{self._path}` was "
                    "another one when it was written. The computation has not gone the same way, as on another "
                    "machine or with other numbers of threads. Remove the checkpoint and begin again."
                )
            # Nobody asks for it again in this run.
            known[self._number] = answer._replace(parts=())
            self._number += 1
            book.recalled += 1
            if self._number == len(known) and self._keeper is not None:
                self._keeper.recall(tuple(book.states[self._path].parts))
            return answer.parts
        with entered(Scope(book, self._path) if nested else None):
            parts = tuple(None if part is None else np.asarray(part) for part in compute())
        self._number += 1
        memory = None if self._keeper is None else self._keeper.memory()
        book.add(self._path, Answer(digest, parts, memory is not None), memory)
        return parts


def recalled(what: str, compute: Callable[[], Sequence[Any]], *asked: Any) -> tuple[Any, ...]:
    """The arrays that `compute` returns, or has returned in an earlier run; see `Steps.next`.

    >>> first = Book()
    >>> with entered(Scope(first)):
    ...     print(float(recalled("square", lambda: (np.square(3.0),), 3.0)[0]), first.recalled)
    9.0 0
    >>> second = Book({path: [answer] for path, _, answer in first.new})
    >>> with entered(Scope(second)):
    ...     print(float(recalled("square", lambda: (np.square(3.0),), 3.0)[0]), second.recalled)
    9.0 1
    """
    return Steps(what).next(compute, *asked, nested=True)


def digest_of(values: Sequence[Any]) -> str:
    """A short digest of arrays, numbers or text."""
    found = hashlib.blake2b(digest_size=8)
    for value in values:
        array = np.asarray(value)
        found.update(f"{array.dtype.str}{array.shape}".encode())
        # Of a large array its own memory, and no copy.
        found.update(np.ascontiguousarray(array).reshape(-1).data if array.nbytes > _LARGE else array.tobytes())
    return found.hexdigest()
