"""Run the cells of an experiment that are not done yet, here or in several processes."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from kosambi.reproduce.experiment import Cell
from kosambi.reproduce.machine import describe
from kosambi.reproduce.store import Store


class Tally(NamedTuple):
    """What happened to the cells of an experiment."""

    computed: int
    kept: int
    failed: dict[str, str]
    """Name and error of cells that raised one."""
    left_out: dict[str, list[str]]
    """Name and missing packages of cells that were left out."""


def run(
    cells: list[Cell], store: Store, *, jobs: int = 1, on_cell: Callable[[str, float], None] = lambda _, __: None
) -> Tally:
    """Compute and keep what is missing.

    Arguments:
        cells: those wanted.
        store: where they are kept.
        jobs: processes beside each other, each on one core; with 1, everything runs in this one.
        on_cell: called with the name and seconds of each cell that is finished.

    Returns:
        Counts, and the cells that failed or were left out.
    """
    records = store.records()
    todo = [cell for cell in cells if not store.is_done(cell, records)]
    left_out = {cell.name: cell.missing for cell in todo if cell.missing}
    todo = [cell for cell in todo if not cell.missing]
    failed: dict[str, str] = {}
    for cell, entries in _computed(todo, jobs):
        store.keep(cell, **entries)
        if "error" in entries:
            failed[cell.name] = entries["error"]
        on_cell(cell.name, entries["seconds"])
    return Tally(len(todo) - len(failed), len(cells) - len(todo) - len(left_out), failed, left_out)


def compute(cell: Cell) -> dict[str, Any]:
    """Do the work of a cell from a cold start: result or error, seconds, warnings and machine."""
    import jax

    # Programs compiled by an earlier cell would make the order of the cells count in their times.
    jax.clear_caches()  # type: ignore[no-untyped-call]
    began = time.perf_counter()
    entries: dict[str, Any] = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        try:
            entries["result"] = cell.compute()
        except Exception as error:  # one cell must not take the others down; it is tried again next time
            entries["error"] = f"{type(error).__name__}: {error}"
            entries["traceback"] = traceback.format_exc()
    entries["seconds"] = round(time.perf_counter() - began, 3)
    entries["warnings"] = sorted({str(w.message) for w in caught if issubclass(w.category, UserWarning)})
    entries["machine"] = describe()
    return entries


def _computed(cells: list[Cell], jobs: int) -> Any:
    if jobs == 1:
        for cell in cells:
            yield cell, compute(cell)
        return
    context = multiprocessing.get_context("spawn")
    places = context.Queue()
    for place in sorted(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()):
        places.put(place)
    with concurrent.futures.ProcessPoolExecutor(jobs, context, _settle, (places,)) as pool:
        waiting = {pool.submit(compute, cell): cell for cell in cells}
        for future in concurrent.futures.as_completed(waiting):
            yield waiting[future], future.result()


def _settle(places: Any) -> None:
    """Stay on one core, so that processes do not take each other's."""
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"
    if hasattr(os, "sched_setaffinity") and not places.empty():
        os.sched_setaffinity(0, {places.get()})
