"""What an experiment is: cells that are computed one by one and kept, a table, and figures; and which there are."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kosambi.errors import InputError
from reproduction.comparison.data import find

_PLACES = {
    "regression": "comparison.plan:REGRESSIONS",
    "classification": "comparison.plan:CLASSIFICATIONS",
    "poisson": "poisson:EXPERIMENT",
    "shift": "shift:EXPERIMENT",
    "complexity": "complexity:EXPERIMENT",
    "convergence": "convergence:EXPERIMENT",
    "optimal": "optimal:EXPERIMENT",
}
"""Module and constant of each experiment, in the order of the page; imported only when asked for."""
NAMES = tuple(_PLACES)
Found = Mapping[str, dict[str, Any]]
"""What the finished cells returned, under their names."""


@dataclasses.dataclass(frozen=True)
class Scale:
    """How much of an experiment is run.

    Arguments:
        quick: fewer data sets and repetitions, the same methods.
        splits: the number of random splits of each data set.
        limit: seconds that one fit of a rival may take before it is stopped where it stands.
    """

    quick: bool = False
    splits: int = 5
    limit: float = 60.0


@dataclasses.dataclass(frozen=True)
class Cell:
    """A piece of work that is done once and kept.

    Arguments:
        name: unique within the experiment; letters, digits, `-`, `_` and `.`.
        function: of a module, so that another process can call it; returns what JSON can hold.
        arguments: of `function`; a kept result is used again only if they are the same.
        needs: packages without which the cell is left out, with a note.
        data: data sets of which the same is true.

    >>> Cell("one", dict, {"a": 1}).compute()
    {'a': 1}
    """

    name: str
    function: Callable[..., dict[str, Any]]
    arguments: dict[str, Any] = dataclasses.field(default_factory=dict)
    needs: tuple[str, ...] = ()
    data: tuple[str, ...] = ()

    @property
    def missing(self) -> dict[str, list[str]]:
        """The "packages" that are not installed and the "data" sets that no folder has; empty if nothing is missing."""
        packages = [name for name in self.needs if importlib.util.find_spec(name) is None]
        data = [name for name in self.data if find(name) is None]
        return {kind: names for kind, names in (("packages", packages), ("data", data)) if names}

    def compute(self) -> dict[str, Any]:
        """Do the work."""
        return self.function(**self.arguments)


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper, and what goes beyond it.

    Arguments:
        name: on the command line and in file names.
        title: a heading.
        cells: the work for a scale, in the order in which it should be done.
        table: Markdown (without a heading of its own) from what was found; must cope with cells that are missing.
        draw: writes figures into a folder and returns their paths in the order of the page.
    """

    name: str
    title: str
    cells: Callable[[Scale], list[Cell]]
    table: Callable[[Found], str]
    draw: Callable[[Found, Path], list[Path]]


def named(name: str) -> Experiment:
    """The experiment with this name."""
    if name not in _PLACES:
        raise InputError(f"There is no experiment {name!r}. Choose one of {', '.join(NAMES)}.")
    module, constant = _PLACES[name].split(":")
    found: Experiment = getattr(importlib.import_module(f"reproduction.{module}"), constant)
    return found
