"""The public data sets, where their files are, and the splits of the paper's code.

A file is `NAME.csv.gz`: a header, inputs first, the target last. It is looked for in the folder that the environment
variable KOSAMBI_DATA names, then in `reproduction/data`, which has the data sets with an open licence (see
PROVENANCE.md there), then in `shared/data` beside the repository. boston and kin8nm state no licence; `fetch` gets them
from OpenML when it is asked to.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from kosambi._core.writing import write_atomically
from kosambi.errors import FileError

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
ROOT = Path(__file__).resolve().parents[2]
"""The repository."""
OPEN = ROOT / "reproduction" / "data"
"""The folder of the data sets with an open licence, and of those that were fetched."""
# SHA-256 of the numbers (float64, row by row) that docs/results was computed with.
_FINGERPRINTS = {
    "boston": "832e894115c56dd24ec63848d4a3d9bd921d268d0be1bee2a8f4ee5ea318f5f7",
    "kin8nm": "7fad37438fc1228ed099177766b084fb5577bf7457d7a6460f8d0389b21681ab",
}
ON_OPENML = tuple(_FINGERPRINTS)
"""Data sets without a licence, which OpenML has under the same name."""


class Part(NamedTuple):
    """Some rows of a data set."""

    x: Float[np.ndarray, "N D"]
    y: Float[np.ndarray, " N"]


class Split(NamedTuple):
    """80, 10 and 10 % of the rows."""

    train: Part
    validation: Part
    test: Part


def folders() -> list[Path]:
    """Where files are looked for, in this order."""
    named = os.environ.get("KOSAMBI_DATA")
    return [*([Path(named)] if named else []), OPEN, ROOT.parent / "shared" / "data"]


def find(name: str) -> Path | None:
    """The file of a data set, or None where no folder has it."""
    paths = (folder / f"{name}.csv.gz" for folder in folders())
    return next((path for path in paths if path.is_file()), None)


def where_to_get(name: str) -> str:
    """What to do about a file that is not there."""
    fetched = "`python -m reproduction --fetch` gets it from OpenML, or set" if name in ON_OPENML else "Set"
    return (
        f"No file {name}.csv.gz in {' or '.join(map(str, folders()))}. {fetched} KOSAMBI_DATA to a folder that has it; "
        "reproduction/data/PROVENANCE.md says what it must look like."
    )


def read(name: str) -> Part:
    """All rows of a data set: inputs, and the target, which is the last column."""
    path = find(name)
    if path is None:
        raise FileError(where_to_get(name))
    with gzip.open(path, "rt") as file:
        table = np.genfromtxt(file, delimiter=",", skip_header=1)
    return Part(np.ascontiguousarray(table[:, :-1]), np.ascontiguousarray(table[:, -1]))


def fetch(name: str, folder: Path = OPEN) -> Path:
    """Get a data set from OpenML and keep it in a folder.

    Splits are by row number. A warning says if the rows are not those, in that order, of the results in docs/results.
    """
    from sklearn.datasets import fetch_openml

    if name not in ON_OPENML:
        raise FileError(f"{name} is not fetched from OpenML. {where_to_get(name)}")
    try:
        found = fetch_openml(name, version=1, as_frame=True, parser="auto")
    except (OSError, ValueError) as error:
        raise FileError(
            f"OpenML did not give {name} ({type(error).__name__}: {error}). Try again when there is a network, or get "
            f"version 1 of {name} from openml.org on another machine, write it as {name}.csv.gz (a header, inputs, the "
            "target last) and set KOSAMBI_DATA to the folder that it is in."
        ) from None
    # Columns with few values come as categories, whose names are the numbers.
    columns = [*(found.data[column] for column in found.data.columns), found.target]
    table = np.column_stack([column.astype(str).astype(float).to_numpy() for column in columns])
    if len(table) != ROWS[name] or not np.isfinite(table).all():
        raise FileError(f"OpenML's {name} has {len(table)} rows, not {ROWS[name]} with a number everywhere.")
    if hashlib.sha256(np.ascontiguousarray(table).tobytes()).hexdigest() != _FINGERPRINTS[name]:
        warnings.warn(
            f"OpenML's {name} has other digits or another order of rows than the file behind docs/results, so that "
            "splits with the same seed hold other rows.",
            stacklevel=2,
        )
    header = ",".join([*map(str, found.data.columns), "target"])
    text = "\n".join([header, *(",".join(repr(float(value)) for value in row) for row in table)]) + "\n"
    path = folder / f"{name}.csv.gz"
    write_atomically(path, gzip.compress(text.encode(), mtime=0))
    return path


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
    """A split, with x as it is; the target of a regression has training mean 0 and sample standard deviation 1."""
    x, y = read(name)
    train, *others = split_rows(len(y), seed)
    if name in REGRESSION:
        y = (y - y[train].mean()) / y[train].std(ddof=1)
    parts = [Part(x[rows], y[rows]) for rows in (train, *others)]
    return Split(*parts)


def standardised(split: Split) -> Split:
    """The same with columns of x that have training mean 0 and standard deviation 1."""
    mean, deviation = split.train.x.mean(axis=0), split.train.x.std(axis=0)
    deviation = np.where(deviation > 0, deviation, 1.0)
    return Split(*(Part((part.x - mean) / deviation, part.y) for part in split))
