"""`run.json` that was edited, with and without a new seal: a clear error, and never a raw one. JSON when it fails."""

from __future__ import annotations

import json
import shutil

import pytest

import kosambi as ko
from kosambi.cli import _exits, _record, _run_folder
from kosambi.cli._app import app


def drop(*path):
    return lambda record: at(record, path[:-1]).pop(path[-1])


def put(value, *path):
    return lambda record: at(record, path[:-1]).__setitem__(path[-1], value)


def at(record, path):
    for name in path:
        record = record[name]
    return record


CHANGES = {
    "no rows": (drop("rows"), "does not say its `rows`"),
    "rows that are text": (put("many", "rows", "training"), "`rows.training` is no whole number"),
    "rows that are true": (put(True, "rows", "held_out"), "`rows.held_out` is no whole number"),
    "no name of the file": (drop("data", "file"), "`data.file` is no text"),
    "data that are a list": (put([], "data"), "does not say its `data`"),
    "no schema": (drop("schema"), "damaged"),
    "schema that is none": (put({"target": "price"}, "schema"), "schema cannot be read"),
    "another column": (put("weight", "schema", "columns", 0, "name"), "columns and its schema"),
    "another kind": (put([], "schema", "columns"), "schema cannot be read"),
    "fewer levels": (put(["Bonn", "Ulm"], "schema", "columns", 2, "levels"), "columns and its schema"),
    "a calendar of numbers": (put({"layout": None}, "schema", "columns", 0, "calendar"), "schema cannot be read"),
    "a unit that is none": (put(7, "schema", "columns", 0, "unit"), "schema cannot be read"),
    "no files": (put([], "files"), "does not say which files"),
    "files elsewhere": (put({"model.kosambi": "0", "../x": "0"}, "files"), "does not say which files"),
    "another digest": (put("0" * 64, "files", "model.kosambi"), "is not the one that was written"),
}


@pytest.mark.parametrize("command", ["predict", "report"])
@pytest.mark.parametrize("name", CHANGES)
def test_bad_input_records_that_were_edited(cli, run, data, tmp_path, name, command):
    change, message = CHANGES[name]
    shutil.copytree(run, tmp_path / "run")
    path = tmp_path / "run" / "run.json"
    record = json.loads(path.read_text("utf-8"))
    assert _record.is_sealed(record)
    change(record)
    arguments = ("predict", tmp_path / "run", data) if command == "predict" else ("report", tmp_path / "run")
    options = ("-o", tmp_path / "out.csv", "--json")
    # Without a new seal, with one, and as a run of the first format, which had none.
    unsealed = {key: value for key, value in record.items() if key != _record.SEAL}
    for text, expected in (
        (record, "is not the one that was written"),
        (_record.sealed(unsealed), message),
        (unsealed | {"format_version": 1}, message),
    ):
        path.write_text(json.dumps(text))
        result = cli(*arguments, *options)
        assert result.exit_code == 4, result.output
        assert expected in result.stderr
        assert json.loads(result.stdout)["error"]["exit_code"] == 4
        assert not (tmp_path / "out.csv").exists()


def test_a_record_laid_out_anew_is_the_same(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    path = tmp_path / "run" / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")), indent=None, sort_keys=True))
    assert _run_folder.read_record(tmp_path / "run")["task"] == "regression"


def test_records_of_older_formats_are_read(cli, run, data, tmp_path):
    """Format 2 knew no dates, and format 1 no units and no digest; both predict what they did."""
    for version in (3, 2, 1):
        shutil.copytree(run, tmp_path / f"run{version}")
        path = tmp_path / f"run{version}" / "run.json"
        record = json.loads(path.read_text("utf-8"))
        for column in record["schema"]["columns"]:
            for field in ("calendar", "unit")[: 3 - version]:
                del column[field]
        record = {key: value for key, value in record.items() if key != _record.SEAL} | {"format_version": version}
        path.write_text(json.dumps(_record.sealed(record) if version > 1 else record))
        result = cli("predict", tmp_path / f"run{version}", data, "-o", tmp_path / f"p{version}.csv")
        assert result.exit_code == 0, result.output
    assert len({(tmp_path / f"p{version}.csv").read_bytes() for version in (3, 2, 1)}) == 1


def test_bad_input_a_record_without_end(run, tmp_path, monkeypatch):
    shutil.copytree(run, tmp_path / "run")
    monkeypatch.setattr(_run_folder, "MAX_BYTES", 100)
    with pytest.raises(ko.errors.FileError, match="more than 100 bytes"):
        _run_folder.read_record(tmp_path / "run")


def test_a_model_that_is_none():
    assert "no fitted estimator" in _record.model_problem(ko.kernels.Matern52(), ("x",))


@pytest.mark.parametrize(
    ("arguments", "kind", "code"),
    [
        (("fit", "none.csv", "-t", "y", "-o", "out", "--json"), "FileError", 4),
        (("fit", "none.csv", "--json"), "UsageError", 2),
        (("fit", "none.csv", "-t", "y", "-o", "out", "--likelihood", "nonsense", "--json"), "UsageError", 2),
        (("predict", "none", "none.csv", "-o", "-", "--json"), "InputError", 3),
        (("predict", "none", "none.csv", "-o", "p.csv", "--on-bad-row", "guess", "--json"), "UsageError", 2),
        (("report", "none", "--json"), "FileError", 4),
    ],
)
def test_failures_are_json_where_that_was_asked_for(cli, tmp_path, monkeypatch, arguments, kind, code):
    monkeypatch.chdir(tmp_path)
    result = cli(*arguments)
    assert result.exit_code == code
    error = json.loads(result.stdout)["error"]
    assert (error["kind"], error["exit_code"]) == (kind, code)
    assert error["message"]
    plain = cli(*(word for word in arguments if word != "--json"))
    assert plain.exit_code == code if "predict" not in arguments else plain.exit_code in (2, 4)
    assert "{" not in plain.stdout


def test_unexpected_failures_and_interruptions_are_json_too(cli, monkeypatch):
    from kosambi.cli import _doctor

    def fail():
        raise ZeroDivisionError("by \x1b[31mzero")

    monkeypatch.setattr(_doctor, "examine", fail)
    result = cli("doctor", "--json")
    assert result.exit_code == _exits.FAILURE
    assert json.loads(result.stdout)["error"] == {
        "kind": "ZeroDivisionError",
        "message": "by \\x1b[31mzero",
        "exit_code": 1,
    }

    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(_doctor, "examine", interrupt)
    result = cli("doctor", "--json")
    assert json.loads(result.stdout)["error"]["exit_code"] == result.exit_code == 130
    assert app.info.cls is not None
