r"""The bytes of a file: safetensors, with the specification and a digest among its metadata.

    8 bytes: length of the header | header, JSON | the arrays, one after the other

A header says where each array lies. It is checked against the size of the file before anything is read, so that no
file makes us allocate more than its own size; and the digest is checked before anything is believed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from kosambi._core.writing import write_atomically
from kosambi._version import __version__
from kosambi.errors import InputError
from kosambi.files._annotations import ArrayRef
from kosambi.files._encode import DTYPES
from kosambi.files._older import FORMAT_VERSION, OLDEST_VERSION
from kosambi.files._registry import FaultError

MAX_HEADER = 2**26
"""Bytes of the header, specification included; that of a posterior has some ten thousand."""
MAX_SPECIFICATION = MAX_HEADER // 4
"""Characters of the specification, which as Python objects takes up to thirty times as many bytes."""
_KEYS = {"format", "format_version", "kosambi_version", "spec", "sha256"}
_BLOCK = 2**20
_DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_FOREIGN = "it is no file of kosambi's. Give a file that `kosambi.save` wrote"
_DAMAGED = "Copy it again from where it came from, or save it again"


class Place(NamedTuple):
    """Where an array lies in a file."""

    begin: int
    ref: ArrayRef


class Opened:
    """A file whose header and digest are right."""

    def __init__(self, file: BinaryIO, specification: Any, places: Mapping[str, Place]) -> None:
        self._file, self._places = file, places
        self.specification = specification

    @property
    def arrays(self) -> dict[str, ArrayRef]:
        """Types and shapes, without reading."""
        return {name: place.ref for name, place in self._places.items()}

    def read(self) -> dict[str, np.ndarray]:
        """All arrays, each with memory of its own."""
        return {name: self._read(place) for name, place in self._places.items()}

    def _read(self, place: Place) -> np.ndarray:
        array = np.empty(place.ref.shape, dtype=place.ref.dtype)
        if array.nbytes:
            self._file.seek(place.begin)
            raw = array.reshape(-1).view(np.uint8)
            if self._file.readinto(raw.data) != raw.nbytes:  # type: ignore[attr-defined]
                raise FaultError("it changed while it was read. Load it again")
            if array.dtype.kind == "b" and raw.max() > 1:
                raise FaultError("it holds Boolean values that are neither true nor false")
        return array if sys.byteorder == "little" else array.astype(array.dtype.newbyteorder("="))


@contextlib.contextmanager
def opened(path: str) -> Iterator[Opened]:
    """Open and check a file; raises `FaultError`."""
    # Looked at first: to open a pipe would wait for somebody to write to it.
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise FaultError("it is a directory, or no regular file. Give the path of a file that `kosambi.save` wrote")
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        header, start = _header(file, size)
        metadata = header.pop("__metadata__", None)
        version = _checked_version(metadata)
        if len(metadata["spec"]) > MAX_SPECIFICATION:
            raise FaultError(f"its specification has more than {MAX_SPECIFICATION} characters. {_DAMAGED}")
        places = _places(header, start, size)
        if _digest(version, metadata["spec"], file, places) != metadata["sha256"]:
            raise FaultError(f"its contents do not have its SHA-256 digest, so it is damaged. {_DAMAGED}")
        yield Opened(file, _parsed(metadata["spec"], "its specification"), places)


def _header(file: BinaryIO, size: int) -> tuple[dict[str, Any], int]:
    if size < 8:
        raise FaultError(f"it has {size} bytes, too few for a file of kosambi's. {_DAMAGED}")
    length = int.from_bytes(file.read(8), "little")
    if length > size - 8 or length > MAX_HEADER:
        raise FaultError(f"{_FOREIGN}; if it is one, it was cut off")
    try:
        text = file.read(length).decode()
    except UnicodeDecodeError as error:
        raise FaultError(f"{_FOREIGN}; if it is one, it is damaged") from error
    header = _parsed(text, "its header") if text.startswith("{") else None
    if not isinstance(header, dict):
        raise FaultError(f"{_FOREIGN}; if it is one, it is damaged")
    return header, 8 + length


def _checked_version(metadata: Any) -> int:
    """The version of the format, one that is known, of metadata that are complete."""
    if not isinstance(metadata, dict) or metadata.get("format") != "kosambi":
        raise FaultError(f"it is a safetensors file, but {_FOREIGN}")
    version = str(metadata.get("format_version"))
    if version not in map(str, range(OLDEST_VERSION, FORMAT_VERSION + 1)):
        writer = str(metadata.get("kosambi_version"))[:40]
        raise FaultError(
            f"its format has version {version[:40]}, written by kosambi {writer}, and kosambi {__version__} reads "
            f"versions {OLDEST_VERSION} to {FORMAT_VERSION}. Install that version of kosambi, or a newer one"
        )
    if set(metadata) != _KEYS or not all(isinstance(value, str) for value in metadata.values()):
        raise FaultError(f"its metadata are not those that kosambi writes, so it is damaged. {_DAMAGED}")
    return int(version)


def _places(header: dict[str, Any], start: int, size: int) -> dict[str, Place]:
    places: dict[str, Place] = {}
    for name, entry in header.items():
        if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
            raise FaultError(f"its header does not say what array {name!r} is. {_DAMAGED}")
        dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
        if not isinstance(dtype, str) or dtype not in DTYPES:
            raise FaultError(f"array {name!r} has the type {dtype!r}, which kosambi does not write. {_DAMAGED}")
        if not _are_counts(shape) or not _are_counts(offsets) or len(offsets) != 2 or len(shape) > 32:
            raise FaultError(f"its header does not say where array {name!r} is. {_DAMAGED}")
        # Of whole numbers without a limit, so that no product wraps around.
        wanted, given = math.prod(shape) * DTYPES[dtype].itemsize, offsets[1] - offsets[0]
        # An axis beside one of length zero takes no memory here, but what has a number for each of its places would.
        is_endless = math.prod(n for n in shape if n) >= 2**59 or max(shape, default=0) > size
        if is_endless or wanted != given or offsets[1] > size - start:
            raise FaultError(
                f"array {name!r} of shape {tuple(shape)} needs {wanted} bytes, and the file has {size - start} bytes "
                f"of data, {given} of them for it: it was cut off or is damaged. {_DAMAGED}"
            )
        places[name] = Place(start + offsets[0], ArrayRef(name, DTYPES[dtype], tuple(shape)))
    end = start
    for place in sorted(places.values(), key=lambda p: (p.begin, math.prod(p.ref.shape))):
        if place.begin != end:
            raise FaultError(f"its arrays overlap or leave gaps. {_DAMAGED}")
        end += math.prod(place.ref.shape) * place.ref.dtype.itemsize
    if end != size:
        raise FaultError(f"it has {size - end} bytes too many. {_DAMAGED}")
    return places


def _are_counts(value: Any) -> bool:
    return isinstance(value, list) and all(type(n) is int and n >= 0 for n in value)


def _parsed(text: str, what: str) -> Any:
    """JSON without what its standard leaves open: keys that occur twice, and numbers that are none."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a key occurs twice")
        return found

    def refuse(constant: str) -> Any:
        raise ValueError(f"{constant} is no JSON")

    try:
        return json.loads(text, object_pairs_hook=unique, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise FaultError(f"{what} is not valid JSON ({error}), so it is damaged. {_DAMAGED}") from error


def _start_digest(version: int, specification: str) -> Any:
    digest = hashlib.sha256(f"kosambi {version}\n".encode())
    _add(digest, specification.encode())
    return digest


def _add(digest: Any, *parts: bytes) -> None:
    # With their lengths, so that no two lists of parts look the same.
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)


def _add_head(digest: Any, name: str, dtype: np.dtype, shape: tuple[int, ...], nbytes: int) -> None:
    _add(digest, name.encode(), dtype.str.encode(), json.dumps(shape).encode())
    digest.update(nbytes.to_bytes(8, "little"))


def _digest(version: int, specification: str, file: BinaryIO, places: Mapping[str, Place]) -> str:
    """The digest of what a file holds, block by block."""
    try:
        digest = _start_digest(version, specification)
        encoded = {name: name.encode() for name in places}
    except UnicodeEncodeError as error:
        raise FaultError(f"its text is not valid Unicode, so it is damaged. {_DAMAGED}") from error
    for name in sorted(encoded):
        begin, ref = places[name]
        left = math.prod(ref.shape) * ref.dtype.itemsize
        _add_head(digest, name, ref.dtype, ref.shape, left)
        file.seek(begin)
        while left:
            block = file.read(min(left, _BLOCK))
            if not block:
                raise FaultError("it changed while it was read. Load it again")
            digest.update(block)
            left -= len(block)
    return str(digest.hexdigest())


def write(path: str, specification: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Write a file in one go: whoever looks sees the old one or the new one, never a part; raises `OSError`."""
    spec = json.dumps(specification, allow_nan=False, separators=(",", ":"))
    if len(spec) > MAX_SPECIFICATION:
        raise InputError(
            f"`save` describes an object in at most {MAX_SPECIFICATION} bytes. This one takes {len(spec)}."
        )
    digest = _start_digest(FORMAT_VERSION, spec)
    for name in sorted(arrays):
        array = arrays[name]
        _add_head(digest, name, array.dtype, array.shape, array.nbytes)
        digest.update(_raw(array) if array.nbytes else b"")
    metadata = {
        "format": "kosambi",
        "format_version": str(FORMAT_VERSION),
        "kosambi_version": __version__,
        "spec": spec,
        "sha256": digest.hexdigest(),
    }
    write_atomically(path, lambda file: _write(file, metadata, arrays))


def _write(file: BinaryIO, metadata: dict[str, str], arrays: Mapping[str, np.ndarray]) -> None:
    """The bytes themselves.

    By hand: the package safetensors writes metadata in a random order, so that the same object would give another file
    each time. It reads what is written here, which the tests check.
    """
    # Wide numbers first, so that all of them are aligned.
    order = sorted(arrays, key=lambda name: -arrays[name].itemsize)
    header: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name in order:
        array, begin = arrays[name], end
        end += array.nbytes
        kind = _DTYPE_NAMES[array.dtype]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for name in order:
        if arrays[name].nbytes:
            file.write(_raw(arrays[name]))


def _raw(array: np.ndarray) -> memoryview:
    """The bytes of a contiguous array that has some, without a copy."""
    return array.reshape(-1).view(np.uint8).data
