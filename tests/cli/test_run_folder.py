"""Runs are written as a whole or not at all, also when a process is killed."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

from kosambi.cli import _run_folder
from kosambi.errors import FileError

WRITER = """
import os, sys, time
from pathlib import Path
from kosambi.cli import _run_folder
sync, source, out = os.fsync, Path(sys.argv[1]), Path(sys.argv[2])
def slow(handle):
    time.sleep(0.01)
    sync(handle)
os.fsync = slow
print("ready", flush=True)
number = 0
while True:
    number += 1
    with _run_folder.writing(out, force=True) as folder:
        for name in ("model.kosambi", "held_out.csv"):
            data = (source / name).read_bytes() + str(number).encode()
            for start in range(0, len(data), 4096):
                with open(folder / name, "ab") as file:
                    file.write(data[start : start + 4096])
        _run_folder.write_record(folder, {"number": number})
"""

SLOW_FIT = """
import os, sys, time
sync = os.fsync
def slow(handle):
    time.sleep(1.0)
    sync(handle)
os.fsync = slow
from kosambi.cli import main
main()
"""

ENDLESS_FIT = """
import signal
import time
# A shell starts what runs in the background with this signal ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
import kosambi as ko
def endless(self, *arguments, **options):
    print("fitting", flush=True)
    time.sleep(60)
ko.ProjectedLangevinRegressor.fit = endless
from kosambi.cli import main
main()
"""


def start(code, *arguments):
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_killed_at_any_time_a_folder_is_whole_or_not_there(run, tmp_path):
    out = tmp_path / "run"
    generator = random.Random(0)
    numbers = []
    for _ in range(10):
        child = start(WRITER, run, out)
        assert child.stdout.readline() == "ready\n"
        time.sleep(generator.uniform(0.0, 0.5))
        child.kill()
        child.communicate()
        if out.exists():
            numbers.append(_run_folder.read_record(out)["number"])
        # What is left beside it belongs to a dead process and goes, or goes back to its place.
        _run_folder.prepare(out, force=True)
        assert {path.name for path in tmp_path.iterdir()} <= {"run"}
    assert len(numbers) > 3


@pytest.mark.slow
def test_a_fit_killed_while_writing_leaves_no_run_and_the_next_one_cleans_up(cli, data, run, tmp_path):
    out = tmp_path / "out"
    options = ("-t", "price", "--features", "size", "--impute", "--inducing", "5", "--no-report", "--out", out)
    child = start(SLOW_FIT, "fit", data, *options)
    deadline = time.monotonic() + 90
    while not (partial := list(tmp_path.glob(".out.partial-*"))) or not any(partial[0].iterdir()):
        assert child.poll() is None, child.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.checkpoint", partial[0].name]
    result = cli("predict", out, data, "-o", tmp_path / "p.csv")
    assert result.exit_code == 4
    # A half-written folder under the right name would be refused as well.
    shutil.copytree(partial[0], out)
    result = cli("predict", out, data, "-o", tmp_path / "p.csv")
    assert result.exit_code == 4
    assert "incomplete or damaged" in result.stderr
    shutil.rmtree(out)
    result = cli("fit", data, *options)
    assert result.exit_code == 0, result.output
    assert f"Removed `{partial[0].name}`" in result.stderr
    # The work of the fit itself is not done again.
    assert "An earlier fit had not ended" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.slow
def test_interrupted_nothing_is_written(data, tmp_path):
    child = start(ENDLESS_FIT, "fit", data, "-t", "price", "--impute", "--out", tmp_path / "out")
    assert child.stdout.readline() == "fitting\n"
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=30)
    assert child.returncode == 130
    assert "Interrupted" in errors
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


def dead_process():
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def test_a_run_that_was_about_to_be_replaced_is_put_back(run, tmp_path):
    old = tmp_path / f".run.old-{dead_process()}-0123abcd"
    shutil.copytree(run, old)
    notes = _run_folder.prepare(tmp_path / "run", force=True)
    assert "the old run was put back" in notes[0]
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    _run_folder.read_record(tmp_path / "run")


def test_what_a_living_process_writes_is_left_alone(tmp_path):
    theirs = tmp_path / f".run.partial-{os.getpid()}-0123abcd"
    theirs.mkdir()
    assert _run_folder.prepare(tmp_path / "run", force=False) == []
    assert theirs.exists()


def test_a_failure_while_writing_keeps_the_old_run(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")

    def fail():
        with _run_folder.writing(tmp_path / "run", force=True) as folder:
            (folder / "model.kosambi").write_text("new")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert json.loads((tmp_path / "run" / "run.json").read_text()) == json.loads((run / "run.json").read_text())


def test_bad_input_places(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="is a file"):
        _run_folder.prepare(tmp_path / "file", force=True)
    with pytest.raises(FileError, match="cannot be made"), _run_folder.writing(tmp_path / "file" / "run", force=True):
        pass
    (tmp_path / "empty").mkdir()
    assert _run_folder.prepare(tmp_path / "empty", force=False) == []
    with _run_folder.writing(tmp_path / "empty", force=False) as folder:
        (folder / "run.json").write_text("{}")
    assert (tmp_path / "empty" / "run.json").exists()
