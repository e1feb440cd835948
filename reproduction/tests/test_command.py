"""`python -m reproduction`: goes on where it stopped, says what failed and what is missing, and writes the page."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kosambi.cli._exits import BAD_DATA, BAD_FILE, FAILURE, INTERRUPTED, TERMINATED
from reproduction import command
from reproduction.comparison import data
from reproduction.experiment import Cell, Experiment

CALLS = []


def doubled(number):
    CALLS.append(number)
    if number < 0:
        raise ValueError("below zero")
    if number == 99:
        raise KeyboardInterrupt
    return {"double": 2 * number}


def small(numbers, needs=(), data=()):
    def cells(scale):
        chosen = numbers[:1] if scale.quick else numbers
        return [Cell(f"n{n}", doubled, {"number": n}, needs, data) for n in chosen]

    def draw(found, folder):
        return []

    return Experiment("poisson", "Small", cells, lambda found: f"{len(found)} numbers", draw)


@pytest.fixture
def call(monkeypatch, tmp_path):
    CALLS.clear()

    def run(entry, *arguments):
        monkeypatch.setattr(command, "named", lambda name: entry)
        monkeypatch.setattr(command, "NAMES", ("poisson",))
        return CliRunner().invoke(command.app, [*arguments, "--out", str(tmp_path / "kept")])

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
    result = call(small([1], needs=("no_such_package",)), "--quiet")
    assert result.exit_code == FAILURE
    assert "no_such_package not installed" in result.output
    assert "reproduction/requirements.txt" in result.output
    result = call(small([1], data=("no_such_data",)), "--json")
    assert result.exit_code == FAILURE
    assert "no data no_such_data. No file no_such_data.csv.gz" in result.stderr
    assert "KOSAMBI_DATA" in result.stderr
    found = json.loads(result.stdout)["experiments"]["poisson"]
    assert found["left_out"] == {"n1": {"data": ["no_such_data"]}}


def test_data_are_fetched_when_asked_for_and_needed(call, monkeypatch, tmp_path):
    fetched = []

    def fetch(name):
        fetched.append(name)
        (tmp_path / f"{name}.csv.gz").write_bytes(b"")
        return tmp_path / f"{name}.csv.gz"

    monkeypatch.setattr(data, "folders", lambda: [tmp_path])
    monkeypatch.setattr(data, "fetch", fetch)
    assert call(small([1], data=("boston",))).exit_code == FAILURE
    assert not fetched
    assert call(small([1], data=("boston",)), "--fetch").exit_code == 0
    assert call(small([1], data=("boston",)), "--fetch").exit_code == 0
    assert fetched == ["boston"]
    # What is done needs no data.
    (tmp_path / "boston.csv.gz").unlink()
    assert call(small([1], data=("boston",)), "--fetch").exit_code == 0
    assert fetched == ["boston"]


def test_an_interruption_keeps_what_is_done(call):
    result = call(small([1, 99, 2]))
    assert result.exit_code == INTERRUPTED
    assert "Finished cells are kept" in result.output
    assert call(small([1, 2])).exit_code == 0
    assert CALLS == [1, 99, 2]


WAITING = """
import sys
import time
from kosambi.cli._exits import heeding_signals
from reproduction import command
from reproduction.experiment import Cell, Experiment

def nap(seconds):
    time.sleep(seconds)
    return {}

if __name__ == "__main__":
    cells = [Cell("first", nap, {"seconds": 0}), *(Cell(f"later{n}", nap, {"seconds": 600}) for n in range(4))]
    entry = Experiment("poisson", "Small", lambda scale: cells, lambda found: "", lambda found, folder: [])
    command.named, command.NAMES = (lambda name: entry), ("poisson",)
    with heeding_signals():
        command.main(["--jobs", "2", "--out", sys.argv[1]])
"""


def _is_alive(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, INTERRUPTED), (signal.SIGTERM, TERMINATED)])
def test_a_signal_ends_all_processes_and_keeps_what_is_done(tmp_path, number, code):
    script = tmp_path / "waiting.py"
    script.write_text(WAITING)
    root = str(Path(__file__).resolve().parents[2])
    process = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "kept")],
        env={**os.environ, "PYTHONPATH": root},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    first = tmp_path / "kept" / "cells" / "poisson" / "first.json"
    deadline = time.monotonic() + 120
    while not first.is_file() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid, number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Finished cells are kept" in said
    assert [path.stem for path in first.parent.glob("*.json")] == ["first"]
    deadline = time.monotonic() + 30
    while _is_alive(process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _is_alive(process.pid), "a process that computes is left"


def test_bad_input_an_unknown_name_and_a_file_in_the_way(tmp_path):
    result = CliRunner().invoke(command.app, ["everything"])
    assert result.exit_code == BAD_DATA
    assert "regression" in result.output
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(command.app, ["--out", str(tmp_path / "file")])
    assert result.exit_code == BAD_FILE
    assert "--out" in result.output


def test_the_program_runs_from_the_root_of_the_repository():
    root = Path(__file__).resolve().parents[2]
    result = subprocess.run([sys.executable, "-m", "reproduction", "--help"], cwd=root, capture_output=True, text=True)
    assert result.returncode == 0
    assert "--only" in result.stdout
