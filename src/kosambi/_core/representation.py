"""How an object shows itself: its class, and the arguments that make one like it, with their numbers.

    Matern52(lengthscale=[0.57, 14.8], variance=1.0)

Python gives the same object back from such a line where it is short: numbers have six digits, and long arrays are cut.
"""

from __future__ import annotations

import functools
import inspect
import reprlib
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

DIGITS = 6
"""Significant digits of a number."""
MOST_NUMBERS = 8
"""Numbers of an array that are all shown."""
MOST_CHARACTERS = 120
"""Of the text of an object that is none of kosambi's."""
# Of a longer array the first three numbers and the last.
_FIRST = 3


def representation(module: Any) -> str:
    """The class with the arguments of its constructor; those that are None are left out."""
    shown = [f"{name}={shown_value(value)}" for name, value in arguments(module).items() if value is not None]
    return f"{type(module).__name__}({', '.join(shown)})"


def arguments(module: Any) -> dict[str, Any]:
    """The arguments of the constructor by name, as far as the object has kept them.

    An argument is the field or property of the same name, or the field that `argument_fields` says.
    """
    found = {}
    for name in _argument_names(module.__class__):
        field = module.argument_fields.get(name, name)
        if field in _data_names(module.__class__) and hasattr(module, field):
            found[name] = getattr(module, field)
    return found


def forgotten_arguments(module: Any) -> tuple[str, ...]:
    """Arguments of the constructor that the object has not kept, so that no other like it can be made."""
    found = arguments(module)
    return tuple(name for name in _argument_names(module.__class__) if name not in found)


@functools.cache
def _argument_names(cls: Any) -> tuple[str, ...]:
    parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
    return tuple(p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))


@functools.cache
def _data_names(cls: Any) -> frozenset[str]:
    """Fields and properties, but not methods, which may have the name of an argument."""
    fields: Mapping[str, Any] = getattr(cls, "__dataclass_fields__", {})
    properties = {name for name in dir(cls) if isinstance(inspect.getattr_static(cls, name), property)}
    return frozenset(fields) | properties


def shown_value(value: Any) -> str:
    """The text of one argument: numbers shortened, arrays that are long, or that are traced, as type and shape."""
    if isinstance(value, jax.core.Tracer | jax.ShapeDtypeStruct) or _is_deleted(value):
        return _shape(value)
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        return _shown_array(value)
    if isinstance(value, bool) or not isinstance(value, float):
        return _shown_object(value)
    return _shown_number(value)


def _shown_array(value: Any) -> str:
    if getattr(value.dtype, "kind", "V") not in "fiub":
        return _shape(value)
    array = np.asarray(value)
    if array.ndim == 0:
        return _shown_number(array.item())
    if array.size <= MOST_NUMBERS:
        return "[" + ", ".join(_shown_array(part) for part in array) + "]"
    if array.ndim > 1:
        return _shape(array)
    first = ", ".join(_shown_number(number) for number in array[:_FIRST].tolist())
    return f"[{first}, ..., {_shown_number(array[-1].item())}]"


def _shown_number(number: Any) -> str:
    # Rounded first, so that Python's own text has no more digits than that; whole floats keep their point.
    return repr(float(f"{number:.{DIGITS}g}")) if isinstance(number, float) else repr(number)


def _shown_object(value: Any) -> str:
    if isinstance(value, tuple | list):
        opening, closing = "()" if isinstance(value, tuple) else "[]"
        comma = "," if isinstance(value, tuple) and len(value) == 1 else ""
        return opening + ", ".join(shown_value(item) for item in value) + comma + closing
    if inspect.isroutine(value):
        return f"<function {value.__name__}>"
    if hasattr(value, "argument_fields") or isinstance(value, str | int | type(None)):
        return repr(value)
    return _SHORT.repr(value)


def _shape(value: Any) -> str:
    return f"{value.dtype}[{', '.join(map(str, value.shape))}]"


def _is_deleted(value: Any) -> bool:
    # Buffers that were donated to a computation have a shape and no numbers.
    return isinstance(value, jax.Array) and value.is_deleted()


_SHORT = reprlib.Repr()
_SHORT.maxother = _SHORT.maxstring = MOST_CHARACTERS
