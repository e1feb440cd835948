"""The public data sets and the splits of the paper's code."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from kosambi._core.errors import FileError

REGRESSION = ("boston", "concrete", "energy_cooling", "energy_heating", "kin8nm", "wine_quality")
CLASSIFICATION = ("breast", "diabetes", "heart", "ionosphere", "mushrooms", "rice", "wine_colour", "yeast")
ROWS = {
    "boston": 506,
    "concrete": 1030,
    "energy_cooling": 768,
    "energy_heating": 768,
    "kin8nm": 8192,
    "wine_quality": 6497,
    "breast": 683,
    "diabetes": 768,
    "heart": 1025,
    "ionosphere": 351,
    "mushrooms": 1885,
    "rice": 3810,
    "wine_colour": 6497,
    "yeast": 892,
}
"""Rows of each file, all splits together."""


class Part(NamedTuple):
    """Some rows of a data set."""

    x: Float[np.ndarray, "N D"]
    y: Float[np.ndarray, " N"]


class Split(NamedTuple):
    """80, 10 and 10 % of the rows."""

    train: Part
    validation: Part
    test: Part


def path_of(name: str) -> Path:
    """Where the file of a data set is, or should be."""
    usual = Path(__file__).resolve().parents[5] / "shared" / "data"
    return Path(os.environ.get("KOSAMBI_DATA", usual)) / f"{name}.csv.gz"


def read(name: str) -> Part:
    """All rows of a data set: inputs, and the target, which is the last column."""
    path = path_of(name)
    if not path.is_file():
        raise FileError(f"No file {path}. Set KOSAMBI_DATA to a folder that has {path.name}.")
    with gzip.open(path, "rt") as file:
        table = np.genfromtxt(file, delimiter=",", skip_header=1)
    return Part(np.ascontiguousarray(table[:, :-1]), np.ascontiguousarray(table[:, -1]))


def split_rows(number: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers of the training, validation and test rows: the code of the paper splits twice with the same seed.

    >>> [len(rows) for rows in split_rows(506, 0)]
    [404, 51, 51]
    """
    from sklearn.model_selection import train_test_split

    rest, test = train_test_split(np.arange(number), test_size=0.1, random_state=seed)
    train, validation = train_test_split(rest, test_size=1.0 / 9.0, random_state=seed)
    return train, validation, test


def load(name: str, seed: int) -> Split:
    """A split, with x as it is; the target of a regression has training mean 0 and sample deviation 1."""
    x, y = read(name)
    train, *others = split_rows(len(y), seed)
    if name in REGRESSION:
        y = (y - y[train].mean()) / y[train].std(ddof=1)
    parts = [Part(x[rows], y[rows]) for rows in (train, *others)]
    return Split(*parts)


def standardised(split: Split) -> Split:
    """The same with columns of x that have training mean 0 and deviation 1."""
    mean, deviation = split.train.x.mean(axis=0), split.train.x.std(axis=0)
    deviation = np.where(deviation > 0, deviation, 1.0)
    return Split(*(Part((part.x - mean) / deviation, part.y) for part in split))
