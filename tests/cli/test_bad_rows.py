"""New rows that cannot be predicted: one of them does not cost the others their predictions, unless that is wanted."""

from __future__ import annotations

import functools
import json

import numpy as np
import pandas as pd
import pytest

from kosambi import tables
from kosambi.cli._bad_rows import flagged
from kosambi.errors import InputError
from kosambi.tables import Column, Schema, read_in_parts
from tests.cli.houses import houses

SCHEMA = Schema(
    "y",
    (
        Column("x", "numeric"),
        Column("rate", "numeric", unit="%"),
        Column("c", "categorical", ("u", "v")),
        Column("b", "boolean", ("false", "true")),
    ),
)


@pytest.fixture(scope="module")
def spoiled(folder):
    """Rows 2, 5 and 9 cannot be predicted."""
    table = houses(12, seed=3, missing=False).drop(columns=["price", "is_dear"]).astype({"size": object})
    table.loc[1, "city"] = "Trier"
    table.loc[4, "size"] = "big"
    table.loc[8, "age"] = 1e200
    path = folder / "spoiled.csv"
    table.assign(key=[f"k{i}" for i in range(12)]).to_csv(path, index=False)
    return path


def test_error_says_how_many_and_where(cli, run, spoiled, tmp_path):
    result = cli("predict", run, spoiled, "-o", tmp_path / "p.csv")
    assert result.exit_code == 3
    assert "3 of 12 rows cannot be predicted; the first is row 2: `city` is `Trier`, which" in result.stderr
    assert "`--on-bad-row skip`" in result.stderr
    assert not (tmp_path / "p.csv").exists()
    table = pd.read_csv(spoiled).assign(city="Bonn", size=50.0)
    table.to_csv(tmp_path / "far.csv", index=False)
    result = cli("predict", run, tmp_path / "far.csv", "-o", tmp_path / "p.csv")
    assert result.exit_code == 3
    assert "1 of 12 rows cannot be predicted; the first is row 9: `age` is 1e+200, too far out" in result.stderr


def test_skip_leaves_them_out_and_flag_says_why(cli, run, spoiled, tmp_path):
    options = ("--id", "key", "--samples", "1", "--json")
    result = cli("predict", run, spoiled, "-o", tmp_path / "s.csv", "--on-bad-row", "skip", *options)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["bad_rows"] == 3
    assert "3 of 12 rows" in result.stderr
    skipped = pd.read_csv(tmp_path / "s.csv")
    assert skipped["key"].tolist() == [f"k{i}" for i in range(12) if i not in (1, 4, 8)]
    assert cli("predict", run, spoiled, "-o", tmp_path / "f.csv", "--on-bad-row", "flag", *options).exit_code == 0
    kept = pd.read_csv(tmp_path / "f.csv")
    assert list(kept) == ["key", "mean", "sd", "lower", "upper", "draw_1", "problem"]
    assert kept["key"].tolist() == [f"k{i}" for i in range(12)]
    assert np.nonzero(kept["mean"].isna())[0].tolist() == np.nonzero(kept["problem"].notna())[0].tolist() == [1, 4, 8]
    assert kept["problem"].dropna().tolist() == [
        "`city` is `Trier`, which was not there in training",
        "`size` is `big`, which is no number",
        "`age` is 1e+200, too far out for anything to be computed",
    ]
    np.testing.assert_array_equal(kept.dropna(subset="mean")["mean"], skipped["mean"])
    # And are the predictions that these rows have without the others.
    good = pd.read_csv(spoiled).drop(index=[1, 4, 8])
    good.to_csv(tmp_path / "good.csv", index=False)
    assert cli("predict", run, tmp_path / "good.csv", "-o", tmp_path / "g.csv").exit_code == 0
    np.testing.assert_allclose(pd.read_csv(tmp_path / "g.csv")["mean"], skipped["mean"], rtol=1e-12)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_parts_of_a_long_table_give_what_the_whole_gives(cli, run, spoiled, tmp_path, monkeypatch, suffix):
    """Also where all rows of a part, the first one too, are bad, and an error names the row in the file."""
    paths = {name: tmp_path / f"{name}.{suffix}" for name in ("whole", "parts")}
    read = pd.read_csv if suffix == "csv" else pd.read_parquet
    with monkeypatch.context() as patch:
        for name, mode in [("whole", "skip"), ("parts", "skip"), ("whole", "flag"), ("parts", "flag")]:
            if name == "parts":
                patch.setattr(tables, "read_in_parts", functools.partial(read_in_parts, size=2))
            result = cli("predict", run, spoiled, "-o", paths[name], "--on-bad-row", mode, "--id", "key", "--force")
            assert result.exit_code == 0, result.output
            assert "3 of 12 rows" in result.stderr
            if name == "parts":
                pd.testing.assert_frame_equal(read(paths["parts"]), read(paths["whole"]), rtol=1e-12)
        table = pd.read_csv(spoiled)
        table.loc[[1, 1, 0]].to_csv(tmp_path / "t.csv", index=False)
        assert cli("predict", run, tmp_path / "t.csv", "-o", tmp_path / "t", "--on-bad-row", "flag").exit_code == 0
        assert pd.read_csv(tmp_path / "t")["mean"].isna().tolist() == [True, True, False]
        table.loc[[0, 2, 4]].to_csv(tmp_path / "t.csv", index=False)
        result = cli("predict", run, tmp_path / "t.csv", "-o", tmp_path / "u")
        assert result.exit_code == 3
        assert "row 3" in " ".join(result.stderr.split()) or "Rows 3 to 3" in " ".join(result.stderr.split())


def test_bad_input_no_row_is_left(cli, run, spoiled, tmp_path):
    pd.read_csv(spoiled).assign(city="Trier").to_csv(tmp_path / "t.csv", index=False)
    for mode in ("skip", "flag"):
        result = cli("predict", run, tmp_path / "t.csv", "-o", tmp_path / "p.csv", "--on-bad-row", mode)
        assert result.exit_code == 3
        assert "No row can be predicted: 12 of 12 rows" in result.stderr


def test_faults_of_every_kind():
    table = pd.DataFrame(
        {
            "x": ["1", "one", "3", "inf", None, "1,000"],
            "rate": ["1%", "2%", "0.5", "3%", "4%", "5 %"],
            "c": ["u", "v", "u", "v", "u", "w"],
            "b": ["true", "False", "1", "0", "yes", "true"],
        }
    )
    found = SCHEMA.faults(table).tolist()
    assert found[0] == ""
    assert [text.split("`")[1] if text else "" for text in found] == ["", "x", "rate", "x", "x", "c"]
    assert "is no number in %" in found[2]
    assert "infinite" in found[3]
    assert "missing" in found[4]
    numbers = SCHEMA.faults(table.assign(x=[1.0, np.inf, np.nan, 1, 2, 3], rate="1%", c="u", b=True))
    assert [bool(text) for text in numbers] == [False, True, True, False, False, False]


@pytest.mark.parametrize(("column", "values"), [("rate", [0.1, 0.2]), ("rate", ["$1", "$2"]), ("x", ["1%", "2%"])])
def test_bad_input_another_unit(column, values):
    table = pd.DataFrame({"x": [1.0, 2.0], "rate": ["1%", "2%"], "c": ["u", "v"], "b": [True, False]})
    SCHEMA.check_units(table)
    with pytest.raises(InputError, match=f"Column `{column}` had .* Write them as they were"):
        SCHEMA.check_units(table.assign(**{column: values}))
    if isinstance(values[0], str):
        with pytest.raises(InputError, match="Write them as they were"):
            SCHEMA.encode(table.assign(**{column: values}))
    assert SCHEMA.encode(table.assign(rate=[1.0, 2.0]))[0][1].tolist() == [2.0, 2.0, 1.0, 0.0]


def test_whole_labels_stay_whole():
    table = flagged(pd.DataFrame({"label": [1, 2], "p": [0.5, 0.25]}), np.array(["", "why", ""], dtype=object))
    assert table.to_csv(index=False).splitlines() == ["label,p,problem", "1,0.5,", ",,why", "2,0.25,"]
    with pytest.raises(InputError, match="is called `problem`"):
        flagged(pd.DataFrame({"problem": [1]}), np.array([""], dtype=object))
