"""Finished cells on disk: a file for each while an experiment runs, and one JSON file of all of them.

A cell is written under another name and then renamed, so that an interruption leaves it whole or absent. A cell that
was computed with other arguments, or that failed, counts as not done.
"""

from __future__ import annotations

import json
import math
import os
import re
from pathlib import Path
from typing import Any

from kosambi._core.errors import FileError, InputError
from reproduction.experiment import Cell, Found
from reproduction.machine import label

Record = dict[str, Any]


class Store:
    """The cells of one experiment in a folder.

    Arguments:
        folder: where `NAME.json` is, and `cells/NAME/` while the experiment runs.
        name: of the experiment.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.whole = folder / f"{name}.json"
        self.pieces = folder / "cells" / name
        self.name = name

    def records(self) -> dict[str, Record]:
        """All that is there, of the file of all cells and of those that are newer."""
        found: dict[str, Record] = _read(self.whole)["cells"] if self.whole.is_file() else {}
        for path in sorted(self.pieces.glob("*.json")):
            found[path.stem] = _read(path)
        return found

    def found(self) -> Found:
        """What finished cells returned, and under "machine" what they were computed on, where that is known."""
        machines = self.machines()
        found = {}
        for name, record in self.records().items():
            if "result" in record:
                where = record.get("machine", {})
                where = machines[where] if isinstance(where, int) else where
                found[name] = {**record["result"], **({"machine": label(where)} if where else {})}
        return found

    def machines(self) -> list[Any]:
        """Those that the cells in the one file were computed on."""
        found: list[Any] = _read(self.whole)["machines"] if self.whole.is_file() else []
        return found

    def is_done(self, cell: Cell, records: dict[str, Record]) -> bool:
        """Whether the work of a cell is among `records`."""
        record = records.get(cell.name)
        return record is not None and "result" in record and record["arguments"] == as_json(cell.arguments)

    def keep(self, cell: Cell, **entries: Any) -> None:
        """Write what came of a cell."""
        if not re.fullmatch(r"[A-Za-z0-9._-]+", cell.name):
            raise InputError(f"`name` of a cell is {cell.name!r}. Use letters, digits, '.', '_' and '-'.")
        self.pieces.mkdir(parents=True, exist_ok=True)
        _write(self.pieces / f"{cell.name}.json", {"arguments": as_json(cell.arguments), **as_json(entries)})

    def gather(self) -> None:
        """Write the one file of all cells; machines are listed once."""
        cells = self.records()
        machines = self.machines()
        for record in cells.values():
            if isinstance(record.get("machine"), dict):
                if record["machine"] not in machines:
                    machines.append(record["machine"])
                record["machine"] = machines.index(record["machine"])
        self.whole.parent.mkdir(parents=True, exist_ok=True)
        _write(self.whole, {"experiment": self.name, "machines": machines, "cells": dict(sorted(cells.items()))})


def as_json(value: Any) -> Any:
    """The same as JSON would give it back, with None for numbers that it does not have.

    >>> as_json({"a": (1, float("nan"))})
    {'a': [1, None]}
    """
    if isinstance(value, dict):
        return {str(name): as_json(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(entry) for entry in value]
    if isinstance(value, str | bool | int) or value is None:
        return value
    if hasattr(value, "tolist"):
        return as_json(value.tolist())
    return float(value) if math.isfinite(value) else None


def _read(path: Path) -> Record:
    try:
        content: Record = json.loads(path.read_text())
    except ValueError as error:
        raise FileError(f"`{path}` is no JSON ({error}). Remove it, and its cells are computed again.") from None
    return content


def _write(path: Path, content: Record) -> None:
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    unfinished.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n")
    unfinished.replace(path)
