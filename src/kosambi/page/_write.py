"""The page as a file: whole, or not there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from kosambi._core.types import ArrayLike
from kosambi._core.writing import regular_or_absent, write_atomically
from kosambi.errors import FileError, InputError
from kosambi.page._render import render


def write(
    path: str | os.PathLike[str],
    estimator: Any,
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    title: str | None = None,
    source: str | None = None,
    date: str | None = None,
    target: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Write the page about a fitted estimator to one HTML file, and return its path.

    The file appears under its name as a whole or not at all, also if the machine stops in between.

    Arguments:
        path: of the file; its folder must exist.
        estimator: a fitted `ProjectedLangevinRegressor` or `ProjectedLangevinClassifier`.
        X: (n, D), held-out rows; see `render`.
        y: (n,), what was observed there.
        title: the heading.
        source: where the data come from.
        date: a date to show.
        target: what y is called.
        overwrite: whether to replace a file of that name.

    Raises:
        FileError: there is such a file already, or it cannot be written there.
        InputError: an argument does not fit.

    >>> import pathlib, tempfile, numpy as np, kosambi as ko
    >>> x = np.linspace(0.0, 6.0, 40)[:, None]
    >>> model = ko.ProjectedLangevinRegressor(hyperparameters=None, n_inducing=8, n_samples=20).fit(x, np.sin(x[:, 0]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ko.page.write(pathlib.Path(folder) / "sine.html", model, x, np.sin(x[:, 0])).name
    'sine.html'
    """
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise InputError(f"`path` must be the path of a file, as text or a `pathlib.Path`. Got {path!r}.")
    place = Path(path)
    # Before the work, and again after it.
    _refuse(place, overwrite)
    text = render(estimator, X, y, title=title, source=source, date=date, target=target)
    _refuse(place, overwrite)
    try:
        write_atomically(place, text)
    except OSError as error:
        raise FileError(
            f"`{place}` cannot be written: {error.strerror or error}. Check that its folder exists, its permissions "
            "and the free space."
        ) from error
    return place


def _refuse(place: Path, overwrite: bool) -> None:
    if place.is_dir():
        raise FileError(f"`{place}` is a directory. Give the path of a file in it, for example `page.html`.")
    if not regular_or_absent(place):
        raise FileError(f"`{place}` is no regular file. Give the path of a file.")
    if place.exists() and not overwrite:
        raise FileError(f"`{place}` exists already. Pass overwrite=True to replace it, or give another path.")
    if not place.resolve().parent.is_dir():
        raise FileError(f"The directory of `{place}` does not exist. Make it first.")
