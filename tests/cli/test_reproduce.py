"""`kosambi reproduce`: goes on where it stopped, says what failed and what is missing, and writes the page."""

import json

import pytest
from typer.testing import CliRunner

from kosambi.cli import _reproduce
from kosambi.cli._app import app
from kosambi.cli._exits import BAD_DATA, FAILURE, INTERRUPTED
from reproduction.experiment import Cell, Experiment

CALLS = []


def doubled(number):
    CALLS.append(number)
    if number < 0:
        raise ValueError("below zero")
    if number == 99:
        raise KeyboardInterrupt
    return {"double": 2 * number}


def small(numbers, needs=()):
    def cells(scale):
        chosen = numbers[:1] if scale.quick else numbers
        return [Cell(f"n{n}", doubled, {"number": n}, needs) for n in chosen]

    def draw(found, folder):
        return []

    return Experiment("poisson", "Small", cells, lambda found: f"{len(found)} numbers", draw)


@pytest.fixture
def call(monkeypatch, tmp_path):
    CALLS.clear()

    def run(entry, *arguments):
        monkeypatch.setattr(_reproduce, "experiment", lambda name: entry)
        monkeypatch.setattr(_reproduce, "NAMES", ("poisson",))
        return CliRunner().invoke(app, ["reproduce", *arguments, "--out", str(tmp_path / "kept")])

    return run


def test_a_second_call_goes_on(call, tmp_path):
    assert call(small([1, 2]), "--quick", "--json").exit_code == 0
    result = call(small([1, 2]), "--json")
    assert result.exit_code == 0
    assert CALLS == [1, 2]
    found = json.loads(result.stdout)["experiments"]["poisson"]
    assert (found["computed"], found["kept"]) == (1, 1)
    assert "2 numbers" in (tmp_path / "kept" / "results.md").read_text()
    assert set(json.loads((tmp_path / "kept" / "poisson.json").read_text())["cells"]) == {"n1", "n2"}


def test_a_part_by_name(call):
    assert call(small([1, 2, 3]), "poisson", "--only", "n3").exit_code == 0
    assert CALLS == [3]
    result = call(small([1]), "--only", "nothing")
    assert result.exit_code == BAD_DATA
    assert "nothing" in result.output


def test_failures_are_told(call):
    result = call(small([-1, 2]))
    assert result.exit_code == FAILURE
    assert "poisson/n-1 failed" in result.output
    assert "1 computed, 0 kept, 1 failed" in result.output


def test_what_is_missing_is_told(call):
    result = call(small([1], needs=("no_such_package",)))
    assert result.exit_code == FAILURE
    assert "no_such_package not installed" in result.output
    assert "kosambi[bench]" in result.output


def test_an_interruption_keeps_what_is_done(call):
    result = call(small([1, 99, 2]))
    assert result.exit_code == INTERRUPTED
    assert "Finished cells are kept" in result.output
    assert call(small([1, 2])).exit_code == 0
    assert CALLS == [1, 99, 2]


def test_bad_input_an_unknown_name():
    result = CliRunner().invoke(app, ["reproduce", "everything"])
    assert result.exit_code == BAD_DATA
    assert "regression" in result.output
