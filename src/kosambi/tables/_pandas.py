"""pandas, imported when it is first needed, and what it takes for missing."""

from __future__ import annotations

from typing import Any

MISSING_TEXT = frozenset(
    ["", "?", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "-nan", "NULL", "null", "None", "#NA", "-NaN", "NaT"]
)
"""Text that stands for a missing value, as pandas has it, and the question mark."""


def pandas() -> Any:
    """The package, imported when it is first needed."""
    try:
        import pandas as pd  # type: ignore[import-untyped]
    except ImportError as error:
        raise ImportError("Tables are read with pandas. Install it with `pip install kosambi[cli]`.") from error
    return pd
