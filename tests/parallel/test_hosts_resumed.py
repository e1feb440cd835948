"""Two processes, one of which is killed by SIGKILL: both end with a message, and the same commands go on from there."""

from __future__ import annotations

import signal

import numpy as np
import pandas as pd
import pytest

from tests.parallel.test_hosts import WORKER, address, ended, started, table

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "labels.parquet"
    table()[1].to_parquet(path, row_group_size=100, index=False)
    return path


def both(data, out, place, killed=None, answer=0):
    """Exit codes and messages of two processes."""
    where = address()
    processes = [
        started(WORKER, where, 2, k, "fit", data, out / f"{k}.npz", place, answer if k == killed else 0) for k in (0, 1)
    ]
    return [ended(process) for process in processes]


def loaded(path):
    with np.load(path) as file:
        return dict(file)


def test_the_same_commands_go_on_after_one_process_was_killed(data, tmp_path):
    """At its first answers, in its middle and near its end; bit for bit."""
    whole, out, place = tmp_path / "whole", tmp_path / "out", tmp_path / "checkpoint"
    whole.mkdir()
    out.mkdir()
    for code, _, error in both(data, whole, tmp_path / "other"):
        assert code == 0, error
    truth = [loaded(whole / f"{k}.npz") for k in (0, 1)]
    np.testing.assert_array_equal(truth[0]["particles"], truth[1]["particles"])
    total = int(truth[0]["answers"])
    for killed, answer in ((1, 3), (1, total // 2), (0, total - 1)):
        ends = both(data, out, place, killed, answer)
        assert ends[killed][0] == -signal.SIGKILL
        code, _, error = ends[1 - killed]
        assert code == 1
        assert "another process of th" in error
        assert "with a checkpoint they go on from there" in error
        assert (place / f"process-{1 - killed}" / "about.json").exists()
        for k, (code, _, error) in enumerate(both(data, out, place)):
            assert code == 0, error
            found = loaded(out / f"{k}.npz")
            for name in ("particles", "predicted"):
                np.testing.assert_array_equal(found[name], truth[k][name])
            # Threads that learn side by side had not written all that they had found.
            if k == killed:
                assert found["answers"] <= truth[k]["answers"] - answer + 8
        print(f"process {killed} killed at answer {answer} of {total}: the same draws")
        assert not place.exists()


# `kosambi`, whose checkpoint is written at every answer, and which is killed at one of them.
PROGRAM = """
import os, signal, sys
from kosambi._core import checkpoints
from kosambi._core.journal import Book
from kosambi.sources import sweeps
answer, add, found = int(sys.argv.pop(1)), Book.add, 0
def counted(*arguments):
    global found
    found += 1
    if found == answer:
        os.kill(os.getpid(), signal.SIGKILL)
    add(*arguments)
Book.add, sweeps.STRETCH, checkpoints._Folder._on_answer = counted, 0.0, checkpoints._Folder.flush
from kosambi.cli import main
main()
"""


def command(data, out, answer, *further):
    options = ("--target", "y", "--out", out, "--inducing", 8, "--samples", 16, "--no-report", "--memory", "4GB")
    return started("-c", PROGRAM, answer, "fit", data, *options, *further)


@pytest.mark.parametrize("is_shared", [False, True])
def test_the_same_command_line_goes_on_after_a_kill(data, tmp_path, is_shared):
    def run(out, answer=0):
        where = address()
        if not is_shared:
            return [ended(command(data, out, answer))]
        meeting = ("--distributed", "--coordinator", where, "--num-processes", 2, "--process-id")
        # Process 1 is killed.
        return [ended(each) for each in [command(data, out, k * answer, *meeting, k) for k in (0, 1)]]

    for code, _, error in run(tmp_path / "whole"):
        assert code == 0, error
    *others, killed = run(tmp_path / "run", 25)
    assert killed[0] == -signal.SIGKILL
    for code, _, error in others:
        assert code == 1, error
    assert (tmp_path / ".run.checkpoint").is_dir()
    assert not (tmp_path / "run").exists()
    again = run(tmp_path / "run")
    for code, _, error in again:
        assert code == 0, error
    assert "An earlier fit had not ended. This one goes on from" in again[0][2]
    one, other = (pd.read_csv(tmp_path / name / "held_out.csv") for name in ("whole", "run"))
    pd.testing.assert_frame_equal(one, other, check_exact=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "whole"]
