"""`kosambi reproduce`: the experiments of the paper, run again beside their rivals.

An experiment is a list of cells (`experiment`), each computed once and kept (`store`, `run`), a table and figures; all
of them make one page (`page`).
"""

from __future__ import annotations

import importlib

from kosambi._core.errors import InputError
from reproduction.experiment import Experiment

NAMES = ("regression", "classification", "poisson", "shift", "complexity", "convergence", "optimal")


def experiment(name: str) -> Experiment:
    """The experiment with this name."""
    if name not in NAMES:
        raise InputError(f"`name` is {name!r}. Choose one of {', '.join(NAMES)}.")
    found: Experiment = importlib.import_module(f"reproduction.{name}").EXPERIMENT
    return found
