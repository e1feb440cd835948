"""`kosambi predict` and `kosambi report`: what can be done with a run folder."""

from __future__ import annotations

import dataclasses
import webbrowser
from pathlib import Path
from typing import Any

from kosambi import tables
from kosambi._core.writing import write_atomically
from kosambi.cli import _run_folder
from kosambi.cli._bad_rows import flagged, usable_rows
from kosambi.cli._data import encoded
from kosambi.cli._exits import committing
from kosambi.cli._fit import check_matplotlib, page_words, target_values
from kosambi.cli._predictions import check_free, prediction_table, write_table
from kosambi.cli._record import model_problem, problem_of
from kosambi.cli._screen import Screen
from kosambi.errors import FileError, InputError


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """A run folder whose files are those that were written."""

    record: dict[str, Any]
    schema: tables.Schema
    estimator: Any


def load_run(folder: Path) -> Run:
    """Check a run folder and load its model."""
    from kosambi.files import load

    record = _run_folder.read_record(folder)
    problem = problem_of(record)
    try:
        schema = tables.Schema.from_dict(record.get("schema"))
    except InputError as error:
        raise FileError(f"`{folder}` is damaged: its schema cannot be read. {error}") from error
    estimator = None if problem else load(folder / _run_folder.MODEL)
    problem = problem or model_problem(estimator, schema.labels)
    if problem is not None:
        raise FileError(f"`{folder}` is damaged: {problem}. Fit again, or copy the run again from where it came from.")
    return Run(record, schema, estimator)


@dataclasses.dataclass(frozen=True)
class PredictRequest:
    """What `kosambi predict` was asked for."""

    run: Path
    data: Path
    out: Path
    coverage: float = 0.95
    samples: int = 0
    seed: int = 0
    id_column: str | None = None
    force: bool = False
    on_bad_row: str = "error"


def predict(request: PredictRequest, screen: Screen) -> None:
    """Predict new rows, in their order."""
    if str(request.out) != "-":
        check_free(request.out, force=request.force)
    elif screen.as_json:
        raise InputError("`--json` and `--out -` both write to stdout. Choose one of them.")
    with screen.stage("load", f"Loading {request.run}"):
        run = load_run(request.run)
    with screen.stage("read", f"Reading {request.data.name}"):
        table, ids = _new_rows(run.schema, request)
        inputs, faults = usable_rows(run.schema, run.estimator, table, request.on_bad_row)
    is_good = faults == ""
    if not is_good.all():
        did = "left out" if request.on_bad_row == "skip" else "written without predictions"
        screen.say(f"Warning: {tables.first_of(faults)}. They are {did}: {tables.listed(faults)}.", always=True)
    with screen.stage("predict", f"Predicting {len(inputs)} rows"):
        predictions = prediction_table(
            run.estimator, inputs, coverage=request.coverage, samples=request.samples, seed=request.seed
        )
    if request.on_bad_row == "flag":
        predictions = flagged(predictions, faults)
    elif ids is not None:
        ids = ids[is_good]
    if ids is not None:
        if ids.name in predictions:
            raise InputError(f"`--id {ids.name}` has the name of a column of predictions. Rename it in the data.")
        predictions.insert(0, ids.name, ids.to_numpy())
    with screen.stage("write", f"Writing {request.out}"):
        write_table(predictions, request.out, force=request.force)
    if str(request.out) != "-":
        found = {"out": str(request.out), "rows": len(predictions), "columns": list(predictions.columns)}
        found["bad_rows"] = int((~is_good).sum())
        screen.result(f"{len(predictions)} predictions are in {request.out}", found | {"seconds": screen.seconds})


def _new_rows(schema: tables.Schema, request: PredictRequest) -> tuple[Any, Any]:
    """The input columns of new rows, and their identifiers if those are asked for."""
    names = tables.column_names(request.data)
    for name in schema.names:
        tables.as_known(name, names, f"`{request.data}`")
    wanted = list(schema.names)
    if request.id_column is not None:
        tables.as_known(request.id_column, names, f"`{request.data}`")
        wanted += [] if request.id_column in wanted else [request.id_column]
    as_text = [name for name, kind in schema.kinds.items() if kind == "categorical"]
    # Identifiers are copied as they are written, so that 007 stays 007.
    as_text += [request.id_column] if request.id_column is not None and request.id_column not in schema.names else []
    table = tables.read(request.data, columns=wanted, text=as_text)
    return table, None if request.id_column is None else table[request.id_column]


def report(run_folder: Path, out: Path | None, screen: Screen, *, force: bool, show: bool) -> Path:
    """Write the page of a run, into the run unless `out` says otherwise."""
    path = run_folder / _run_folder.PAGE if out is None else out
    # The page in the run is ours to replace.
    check_free(path, force=force or out is None)
    check_matplotlib("")
    with screen.stage("load", f"Loading {run_folder}"):
        run = load_run(run_folder)
        inputs, truth = _held_out(run, run_folder)
    with screen.stage("report", f"Drawing {path}"):
        from kosambi import page

        title, source = page_words(run.record)
        text = page.render(run.estimator, inputs, truth, title=title, source=source)
        write_atomically(path, text, commit=committing(path))
    screen.result(f"The report is {path}", {"report": str(path)})
    if show:
        webbrowser.open(path.absolute().as_uri())
    return path


def _held_out(run: Run, folder: Path) -> tuple[Any, Any]:
    path = folder / _run_folder.HELD_OUT
    if not path.exists():
        return None, None
    as_text = [name for name, kind in run.schema.kinds.items() if kind == "categorical"]
    if hasattr(run.estimator, "classes_"):
        as_text.append(run.schema.target)
    # As it was written: with an apostrophe before what looks like a formula, names included.
    wanted = [tables.guarded(name) for name in (*run.schema.names, run.schema.target)]
    table = tables.read(path, columns=wanted, text=[tables.guarded(name) for name in as_text], separator=",")
    table = tables.unguarded_table(table)
    return encoded(run.schema, table), target_values(table[run.schema.target], run.estimator)
