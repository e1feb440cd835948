"""Whether what a file gives for a field fits the field's annotation, before any array is read.

Types that name their axes are checked for the kind of number, the number of axes, and that an axis of one name has one
length in all fields of an object.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

Axes = dict[str, tuple[int, ...]]
_NUMBERS: dict[type, str] = {bool: "b", int: "iu", float: "f"}


class ArrayRef(NamedTuple):
    """An array that has not been read yet."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    is_scalar: bool = False
    """Whether it stands for a NumPy number and not for an array without axes."""


class NodeRef(NamedTuple):
    """An object that has not been built yet, by its number in the file."""

    number: int
    cls: type


def fits(value: Any, annotation: Any, axes: Axes) -> bool:
    """Whether `value`, with references in place of arrays and objects, fits; binds the axes it names in `axes`."""
    if annotation is Any:
        return True
    if annotation is None or annotation is types.NoneType:
        return value is None
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        return any(_fits_branch(value, branch, axes) for branch in typing.get_args(annotation))
    if origin is Callable or annotation is Callable:
        return callable(value)
    if origin in (tuple, list, dict):
        return isinstance(value, origin) and _fits_container(value, origin, typing.get_args(annotation), axes)
    return isinstance(annotation, type) and _fits_class(value, annotation, axes)


def _fits_branch(value: Any, branch: Any, axes: Axes) -> bool:
    tried = dict(axes)
    if not fits(value, branch, tried):
        return False
    axes.update(tried)
    return True


def _fits_container(value: Any, origin: type, arguments: tuple[Any, ...], axes: Axes) -> bool:
    if origin is dict:
        return all(fits(k, arguments[0], axes) and fits(v, arguments[1], axes) for k, v in value.items())
    if origin is list:
        return all(fits(item, arguments[0], axes) for item in value)
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return all(fits(item, arguments[0], axes) for item in value)
    return len(value) == len(arguments) and all(fits(v, a, axes) for v, a in zip(value, arguments, strict=True))


def _fits_class(value: Any, annotation: type, axes: Axes) -> bool:
    if hasattr(annotation, "dim_str"):
        return isinstance(value, ArrayRef) and not value.is_scalar and _fits_array(value, annotation, axes)
    if annotation in (np.ndarray, jax.Array):
        return isinstance(value, ArrayRef) and not value.is_scalar
    if annotation in _NUMBERS:
        if isinstance(value, ArrayRef):
            return value.is_scalar and value.dtype.kind in _NUMBERS[annotation]
        return type(value) is annotation
    if isinstance(value, NodeRef):
        return issubclass(value.cls, annotation)
    return type(value) is annotation


def _fits_array(array: ArrayRef, annotation: Any, axes: Axes) -> bool:
    """One of jaxtyping's types, such as Float[ndarray, "J M *C"]."""
    if array.dtype.name not in annotation.dtypes:
        return False
    wanted = annotation.dim_str.split()
    variadic = [i for i, axis in enumerate(wanted) if axis.startswith("*") or axis == "..."]
    missing = len(array.shape) - len(wanted)
    if missing != 0 and (not variadic or missing < -1):
        return False
    if variadic:
        # The one axis of the annotation that stands for any number of them.
        first = variadic[0]
        lengths = [(n,) for n in array.shape]
        parts = [*lengths[:first], array.shape[first : first + missing + 1], *lengths[first + missing + 1 :]]
    else:
        parts = [(n,) for n in array.shape]
    for axis, lengths_of_axis in zip(wanted, parts, strict=True):
        if axis in ("...", "_"):
            continue
        expected = (int(axis),) if axis.isdigit() else axes.setdefault(axis, lengths_of_axis)
        if expected != lengths_of_axis:
            return False
    return True
