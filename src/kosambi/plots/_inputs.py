"""Tables of inputs for estimators: numbers to change, names to show, and the kind of table that was fitted."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from kosambi._types import ArrayLike
from kosambi.errors import InputError, as_inputs


def as_columns(estimator: Any, X: ArrayLike) -> tuple[Float[np.ndarray, "N D"], list[str]]:
    """The numbers of a table and the names of its columns: its own, those of the fit, or x0, x1 and so on."""
    given = getattr(X, "columns", None)
    names = [str(name) for name in (getattr(estimator, "feature_names_in_", ()) if given is None else given)]
    array = np.asarray(as_inputs("X", X, getattr(estimator, "n_features_in_", None)))
    if len(names) != array.shape[1]:
        names = ["x"] if array.shape[1] == 1 else [f"x{d}" for d in range(array.shape[1])]
    return array, names


def as_fitted(estimator: Any, array: Float[np.ndarray, "N D"]) -> Any:
    """Rows in the form that the estimator was fitted with, so that it finds its column names."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        return array
    try:
        import pandas as pd  # type: ignore[import-untyped]
    except ImportError:
        import polars as pl  # type: ignore[import-not-found, unused-ignore]

        return pl.DataFrame(dict(zip(map(str, names), array.T, strict=True)))
    return pd.DataFrame(array, columns=list(names))


def as_column_number(feature: object, names: list[str]) -> int:
    """The number of a column that was given by number or by name."""
    if isinstance(feature, str) and names.count(feature) == 1:
        return names.index(feature)
    is_whole = isinstance(feature, int | np.integer) and not isinstance(feature, bool)
    if is_whole and 0 <= feature < len(names):  # type: ignore[operator]
        return int(feature)  # type: ignore[call-overload]
    last, shown = len(names) - 1, ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
    raise InputError(f"`feature` must be a column number from 0 to {last}, or one of {shown}. Got {feature!r}.")
