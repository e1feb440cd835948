"""A fork of a process in which JAX had begun is told so; other processes go on."""

from __future__ import annotations

import multiprocessing
import pickle
import subprocess
import sys

import pytest

from kosambi._core import processes
from kosambi.errors import ForkError

FORKED = """
import os, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
import kosambi as ko
begun = sys.argv[1] == "begun"
if begun:
    kernel = ko.kernels.Matern52()
    kernel([[0.0]], [[1.0]])
child = os.fork()
if not child:
    try:
        (kernel if begun else ko.kernels.Matern52())([[0.0]], [[1.0]])
    except ko.errors.ForkError as error:
        os._exit(7 if "spawn" in str(error) else 8)
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(multiprocessing, "get_context") or sys.platform == "win32", reason="no forks here")
@pytest.mark.parametrize(("what", "code"), [("begun", 7), pytest.param("not", 0, marks=pytest.mark.slow)])
def test_a_fork_is_told_instead_of_waiting_for_ever(what, code):
    result = subprocess.run([sys.executable, "-c", FORKED, what], timeout=60, capture_output=True, check=False)
    assert result.returncode == code, result.stderr


def test_every_way_in_asks(monkeypatch):
    import kosambi as ko
    from kosambi.estimators._base import random_key

    model = ko.ProjectedLangevinRegressor(hyperparameters=None)
    kernel = ko.kernels.Matern52()
    monkeypatch.setattr(processes, "_is_broken", True)
    for call in (
        lambda: model.fit([[0.0], [1.0]], [0.0, 1.0]),
        lambda: random_key(0),
        lambda: kernel([[0.0]], [[1.0]]),
        lambda: ko.infer(None, kernel, ko.likelihoods.Gaussian(), [[0.0]], [0.0]),
    ):
        with pytest.raises(ForkError, match="would wait for ever"):
            call()


def test_the_message_reaches_a_parent():
    error = pickle.loads(pickle.dumps(ForkError("why")))
    assert str(error) == "why"


def test_a_jax_that_cannot_be_asked_is_let_pass(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax._src.xla_bridge", None)
    monkeypatch.setattr(processes, "_is_broken", False)
    processes._after_fork()
    processes.check_process()
