"""`kosambi fit`: from a table to a run folder."""

from __future__ import annotations

import dataclasses
import datetime
import os
from pathlib import Path
from typing import Any

import numpy as np

from kosambi._core.groups import ALONE, Group
from kosambi._core.writing import as_json, rescue, versions
from kosambi._version import __version__
from kosambi.cli import _run_folder
from kosambi.cli._data import Data, DataRequest, load
from kosambi.cli._exits import keeping
from kosambi.cli._metrics import COVERAGE, Metrics, as_text, classification_metrics, regression_metrics
from kosambi.cli._predictions import prediction_table
from kosambi.cli._screen import Screen
from kosambi.cli._stream import StreamData, load_stream
from kosambi.errors import FileError, InputError, printable
from kosambi.parallel import initialize, processes
from kosambi.tables import guarded_table

CLASSIFICATION = ("bernoulli", "categorical")
# Beyond so many training rows a fit is no longer a matter of a minute or two.
_MANY_ROWS = 3000


@dataclasses.dataclass(frozen=True)
class FitRequest:
    """What `kosambi fit` was asked for."""

    data: DataRequest
    out: Path
    likelihood: str | None = None
    samples: int = 100
    inducing: int | str = "auto"
    neighbors: int | str = "auto"
    hyperparameters: str = "auto"
    report: bool = True
    force: bool = False


def fit(request: FitRequest, screen: Screen) -> dict[str, Any]:
    """Read, split, fit, evaluate and write a run; returns its record, as in `run.json`.

    Of several processes the first one evaluates and writes; the others return what they know of the fit.
    """
    group = processes() if request.data.distributed else ALONE
    with group.together():
        group.check_same(_options(request), "Give all of them the same options.")
        return _fit(request, screen, group)


def meet(coordinator: str | None, num_processes: int | None, process_id: int | None) -> bool:
    """Meet the other processes; returns whether this one is not the first, and so has little to say."""
    # Gloo says on stdout whom it has met, where only results belong.
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        initialize(coordinator, num_processes, process_id)
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)
    return processes().index > 0


def _options(request: FitRequest) -> dict[str, object]:
    """What must not differ between processes; a file may be in another place on another machine."""
    found = dataclasses.asdict(request) | dataclasses.asdict(request.data)
    return {f"`{name}`": value for name, value in found.items() if name not in ("data", "out", "force", "report")}


def _fit(request: FitRequest, screen: Screen, group: Group) -> dict[str, Any]:
    writes = group.index == 0
    for note in _run_folder.prepare(request.out, force=request.force) if writes else ():
        screen.note(note)
    if request.report and writes:
        check_matplotlib("--no-report")
    asked = _with_task(request)
    with screen.stage("read", f"Reading {request.data.data.name}"):
        data_digest = _run_folder.digest(request.data.data) if writes and request.data.data.is_file() else ""
        data: Data | StreamData
        if is_stream := asked.data.is_stream:
            data = load_stream(asked.data, screen.note, group)
        else:
            data = load(asked.data, screen.note)
    likelihood = _likelihood(asked, data)
    estimator = _estimator(asked, data, likelihood, is_live=screen.is_live)
    shape = f"{data.num_training} rows and {len(data.schema.labels)} columns"
    if data.num_training > _MANY_ROWS and not is_stream:
        screen.note(f"Fitting {shape} can take many minutes. `--max-rows 2000` gives a first look soon.")
    from kosambi import Checkpoint

    # Until the run is written, so that nothing is lost to what comes after the fit.
    checkpoint = Checkpoint(_run_folder.checkpoint(request.out), stays=True)
    own = checkpoint.part(group)
    with keeping(own.path):
        if own.is_there:
            screen.note(f"An earlier fit had not ended. This one goes on from `{own.path}`.")
        # The estimator has a progress line of its own.
        with screen.stage("fit", f"Fitting {shape}", spinner=False):
            if isinstance(data, StreamData):
                estimator.fit(data.source, max_memory=asked.data.memory, checkpoint=checkpoint)
            else:
                estimator.fit(data.matrix(data.training), data.target.values[data.training], checkpoint=checkpoint)
        if writes:
            record = _finished(request, asked, data, data_digest, likelihood, estimator, screen)
        else:
            record = {"fit": {"converged": bool(estimator.report_.converged)}}
        group.exchange("the run", b"")
    own.remove()
    return record


def _finished(
    request: FitRequest,
    asked: FitRequest,
    data: Data | StreamData,
    data_digest: str,
    likelihood: str,
    estimator: Any,
    screen: Screen,
) -> dict[str, Any]:
    """Evaluate and write what was fitted."""
    # Whether there was a terminal is no property of the model.
    estimator.set_params(progress=False)
    metrics, table = None, None
    if len(data.held_out):
        with screen.stage("evaluate", f"Evaluating {len(data.held_out)} held-out rows"):
            metrics = _metrics(estimator, data)
            table = _held_out_table(estimator, data)
    record = as_json(_record(asked, data, data_digest, likelihood, estimator, metrics, screen))
    with screen.stage("write", f"Writing {request.out}"):
        record["seconds"] = screen.seconds
        try:
            with _run_folder.writing(request.out, force=request.force) as folder:
                _write(folder, estimator, data, table, record, has_page=request.report)
        except Exception as error:
            # The work of minutes is not lost to a disk that is full, nor to a picture that cannot be drawn.
            rescued = rescue(lambda folder: _write(folder, estimator, data, table, record, has_page=False))
            if isinstance(error, OSError | FileError):
                raise FileError(f"`{request.out}` cannot be written: {error} {rescued}") from error
            screen.say(rescued, always=True)
            raise
    screen.result(_summary(request.out, record, metrics), {"run": str(request.out), **record})
    return record


def check_matplotlib(without: str) -> None:
    """Make sure, before any work, that pictures can be drawn; `without` is the option that asks for none."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        remedy = "Install it with `pip install kosambi[cli]`" + (f", or ask for `{without}`." if without else ".")
        raise ImportError(f"The page needs matplotlib, which cannot be imported ({error}). {remedy}") from error


def _with_task(request: FitRequest) -> FitRequest:
    """A likelihood implies a task."""
    task, likelihood = request.data.task, request.likelihood
    if likelihood is None:
        return request
    implied = "classification" if likelihood in CLASSIFICATION else _regression_task(likelihood)
    fits = task in ("auto", implied) or (task, implied) == ("regression", "counts")
    if not fits:
        raise InputError(f"`--likelihood {likelihood}` is not for `--task {task}`. Leave one of them out.")
    plain = "classification" if implied == "classification" else "regression"
    return dataclasses.replace(request, data=dataclasses.replace(request.data, task=plain))


def _regression_task(likelihood: str) -> str:
    from kosambi.likelihoods import BY_SHORT_NAME

    return "counts" if BY_SHORT_NAME[likelihood].standard().is_discrete else "regression"


def _likelihood(request: FitRequest, data: Data | StreamData) -> str:
    number = len(data.target.classes)
    if data.target.task == "classification":
        natural = "bernoulli" if number == 2 else "categorical"
        if request.likelihood == "bernoulli" and number != 2:
            raise InputError(f"`--likelihood bernoulli` is for two labels. `{data.target.name}` has {number}.")
        return request.likelihood or natural
    return request.likelihood or ("poisson" if request.data.task == "counts" else "gaussian")


def _estimator(request: FitRequest, data: Data | StreamData, likelihood: str, *, is_live: bool) -> Any:
    from kosambi.estimators import ProjectedLangevinClassifier, ProjectedLangevinRegressor

    shared: dict[str, Any] = {
        "n_inducing": request.inducing,
        "n_neighbors": request.neighbors,
        "hyperparameters": request.hyperparameters,
        "n_samples": request.samples,
        "random_state": request.data.seed,
        "progress": is_live,
    }
    if data.target.task == "classification":
        return ProjectedLangevinClassifier(**shared)
    return ProjectedLangevinRegressor(likelihood, **shared)


def _metrics(estimator: Any, data: Data | StreamData) -> Metrics:
    judge = classification_metrics if data.target.task == "classification" else regression_metrics
    return judge(estimator, data.matrix(data.held_out), data.target.values[data.held_out])


def _held_out_table(estimator: Any, data: Data | StreamData) -> Any:
    """Held-out rows as they were in the file, the truth, and what was predicted."""
    rows = data.table.iloc[data.held_out][list(data.schema.names)].reset_index(drop=True)
    rows[data.schema.target] = data.target.values[data.held_out]
    predictions = prediction_table(estimator, data.matrix(data.held_out), coverage=COVERAGE)
    for name in predictions:
        free = f"predicted_{name}"
        while free in rows:
            free += "_"
        rows[free] = predictions[name]
    return rows


def _write(
    folder: Path, estimator: Any, data: Data | StreamData, table: Any, record: dict[str, Any], *, has_page: bool
) -> None:
    from kosambi.files import save

    save(estimator, folder / _run_folder.MODEL, rescue=False)
    if table is not None:
        guarded_table(table).to_csv(folder / _run_folder.HELD_OUT, index=False)
    if has_page:
        from kosambi import page

        held_out = (
            (data.matrix(data.held_out), data.target.values[data.held_out]) if table is not None else (None, None)
        )
        title, source = page_words(record)
        name = data.schema.target
        page.write(folder / _run_folder.PAGE, estimator, *held_out, title=title, source=source, target=name)
    _run_folder.write_record(folder, record)


def page_words(record: dict[str, Any]) -> tuple[str, str]:
    """The title of a run's page, and where its data came from."""
    rows = record["rows"]
    title = f"{record['schema']['target']} in {record['data']['file']}"
    return title, f"{rows['training']} training and {rows['held_out']} held-out rows of {record['data']['file']}"


def _record(
    request: FitRequest,
    data: Data | StreamData,
    data_digest: str,
    likelihood: str,
    estimator: Any,
    metrics: Metrics | None,
    screen: Screen,
) -> dict[str, Any]:
    asked, report = request.data, estimator.report_
    return {
        "kosambi_version": __version__,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "data": {"file": printable(asked.data.name), "sha256": data_digest, "rows": data.num_rows},
        "rows": {"training": data.num_training, "held_out": len(data.held_out)},
        "task": data.target.task,
        "likelihood": likelihood,
        "classes": list(data.target.classes),
        "schema": data.schema.to_dict(),
        "settings": {
            "holdout": asked.holdout,
            "max_rows": None if asked.is_stream else asked.max_rows,
            "memory": asked.memory,
            "processes": processes().count if asked.distributed else 1,
            "seed": asked.seed,
            "samples": request.samples,
            "inducing": request.inducing,
            "neighbors": request.neighbors,
            "hyperparameters": request.hyperparameters,
        },
        "metrics": metrics,
        "fit": {
            "converged": bool(report.converged),
            "sampler": report.sampler,
            "r_hat": float(report.r_hat),
            "num_inducing": int(estimator.posterior_.basis.size),
            "num_neighbors": int(estimator.posterior_.target.num_neighbors or 0),
            "num_models": len(getattr(estimator.posterior_, "components", [None])),
            "stream": None if report.stream is None else dataclasses.asdict(report.stream),
            "warnings": list(dict.fromkeys([*screen.warnings, *report.warnings])),
        },
        "versions": versions(),
    }


def _summary(out: Path, record: dict[str, Any], metrics: Metrics | None) -> str:
    fitted = record["fit"]
    state = "converged" if fitted["converged"] else "NOT converged: see the warnings"
    near = f", {fitted['num_neighbors']} neighbours" if fitted["num_neighbors"] else ""
    near += f", averaged over {fitted['num_models']} draws of hyperparameters" if fitted["num_models"] > 1 else ""
    lines = [
        f"{record['task']} with the {record['likelihood']} likelihood, {fitted['num_inducing']} inducing points{near}, "
        f"{record['settings']['samples']} functions drawn ({state})"
    ]
    if metrics is not None:
        lines += [f"On {record['rows']['held_out']} held-out rows:", as_text(metrics)]
    return "\n".join([*lines, f"The run is in {out}"])


def target_values(column: Any, estimator: Any) -> np.ndarray:
    """The truth of a held-out table, as the estimator has it."""
    if hasattr(estimator, "classes_"):
        return column.to_numpy(dtype=object).astype(str).astype(estimator.classes_.dtype)
    return column.to_numpy(dtype=np.float64)
