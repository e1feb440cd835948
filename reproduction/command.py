"""`python -m reproduction`: run experiments, keep what is done, write their page."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from kosambi._core.writing import as_json
from kosambi.cli._exits import EPILOG, FAILURE, INTERRUPTED, guarded, wait_for_ever
from kosambi.cli._screen import Screen
from kosambi.errors import FileError, InputError
from reproduction import page
from reproduction.comparison import data
from reproduction.experiment import NAMES, Cell, Experiment, Scale, named
from reproduction.run import Tally, Work, run
from reproduction.store import Store

OUTPUT = Path(__file__).resolve().parent / "output"
QUICK_SPLITS, QUICK_LIMIT = 2, 20.0


class Request(NamedTuple):
    """What is to be run, and where it goes."""

    names: tuple[str, ...]
    out: Path
    page: Path | None = None
    quick: bool = False
    only: str = ""
    splits: int | None = None
    limit: float | None = None
    jobs: int = 1
    fetch: bool = False


app = typer.Typer(add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False)


@app.command(epilog=EPILOG)
def reproduce(
    names: Annotated[list[str] | None, typer.Argument(help=f"{', '.join(NAMES)}; all by default.")] = None,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="The folder that keeps results and figures.", show_default="reproduction/output"
        ),
    ] = OUTPUT,
    page: Annotated[Path | None, typer.Option(help="Of all results; by default results.md in the folder.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Four data sets, two splits, every figure.")] = False,
    only: Annotated[str, typer.Option(help="Run only the cells whose name has this in it, for example concrete.")] = "",
    splits: Annotated[int | None, typer.Option(min=2, help="Random splits of each data set; 5, or 2 if quick.")] = None,
    limit: Annotated[
        float | None, typer.Option(min=1.0, help="Seconds for one fit of a rival; 60, or 20 if quick.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes beside each other, each on one core.")] = 1,
    fetch: Annotated[
        bool, typer.Option("--fetch", help="Get boston and kin8nm, which have no licence, from OpenML if needed.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but warnings and errors.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error happened.")] = False,
) -> None:
    """Run the experiments of the paper beside rivals; what is done is kept, and a second call goes on from there."""
    request = Request(tuple(names or ()), out, page, quick, only, splits, limit, jobs, fetch)
    with guarded(debug=debug):
        if not carry_out(request, Screen(quiet=quiet, as_json=json)):
            raise typer.Exit(FAILURE)


def main(arguments: Sequence[str] | None = None, program: str = "python -m reproduction") -> None:
    """The command line; ends the program."""
    app(args=None if arguments is None else list(arguments), prog_name=program)


def carry_out(request: Request, screen: Screen) -> bool:
    """Run the experiments asked for; returns whether every cell is there.

    An interruption loses the cells that were being computed; those before them are kept.
    """
    if request.out.exists() and not request.out.is_dir():
        raise FileError(f"`{request.out}` is a file. Choose another `--out`.")
    names = NAMES if request.names in ((), ("all",)) else request.names
    scale = Scale(
        request.quick,
        splits=request.splits or (QUICK_SPLITS if request.quick else Scale.splits),
        limit=request.limit or (QUICK_LIMIT if request.quick else Scale.limit),
    )
    work = _work([named(name) for name in names], scale, request)
    # What is kept is whole at any moment, and processes that compute must be ended first.
    wait_for_ever()
    try:
        if request.fetch:
            _fetch(work, screen)
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
    path = page.write(request.page or request.out / "results.md", request.out, [named(name) for name in NAMES])
    done = "\n".join(
        f"{name}: {t['computed']} computed, {t['kept']} kept, {len(t['failed'])} failed, {len(t['left_out'])} left out"
        for name, t in found.items()
    )
    screen.result(f"{done}\n{path}", as_json({"experiments": found, "page": path}))
    return not any(tally.failed or tally.left_out for tally in tallies.values())


def _work(experiments: list[Experiment], scale: Scale, request: Request) -> list[Work]:
    """The cells that are wanted; those of an experiment that has none with `--only` in their name are no work."""
    work = []
    for entry in experiments:
        cells = [cell for cell in entry.cells(scale) if request.only in cell.name]
        if cells:
            work.append((Store(request.out, entry.name), cells))
    if not work:
        asked = ", ".join(entry.name for entry in experiments)
        raise InputError(f"`--only` is {request.only!r}, and no cell of {asked} has that in its name.")
    # Tables have many short cells, which fill up the time of processes that would wait at the end.
    return sorted(work, key=lambda pair: pair[0].name in ("regression", "classification"))


def _fetch(work: list[Work], screen: Screen) -> None:
    """Get the data sets without a licence that cells need which are not done."""
    wanted = {name for store, cell in _open_cells(work) for name in cell.missing.get("data", ())}
    for name in sorted(wanted & set(data.ON_OPENML)):
        with screen.stage(f"fetch {name}", f"Getting {name} from OpenML"):
            path = data.fetch(name)
        screen.say(f"{name} is kept in {path}")


def _open_cells(work: list[Work]) -> Iterator[tuple[Store, Cell]]:
    for store, cells in work:
        records = store.records()
        yield from ((store, cell) for cell in cells if not store.is_done(cell, records))


@contextlib.contextmanager
def _progress(screen: Screen, work: list[Work]) -> Iterator[Callable[[str, str, float], None]]:
    """A bar over the cells on a terminal, and nothing elsewhere."""
    if not screen.is_live:
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    total = sum(len(cells) for _, cells in work)
    with Progress(*columns, console=Console(stderr=True)) as display:
        task = display.add_task("cells", total=total, completed=total - sum(1 for _ in _open_cells(work)))

        def on_cell(experiment: str, name: str, seconds: float) -> None:
            display.update(task, advance=1, description=f"{experiment}: {name} took {seconds:.1f} s")

        yield on_cell


def _tell(screen: Screen, name: str, tally: Tally) -> None:
    for cell, error in tally.failed.items():
        screen.say(f"Warning: {name}/{cell} failed and is tried again next time. {error}", always=True)
    for kind in ("packages", "data"):
        cells = [missing[kind] for missing in tally.left_out.values() if kind in missing]
        if not cells:
            continue
        things = sorted({thing for missing in cells for thing in missing})
        remedy = "`pip install -r reproduction/requirements.txt` brings what they need."
        if kind == "data":
            remedy = " ".join(data.where_to_get(thing) for thing in things)
        what = f"{', '.join(things)} not installed" if kind == "packages" else f"no data {', '.join(things)}"
        screen.say(f"Warning: {len(cells)} cells of {name} were left out: {what}. {remedy}", always=True)
