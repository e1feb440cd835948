"""What can be known at the start is refused at the start, nothing foreign is replaced, and no work is lost."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import kosambi as ko
from kosambi.cli import _run_folder, _use
from kosambi.files import _container
from tests.cli.houses import REGRESSION

FULL = OSError(28, "No space left on device")


@pytest.fixture
def no_fit(monkeypatch):
    """Nothing is fitted: whoever gets so far has been told too late."""

    def fit(self, *arguments, **options):
        raise AssertionError("the work has begun")

    monkeypatch.setattr(ko.ProjectedLangevinRegressor, "fit", fit)


@pytest.fixture
def quick_fit(monkeypatch, run):
    """A fit that was done before."""

    def fit(self, *arguments, **options):
        vars(self).update(vars(ko.load(run / "model.kosambi")))

    monkeypatch.setattr(ko.ProjectedLangevinRegressor, "fit", fit)


@pytest.mark.parametrize("force", [(), ("--force",)])
@pytest.mark.parametrize(
    ("out", "message"),
    [
        (".", "is the current folder"),
        ("../here", "is the current folder"),
        ("link", "is the current folder"),
        ("..", "contains the current folder"),
        ("/", "contains the current folder"),
        ("../home", "is your home folder"),
        ("../home/..", "contains the current folder"),
        ("/proc", "is where a disk is mounted"),
        ("/proc/run", "cannot be made"),
        ("file", "is a file"),
        ("file/run", "cannot be made"),
        ("x" * 250, "cannot be made: File name too long"),
    ],
)
def test_folders_that_no_run_may_take_the_place_of(cli, data, tmp_path, monkeypatch, no_fit, out, message, force):
    for name in ("here", "home"):
        (tmp_path / name).mkdir()
    (tmp_path / "here" / "file").write_text("mine")
    (tmp_path / "here" / "link").symlink_to(tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    result = cli("fit", data, "--out", out, *REGRESSION, *force)
    assert result.exit_code == 4, result.output
    assert message in result.stderr
    assert sorted(os.listdir(tmp_path / "here")) == ["file", "link"]


def test_an_empty_current_folder_is_not_replaced_either(cli, data, tmp_path, monkeypatch, no_fit):
    monkeypatch.chdir(tmp_path)
    result = cli("fit", data, "--out", ".", *REGRESSION, "--force")
    assert result.exit_code == 4
    assert "`--out run`" in result.stderr


def test_a_folder_that_only_looks_like_a_run_is_not_replaced(cli, data, tmp_path, no_fit):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "report.html").write_text("a page of my own")
    result = cli("fit", data, "--out", tmp_path / "mine", *REGRESSION, "--force")
    assert result.exit_code == 4
    assert "not part of a run: `report.html`" in result.stderr
    assert (tmp_path / "mine" / "report.html").read_text() == "a page of my own"


def test_a_disk_that_is_full_is_heard_of_before_the_work(cli, data, tmp_path, monkeypatch, no_fit):
    def full(handle):
        raise FULL

    monkeypatch.setattr(os, "fsync", full)
    result = cli("fit", data, "--out", tmp_path / "run", *REGRESSION)
    assert result.exit_code == 4
    assert "cannot be made: No space left on device" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_pictures_that_cannot_be_drawn_are_heard_of_before_the_work(cli, data, run, tmp_path, monkeypatch, no_fit):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = cli("fit", data, "--out", tmp_path / "run", *(option for option in REGRESSION if option != "--no-report"))
    assert result.exit_code == 1
    assert "The page needs matplotlib" in result.stderr
    assert "`--no-report`" in result.stderr
    monkeypatch.setattr(_use, "load_run", None)
    assert "The page needs matplotlib" in cli("report", run).stderr
    assert "The page needs matplotlib" in cli("demo", "--out", tmp_path / "demo").stderr
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_cannot_be_written_is_rescued(cli, data, run, tmp_path, monkeypatch, quick_fit):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "elsewhere"))
    write_record = _run_folder.write_record

    def full(folder, record):
        if ".out.partial" in folder.name:
            raise FULL
        write_record(folder, record)

    monkeypatch.setattr(_run_folder, "write_record", full)
    result = cli("fit", data, "--out", tmp_path / "out", *REGRESSION)
    assert result.exit_code == 4
    (rescued,) = (tmp_path / "elsewhere").iterdir()
    assert "No space left on device" in result.stderr
    assert f"written to `{rescued}`" in result.stderr
    assert not (tmp_path / "out").exists()
    assert cli("predict", rescued, data, "--out", tmp_path / "p.csv").exit_code == 0


def test_a_picture_that_fails_does_not_cost_the_run(cli, data, tmp_path, monkeypatch, quick_fit):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "elsewhere"))

    def fail(*arguments, **options):
        raise ZeroDivisionError("a picture")

    monkeypatch.setattr(ko.page, "write", fail)
    result = cli("fit", data, "--out", tmp_path / "out", *(option for option in REGRESSION if option != "--no-report"))
    assert result.exit_code == 1
    assert "ZeroDivisionError: a picture" in result.stderr
    (rescued,) = (tmp_path / "elsewhere").iterdir()
    assert str(rescued) in result.stderr
    assert _run_folder.read_record(rescued)["rows"]["training"] == 72


def test_a_model_that_cannot_be_saved_is_rescued(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "full").mkdir()
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "elsewhere"))
    write = _container._write

    def full(file, *rest):
        if os.path.realpath(f"/proc/self/fd/{file.fileno()}").startswith(str(tmp_path / "full")):
            raise FULL
        write(file, *rest)

    monkeypatch.setattr(_container, "_write", full)
    kernel = ko.kernels.Matern52(lengthscale=0.3)
    with pytest.raises(ko.errors.FileError, match="No space left on device") as caught:
        ko.save(kernel, tmp_path / "full" / "k.kosambi")
    (rescued,) = (tmp_path / "elsewhere").glob("*/k.kosambi")
    assert str(rescued.parent) in str(caught.value)
    assert ko.load(rescued).lengthscale == 0.3
    with pytest.raises(ko.errors.FileError, match="No space left on device"):
        ko.save(kernel, tmp_path / "full" / "k.kosambi", rescue=False)
    assert len(list((tmp_path / "elsewhere").iterdir())) == 1
    assert list((tmp_path / "full").iterdir()) == []


def test_predictions_go_through_links_and_to_regular_files_only(cli, data, run, tmp_path, monkeypatch):
    (tmp_path / "there").mkdir()
    link = tmp_path / "p.csv"
    link.symlink_to(tmp_path / "there" / "real.csv")
    for force in ((), ("--force",)):
        assert cli("predict", run, data, "--out", link, *force).exit_code == 0
        assert link.is_symlink()
        assert len(pd.read_csv(tmp_path / "there" / "real.csv")) == 90
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(_use, "load_run", None)
    for command in (("predict", run, data), ("report", run)):
        for out in (tmp_path / "pipe", "/dev/null"):
            result = cli(*command, "--out", out, "--force")
            assert result.exit_code == 4, result.output
            assert "no regular file" in result.stderr
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_predictions_that_cannot_be_written_are_rescued(cli, data, run, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "elsewhere"))
    sync = os.fsync

    def full(handle):
        if os.path.realpath(f"/proc/self/fd/{handle}").startswith(str(tmp_path / "elsewhere")):
            return sync(handle)
        raise FULL

    monkeypatch.setattr(os, "fsync", full)
    result = cli("predict", run, data, "--out", tmp_path / "p.csv")
    assert result.exit_code == 4
    (rescued,) = (tmp_path / "elsewhere").glob("*/p.csv")
    assert str(rescued.parent) in result.stderr
    assert len(pd.read_csv(rescued)) == 90


@pytest.mark.parametrize("target", ["y", "z"])
def test_names_of_columns_and_files_cannot_command_a_terminal(cli, tmp_path, no_fit, target):
    nasty = "\x1b]0;owned\x07\x9b31m"
    path = tmp_path / f"{nasty}.csv"
    rows = [f"{i},1,{'ab'[i % 2]}{nasty},{i % 7}" for i in range(30)]
    path.write_text("\n".join([f"x{nasty},constant{nasty},group,y", *rows]), encoding="utf-8")
    result = cli("fit", path, "--target", target, "--out", tmp_path / f"run{nasty}", "--no-report")
    assert result.exit_code == (1 if target == "y" else 3)
    assert "\\x1b]0;owned\\x07\\x9b31m" in result.stderr
    assert all(line.isprintable() for line in result.output.splitlines())
    with pytest.raises(ko.errors.InputError) as caught:
        ko.tables.read(path, columns=["none"])
    assert "\x1b" not in str(caught.value)


def test_names_that_are_no_unicode(cli, data, tmp_path, quick_fit):
    """On Linux a name is bytes; those that are no UTF-8 cannot be written to a file as they are."""
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.csv"))
    odd.write_bytes(data.read_bytes())
    out = Path(os.fsdecode(os.fsencode(tmp_path) + b"/run\xfe"))
    result = cli("fit", odd, "--out", out, *REGRESSION)
    assert result.exit_code == 0, result.output
    assert _run_folder.read_record(out)["data"]["file"] == "\\udcff.csv"


def test_python_m_kosambi():
    found = subprocess.run([sys.executable, "-m", "kosambi", "--version"], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (0, f"kosambi {ko.__version__}\n")
