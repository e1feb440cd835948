"""Run the cells that are not done yet, here or in several processes."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from reproduction.experiment import Cell
from reproduction.store import Store, describe


class Tally(NamedTuple):
    """What happened to the cells of an experiment."""

    computed: int
    kept: int
    failed: dict[str, str]
    """Name and error of cells that raised one."""
    left_out: dict[str, dict[str, list[str]]]
    """Name of cells that were left out, with the packages and data sets that they miss."""


Work = tuple[Store, list[Cell]]
"""An experiment's store and the cells that are wanted of it."""


def run(
    work: list[Work], *, jobs: int = 1, on_cell: Callable[[str, str, float], None] = lambda *_: None
) -> dict[str, Tally]:
    """Compute and keep what is missing, of all experiments together so that no process waits for another.

    Arguments:
        work: experiments in the order in which they are begun.
        jobs: processes beside each other, each on one core; with 1, everything runs in this one.
        on_cell: called with experiment, name and seconds of each cell that is finished.

    Returns:
        For each experiment counts, and the cells that failed or were left out.
    """
    todo: list[tuple[Store, Cell]] = []
    left_out: dict[str, dict[str, dict[str, list[str]]]] = {store.name: {} for store, _ in work}
    failed: dict[str, dict[str, str]] = {store.name: {} for store, _ in work}
    for store, cells in work:
        records = store.records()
        for cell in cells:
            if store.is_done(cell, records):
                continue
            if missing := cell.missing:
                left_out[store.name][cell.name] = missing
            else:
                todo.append((store, cell))
    for (store, cell), entries in _computed(todo, jobs):
        store.keep(cell, **entries)
        if "error" in entries:
            failed[store.name][cell.name] = entries["error"]
        on_cell(store.name, cell.name, entries["seconds"])
    tallies = {}
    for store, cells in work:
        name, tried = store.name, sum(owner is store for owner, _ in todo)
        kept = len(cells) - tried - len(left_out[name])
        tallies[name] = Tally(tried - len(failed[name]), kept, failed[name], left_out[name])
    return tallies


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


def _computed(todo: list[tuple[Store, Cell]], jobs: int) -> Iterator[tuple[tuple[Store, Cell], dict[str, Any]]]:
    if jobs == 1:
        for pair in todo:
            yield pair, compute(pair[1])
        return
    # Read when the libraries are loaded, which new processes do before anything of ours runs in them.
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    context = multiprocessing.get_context("spawn")
    places = context.Queue()
    for place in sorted(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()):
        places.put(place)
    others = set(multiprocessing.active_children())
    pool = concurrent.futures.ProcessPoolExecutor(jobs, context, _settle, (places,))
    try:
        waiting = {pool.submit(compute, pair[1]): pair for pair in todo}
        for future in concurrent.futures.as_completed(waiting):
            yield waiting[future], future.result()
    except BaseException:
        # What waits is given up, and so is what is being computed: a cell can take minutes and is not half done.
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        raise
    pool.shutdown()


def _settle(places: Any) -> None:
    """Stay on one core, so that processes do not take each other's, and leave interruptions to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "sched_setaffinity") and not places.empty():
        os.sched_setaffinity(0, {places.get()})
