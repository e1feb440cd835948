"""A specification and arrays back to an object.

Two passes. The first looks at nothing but the specification and the types and shapes of the arrays: names of classes,
fields, annotations, references. The second puts arrays into objects as they are, without computing anything again, and
asks the constructors whether they would have accepted them.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from kosambi.files._annotations import ArrayRef, Axes, NodeRef, fits
from kosambi.files._budget import Budget, shortened
from kosambi.files._checks import check_object
from kosambi.files._encode import MAX_DEPTH
from kosambi.files._older import declared_defaults, present_fields, present_name
from kosambi.files._registry import FUNCTION_OWNERS, MADE_OF_PARTS, FaultError, fields_of, is_custom_class, registry

_BITS = re.compile(r"[0-9a-f]{16}")


class Node(NamedTuple):
    """One object, with references in place of arrays and other objects."""

    cls: type
    fields: dict[str, Any]
    depth: int


class Plan(NamedTuple):
    """A checked specification."""

    root: Any
    nodes: list[Node]


def custom_names(specification: Any) -> set[str]:
    """The names of all functions and classes of the user's that a specification asks for."""
    found: set[str] = set()
    for entry in _objects(specification):
        if isinstance(entry, dict):
            fields = entry.get("fields")
            values = [entry, *fields.values()] if isinstance(fields, dict) else [entry]
            found.update(v["custom"] for v in values if isinstance(v, dict) and isinstance(v.get("custom"), str))
    return found


def plan(specification: Any, arrays: Mapping[str, ArrayRef], custom: Mapping[str, Any]) -> Plan:
    """The first pass: raise `FaultError` unless everything fits together."""
    reader = _Reader(arrays, custom)
    for number, entry in enumerate(_objects(specification)):
        reader.add(number, entry)
    root, _ = reader.value(specification["root"], "the root")
    reader.budget.spend()
    if reader.unused:
        raise FaultError(f"it holds arrays that belong to nothing: {', '.join(sorted(reader.unused)[:5])}")
    if reader.orphans - {root.number if isinstance(root, NodeRef) else -1}:
        raise FaultError("it holds objects that belong to nothing")
    return Plan(root, reader.nodes)


def build(checked: Plan, arrays: Mapping[str, np.ndarray]) -> Any:
    """The second pass: the object itself."""
    built: list[Any] = []

    def filled(value: Any) -> Any:
        if isinstance(value, ArrayRef):
            return arrays[value.name][()] if value.is_scalar else arrays[value.name]
        if isinstance(value, NodeRef):
            return built[value.number]
        if isinstance(value, dict):
            return {key: filled(item) for key, item in value.items()}
        if isinstance(value, tuple | list):
            return type(value)([filled(item) for item in value])
        return value

    for node in checked.nodes:
        fields = {name: filled(value) for name, value in node.fields.items()}
        try:
            made = _made(node.cls, fields)
            check_object(made)
        except FaultError:
            raise
        except Exception as error:
            # A check that could not even be made: parts so unfit that nobody thought of them.
            raise FaultError(f"the parts of a `{node.cls.__name__}` do not fit together ({error})") from error
        built.append(made)
    return filled(checked.root)


def _made(cls: type, fields: dict[str, Any]) -> Any:
    if issubclass(cls, tuple):
        return cls(**fields)
    if cls in MADE_OF_PARTS:
        return cls(**fields)
    made = object.__new__(cls)
    for name, value in fields.items():
        # Modules and reports are frozen.
        object.__setattr__(made, name, value)
    return made


def _objects(specification: Any) -> list[Any]:
    if not isinstance(specification, dict) or set(specification) != {"kosambi", "root", "objects"}:
        raise FaultError("its specification does not have the parts `kosambi`, `root` and `objects`")
    objects = specification["objects"]
    if not isinstance(objects, list):
        raise FaultError("its list of objects is none")
    return objects


class _Reader:
    def __init__(self, arrays: Mapping[str, ArrayRef], custom: Mapping[str, Any]) -> None:
        self.arrays, self.custom = arrays, custom
        self.nodes: list[Node] = []
        self.unused = set(arrays)
        self.orphans: set[int] = set()
        self.budget = Budget(arrays)

    def add(self, number: int, entry: Any) -> None:
        """One more object, made of those before it."""
        if not isinstance(entry, dict) or set(entry) not in ({"class", "fields"}, {"custom", "fields"}):
            raise FaultError(f"object {number} has neither a class nor a custom name, or more than that and its fields")
        cls = self._class(entry)
        annotations, given = fields_of(cls), self._fields(cls, entry)
        fields: dict[str, Any] = {}
        axes: Axes = {}
        deepest = 0
        for name, annotation in annotations.items():
            where = f"`{cls.__name__}.{name}`"
            if name == "function" and issubclass(cls, FUNCTION_OWNERS):
                fields[name] = self._function(given, where)
                continue
            fields[name], depth = self.value(given[name], where)
            deepest = max(deepest, depth)
            if not fits(fields[name], annotation, axes):
                raise FaultError(f"{where} is {_described(fields[name])}, which is not {_readable(annotation)}")
        if deepest >= MAX_DEPTH:
            raise FaultError(f"its objects lie more than {MAX_DEPTH} deep")
        self.budget.spend()
        self.nodes.append(Node(cls, fields, deepest + 1))
        self.orphans.add(number)

    def _class(self, entry: dict[str, Any]) -> type:
        if "class" in entry:
            name = entry["class"]
            if not isinstance(name, str) or present_name(name) not in registry():
                raise FaultError(f"it asks for the class {name!r}, which this version of kosambi does not have")
            return registry()[present_name(name)]
        given = self.custom.get(entry["custom"]) if isinstance(entry["custom"], str) else None
        if not is_custom_class(given):
            raise FaultError(
                f"`custom[{entry['custom']!r}]` must be the class that was saved under that name, an Equinox module. "
                f"Got {given!r}"
            )
        assert isinstance(given, type)
        return given

    def _fields(self, cls: type, entry: dict[str, Any]) -> dict[str, Any]:
        """What the file gives for each field of a class, or what stands for a field that it did not have then."""
        annotations, given = fields_of(cls), entry["fields"]
        if isinstance(given, dict) and "class" in entry:
            given, left = present_fields(present_name(entry["class"]), given)
            for name, value in left.items():
                # Looked at all the same, so that nothing in a file goes unread.
                self.value(value, f"`{cls.__name__}.{name}`")
            given = {n: v for n, v in declared_defaults(cls).items() if n in annotations} | given
        if not isinstance(given, dict) or set(given) != set(annotations):
            got = sorted(given) if isinstance(given, dict) else given
            raise FaultError(f"`{cls.__name__}` has the fields {sorted(annotations)}, and the file gives {got}")
        return given

    def _function(self, given: dict[str, Any], where: str) -> Callable[..., Any]:
        value = given["function"]
        if not isinstance(value, dict) or set(value) != {"custom"} or value["custom"] != given.get("name"):
            raise FaultError(f"{where} is not a function by name")
        function = self.custom.get(value["custom"]) if isinstance(value["custom"], str) else None
        if not callable(function) or isinstance(function, type):
            raise FaultError(
                f"`custom[{value['custom']!r}]` must be the function that was saved under that name. Got {function!r}"
            )
        return function

    def value(self, value: Any, where: str, level: int = 0) -> tuple[Any, int]:
        """A value with references, and how many objects lie inside each other in it."""
        if level > MAX_DEPTH:
            raise FaultError(f"{where} nests lists more than {MAX_DEPTH} deep")
        if value is None or isinstance(value, bool | str):
            return value, 0
        if isinstance(value, int) and -(2**63) <= value < 2**63:
            return value, 0
        if isinstance(value, float) and math.isfinite(value):
            return value, 0
        if not isinstance(value, dict) or len(value) != 1:
            raise FaultError(f"{where} is not a value that kosambi writes")
        ((tag, content),) = value.items()
        if tag == "bits" and isinstance(content, str) and _BITS.fullmatch(content):
            return struct.unpack(">d", bytes.fromhex(content))[0], 0
        if tag in ("array", "scalar") and isinstance(content, str):
            return self._array(content, tag == "scalar", where), 0
        if tag == "object" and type(content) is int:
            if not 0 <= content < len(self.nodes):
                raise FaultError(f"{where} refers to object {content}, which does not come before it")
            self.orphans.discard(content)
            self.budget.refer(content)
            return NodeRef(content, self.nodes[content].cls), self.nodes[content].depth
        if tag in ("tuple", "list", "dict") and isinstance(content, list):
            return self._container(tag, content, where, level)
        raise FaultError(f"{where} is not a value that kosambi writes")

    def _array(self, name: str, is_scalar: bool, where: str) -> ArrayRef:
        if name not in self.arrays:
            raise FaultError(f"{where} refers to the array {name!r}, which is missing")
        self.unused.discard(name)
        self.budget.hold(name)
        array = self.arrays[name]
        if is_scalar and array.shape != ():
            raise FaultError(f"{where} is a number, and the file gives an array of shape {array.shape}")
        return array._replace(is_scalar=is_scalar)

    def _container(self, tag: str, content: list[Any], where: str, level: int) -> tuple[Any, int]:
        if tag != "dict":
            pairs = [self.value(item, shortened(f"{where}[{i}]"), level + 1) for i, item in enumerate(content)]
            items = [item for item, _ in pairs]
            return (tuple(items) if tag == "tuple" else items), max((d for _, d in pairs), default=0)
        if not all(isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) for pair in content):
            raise FaultError(f"{where} is not a dictionary with text for keys")
        places = ((key, item, shortened(f"{where}[{key!r}]")) for key, item in content)
        entries = {key: self.value(item, place, level + 1) for key, item, place in places}
        if len(entries) != len(content):
            raise FaultError(f"{where} has a key twice")
        return {key: item for key, (item, _) in entries.items()}, max((d for _, d in entries.values()), default=0)


def _described(value: Any) -> str:
    if isinstance(value, ArrayRef):
        return f"an array of {value.dtype.name} with shape {value.shape}"
    if isinstance(value, NodeRef):
        return f"a `{value.cls.__name__}`"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _readable(annotation: Any) -> str:
    if hasattr(annotation, "dim_str"):
        kind = annotation.__name__.partition("[")[0]
        return f"{kind} with axes ({annotation.dim_str}) that agree with the other fields"
    branches = getattr(annotation, "__args__", ())
    arrays = [branch for branch in branches if getattr(branch, "array_type", None) is np.ndarray]
    if arrays:
        return _readable(arrays[0]) + (" or None" if type(None) in branches else "")
    return str(getattr(annotation, "__name__", annotation)) if isinstance(annotation, type) else str(annotation)
