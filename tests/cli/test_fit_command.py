"""`kosambi fit`: runs, their record, and what it refuses."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest

import kosambi as ko
from kosambi.cli._data import split
from kosambi.cli._fit import _regression_task
from kosambi.cli._metrics import classification_metrics, regression_metrics
from kosambi.cli._run_folder import digest
from tests.cli.houses import REGRESSION, houses


def test_a_run_holds_the_model_the_record_and_the_held_out_rows(run, data):
    record = json.loads((run / "run.json").read_text("utf-8"))
    assert sorted(path.name for path in run.iterdir()) == ["held_out.csv", "model.kosambi", "run.json"]
    assert record["rows"] == {"training": 72, "held_out": 18}
    assert record["data"] == {"file": "houses.csv", "sha256": digest(data), "rows": 90}
    assert record["files"]["model.kosambi"] == digest(run / "model.kosambi")
    assert record["task"] == "regression"
    assert record["fit"]["converged"]
    assert record["schema"]["target"] == "price"
    assert "Column `kind` is left out: it has one value, flat." in record["schema"]["notes"]
    assert set(record["metrics"]) == {"nll", "mae", "rmse", "r2", "coverage_95", "width_95"}
    assert record["metrics"]["r2"]["value"] > 0.9
    held_out = pd.read_csv(run / "held_out.csv")
    assert len(held_out) == 18
    assert {"size", "age", "city", "garden", "price", "predicted_mean", "predicted_upper"} <= set(held_out)
    errors = held_out["price"] - held_out["predicted_mean"]
    assert np.isclose(np.sqrt(np.mean(errors**2)), record["metrics"]["rmse"]["value"], rtol=1e-12)


def test_json_is_all_there_is_on_stdout(cli, run, data, tmp_path):
    """The same command again gives the same numbers to the last digit."""
    result = cli("fit", data, "--out", tmp_path / "again", *REGRESSION, "--json")
    assert result.exit_code == 0
    found, first = json.loads(result.stdout), json.loads((run / "run.json").read_text("utf-8"))
    assert found["run"] == str(tmp_path / "again")
    assert found["metrics"] == first["metrics"]
    models = [ko.load(folder / "model.kosambi").posterior_ for folder in (run, tmp_path / "again")]
    np.testing.assert_array_equal(models[0].particles.coordinates, models[1].particles.coordinates)
    assert digest(tmp_path / "again" / "held_out.csv") == first["files"]["held_out.csv"]


def test_labels(labels_run):
    record = json.loads((labels_run / "run.json").read_text("utf-8"))
    assert (record["task"], record["likelihood"], record["classes"]) == (
        "classification",
        "bernoulli",
        ["cheap", "dear"],
    )
    assert set(record["metrics"]) == {"accuracy", "accuracy_of_commonest", "log_loss", "brier", "auc"}
    assert record["metrics"]["accuracy"]["value"] > record["metrics"]["accuracy_of_commonest"]["value"]


@pytest.mark.slow
def test_few_rows_are_averaged_over_hyperparameters_and_the_page_says_so(cli, data, tmp_path):
    options = ("-t", "price", "--features", "size", "--impute", "--samples", "20", "--max-rows", "40")
    result = cli("fit", data, "-o", tmp_path / "run", *options)
    assert result.exit_code == 0
    assert "averaged over 20 draws of hyperparameters" in result.output
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (record["settings"]["hyperparameters"], record["fit"]["num_models"]) == ("auto", 20)
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Predictions are averaged over 20 draws" in page
    assert "Posterior of each hyperparameter." in page


def test_quiet_prints_nothing_and_features_and_no_held_out_rows_are_possible(cli, data, tmp_path):
    options = ("--features", "size", "--impute", "--holdout", "0", "--inducing", "5", "--neighbors", "4")
    result = cli("fit", data, "-t", "price", "-o", tmp_path / "run", *options, "--no-report", "--quiet")
    assert (result.exit_code, result.output) == (0, "")
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert [column["name"] for column in record["schema"]["columns"]] == ["size"]
    assert record["rows"] == {"training": 90, "held_out": 0}
    assert record["metrics"] is None
    assert (record["fit"]["num_inducing"], record["fit"]["num_neighbors"]) == (5, 4)
    assert not (tmp_path / "run" / "held_out.csv").exists()


@pytest.mark.parametrize(
    ("text", "options", "code", "message"),
    [
        ("", (), 3, "is empty"),
        ("x,y\n", (), 3, "a header and no rows"),
        ("x,y\n1,2\n", (), 3, "has 1 row of data"),
        ("x,z\n1,2\n2,3\n3,4\n", (), 3, "no column `y`"),
        ("x,y\n1,a\n2,a\n3,a\n", (), 3, "a single label (a)"),
        ("x,y\n1,4\n2,4\n3,4\n", (), 3, "a single value (4.0)"),
        ("x,y\n1,4.5\n1,4\n1,3\n", (), 3, "None of the input columns varies"),
        ("x,y\n1,4.5\n2,\n3,3\n4,2\n", (), 3, "missing in 1 of 4 rows"),
        ("x,y\n1,4.5\n,7\n3,3\n4,2\n", (), 3, "`x` 1. Fill them"),
        ("x,y\n1,a\n2,b\n3,a\n4,c\n", ("--task", "regression"), 3, "a regression needs numbers"),
        ("x,y\n1,a\n2,b\n3,a\n4,c\n", ("--likelihood", "bernoulli"), 3, "is for two labels"),
        ("x,y\n1,1\n2,2\n3,3\n", ("--likelihood", "gamma", "--task", "classification"), 3, "is not for `--task"),
        ("x,y\n1,-1\n2,2\n3,3\n4,4\n5,3\n", ("--likelihood", "poisson"), 3, "Poisson"),
        ("x,y\n1,1\n2,2\n3,3\n", ("--likelihood", "zip"), 2, "zero_inflated_poisson"),
        ("x,y\n1,-1\n2,2\n3,3\n4,4\n5,3\n", ("--likelihood", "zero_inflated_poisson"), 3, "ZeroInflatedPoisson"),
        ("x,y\n1,1\n2,2\n3,3\n", ("--drop", "x"), 3, "No input column is left"),
        ("x,y\n1,1\n2,2\n3,3\n", ("--holdout", "0.9"), 3, "smaller `--holdout`"),
        ("x,y\n1,1\n2,2\n3,3\n", ("--holdout", "1.5"), 2, "--holdout"),
        ("x,y\n1,1\n2,2\n3,3\n", ("--inducing", "some"), 2, "neither auto nor"),
        ("x,y\n1,1\n2,2\n3,3\n", ("--neighbors", "-2"), 2, "neither auto nor"),
        ("x,y\n1,1\n2,2\n3,3\n", ("--task", "other"), 2, "other"),
    ],
)
def test_bad_input_exit_codes(cli, tmp_path, text, options, code, message):
    path = tmp_path / "t.csv"
    path.write_text(text)
    result = cli("fit", path, "--target", "y", "--out", tmp_path / "run", *options)
    assert result.exit_code == code, result.output
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.output
    assert result.stdout == ""
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.csv"]


def test_bad_input_files_that_are_not_there_or_in_the_way(cli, run, data, tmp_path):
    assert cli("fit", tmp_path / "none.csv", "-t", "y", "-o", tmp_path / "run").exit_code == 4
    result = cli("fit", data, "-t", "price", "-o", run)
    assert result.exit_code == 4
    assert "replace it with `--force`" in result.stderr
    (tmp_path / "mine.txt").write_text("precious")
    result = cli("fit", data, "-t", "price", "-o", tmp_path, "--force")
    assert result.exit_code == 4
    assert "not part of a run: `mine.txt`" in result.stderr
    assert (tmp_path / "mine.txt").read_text() == "precious"


def test_bad_input_unexpected_failures_have_no_traceback_but_with_debug(cli, data, tmp_path, monkeypatch):
    def fail(self, *arguments, **options):
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(ko.ProjectedLangevinRegressor, "fit", fail)
    command = ("fit", data, "-t", "price", "-o", tmp_path / "run", "--impute")
    result = cli(*command)
    assert result.exit_code == 1
    assert "ZeroDivisionError: on purpose" in result.stderr
    assert "Traceback" not in result.output
    assert isinstance(cli(*command, "--debug").exception, ZeroDivisionError)
    assert list(tmp_path.iterdir()) == []


def test_draws_that_do_not_converge_are_a_failure_only_if_asked_for(cli, data, run, tmp_path, monkeypatch):
    def unsure(self, *arguments, **options):
        vars(self).update(vars(ko.load(run / "model.kosambi")))
        self.report_ = dataclasses.replace(self.report_, converged=False)

    monkeypatch.setattr(ko.ProjectedLangevinRegressor, "fit", unsure)
    result = cli("fit", data, "-o", tmp_path / "run", *REGRESSION)
    assert result.exit_code == 0
    assert "NOT converged" in result.stdout
    result = cli("fit", data, "-o", tmp_path / "run", *REGRESSION, "--force", "--strict")
    assert result.exit_code == 5
    assert (tmp_path / "run" / "run.json").exists()


def test_rows_are_drawn_with_a_seed_and_labels_keep_their_shares():
    labels = np.array(["a"] * 800 + ["b"] * 195 + ["c"] * 4 + ["d"])
    for holdout, limit in ((0.2, 10_000), (0.5, 10_000), (0.2, 100), (0.0, 50)):
        first, again = (split(1000, labels, holdout=holdout, max_rows=limit, seed=3) for _ in range(2))
        np.testing.assert_array_equal(first.training, again.training)
        assert not set(first.training) & set(first.held_out)
        assert set(labels[first.training]) == {"a", "b", "c", "d"}
        used = len(first.training) + len(first.held_out)
        assert len(first.training) <= limit + 4
        assert abs(len(first.held_out) - holdout * used) <= 4
        if holdout:
            assert abs(np.mean(labels[first.held_out] == "a") - 0.8) < 0.05
    other = split(1000, labels, holdout=0.2, max_rows=100, seed=4)
    assert not np.array_equal(first.training, other.training)


def test_a_level_that_one_row_has_is_learned_from(tmp_path):
    from kosambi.cli._data import DataRequest, load

    table = houses(40, missing=False).drop(columns="is_dear")
    table.loc[7, "city"] = "Trier"
    table.to_csv(tmp_path / "t.csv", index=False)
    seeds = range(12)
    notes = []
    for seed in seeds:
        data = load(DataRequest(tmp_path / "t.csv", "price", seed=seed), notes.append)
        assert 7 in data.training
        assert "city=Trier" in data.schema.labels
        assert data.matrix(data.held_out).shape == (len(data.held_out), 7)
    assert any("1 held-out rows were moved" in note for note in notes)


class Known:
    """Predictions that are known."""

    classes_ = np.array(["n", "y"])

    def predict(self, x):
        return x

    def predict_interval(self, x, coverage):
        assert coverage == 0.95
        return x - 1.0, x + 1.0

    def predict_log_density(self, x, y):
        return np.full(np.broadcast(x, y).shape, -2.0)

    def predict_proba(self, x):
        return np.column_stack([1.0 - x, x])


def test_metrics_against_formulas(rng):
    y = rng.normal(size=50)
    guess = y + rng.normal(size=50)
    found = regression_metrics(Known(), guess, y)
    assert found["nll"] == {"value": 2.0, "se": 0.0}
    assert np.isclose(found["mae"]["value"], np.mean(np.abs(guess - y)))
    assert np.isclose(found["mae"]["se"], np.std(np.abs(guess - y), ddof=1) / np.sqrt(50))
    assert np.isclose(found["r2"]["value"], 1.0 - np.mean((guess - y) ** 2) / np.var(y))
    assert found["coverage_95"]["value"] == np.mean(np.abs(guess - y) <= 1.0)
    assert found["width_95"]["value"] == pytest.approx(2.0)


def test_classification_metrics_against_scikit_learn(rng):
    from sklearn.metrics import accuracy_score, roc_auc_score

    probability = rng.uniform(size=200).round(1)
    truth = np.where(rng.uniform(size=200) < probability, "y", "n")
    found = classification_metrics(Known(), probability, truth)
    assert found["auc"]["value"] == pytest.approx(roc_auc_score(truth == "y", probability), rel=1e-12)
    named = np.where(probability > 0.5, "y", "n")
    assert found["accuracy"]["value"] == accuracy_score(truth, named)
    assert found["brier"]["value"] == pytest.approx(2.0 * np.mean((probability - (truth == "y")) ** 2))


def test_a_likelihood_implies_a_task():
    """Whatever is in the table of likelihoods."""
    implied = {name: _regression_task(name) for name in ko.likelihoods.BY_SHORT_NAME}
    counts = {"poisson", "negative_binomial", "zero_inflated_poisson"}
    assert implied == {name: "counts" if name in counts else "regression" for name in implied}
