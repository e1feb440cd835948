"""All results on one Markdown page."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from kosambi._core.writing import write_atomically
from reproduction.experiment import Experiment, Scale
from reproduction.store import Store, label

INTRODUCTION = """# Results

The experiments of the paper (*Near-Optimal Approximations for Bayesian Inference in Function Space*), run again with
kosambi beside its rivals, and what goes beyond them. `python -m reproduction` computes everything on this page;
the page itself is written from the JSON files that it keeps.
"""
PACKAGES = ("kosambi", "jax", "jaxlib", "equinox", "blackjax", "numpy", "scipy", "scikit-learn", "torch", "gpytorch")
"""Whose versions are shown; the JSON has more."""


def write(path: Path, folder: Path, experiments: list[Experiment]) -> Path:
    """Write the page of the experiments that have results in `folder`.

    Arguments:
        path: of the page.
        folder: with the JSON files and the figures.
        experiments: in the order of the page.
    """
    parts = [INTRODUCTION]
    for experiment in experiments:
        store = Store(folder, experiment.name)
        found = store.found()
        if not found:
            continue
        figures = experiment.draw(found, folder)
        parts.append(f"## {experiment.title}\n")
        parts.append(_progress(experiment, store))
        parts.append(experiment.table(found).strip() + "\n")
        for figure in figures:
            link = Path(os.path.relpath(figure, path.parent)).as_posix()
            parts.append(f"![{figure.stem.replace('-', ' ')}]({link})\n")
        parts.append(_machines(store.machines(), experiment.name))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, "\n".join(parts))
    return path


def _progress(experiment: Experiment, store: Store) -> str:
    """How much of the full run is there."""
    work, records = experiment.cells(Scale()), store.records()
    done = sum(store.is_done(cell, records) for cell in work)
    if done == len(work):
        return ""
    others = len(store.found()) - done
    also = f" {others} other cells are of the quick run." if others else ""
    return (
        f"*Unfinished: {done} of {len(work)} cells of the full run are done.{also} `python -m "
        f"reproduction {experiment.name}` computes the others and keeps these.*\n"
    )


def _machines(machines: list[dict[str, Any]], name: str) -> str:
    lines = []
    for machine in machines:
        versions = ", ".join(f"{name} {machine['versions'][name]}" for name in PACKAGES if name in machine["versions"])
        lines.append(f"{label(machine)} for a cell, Python {machine['python']}, {versions}")
    return f"Measured on: {'; '.join(lines)}. `python -m reproduction {name}`\n"
