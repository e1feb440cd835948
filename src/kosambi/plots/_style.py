"""What all pictures share: colours, axes, and text that matplotlib takes as it stands."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Int

from kosambi.errors import InputError

# matplotlib may be missing, so its classes cannot be named.
Axes: TypeAlias = Any

# Okabe and Ito's palette, which colour-blind readers can tell apart; width and lightness tell them apart in grey.
BLACK, ORANGE, BLUE = "#000000", "#D55E00", "#0072B2"
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
