"""Predictions as columns of a table."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from kosambi import tables
from kosambi._core.writing import regular_or_absent, rescue, write_atomically
from kosambi.cli._exits import committing
from kosambi.errors import FileError


def prediction_table(estimator: Any, inputs: Any, *, coverage: float, samples: int = 0, seed: int = 0) -> Any:
    """One row per input: the posterior predictive mean, standard deviation (sd) and interval (lower, upper), or labels.

    For labels the most probable one and the probability of each.

    Arguments:
        estimator: fitted.
        inputs: the coded rows, a data frame.
        coverage: of the prediction interval (lower, upper).
        samples: posterior predictive draws, one per column; each column belongs to one function.
        seed: of the draws.
    """
    import pandas as pd  # type: ignore[import-untyped]

    if hasattr(estimator, "classes_"):
        probabilities = np.asarray(estimator.predict_proba(inputs))
        columns = {"label": estimator.classes_[np.argmax(probabilities, axis=1)]}
        columns |= {f"probability_{label}": probabilities[:, k] for k, label in enumerate(estimator.classes_)}
    else:
        mean, deviation = estimator.predict(inputs, return_std=True)
        lower, upper = estimator.predict_interval(inputs, coverage=coverage)
        columns = {"mean": mean, "sd": deviation, "lower": lower, "upper": upper}
    if samples:
        draws = estimator.sample_y(inputs, n_samples=samples, random_state=seed)
        columns |= {f"draw_{j + 1}": draws[:, j] for j in range(samples)}
    return pd.DataFrame(columns)


def write_table(table: Any, out: Path, *, force: bool) -> None:
    """Write a table as CSV, or as Parquet if the name says so; to stdout for `-`. A file is whole or not there.

    In CSV, text that a spreadsheet would take for a formula gets an apostrophe in front.
    """
    write_parts(lambda: iter([table]), out, force=force)


def write_parts(parts: Callable[[], Iterator[Any]], out: Path, *, force: bool) -> None:
    """Write tables that follow each other as one, of which no more than one is in memory.

    Arguments:
        parts: begins the tables anew: they are made twice where the first file cannot be written.
        out: as for `write_table`.
        force: whether to replace what is there.
    """
    if str(out) == "-":
        for number, table in enumerate(parts()):
            tables.guarded_table(table).to_csv(sys.stdout, index=False, header=number == 0)
        sys.stdout.flush()
        return
    check_free(out, force=force)

    def write(path: Path) -> None:
        content = _write_parquet if is_parquet(out) else _write_csv
        write_atomically(path, lambda file: content(parts(), file), commit=committing(path))

    try:
        write(out)
    except OSError as error:
        rescued = rescue(lambda folder: write(folder / out.name))
        raise FileError(f"`{out}` cannot be written: {error.strerror or error}. {rescued}".rstrip()) from error


def _write_csv(parts: Iterator[Any], file: BinaryIO) -> None:
    for number, table in enumerate(parts):
        tables.guarded_table(table).to_csv(file, mode="wb", index=False, header=number == 0, lineterminator="\n")


def _write_parquet(parts: Iterator[Any], file: BinaryIO) -> None:
    parquet, arrow = tables.pyarrow_modules()
    writer = None
    for table in parts:
        rows = arrow.Table.from_pandas(table, preserve_index=False)
        writer = writer or parquet.ParquetWriter(file, rows.schema)
        writer.write_table(rows.cast(writer.schema))
    if writer is not None:
        writer.close()


def is_parquet(out: Path) -> bool:
    """Whether a file of that name is to be Parquet."""
    return out.suffix.lower() in (".parquet", ".pq")


def check_free(out: Path, *, force: bool) -> None:
    """Refuse, before any work is done, a name that is taken or cannot be written."""
    if out.is_dir():
        raise FileError(f"`{out}` is a folder. Give the name of a file.")
    if not regular_or_absent(out):
        raise FileError(f"`{out}` is no regular file. Give the name of a file, or `-` for stdout.")
    if out.exists() and not force:
        raise FileError(f"`{out}` exists. Choose another `--out`, or replace it with `--force`.")
    folder = Path(os.path.realpath(out)).parent
    if not folder.is_dir():
        raise FileError(f"There is no folder `{folder}`. Make it first.")
    if not os.access(folder, os.W_OK):
        raise FileError(f"`{folder}` may not be written to. Choose another `--out`.")
    if is_parquet(out):
        tables.pyarrow_modules()
