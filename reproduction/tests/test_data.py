"""Where data sets are found, what is said of those that are not, how they are fetched, and how rows are split."""

from __future__ import annotations

import gzip
import hashlib
import re
import types
import urllib.error

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets

from kosambi.errors import FileError
from reproduction.comparison import data
from reproduction.experiment import NAMES, Scale, named

OPEN = [name for name in data.ROWS if name not in data.ON_OPENML]


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """No folder but an empty one, which takes the place of reproduction/data."""
    monkeypatch.delenv("KOSAMBI_DATA", raising=False)
    monkeypatch.setattr(data, "ROOT", tmp_path / "repository")
    monkeypatch.setattr(data, "OPEN", tmp_path)
    return tmp_path


def test_the_open_data_sets_are_in_the_repository_as_stated(monkeypatch):
    stated = dict(re.findall(r"^([0-9a-f]{64})  (\w+)\.csv\.gz$", (data.OPEN / "PROVENANCE.md").read_text(), re.M))
    files = {path.name.split(".")[0]: path for path in data.OPEN.glob("*.csv.gz")}
    assert set(stated.values()) == set(OPEN)
    for digest, name in stated.items():
        assert hashlib.sha256(files[name].read_bytes()).hexdigest() == digest
    # What git ignores may lie there too, and nothing else.
    assert set(files) - set(OPEN) <= set(data.ON_OPENML)


@pytest.mark.parametrize("name", list(data.ROWS))
def test_row_counts_are_those_of_the_files(name):
    if data.find(name) is None:
        pytest.skip(data.where_to_get(name))
    x, y = data.read(name)
    assert len(x) == len(y) == data.ROWS[name]
    assert np.isfinite(x).all()
    assert set(y) == {0, 1} if name in data.CLASSIFICATION else len(set(y)) > 5


def test_the_order_of_the_folders(nowhere, monkeypatch):
    beside, named_folder = nowhere / "shared" / "data", nowhere / "named"
    for folder in (beside, named_folder):
        folder.mkdir(parents=True)
    assert data.find("yeast") is None
    for folder in (beside, nowhere, named_folder):
        with gzip.open(folder / "yeast.csv.gz", "wt") as file:
            file.write("a,target\n1.5,0\n2.5,1\n")
        monkeypatch.setenv("KOSAMBI_DATA", str(named_folder))
        assert data.find("yeast") == folder / "yeast.csv.gz"
    monkeypatch.delenv("KOSAMBI_DATA")
    assert data.find("yeast") == nowhere / "yeast.csv.gz"
    np.testing.assert_array_equal(data.read("yeast").x, [[1.5], [2.5]])


def test_what_is_not_there_is_told_with_a_remedy(nowhere):
    with pytest.raises(FileError, match=r"No file boston\.csv\.gz .*python -m reproduction --fetch.* KOSAMBI_DATA"):
        data.read("boston")
    with pytest.raises(FileError, match=r"No file coal_yearly\.csv\.gz .* Set KOSAMBI_DATA"):
        data.read("coal_yearly")


def test_the_quick_run_needs_no_other_data():
    needed = {name for experiment in NAMES for cell in named(experiment).cells(Scale(quick=True)) for name in cell.data}
    assert needed == {"concrete", "energy_cooling", "breast", "ionosphere"}
    assert needed <= set(OPEN)


def test_cells_know_their_data():
    for experiment in NAMES:
        for cell in named(experiment).cells(Scale()):
            words = {value for value in cell.arguments.values() if isinstance(value, str)}
            assert words & {*data.ROWS, "coal_yearly"} == set(cell.data)


def openml(rows=506):
    """What scikit-learn returns for boston: floats, and categories that are numbers in words."""
    rng = np.random.default_rng(0)
    x = pd.DataFrame({"CRIM": rng.normal(size=rows), "RAD": pd.Categorical(rng.choice(["1", "24", "3"], rows))})
    return types.SimpleNamespace(data=x, target=pd.Series(rng.normal(size=rows), name="MEDV"))


def test_fetched_data_are_kept_as_they_are(nowhere, monkeypatch):
    found = openml()
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", lambda *_, **__: found)
    with pytest.warns(UserWarning, match="another order of rows"):
        path = data.fetch("boston", nowhere)
    assert data.find("boston") == path
    x, y = data.read("boston")
    np.testing.assert_array_equal(x[:, 0], found.data["CRIM"])
    np.testing.assert_array_equal(x[:, 1], found.data["RAD"].astype(str).astype(float))
    np.testing.assert_array_equal(y, found.target)


def test_rows_as_in_the_results_are_no_surprise(nowhere, monkeypatch, recwarn):
    found = openml()
    table = np.column_stack([found.data["CRIM"], found.data["RAD"].astype(str).astype(float), found.target])
    monkeypatch.setitem(data._FINGERPRINTS, "boston", hashlib.sha256(table.tobytes()).hexdigest())
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", lambda *_, **__: found)
    data.fetch("boston", nowhere)
    assert not recwarn.list


def test_bad_input_fetching_fails_with_a_remedy(nowhere, monkeypatch):
    def offline(*_, **__):
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", offline)
    with pytest.raises(FileError, match=r"no network.* openml\.org .* boston\.csv\.gz .* KOSAMBI_DATA"):
        data.fetch("boston", nowhere)
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", lambda *_, **__: openml(rows=100))
    with pytest.raises(FileError, match="100 rows, not 506"):
        data.fetch("boston", nowhere)
    with pytest.raises(FileError, match="yeast is not fetched"):
        data.fetch("yeast", nowhere)
    assert not list(nowhere.glob("*.gz"))


def test_splits_are_those_of_scikit_learn_and_share_no_row():
    from sklearn.model_selection import train_test_split

    train, validation, test = data.split_rows(768, 3)
    rest, expected = train_test_split(np.arange(768), test_size=0.1, random_state=3)
    np.testing.assert_array_equal(test, expected)
    np.testing.assert_array_equal(train, train_test_split(rest, test_size=1 / 9, random_state=3)[0])
    assert [len(train), len(validation), len(test)] == [614, 77, 77]
    np.testing.assert_array_equal(np.sort(np.concatenate([train, validation, test])), np.arange(768))


def test_the_target_of_a_regression_is_standardised_by_its_training_rows_and_x_is_not():
    split = data.load("concrete", 0)
    assert abs(split.train.y.mean()) < 1e-12
    assert split.train.y.std(ddof=1) == pytest.approx(1.0)
    assert split.train.x.max() > 100
    assert data.ROWS["concrete"] == sum(len(part.y) for part in split)
    scaled = data.standardised(split)
    np.testing.assert_allclose(scaled.train.x.std(axis=0), 1.0)
    np.testing.assert_array_equal(scaled.test.y, split.test.y)
