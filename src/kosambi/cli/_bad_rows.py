"""New rows that cannot be predicted: stop, leave them out, or write them without predictions."""

from __future__ import annotations

from typing import Any

import numpy as np

from kosambi import tables
from kosambi.cli._data import encoded
from kosambi.errors import InputError

PROBLEM = "problem"
"""The column that says why a row has no prediction."""
_REMEDY = "`--on-bad-row skip` leaves such rows out, and `--on-bad-row flag` writes them without predictions."


def usable_rows(schema: tables.Schema, estimator: Any, table: Any, on_bad_row: str) -> tuple[Any, np.ndarray]:
    """The coded rows that can be predicted, None if none can, and (N,) texts that say why the others cannot.

    Arguments:
        schema: of the run.
        estimator: of the run.
        table: the new rows as `tables.read` gives them, whose index has their numbers in the file.
        on_bad_row: "error", "skip" or "flag".

    Raises:
        InputError: with "error" a row cannot be predicted.
    """
    if on_bad_row == "error":
        return _all_rows(schema, estimator, table)
    return _good_rows(schema, estimator, table)


def check_any(faults: np.ndarray) -> None:
    """Refuse a table of which no row can be predicted."""
    if np.all(faults != ""):
        raise InputError(f"No row can be predicted: {tables.first_of(faults)}. Correct them, or fit again with them.")


def _good_rows(schema: tables.Schema, estimator: Any, table: Any) -> tuple[Any, np.ndarray]:
    """The coded rows that can be predicted, None if there are none, and what is wrong with each of the others."""
    faults = schema.faults(table)
    if not np.any(faults == ""):
        return None, faults
    inputs = encoded(schema, table[faults == ""])
    too_far = _too_far(estimator, inputs)
    faults[faults == ""] = too_far
    return (inputs[too_far == ""] if np.any(too_far == "") else None), faults


def _all_rows(schema: tables.Schema, estimator: Any, table: Any) -> tuple[Any, np.ndarray]:
    """As most tables are: looked at row by row only after something was found to be wrong."""
    reason, start = "", int(table.index[0])
    try:
        inputs = encoded(schema, table)
        schema.check_units(table)
        faults = _too_far(estimator, inputs)
        if np.all(faults == ""):
            return inputs, faults
    except InputError as error:
        _, faults = _good_rows(schema, estimator, table)
        if np.all(faults != "") or np.all(faults == ""):
            if not start:
                raise
            raise InputError(f"Rows {start + 1:,} to {start + len(table):,}: {error}") from error
        reason = f"{error} "
    raise InputError(f"{reason}{tables.first_of(faults, start)}. {_REMEDY}")


def _too_far(estimator: Any, inputs: Any) -> np.ndarray:
    """(N,) texts: which number of a coded row is so large that nothing can be computed; empty where none is."""
    is_near = np.asarray(estimator.is_within_reach(inputs))
    found = np.full(len(inputs), "", dtype=object)
    for row in np.nonzero(~is_near.all(axis=1))[0]:
        place = int(np.argmin(is_near[row]))
        found[row] = f"`{inputs.columns[place]}` is {inputs.iat[row, place]:g}, too far out for anything to be computed"
    return found


def flagged(predictions: Any, faults: np.ndarray) -> Any:
    """Predictions of all rows in their order: empty where there is none, with a column that says why."""
    import pandas as pd  # type: ignore[import-untyped]

    if PROBLEM in predictions:
        raise InputError(f"A column of predictions is called `{PROBLEM}`, as is that of `--on-bad-row flag`.")
    # Whole numbers stay whole beside empty cells.
    whole = [name for name in predictions if pd.api.types.is_integer_dtype(predictions[name].dtype)]
    predictions = predictions.astype(dict.fromkeys(whole, "Int64"))
    predictions = predictions.set_axis(np.nonzero(faults == "")[0], axis=0).reindex(np.arange(len(faults)))
    predictions[PROBLEM] = pd.Series(faults, dtype="string").replace("", pd.NA)
    return predictions
