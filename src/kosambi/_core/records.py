r"""Arrays with names in a file that is safe to read: no code is in it, and a damaged one is noticed.

    b"kosambi records 1\n"   what it is
    8 bytes                  the length of the list that follows
    JSON                     [[name, [[dtype, shape, order] or null, ...]], ...]
    bytes                    the arrays, one after the other, each in its order in memory (C or F)
    32 bytes                 the SHA-256 of all that

Arrays are of numbers, so that no object is ever made from what a file says.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np

from kosambi._core.writing import write_atomically
from kosambi.errors import FileError

_MAGIC = b"kosambi records 1\n"
_KINDS = "biuf"


def write_records(path: str | os.PathLike[str], records: Iterable[tuple[str, Sequence[Any]]]) -> int:
    """Write records, each a name and arrays (or None), in one go; returns the number of bytes.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     size = write_records(folder + "/some", [("first", [np.arange(3), None]), ("second", [2.5])])
    ...     list(read_records(folder + "/some"))
    [('first', (array([0, 1, 2]), None)), ('second', (array(2.5),))]
    """
    names, arrays = [], []
    for name, parts in records:
        own = [None if part is None else np.asarray(part) for part in parts]
        names.append(
            [name, [None if part is None else [part.dtype.str, list(part.shape), _order(part)] for part in own]]
        )
        arrays += [part for part in own if part is not None]
    if wrong := {array.dtype.str for array in arrays if array.dtype.kind not in _KINDS}:
        raise TypeError(f"Arrays of numbers can be written. Got {', '.join(sorted(wrong))}.")
    head = json.dumps(names).encode()
    found, size = hashlib.sha256(), 0

    def write(file: Any) -> None:
        nonlocal size
        pieces = [_MAGIC, len(head).to_bytes(8, "little"), head]
        for piece in (*pieces, *(array.tobytes(_order(array)) for array in arrays)):
            found.update(piece)
            size += file.write(piece)
        size += file.write(found.digest())

    write_atomically(path, write)
    return size


def read_records(path: str | os.PathLike[str]) -> list[tuple[str, tuple[np.ndarray | None, ...]]]:
    """What `write_records` wrote.

    Raises:
        FileError: the file is another, or damaged.
    """
    with open(path, "rb") as file:
        content = file.read()
    whole, seal = content[:-32], content[-32:]
    if not whole.startswith(_MAGIC) or hashlib.sha256(whole).digest() != seal:
        raise FileError(f"`{path}` is damaged, or none of kosambi's checkpoints. Remove it.")
    at = len(_MAGIC) + 8
    length = int.from_bytes(whole[at - 8 : at], "little")
    try:
        names, at = json.loads(whole[at : at + length]), at + length
        return [(str(name), tuple(_arrays(whole, parts, at := at + _size(parts)))) for name, parts in names]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise FileError(f"`{path}` is damaged, or none of kosambi's checkpoints. Remove it.") from error


def _size(parts: list[Any]) -> int:
    return sum(_type(part).itemsize * math.prod(part[1]) for part in parts if part is not None)


def _order(array: np.ndarray) -> Literal["C", "F"]:
    """Linear algebra may round differently in another order."""
    return "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"


def _type(part: list[Any]) -> np.dtype:
    kind = np.dtype(str(part[0]))
    if kind.kind not in _KINDS or any(not isinstance(size, int) or size < 0 for size in part[1]):
        raise ValueError(part)
    return kind


def _arrays(content: bytes, parts: list[Any], end: int) -> list[np.ndarray | None]:
    """The arrays that end at `end`."""
    found: list[np.ndarray | None] = []
    at = end - _size(parts)
    for part in parts:
        if part is None:
            found.append(None)
            continue
        number = math.prod(part[1])
        flat = np.frombuffer(content, _type(part), number, at).copy()
        found.append(flat.reshape(part[1], order="F" if part[2] == "F" else "C"))
        at += number * _type(part).itemsize
    return found
