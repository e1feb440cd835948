"""What all pictures share: colours, axes, and text that matplotlib takes as it stands.

Tables of inputs for estimators: numbers to change, names to show, and the kind of table that was fitted.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float, Int

from kosambi._core.checks import as_inputs
from kosambi._core.types import ArrayLike
from kosambi.errors import InputError
from kosambi.plots.dates import shown_name

# matplotlib may be missing, so its classes cannot be named.
Axes: TypeAlias = Any

# Okabe and Ito's palette, which colour-blind readers can tell apart; width and lightness tell them apart in grey.
BLACK = "#000000"
"""Of data."""
ORANGE = "#D55E00"
"""Of draws, and of what is wrong."""
BLUE = "#0072B2"
"""Of means and bands."""
# One colour a class, the lightest of the palette last because it is hard to see on white.
CLASS_COLOURS = (BLUE, ORANGE, "#009E73", "#CC79A7", "#56B4E9", "#E69F00", BLACK, "#F0E442")
CLASS_STYLES = ("-", "--", ":", "-.")


def as_axes(axes: Axes | None, size: tuple[float, float]) -> Axes:
    """The axes that were given, checked, or those of a new figure."""
    if axes is not None and not hasattr(axes, "set_xlabel"):
        raise InputError(f"`axes` must be one matplotlib `Axes`. Got {type(axes).__name__}. Pass one, as `axes[0]`.")
    if axes is not None:
        return axes
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("`plots` needs matplotlib. Install it with `pip install kosambi[plots]`.") from error
    axes = plt.subplots(figsize=size, layout="constrained")[1]
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def class_style(number: int) -> dict[str, str]:
    """Colour and line of one class; beyond eight classes the colours come again with another line."""
    colours, styles = len(CLASS_COLOURS), len(CLASS_STYLES)
    return {"color": CLASS_COLOURS[number % colours], "ls": CLASS_STYLES[(number // colours) % styles]}


def plain(text: object) -> str:
    """Text of the user's: dollars are no formula, and a leading underscore does not hide a legend entry."""
    words = str(text).replace("$", r"\$")
    return " " + words if words.startswith("_") else words


def spread(total: int, at_most: int) -> Int[np.ndarray, " L"]:
    """Numbers below `total`, at most so many, evenly spread and always the same."""
    return np.unique(np.linspace(0, total - 1, min(total, at_most)).round().astype(int))


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
    for known in (names, [shown_name(name) for name in names]):
        if isinstance(feature, str) and known.count(feature) == 1:
            return known.index(feature)
    is_whole = isinstance(feature, int | np.integer) and not isinstance(feature, bool)
    if is_whole and 0 <= feature < len(names):  # type: ignore[operator]
        return int(feature)  # type: ignore[call-overload]
    last, shown = len(names) - 1, ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
    raise InputError(f"`feature` must be a column number from 0 to {last}, or one of {shown}. Got {feature!r}.")
