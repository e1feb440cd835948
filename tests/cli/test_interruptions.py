"""Ctrl-C and SIGTERM at any moment: the exit code says so, soon, and the old run is as it was."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from kosambi.cli import _exits
from kosambi.cli._run_folder import digest
from tests.cli.houses import REGRESSION

# Sends the program the signal that it was given, at a moment.
PROGRAM = """
import builtins, os, signal, sys, time
number = int(sys.argv.pop(1))
# A shell starts what runs in the background with this signal ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

def send(*arguments, **options):
    print("sent", flush=True)
    os.kill(os.getpid(), number)

def before(owner, name):
    function = getattr(owner, name)
    def patched(*arguments, **options):
        send()
        return function(*arguments, **options)
    setattr(owner, name, patched)

def fitted(self, *arguments, **options):
    import kosambi as ko
    vars(self).update(vars(ko.load(os.environ["RUN"] + "/model.kosambi")))

def without_fit(fit=fitted):
    import kosambi as ko
    ko.ProjectedLangevinRegressor.fit = fit
"""
START = "\nfrom kosambi.cli import main\nmain()\n"

MOMENTS = {
    "import": """
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "jax":
            send()
sys.meta_path.insert(0, Finder())
""",
    "compile": """
import jax.monitoring
jax.monitoring.register_event_duration_secs_listener(
    lambda event, seconds, **_: send() if event.endswith("jaxpr_trace_duration") else None)
""",
    "search": """
from kosambi.learning import without_points
before(without_points, "minimise")
""",
    "choice of points": """
from kosambi.learning import selection
before(selection, "greedy_path")
""",
    "sampling": """
from kosambi.samplers import chains
before(chains, "advance")
""",
    "evaluation": """
without_fit()
from kosambi.cli import _fit
before(_fit, "_metrics")
""",
    "writing": """
without_fit()
from kosambi.files import _container
before(_container, "_write")
""",
    "trial of the place": """
without_fit()
before(os, "fsync")
""",
    "an exception that is dropped": """
def fit(self, *arguments, **options):
    fitted(self)
    try:
        send()
        time.sleep(0.1)
    except KeyboardInterrupt:
        pass
without_fit(fit)
""",
    "an exception that is dropped while writing": """
without_fit()
from kosambi.cli import _run_folder
write_record = _run_folder.write_record
def writing(*arguments):
    write_record(*arguments)
    try:
        send()
        time.sleep(0.1)
    except KeyboardInterrupt:
        pass
_run_folder.write_record = writing
""",
    "code that lets no Python run": """
import hashlib, threading
def fit(self, *arguments, **options):
    threading.Timer(0.2, send).start()
    hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)
without_fit(fit)
""",
}
# Both signals, with and without Python running.
QUICK = ("writing",)
# Inside the fit, whose checkpoint is kept.
KEPT = ("compile", "search", "choice of points", "sampling")


def interrupted(moment, number, run, data, out):
    command = [sys.executable, "-c", PROGRAM + MOMENTS[moment] + START, str(int(number)), "fit", str(data), *REGRESSION]
    return subprocess.Popen(
        [*command, "--likelihood", "student_t", "--force", "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "RUN": str(run)},
    )


@pytest.mark.parametrize("moment", [pytest.param(m, marks=() if m in QUICK else pytest.mark.slow) for m in MOMENTS])
def test_the_old_run_is_kept(moment, run, data, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(run, out)
    before = {path.name: digest(path) for path in out.iterdir()}
    number, code, word = signal.SIGINT, 130, "Interrupted"
    if len(moment) % 2:
        number, code, word = signal.SIGTERM, 143, "Terminated"
    child = interrupted(moment, number, run, data, out)
    assert child.stdout.readline() == "sent\n", child.communicate()[1]
    begin = time.monotonic()
    _, errors = child.communicate(timeout=120)
    seconds = time.monotonic() - begin
    print(f"{moment}: {seconds:.2f} s from the signal to the end")
    assert child.returncode == code, errors
    kept = moment in KEPT
    assert (f"{word}. No run was written. What was found" if kept else f"{word}. Nothing was written.") in errors
    assert "Traceback" not in errors
    # A busy machine is given more.
    assert seconds < 5 * _exits.GRACE
    assert {path.name: digest(path) for path in out.iterdir()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ([".run.checkpoint"] if kept else []) + ["run"]


@pytest.mark.slow
def test_a_run_that_takes_its_place_does_so_as_a_whole(run, data, tmp_path):
    """Between two renames there is no run, and a signal waits."""
    out = tmp_path / "run"
    shutil.copytree(run, out)
    code = PROGRAM + 'without_fit()\nbefore(os, "rename")\n' + START
    command = [sys.executable, "-c", code, str(int(signal.SIGINT)), "fit", str(data), *REGRESSION]
    child = subprocess.run(
        [*command, "--force", "--out", str(out)],
        capture_output=True,
        text=True,
        env={**os.environ, "RUN": str(run)},
        check=False,
    )
    assert child.returncode == 130
    assert f"Interrupted. Written before that: `{out}`." in child.stderr
    assert digest(out / "run.json") != digest(run / "run.json")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.slow
def test_predictions_are_not_replaced_after_a_signal(run, data, tmp_path):
    out = tmp_path / "p.csv"
    out.write_text("old")
    code = PROGRAM + 'before(os, "fsync")\n' + START
    command = [sys.executable, "-c", code, str(int(signal.SIGTERM)), "predict", str(run), str(data), "--out", str(out)]
    child = subprocess.run([*command, "--force"], capture_output=True, text=True, check=False)
    assert child.returncode == 143, child.stderr
    assert out.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["p.csv"]


@pytest.mark.slow
def test_a_search_that_is_interrupted_gives_no_score():
    """What scikit-learn takes for a score must not be that of half a search."""
    code = """
import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
import numpy as np, kosambi as ko
from kosambi.learning.without_points import WithoutPoints
from sklearn.model_selection import cross_val_score
def interrupted(*arguments):
    os.kill(os.getpid(), signal.SIGINT)
WithoutPoints.search = interrupted
x = np.linspace(0.0, 6.0, 30)[:, None]
print(cross_val_score(ko.ProjectedLangevinRegressor(n_samples=20), x, np.sin(x[:, 0]), cv=3))
"""
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert child.returncode in (130, -signal.SIGINT)
    assert child.stderr.strip().endswith("KeyboardInterrupt")
    assert child.stdout == ""
