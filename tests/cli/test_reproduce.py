"""`kosambi reproduce`: hands over to the folder `reproduction` of the repository, or says where that is."""

from __future__ import annotations

import sys
import types

import pytest
from typer.testing import CliRunner

from kosambi.cli import _reproduce
from kosambi.cli._app import app
from kosambi.cli._exits import BAD_FILE


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """Installed from a wheel, in a folder of one's own."""
    monkeypatch.setattr(_reproduce, "_CHECKOUT", tmp_path / "site-packages")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def put(folder):
    (folder / "reproduction").mkdir(parents=True)
    (folder / "reproduction" / "command.py").write_text("")


@pytest.mark.parametrize("arguments", [[], ["--help"], ["regression", "--quick", "--jobs", "2"]])
def test_without_the_repository_it_says_where_it_is(elsewhere, arguments):
    # Results of an earlier version, not the experiments.
    (elsewhere / "reproduction").mkdir()
    result = CliRunner().invoke(app, ["reproduce", *arguments])
    assert result.exit_code == BAD_FILE
    assert result.stdout == ""
    for part in ("folder `reproduction`", "repository", "requirements.txt", "python -m reproduction --quick"):
        assert part in result.stderr


@pytest.mark.parametrize("where", ["beside the source", "in the current folder"])
def test_arguments_are_handed_over_as_they_are(elsewhere, monkeypatch, where):
    place = elsewhere / "site-packages" if where == "beside the source" else elsewhere
    put(place)
    calls = []

    def main(arguments, program):
        calls.append((list(arguments), program, sys.path[0]))
        raise SystemExit(7)

    for name, module in (
        ("reproduction", types.ModuleType("reproduction")),
        ("reproduction.command", types.SimpleNamespace(main=main)),
    ):
        monkeypatch.setitem(sys.modules, name, module)
    given = ["shift", "--quick", "--only", "paper", "-o", "here", "--jobs", "2", "--help", "-q", "--no-such-option"]
    assert CliRunner().invoke(app, ["reproduce", *given]).exit_code == 7
    assert calls == [(given, "kosambi reproduce", str(place))]


def test_the_source_goes_before_the_current_folder(elsewhere):
    assert _reproduce.find_repository() is None
    put(elsewhere)
    assert _reproduce.find_repository() == elsewhere
    put(elsewhere / "site-packages")
    assert _reproduce.find_repository() == elsewhere / "site-packages"


def test_the_help_of_the_program_names_it_without_looking_for_it(elsewhere):
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    assert "reproduce" in result.stdout
    assert str(elsewhere) not in sys.path
