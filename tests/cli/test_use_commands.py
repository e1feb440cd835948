"""`kosambi predict`, `report`, `demo` and `doctor`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import kosambi as ko
from kosambi.cli import _doctor
from kosambi.tables import Schema
from tests.cli.houses import houses


@pytest.fixture(scope="module")
def new_rows(folder):
    """Rows with other values, in another order of columns, and with identifiers."""
    table = houses(75, seed=1).drop(columns=["price", "is_dear"])
    table = table[list(table)[::-1]].assign(key=[f"{i:03d}" for i in range(75)])
    path = folder / "new.csv"
    table.to_csv(path, index=False)
    return path


def coded(run, path):
    schema = Schema.from_dict(json.loads((run / "run.json").read_text("utf-8"))["schema"])
    matrix, labels = schema.encode(pd.read_csv(path))
    return pd.DataFrame(matrix, columns=list(labels))


def test_predictions_are_those_of_the_estimator(cli, run, new_rows, tmp_path):
    out = tmp_path / "p.csv"
    result = cli("predict", run, new_rows, "-o", out, "--coverage", "0.8", "--samples", "3", "--seed", "5", "--json")
    assert result.exit_code == 0, result.output
    columns = ["mean", "sd", "lower", "upper", "draw_1", "draw_2", "draw_3"]
    assert {"rows": 75, "columns": columns}.items() <= json.loads(result.stdout).items()
    estimator, inputs = ko.load(run / "model.kosambi"), coded(run, new_rows)
    found = pd.read_csv(out)
    mean, deviation = estimator.predict(inputs, return_std=True)
    lower, upper = estimator.predict_interval(inputs, coverage=0.8)
    draws = estimator.sample_y(inputs, n_samples=3, random_state=5)
    np.testing.assert_array_equal(found.to_numpy(), np.column_stack([mean, deviation, lower, upper, draws]))


def test_a_loaded_run_predicts_what_the_estimator_in_memory_does(cli, run, new_rows, data, tmp_path):
    """Fitted again in this process from the same rows, without files."""
    from kosambi.cli._data import DataRequest, load

    rows = load(DataRequest(data, "price", drop=("is_dear",), impute=True), lambda text: None)
    estimator = ko.ProjectedLangevinRegressor(n_samples=20, progress=False, hyperparameters="evidence")
    estimator.fit(rows.matrix(rows.training), rows.target.values[rows.training])
    assert cli("predict", run, new_rows, "-o", tmp_path / "p.csv").exit_code == 0
    found = pd.read_csv(tmp_path / "p.csv")["mean"].to_numpy()
    np.testing.assert_array_equal(found, estimator.predict(coded(run, new_rows)))


def test_labels_are_predicted_with_probabilities(cli, labels_run, new_rows, tmp_path):
    result = cli("predict", labels_run, new_rows, "-o", tmp_path / "p.parquet", "--id", "key", "--samples", "2")
    assert result.exit_code == 0, result.output
    found = pd.read_parquet(tmp_path / "p.parquet")
    assert list(found) == ["key", "label", "probability_cheap", "probability_dear", "draw_1", "draw_2"]
    assert found["key"].tolist() == [f"{i:03d}" for i in range(75)]
    expected = ko.load(labels_run / "model.kosambi").predict_proba(coded(labels_run, new_rows))
    np.testing.assert_array_equal(found[["probability_cheap", "probability_dear"]].to_numpy(), expected)
    assert set(found["draw_1"]) <= {"cheap", "dear"}


def test_predictions_to_stdout(cli, run, new_rows):
    result = cli("predict", run, new_rows, "--out", "-")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "mean,sd,lower,upper"
    assert len(lines) == 76


def test_bad_input_predict(cli, run, new_rows, tmp_path):
    table = pd.read_csv(new_rows)
    out = tmp_path / "p.csv"

    def message(frame, code, *options):
        frame.to_csv(tmp_path / "t.csv", index=False)
        result = cli("predict", run, tmp_path / "t.csv", "-o", out, *options)
        assert result.exit_code == code, result.output
        return result.stderr

    assert "has no column `size`. Did you mean `sizes`" in message(table.rename(columns={"size": "sizes"}), 3)
    assert "`Trier` (75 rows)" in message(table.assign(city="Trier"), 3)
    assert "times text: `big`" in message(table.assign(size="big"), 3)
    assert "has no column `none`" in message(table, 3, "--id", "none")
    assert "has the name of a column" in message(table.assign(mean=1), 3, "--id", "mean")
    assert "Choose one of them" in cli("predict", run, new_rows, "-o", "-", "--json").stderr
    assert not out.exists()
    out.write_text("mine")
    assert "replace it with `--force`" in message(table, 4)
    assert out.read_text() == "mine"
    assert "There is no folder" in cli("predict", tmp_path / "none", new_rows, "-o", tmp_path / "q.csv").stderr
    assert cli("predict", run, new_rows, "-o", tmp_path / "no" / "q.csv").exit_code == 4
    assert cli("predict", run, tmp_path / "none.csv", "-o", tmp_path / "q.csv").exit_code == 4


@pytest.mark.parametrize("name", ["run.json", "model.kosambi", "held_out.csv"])
@pytest.mark.parametrize("change", ["removed", "cut off", "altered"])
def test_bad_input_damaged_runs_are_refused(cli, run, new_rows, tmp_path, name, change):
    shutil.copytree(run, tmp_path / "run")
    path = tmp_path / "run" / name
    content = path.read_bytes()
    if change == "removed":
        path.unlink()
    elif change == "cut off":
        path.write_bytes(content[: len(content) // 2])
    else:
        old, new = (b'"fill": ', b'"full": ') if name == "run.json" else (b"1", b"2")
        path.write_bytes(content.replace(old, new))
    result = cli("predict", tmp_path / "run", new_rows, "-o", tmp_path / "p.csv")
    assert result.exit_code == 4
    assert "damaged" in result.stderr
    assert not (tmp_path / "p.csv").exists()


def test_bad_input_runs_of_another_format(cli, run, new_rows, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    record = json.loads((run / "run.json").read_text("utf-8"))
    for change, message in (({"format_version": 99}, "a run of format 99"), ({"format": "x"}, "none of kosambi's")):
        (tmp_path / "run" / "run.json").write_text(json.dumps(record | change))
        result = cli("predict", tmp_path / "run", new_rows, "-o", tmp_path / "p.csv")
        assert result.exit_code == 4
        assert message in result.stderr


@pytest.mark.parametrize("which", ["run", pytest.param("labels_run", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_report_is_written_again_from_the_run(cli, request, which, tmp_path):
    folder = request.getfixturevalue(which)
    out = tmp_path / "page.html"
    result = cli("report", folder, "--out", out)
    assert result.exit_code == 0, result.output
    text = out.read_text("utf-8")
    assert "houses.csv" in text
    assert "72 training and 18 held-out rows of houses.csv" in text
    assert cli("report", folder, "--out", out).exit_code == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html"]


def test_doctor_says_what_there_is(cli, monkeypatch):
    result = cli("doctor", "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found["healthy"]
    assert found["self_check"]["error"] < 1e-9
    assert {"jax", "jaxlib", "numpy", "scipy", "scikit-learn", "blackjax", "equinox"} <= set(found["packages"])
    assert found["devices"]
    monkeypatch.setattr(_doctor, "self_check", lambda: 1e-3)
    monkeypatch.setattr(_doctor, "versions", lambda: {"kosambi": "1.0", "python": "3.11.0", "jax": "1.0"})
    result = cli("doctor")
    assert result.exit_code == 1
    assert "FAILED" in result.stdout
    assert "pip install kosambi[parquet]" in result.stdout


@pytest.mark.slow
def test_demo(cli, tmp_path):
    result = cli("demo", "--out", tmp_path / "demo", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert set(found["files"]) == {"outliers", "moons", "two_signs"}
    for name, path in found["files"].items():
        assert Path(path).stat().st_size > 20_000
        assert (tmp_path / "demo" / f"{name}.csv").exists()
    assert "<html" in Path(found["files"]["moons"]).read_text("utf-8")
    # Half of a hundred particles each, give or take: both signs are as likely.
    assert min(found["positive"], found["negative"]) > 30
    assert cli("demo", "--out", tmp_path / "demo").exit_code == 4
