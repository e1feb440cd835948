"""`run.json`: sealed with a digest of its own, and looked at before it is believed.

The digest tells a damaged or edited record from the one that was written. It is no signature: whoever can write to the
folder can seal it again, so the parts that commands use are checked by themselves as well.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

SEAL = "sha256"
"""Under which name a record holds its digest."""
MAX_BYTES = 2**24
"""Of the file; a usual one has some thousands."""
_WANTED: Mapping[str, Mapping[str, type]] = {
    "data": {"file": str},
    "rows": {"training": int, "held_out": int},
    "schema": {},
    "settings": {},
    "fit": {},
}


def sealed(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record with its digest, which stands last.

    >>> is_sealed(sealed({"a": 1})), is_sealed(sealed({"a": 1}) | {"a": 2})
    (True, False)
    """
    return {**record, SEAL: _digest(record)}


def is_sealed(record: Mapping[str, Any]) -> bool:
    """Whether a record is the one that was written."""
    return bool(record.get(SEAL) == _digest({name: value for name, value in record.items() if name != SEAL}))


def _digest(record: Mapping[str, Any]) -> str:
    # Of the contents, not of the bytes, so that an editor which only lays them out anew does no harm.
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def problem_of(record: Mapping[str, Any]) -> str | None:
    """What a record lacks that commands need; None if nothing.

    >>> problem_of({"data": {"file": 3}})
    'its `data.file` is no text'
    """
    words = {str: "text", int: "whole number"}
    for name, parts in _WANTED.items():
        entry = record.get(name)
        if not isinstance(entry, dict):
            return f"it does not say its `{name}`"
        for part, kind in parts.items():
            if not isinstance(entry.get(part), kind) or isinstance(entry.get(part), bool):
                return f"its `{name}.{part}` is no {words[kind]}"
    return None


def model_problem(estimator: Any, labels: tuple[str, ...]) -> str | None:
    """Why a model is not the one of a schema whose matrix has these columns; None if it is."""
    names = getattr(estimator, "feature_names_in_", None)
    if not hasattr(estimator, "posterior_") or names is None:
        return "its model is no fitted estimator with names of columns"
    if tuple(map(str, names)) != labels:
        return f"its model has {len(names)} columns and its schema {len(labels)}, or others"
    return None
