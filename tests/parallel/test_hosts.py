"""Two processes on this machine: the posterior of one; one that dies, or has another file, ends both with a message."""

from __future__ import annotations

import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

WORKER = pathlib.Path(__file__).with_name("worker.py")
# Gloo says what it is connected to.
ENVIRONMENT = {**os.environ, "JAX_PLATFORMS": "cpu"}
pytestmark = pytest.mark.slow


def address():
    """A free port of the loopback interface."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{server.getsockname()[1]}"


def started(*command):
    return subprocess.Popen(
        [sys.executable, *map(str, command)],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process, seconds=300):
    out, error = process.communicate(timeout=seconds)
    return process.returncode, out, error


def both(work, data, out):
    where = address()
    return [started(WORKER, where, 2, k, work, data[k], out / f"{k}.npz") for k in (0, 1)]


def table(seed=0, number=600):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(number, 2))
    f = 1.5 * np.sin(2.0 * x[:, 0]) + x[:, 1]
    y = f + 0.3 * generator.normal(size=number)
    labels = (generator.uniform(size=number) < 1.0 / (1.0 + np.exp(-f))).astype(float)
    return pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": y}), pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": labels})


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    found = {}
    for name, frame in zip(("gaussian", "bernoulli"), table(), strict=True):
        found[name] = folder / f"{name}.parquet"
        frame.to_parquet(found[name], row_group_size=100, index=False)
    found["csv"], found["other"] = folder / "rows.csv", folder / "other.parquet"
    table()[0].to_csv(found["csv"], index=False)
    table(1)[0].to_parquet(found["other"], row_group_size=100, index=False)
    return found


@pytest.mark.parametrize("work", ["gaussian", "bernoulli"])
def test_two_processes_draw_what_one_draws(files, tmp_path, work):
    data = files[work]
    code, _, error = ended(started(WORKER, "none", 1, 0, work, data, tmp_path / "one.npz"))
    assert code == 0, error
    for process in both(work, (data, data), tmp_path):
        code, _, error = ended(process)
        assert code == 0, error
    alone = np.load(tmp_path / "one.npz")
    for k in (0, 1):
        found = np.load(tmp_path / f"{k}.npz")
        assert found["rows"] == 600
        for name in ("mean", "variance", "particles", "evidence"):
            np.testing.assert_allclose(found[name], alone[name], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(("work", "dead"), [("waiting", 1), ("busy", 1), ("busy", 0)])
def test_a_process_that_is_killed_ends_the_other_within_a_minute(files, tmp_path, work, dead):
    """Whether the other one waits for it or computes. A new start is a new run."""
    processes = both(work, (files["gaussian"],) * 2, tmp_path)
    for process in processes:
        # Gloo's lines come first.
        while "begun" not in (line := process.stdout.readline()):
            assert line, process.stderr.read()
    os.kill(processes[dead].pid, signal.SIGKILL)
    began = time.monotonic()
    code, _, error = ended(processes[1 - dead])
    seconds = time.monotonic() - began
    processes[dead].communicate()
    print(f"{work}, process {dead} killed: {seconds:.1f} s, exit code {code}")
    assert code == 1
    assert seconds < 60
    assert "another process of th" in error
    assert "tart all of them again" in error
    if work == "waiting":
        for process in both("gaussian", (files["gaussian"],) * 2, tmp_path):
            assert ended(process)[0] == 0


def test_different_files_are_refused_by_name(files, tmp_path):
    for process in both("gaussian", (files["gaussian"], files["other"]), tmp_path):
        code, _, error = ended(process)
        assert code == 1
        assert "InputError: The processes of this run differ in" in error
        assert "`gaussian.parquet` on process 0, `other.parquet` on process 1" in error


def test_the_command_line_writes_one_run(files, tmp_path):
    """The same predictions as one process that reads the file as a stream."""

    def command(out, *further):
        options = (
            "--target",
            "y",
            "--out",
            out,
            "--inducing",
            "8",
            "--samples",
            "16",
            "--no-report",
            "--memory",
            "4GB",
        )
        return started("-m", "kosambi", "fit", files["gaussian"], *options, *further)

    where = address()
    shared = [
        command(tmp_path / "two", "--distributed", "--coordinator", where, "--num-processes", 2, "--process-id", k)
        for k in (0, 1)
    ]
    outputs = [ended(process) for process in shared]
    assert [code for code, *_ in outputs] == [0, 0], outputs
    assert "The run is in" in outputs[0][1]
    assert outputs[0][1].startswith("regression")
    assert outputs[1][1] == ""
    code, _, error = ended(command(tmp_path / "one"))
    assert code == 0, error
    a, b = (pd.read_csv(tmp_path / name / "held_out.csv") for name in ("one", "two"))
    np.testing.assert_allclose(a.to_numpy(), b.to_numpy(), rtol=1e-8, atol=1e-8)
