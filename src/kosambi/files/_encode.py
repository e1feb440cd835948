"""An object as a JSON specification and a dictionary of arrays.

The specification is a flat list of objects, each after those that it refers to. What is shared is stored once, and
neither a cycle nor deep nesting can be written down.
"""

from __future__ import annotations

import dataclasses
import math
import struct
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kosambi._version import __version__
from kosambi.errors import InputError
from kosambi.files._registry import FUNCTION_OWNERS, custom_name, fields_of, is_custom_class, names
from kosambi.priors import MeanFunction

MAX_DEPTH = 100
"""Objects inside objects inside objects; a posterior is about ten deep."""
DTYPES: dict[str, np.dtype] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U64": np.dtype("<u8"),
    "U32": np.dtype("<u4"),
    "U16": np.dtype("<u2"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}
"""What arrays can hold, by the names of safetensors."""
_KNOWN_DTYPES = frozenset(DTYPES.values())


@dataclasses.dataclass
class Encoder:
    """Collects the parts of one object."""

    nodes: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    arrays: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    custom: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Functions and classes of the user's, by name."""
    _seen: dict[int, dict[str, Any]] = dataclasses.field(default_factory=dict)

    def specification(self, root: object) -> dict[str, Any]:
        """The specification of `root`."""
        return {"kosambi": __version__, "root": self._value(root, "value", 0), "objects": self.nodes}

    def _value(self, value: Any, where: str, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise InputError(f"`save` stores objects up to {MAX_DEPTH} deep. `{where}` lies deeper.")
        if value is None or isinstance(value, bool) or type(value) is str:
            return value
        if type(value) is int:
            if not -(2**63) <= value < 2**63:
                raise InputError(f"`save` stores whole numbers of 64 bits. `{where}` is larger.")
            return value
        if type(value) is float:
            # JSON has no NaN and no infinity, and decimal digits would lose the bits of a NaN.
            return value if math.isfinite(value) else {"bits": struct.pack(">d", value).hex()}
        if isinstance(value, np.generic | np.ndarray | jax.Array):
            return self._array(value, where)
        if type(value) in (tuple, list):
            items = [self._value(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(value)]
            return {type(value).__name__: items}
        if type(value) is dict and all(type(key) is str for key in value):
            return {"dict": [[k, self._value(v, f"{where}[{k!r}]", depth + 1)] for k, v in value.items()]}
        return self._node(value, where, depth)

    def _array(self, value: Any, where: str) -> dict[str, Any]:
        if id(value) in self._seen:
            return self._seen[id(value)]
        if isinstance(value, jax.core.Tracer):
            raise InputError(f"`save` needs numbers, and `{where}` is being traced. Call it outside `jit` and `grad`.")
        if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            raise InputError(f"`save` stores no random keys. `{where}` is one; store `jax.random.key_data(key)`.")
        array = np.asarray(value)
        array = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
        if array.dtype not in _KNOWN_DTYPES:
            raise InputError(
                f"`save` stores real numbers, whole numbers and Boolean values. `{where}` has {array.dtype}."
            )
        name = f"a{len(self.arrays)}"
        self.arrays[name] = array
        self._seen[id(value)] = {"scalar" if isinstance(value, np.generic) else "array": name}
        return self._seen[id(value)]

    def _node(self, value: Any, where: str, depth: int) -> dict[str, Any]:
        if id(value) in self._seen:
            return self._seen[id(value)]
        cls = type(value)
        head = {"class": names()[cls]} if cls in names() else {"custom": self._custom_class(value, where)}
        fields: dict[str, Any] = {}
        for name in fields_of(cls):
            if name == "function" and isinstance(value, FUNCTION_OWNERS):
                fields[name] = {"custom": self._custom_function(value)}
            else:
                fields[name] = self._value(getattr(value, name), f"{where}.{name}", depth + 1)
        self.nodes.append({**head, "fields": fields})
        self._seen[id(value)] = {"object": len(self.nodes) - 1}
        return self._seen[id(value)]

    def _custom_function(self, owner: Any) -> str:
        if owner.name is None:
            raise InputError(
                f"`save` stores no code, and `{type(owner).__name__}` holds a function. Give it a name, as in "
                f"`{type(owner).__name__}(function, name='mine')`, and load the file with "
                "`kosambi.load(path, custom={'mine': function})`."
            )
        return self._remember(owner.name, owner.function)

    def _custom_class(self, value: Any, where: str) -> str:
        cls = type(value)
        if isinstance(value, MeanFunction):
            raise InputError(
                "`save` stores no code, and the prior mean is a function. Give it a name, as in "
                "`mean=kosambi.Named('trend', function)`, and load the file with "
                "`kosambi.load(path, custom={'trend': function})`."
            )
        if not is_custom_class(cls):
            what = "a function" if isinstance(value, Callable) else f"of type {cls.__name__}"  # type: ignore[arg-type]
            raise InputError(
                f"`save` stores kosambi's own objects, numbers, text, lists and dictionaries. `{where}` is {what}. "
                "Save the parts of it that are, and put the rest together after loading."
            )
        name = custom_name(cls)
        if name is None:
            raise InputError(
                f"`save` stores no code, and `{cls.__name__}` is a class of your own. Give it a name in its body, as "
                f"in `name: ClassVar[str] = 'mine'`, and load the file with "
                f"`kosambi.load(path, custom={{'mine': {cls.__name__}}})`."
            )
        return self._remember(name, cls)

    def _remember(self, name: str, what: Any) -> str:
        if self.custom.setdefault(name, what) is not what:
            raise InputError(f"Two different functions or classes are named {name!r}. Give each a name of its own.")
        return name
