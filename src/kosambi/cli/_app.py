"""The commands and their options. Each hands over at once to the module that does the work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from kosambi._version import __version__
from kosambi.cli._exits import EPILOG, FAILURE, NOT_CONVERGED, WRONG_USAGE, guarded, print_failure
from kosambi.cli._options import (
    AsJson,
    BadRows,
    DateColumns,
    Debug,
    Force,
    Learning,
    Quiet,
    Seed,
    Task,
    checked_inducing,
    checked_likelihood,
    checked_memory,
    checked_neighbors,
    likelihood_names,
)

# Of whichever click it is that typer brings.
_UsageError: Any = typer.BadParameter.__mro__[1]


class _Commands(TyperGroup):
    """Commands whose wrong usage is said as JSON too, where JSON was asked for."""

    def invoke(self, ctx: Any) -> Any:
        given = [*getattr(ctx, "_protected_args", ()), *ctx.args]
        try:
            return super().invoke(ctx)
        except _UsageError as error:
            if "--json" in given:
                print_failure("UsageError", error.format_message(), WRONG_USAGE)
            raise


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(value: bool) -> bool:
    if value:
        typer.echo(f"kosambi {__version__}")
        raise typer.Exit
    return value


@app.callback()
def start(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Draw whole functions from Bayes posteriors: fit a table, predict new rows, and see how far to trust it."""
    del version


@app.command(epilog=EPILOG)
def fit(
    data: Annotated[
        Path, typer.Argument(help="A table: .csv, .tsv (also .gz) or .parquet, with names in its first line.")
    ],
    target: Annotated[str, typer.Option("--target", "-t", help="The column to predict.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write the run to.")],
    task: Annotated[Task, typer.Option(help="auto: text, true/false and two values are labels, all else numbers.")] = (
        Task.auto
    ),
    likelihood: Annotated[
        str | None,
        typer.Option(
            callback=checked_likelihood,
            autocompletion=likelihood_names,
            metavar="NAME",
            help="The short name of a likelihood, such as student_t; a wrong one lists them all. By default gaussian "
            "for numbers, poisson for counts; labels need none.",
        ),
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="A column to leave out; may be given several times.")] = None,
    features: Annotated[
        list[str] | None, typer.Option(help="A column to use, instead of all; may be given several times.")
    ] = None,
    categorical: Annotated[
        list[str] | None, typer.Option(help="A column whose numbers are names of groups; several times.")
    ] = None,
    dates: Annotated[
        DateColumns,
        typer.Option(help="Dates as numbers of days, and, where they span enough, as times of day, week and year too."),
    ] = DateColumns.calendar,
    date_format: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=FORMAT",
            help="How a column of dates is written, if that is not plain: day-first, month-first, year-first, or a "
            "format of strptime, such as %d.%m.%y; several times.",
        ),
    ] = None,
    impute: Annotated[
        bool, typer.Option("--impute", help="Fill in missing inputs, and leave out rows without a target.")
    ] = False,
    holdout: Annotated[
        float, typer.Option(min=0.0, max=0.9, help="The share of rows kept back to judge the fit.")
    ] = 0.2,
    samples: Annotated[int, typer.Option(min=2, help="The number of posterior draws, each a function.")] = 100,
    inducing: Annotated[
        str, typer.Option(callback=checked_inducing, help="The number of inducing points, auto, or all rows.")
    ] = "auto",
    neighbors: Annotated[
        str, typer.Option(callback=checked_neighbors, help="How many near rows inform each input, 0 for none, or auto.")
    ] = "auto",
    hyperparameters: Annotated[
        Learning, typer.Option(help="The most probable ones, an average over draws of them, or auto for what pays.")
    ] = Learning.auto,
    max_rows: Annotated[
        int | None, typer.Option(min=2, help="The most rows to learn from; drawn at random; 5000 if not given.")
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            callback=checked_memory,
            metavar="SIZE",
            help="Learn from all rows of a table of any length within so much memory, such as 2GB: held if they fit, "
            "so that near rows inform each input, and read in blocks if not.",
        ),
    ] = None,
    distributed: Annotated[
        bool,
        typer.Option(
            "--distributed",
            help="One of several processes with the same command, each of which reads some of the rows; the first one "
            "writes the run. SLURM and Kubernetes are detected; elsewhere give the next three options.",
        ),
    ] = False,
    coordinator: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where process 0 can be reached, for --distributed.")
    ] = None,
    num_processes: Annotated[int | None, typer.Option(min=1, help="How many processes, for --distributed.")] = None,
    process_id: Annotated[
        int | None, typer.Option(min=0, help="The number of this process, from 0, for --distributed.")
    ] = None,
    seed: Seed = 0,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Write the report page too.")] = True,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with code 5 if the draws did not converge.")] = False,
    as_json: AsJson = False,
    force: Force = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Fit a model to a table, judge it on held-out rows, and write a run folder."""
    with guarded(debug=debug, as_json=as_json):
        from kosambi.cli import _data, _fit, _screen

        rows = _data.DataRequest(
            data,
            target,
            task=task.value,
            drop=tuple(drop or ()),
            features=tuple(features or ()),
            categorical=tuple(categorical or ()),
            dates="days" if dates is DateColumns.days else "calendar",
            date_format=tuple(date_format or ()),
            impute=impute,
            holdout=holdout,
            max_rows=5_000 if max_rows is None else max_rows,
            seed=seed,
            memory=memory,
            distributed=distributed,
        )
        if rows.is_stream and max_rows is not None:
            name = "--distributed" if distributed else "--memory"
            raise typer.BadParameter(f"{name} learns from all rows: leave out --max-rows.")
        if distributed and neighbors not in ("auto", "0"):
            raise typer.BadParameter("--distributed shares out the rows, without neighbours: leave out --neighbors.")
        where = (coordinator, num_processes, process_id)
        if not distributed and where != (None, None, None):
            raise typer.BadParameter("--coordinator, --num-processes and --process-id need --distributed.")
        if distributed:
            quiet = _fit.meet(*where) or quiet
        request = _fit.FitRequest(
            rows,
            out,
            likelihood=likelihood,
            samples=samples,
            inducing=int(inducing) if inducing.isdecimal() else inducing,
            neighbors=neighbors if neighbors == "auto" else int(neighbors),
            hyperparameters=hyperparameters.value,
            report=report,
            force=force,
        )
        record = _fit.fit(request, _screen.Screen(quiet=quiet, as_json=as_json))
        if strict and not record["fit"]["converged"]:
            raise typer.Exit(NOT_CONVERGED)


@app.command(epilog=EPILOG)
def predict(
    run: Annotated[Path, typer.Argument(help="A folder that `kosambi fit` wrote.")],
    data: Annotated[Path, typer.Argument(help="New rows with the same input columns, in any order.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="A .csv or .parquet file, or - for stdout.")],
    coverage: Annotated[
        float, typer.Option(min=0.001, max=0.999, help="Of the prediction interval (lower, upper).")
    ] = 0.95,
    samples: Annotated[int, typer.Option(min=0, help="Posterior predictive draws, one per column.")] = 0,
    seed: Seed = 0,
    id_column: Annotated[str | None, typer.Option("--id", help="A column to copy beside the predictions.")] = None,
    on_bad_row: Annotated[
        BadRows,
        typer.Option(
            help="Rows that cannot be predicted (a level that training did not have, a word for a number, a missing "
            "value): stop; leave them out; or write them without predictions and say why in the column `problem`."
        ),
    ] = BadRows.error,
    as_json: AsJson = False,
    force: Force = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Predict new rows: mean, standard deviation and prediction interval, or labels with their probabilities."""
    with guarded(debug=debug, as_json=as_json):
        from kosambi.cli import _screen, _use

        request = _use.PredictRequest(run, data, out, coverage, samples, seed, id_column, force, on_bad_row.value)
        _use.predict(request, _screen.Screen(quiet=quiet, as_json=as_json))


@app.command(epilog=EPILOG)
def report(
    run: Annotated[Path, typer.Argument(help="A folder that `kosambi fit` wrote.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The page; by default report.html in the run.")
    ] = None,
    force: Force = False,
    show: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write the page of a run again."""
    with guarded(debug=debug, as_json=as_json):
        from kosambi.cli import _screen, _use

        _use.report(run, out, _screen.Screen(quiet=quiet, as_json=as_json), force=force, show=show)


@app.command(epilog=EPILOG)
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write to.")] = Path("demo"),
    seed: Seed = 0,
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Make small tables, fit them, and write pages and a picture of a posterior with two modes."""
    with guarded(debug=debug, as_json=as_json):
        from kosambi.cli import _demo, _screen

        _demo.demo(out, _screen.Screen(quiet=quiet, as_json=as_json), seed=seed, force=force)


# Options are those of `python -m reproduction`, its help included.
@app.command(add_help_option=False, context_settings={"ignore_unknown_options": True, "help_option_names": []})
def reproduce(arguments: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Run the experiments of the paper beside rivals; needs the folder `reproduction` of the repository."""
    with guarded(debug=False):
        from kosambi.cli import _reproduce

        _reproduce.reproduce(arguments or [])


@app.command(epilog=EPILOG)
def doctor(as_json: AsJson = False, debug: Debug = False) -> None:
    """Say what is installed, what it runs on, and whether it computes what it should."""
    with guarded(debug=debug, as_json=as_json):
        from kosambi.cli import _doctor, _screen

        with _screen.Screen(as_json=as_json).stage("check", "Checking"):
            found = _doctor.examine()
        _screen.Screen(as_json=as_json).result(_doctor.as_text(found), found)
        if not found["healthy"]:
            raise typer.Exit(FAILURE)
