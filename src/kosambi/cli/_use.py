"""`kosambi predict` and `kosambi report`: what can be done with a run folder."""

from __future__ import annotations

import dataclasses
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kosambi import tables
from kosambi._core.writing import write_atomically
from kosambi.cli import _run_folder
from kosambi.cli._bad_rows import check_any, flagged, usable_rows
from kosambi.cli._data import encoded
from kosambi.cli._exits import committing
from kosambi.cli._fit import check_matplotlib, page_words, target_values
from kosambi.cli._predictions import check_free, prediction_table, write_parts
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
    found: dict[str, Any] = {}
    with screen.stage("predict", f"Predicting the rows of {request.data.name}"):
        write_parts(lambda: _predictions(run, request, found), request.out, force=request.force)
    if found["bad_rows"]:
        did = "left out" if request.on_bad_row == "skip" else "written without predictions"
        screen.say(f"Warning: {found.pop('problem')}. They are {did}: {found.pop('problems')}.", always=True)
    if str(request.out) != "-":
        found = {"out": str(request.out), **found, "seconds": screen.seconds}
        screen.result(f"{found['rows']} predictions are in {request.out}", found)


def _predictions(run: Run, request: PredictRequest, found: dict[str, Any]) -> Iterator[Any]:
    """Tables of predictions of some rows at a time; says in `found` what there was."""
    all_faults, rows, columns = [], 0, []
    for table, ids in _new_parts(run.schema, request):
        inputs, faults = usable_rows(run.schema, run.estimator, table, request.on_bad_row)
        all_faults.append(faults)
        if inputs is None and request.on_bad_row == "skip":
            continue
        predictions = _predicted(run, inputs, request)
        if request.on_bad_row == "flag":
            predictions = flagged(predictions, faults)
        if ids is not None:
            predictions = _with_ids(predictions, ids if request.on_bad_row == "flag" else ids[faults == ""])
        rows, columns = rows + len(predictions), list(predictions.columns)
        yield predictions
    faults = np.concatenate(all_faults)
    check_any(faults)
    found |= {"rows": rows, "columns": columns, "bad_rows": int((faults != "").sum())}
    if found["bad_rows"]:
        found |= {"problem": tables.first_of(faults), "problems": tables.listed(faults)}


def _predicted(run: Run, inputs: Any, request: PredictRequest) -> Any:
    """The predictions of coded rows; for None a table of no rows with the same columns."""
    if inputs is None:
        import pandas as pd  # type: ignore[import-untyped]

        anywhere = np.asarray(run.estimator.x_mean_)[None]
        return _predicted(run, pd.DataFrame(anywhere, columns=run.estimator.feature_names_in_), request).iloc[:0]
    return prediction_table(
        run.estimator, inputs, coverage=request.coverage, samples=request.samples, seed=request.seed
    )


def _with_ids(predictions: Any, ids: Any) -> Any:
    if ids.name in predictions:
        raise InputError(f"`--id {ids.name}` has the name of a column of predictions. Rename it in the data.")
    predictions.insert(0, ids.name, ids.to_numpy())
    return predictions


def _new_parts(schema: tables.Schema, request: PredictRequest) -> Iterator[tuple[Any, Any]]:
    """The input columns of new rows, some at a time, and their identifiers if those are asked for."""
    wanted, as_text = _wanted(schema, request)
    if request.samples:
        # Draws along the same functions, with noise that no two rows share, are made of all rows together.
        parts = iter([tables.read(request.data, columns=wanted, text=as_text)])
    else:
        parts = tables.read_in_parts(request.data, columns=wanted, text=as_text)
    for table in parts:
        yield table, None if request.id_column is None else table[request.id_column]


def _wanted(schema: tables.Schema, request: PredictRequest) -> tuple[list[str], list[str]]:
    """Columns to read, and those of them to read as text."""
    names = tables.column_names(request.data)
    for name in schema.names:
        tables.as_known(name, names, f"`{request.data}`")
    wanted = list(schema.names)
    if request.id_column is not None:
        tables.as_known(request.id_column, names, f"`{request.data}`")
        wanted += [] if request.id_column in wanted else [request.id_column]
    as_text = schema.as_text
    # Identifiers are copied as they are written, so that 007 stays 007.
    as_text += [request.id_column] if request.id_column is not None and request.id_column not in schema.names else []
    return wanted, as_text


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
        text = page.render(run.estimator, inputs, truth, title=title, source=source, target=run.schema.target)
        write_atomically(path, text, commit=committing(path))
    screen.result(f"The report is {path}", {"report": str(path)})
    if show:
        webbrowser.open(path.absolute().as_uri())
    return path


def _held_out(run: Run, folder: Path) -> tuple[Any, Any]:
    path = folder / _run_folder.HELD_OUT
    if not path.exists():
        return None, None
    as_text = run.schema.as_text
    if hasattr(run.estimator, "classes_"):
        as_text.append(run.schema.target)
    # As it was written: with an apostrophe before what looks like a formula, names included.
    wanted = [tables.guarded(name) for name in (*run.schema.names, run.schema.target)]
    table = tables.read(path, columns=wanted, text=[tables.guarded(name) for name in as_text], separator=",")
    table = tables.unguarded_table(table)
    # Dates are written there with the year first, however they were in the table.
    dates = [column.name for column in run.schema.columns if column.kind == "date"]
    table[dates] = tables.typed(table[dates], dict.fromkeys(dates, "date"), dict.fromkeys(dates, "year-first"))
    return encoded(run.schema, table), target_values(table[run.schema.target], run.estimator)
