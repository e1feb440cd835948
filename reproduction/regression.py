"""Regression on six public data sets with Gaussian and Student-t noise (the paper's table of regressions)."""

from __future__ import annotations

from pathlib import Path

from reproduction.comparison.data import REGRESSION
from reproduction.comparison.plan import cells as planned
from reproduction.experiment import Cell, Experiment, Found, Scale

LIKELIHOODS = ("gaussian", "student_t")


def cells(scale: Scale) -> list[Cell]:
    """Every method on every data set, likelihood and split."""
    return planned(scale, REGRESSION, LIKELIHOODS)


def table(found: Found) -> str:
    """Scores, times, and what follows from them."""
    from reproduction.comparison.tables import regression

    return regression(found)


def draw(found: Found, folder: Path) -> list[Path]:
    """Scores against those of the exact process, and against time."""
    from reproduction.comparison.pictures import draw as drawn

    return drawn(found, folder, "regression", REGRESSION, LIKELIHOODS, "nll")


EXPERIMENT = Experiment("regression", "Regression on public data", cells, table, draw)
