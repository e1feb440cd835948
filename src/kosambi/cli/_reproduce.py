"""`kosambi reproduce`: run experiments, keep what is done, write their page."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import typer

from kosambi._core.errors import FileError, InputError
from kosambi.cli._exits import INTERRUPTED
from kosambi.cli._screen import Screen
from reproduction import NAMES, experiment, page
from reproduction.experiment import Cell, Experiment, Scale
from reproduction.run import Tally, Work, run
from reproduction.store import Store

QUICK_SPLITS, QUICK_LIMIT = 2, 20.0


class ReproduceRequest(NamedTuple):
    """What is to be run, and where it goes."""

    names: tuple[str, ...]
    out: Path
    page: Path | None
    quick: bool
    only: str
    splits: int | None
    limit: float | None
    jobs: int


def reproduce(request: ReproduceRequest, screen: Screen) -> bool:
    """Run the experiments asked for; returns whether every cell is there.

    An interruption loses the cell that was being computed; those before it are kept.
    """
    if request.out.exists() and not request.out.is_dir():
        raise FileError(f"`{request.out}` is a file. Choose another `--out`.")
    names = NAMES if request.names in ((), ("all",)) else request.names
    experiments = [experiment(name) for name in names]
    scale = Scale(
        request.quick,
        splits=request.splits or (QUICK_SPLITS if request.quick else Scale.splits),
        limit=request.limit or (QUICK_LIMIT if request.quick else Scale.limit),
    )
    work = [(Store(request.out, entry.name), _wanted(entry, scale, request.only)) for entry in experiments]
    # Tables have many short cells, which fill up the time of processes that would wait at the end.
    work.sort(key=lambda pair: pair[0].name in ("regression", "classification"))
    try:
        with _progress(screen, work) as on_cell:
            tallies = run(work, jobs=request.jobs, on_cell=on_cell)
    except KeyboardInterrupt:
        screen.say("Interrupted. Finished cells are kept; the same command goes on from there.", always=True)
        raise typer.Exit(INTERRUPTED) from None
    found: dict[str, Any] = {}
    for store, _ in work:
        store.gather()
        _tell(screen, store.name, tallies[store.name])
        found[store.name] = {**tallies[store.name]._asdict(), "file": str(store.whole)}
    complete = not any(tally.failed or tally.left_out for tally in tallies.values())
    path = page.write(request.page or request.out / "results.md", request.out, [experiment(name) for name in NAMES])
    done = "\n".join(
        f"{name}: {t['computed']} computed, {t['kept']} kept, {len(t['failed'])} failed, {len(t['left_out'])} left out"
        for name, t in found.items()
    )
    screen.result(f"{done}\n{path}", {"experiments": found, "page": str(path)})
    return complete


def _wanted(entry: Experiment, scale: Scale, only: str) -> list[Cell]:
    cells = [cell for cell in entry.cells(scale) if only in cell.name]
    if not cells:
        raise InputError(f"`--only` is {only!r}, and no cell of {entry.name} has that in its name.")
    return cells


@contextlib.contextmanager
def _progress(screen: Screen, work: list[Work]) -> Iterator[Callable[[str, str, float], None]]:
    """A bar over the cells on a terminal, and nothing elsewhere."""
    if not screen.is_live:
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    done = sum(store.is_done(cell, records) for store, cells in work for records in [store.records()] for cell in cells)
    with Progress(*columns, console=Console(stderr=True)) as display:
        task = display.add_task("cells", total=sum(len(cells) for _, cells in work), completed=done)

        def on_cell(experiment: str, name: str, seconds: float) -> None:
            display.update(task, advance=1, description=f"{experiment}: {name} took {seconds:.1f} s")

        yield on_cell


def _tell(screen: Screen, name: str, tally: Tally) -> None:
    for cell, error in tally.failed.items():
        screen.say(f"Warning: {name}/{cell} failed and is tried again next time. {error}", always=True)
    if tally.left_out:
        packages = sorted({package for missing in tally.left_out.values() for package in missing})
        screen.note(
            f"{len(tally.left_out)} cells of {name} were left out: {', '.join(packages)} not installed. "
            "`pip install 'kosambi[bench]'` brings what they need."
        )
