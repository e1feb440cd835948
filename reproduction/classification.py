"""Classification of two labels on eight public data sets (the paper's table of classifications)."""

from __future__ import annotations

from pathlib import Path

from reproduction.comparison.data import CLASSIFICATION
from reproduction.comparison.plan import cells as planned
from reproduction.experiment import Cell, Experiment, Found, Scale

LIKELIHOODS = ("bernoulli",)


def cells(scale: Scale) -> list[Cell]:
    """Every method on every data set and split."""
    return planned(scale, CLASSIFICATION, LIKELIHOODS)


def table(found: Found) -> str:
    """Scores, times, and what follows from them."""
    from reproduction.comparison.tables import classification

    return classification(found)


def draw(found: Found, folder: Path) -> list[Path]:
    """Scores against those of kosambi, and against time."""
    from reproduction.comparison.pictures import draw as drawn

    return drawn(found, folder, "classification", CLASSIFICATION, LIKELIHOODS, "log_loss")


EXPERIMENT = Experiment("classification", "Classification on public data", cells, table, draw)
