"""Finished cells on disk, with what they were computed on: a file for each, and one JSON file of all of them.

A cell's file is written in one go, so that an interruption leaves it whole or absent. A cell that was computed with
other arguments, or that failed, counts as not done.
"""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kosambi._core.writing import as_json, versions, write_atomically
from kosambi.errors import FileError, InputError
from reproduction.experiment import Cell, Found

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


def describe(*others: str) -> dict[str, object]:
    """What a figure was measured on: processor, cores that may be used, accelerator, and versions.

    Arguments:
        others: packages whose versions matter too.

    >>> sorted(describe())
    ['accelerator', 'cores', 'machine', 'processor', 'python', 'system', 'versions']
    """
    installed = versions("torch", "gpytorch", *others)
    return {
        "machine": platform.machine(),
        "processor": _processor(),
        "system": platform.system(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "accelerator": _accelerator(),
        "python": installed.pop("python"),
        "versions": installed,
    }


def label(description: Mapping[str, object]) -> str:
    """A line that tells machines apart on which times cannot be compared.

    >>> label({"processor": "Z80", "cores": 1, "accelerator": None})
    'Z80, 1 core'
    """
    cores = description.get("cores")
    parts = [description.get("processor"), f"{cores} {'core' if cores == 1 else 'cores'}"]
    return ", ".join(str(part) for part in (*parts, description.get("accelerator")) if part)


def _accelerator() -> str | None:
    """What JAX computes on, where that is not the processor."""
    import jax

    device = jax.devices()[0]
    return None if device.platform == "cpu" else str(device.device_kind)


def _processor() -> str:
    """Its name where the system tells it; Python's own answer is empty on Linux."""
    facts = Path("/proc/cpuinfo")
    if facts.is_file():
        for line in facts.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _read(path: Path) -> Record:
    try:
        content: Record = json.loads(path.read_text())
    except ValueError as error:
        raise FileError(f"`{path}` is no JSON ({error}). Remove it, and its cells are computed again.") from None
    return content


def _write(path: Path, content: Record) -> None:
    write_atomically(path, json.dumps(content, indent=1, allow_nan=False) + "\n")
