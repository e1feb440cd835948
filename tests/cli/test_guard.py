"""Text that a spreadsheet would run: guarded in what is written, the same when kosambi reads it back."""

from __future__ import annotations

import itertools
from pathlib import Path

import pandas as pd
import pytest

from kosambi.cli._predictions import write_table
from kosambi.tables import guarded, guarded_table, unguarded_table
from kosambi.tables._guard import unguarded

HOSTILE = ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "'=1", "''=1", "=", "-", "+49 170 1"]
HARMLESS = ["plain", "'quoted'", "", "a=b", "-1.5", "+1", "-1e-3", "1-2", " =1", "'"]


@pytest.mark.parametrize("text", HOSTILE)
def test_formulas_are_guarded(text):
    assert guarded(text) == f"'{text}"


@pytest.mark.parametrize("text", HARMLESS)
def test_other_text_stays(text):
    assert guarded(text) == text


def test_no_two_texts_become_one_and_each_comes_back():
    texts = ["".join(parts) for n in range(5) for parts in itertools.product("'=-1a", repeat=n)]
    assert len({guarded(text) for text in texts}) == len(texts)
    assert [unguarded(guarded(text)) for text in texts] == texts


def test_tables_come_back():
    table = pd.DataFrame(
        {
            "=x": pd.Categorical(["=a", "b", None]),
            "n": [-1.0, 2.0, None],
            "@t": ["+c", None, "-5"],
            "k": [True, False, True],
        }
    )
    text = guarded_table(table)
    assert list(text) == ["'=x", "n", "'@t", "k"]
    assert text["'=x"].tolist()[:2] == ["'=a", "b"]
    assert text["n"].equals(table["n"])
    back = unguarded_table(text)
    pd.testing.assert_frame_equal(back, table, check_dtype=False, check_categorical=False)


def test_csv_is_guarded_and_parquet_is_not(tmp_path, capsys):
    table = pd.DataFrame({"label": ["=cmd", "-1", "fine"], "probability_=cmd": [0.5, 0.25, 0.25]})
    write_table(table, tmp_path / "t.csv", force=False)
    assert (tmp_path / "t.csv").read_text().splitlines()[1:] == ["'=cmd,0.5", "-1,0.25", "fine,0.25"]
    write_table(table, Path("-"), force=False)
    assert "'=cmd,0.5" in capsys.readouterr().out
    write_table(table, tmp_path / "t.parquet", force=False)
    assert pd.read_parquet(tmp_path / "t.parquet")["label"].tolist() == ["=cmd", "-1", "fine"]


@pytest.mark.slow
def test_a_run_with_hostile_names_is_fitted_predicted_and_reported(cli, tmp_path):
    rows = [
        {"=in": float(i % 10), "@city": ["=a", "-b", "c"][i % 3], "+y": ["=up", "down"][i % 10 > 4]} for i in range(60)
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "t.csv", index=False)
    options = ("--samples", "10", "--inducing", "6", "--hyperparameters", "evidence", "--no-report")
    result = cli("fit", tmp_path / "t.csv", "-t", "+y", "-o", tmp_path / "run", *options)
    assert result.exit_code == 0, result.output
    held_out = (tmp_path / "run" / "held_out.csv").read_text()
    assert held_out.startswith("'=in,'@city,'+y,")
    assert ",=" not in held_out.replace("\n", ",")
    assert cli("report", tmp_path / "run").exit_code == 0
    assert cli("predict", tmp_path / "run", tmp_path / "t.csv", "-o", tmp_path / "p.csv").exit_code == 0
    assert set(pd.read_csv(tmp_path / "p.csv")["label"]) == {"'=up", "down"}
