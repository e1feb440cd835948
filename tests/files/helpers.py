"""Comparing objects bit for bit, and files with a right digest and wrong contents."""

from __future__ import annotations

import copy
import json
import struct

import numpy as np

import kosambi as ko
from kosambi.files import _container
from kosambi.files._registry import fields_of, names


def assert_identical(first, second, twins=None):
    """Same types, same bits, and what is shared in the one is shared in the other."""
    twins = {} if twins is None else twins
    assert type(first) is type(second)
    if first is None or isinstance(first, bool | int | str):
        assert first == second
    elif type(first) is float:
        assert struct.pack("<d", first) == struct.pack("<d", second)
    elif isinstance(first, tuple | list) and type(first) not in names():
        assert len(first) == len(second)
        for a, b in zip(first, second, strict=True):
            assert_identical(a, b, twins)
    elif isinstance(first, dict):
        assert list(first) == list(second)
        for key in first:
            assert_identical(first[key], second[key], twins)
    elif isinstance(first, np.ndarray | np.generic):
        _assert_same_array(first, second, twins)
    elif callable(first) and type(first) not in names() and not hasattr(first, "__dataclass_fields__"):
        assert first is second
    elif twins.setdefault(id(first), id(second)) == id(second):
        assert twins.setdefault(("back", id(second)), id(first)) == id(first)
        for name in fields_of(type(first)):
            assert_identical(getattr(first, name), getattr(second, name), twins)
    else:
        raise AssertionError("an object that was shared came back as two")


def _assert_same_array(first, second, twins):
    assert first.dtype == second.dtype
    assert first.shape == second.shape
    assert first.tobytes() == second.tobytes()
    if isinstance(second, np.ndarray):
        assert second.flags.c_contiguous
        assert second.flags.writeable
        assert second.flags.owndata
        assert twins.setdefault(id(first), id(second)) == id(second)
        assert twins.setdefault(("back", id(second)), id(first)) == id(first)


def through_file(thing, folder, custom=None):
    path = folder / "thing.kosambi"
    ko.save(thing, path)
    return ko.load(path, custom)


def header_of(path):
    """The header as JSON, and the bytes after it."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def write_header(path, header, data):
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def contents(path):
    """The specification and the arrays of a file."""
    with _container.opened(str(path)) as file:
        return file.specification, file.read()


def rewrite(path, change):
    """Change the specification and the arrays of a file in place; its digest will be right."""
    specification, arrays = copy.deepcopy(contents(path))
    changed = change(specification, arrays)
    _container.write(str(path), specification if changed is None else changed, arrays)


def fields_of_class(specification, name):
    """The fields of the first object of a class, to be changed."""
    return next(entry["fields"] for entry in specification["objects"] if entry.get("class") == name)


def outcome(path, custom=None):
    """What `load` returns, or the `FileError` that it raises; anything else is passed on."""
    try:
        return ko.load(path, custom)
    except ko.errors.FileError as error:
        return error
