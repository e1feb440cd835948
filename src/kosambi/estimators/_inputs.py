"""What comes in through scikit-learn's methods: no masks, no numbers whose squares leave floating point.

And what is done about observations that are all equal.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from sklearn.utils.validation import _check_sample_weight, validate_data

from kosambi._core.long_tables import row_blocks
from kosambi._core.processes import check_process
from kosambi.errors import HyperparameterWarning, InputError
from kosambi.likelihoods import AbstractLikelihood, Gaussian, HeteroscedasticGaussian

FARTHEST = 1e150
"""Standard deviations from the mean beyond which an input is refused: the square of more is infinite."""


def validated(estimator: Any, X: Any, y: Any = "no_validation", **options: Any) -> Any:
    """What scikit-learn's `validate_data` gives; masked entries are refused, which it would take for numbers."""
    check_process()
    refuse_masked("X", X)
    if not isinstance(y, str):
        refuse_masked("y", y)
    return validate_data(estimator, X, y, **options)


def refuse_masked(name: str, value: Any) -> None:
    """Raise for a masked array some entries of which are masked.

    >>> import numpy as np
    >>> refuse_masked("y", np.ma.masked_array([1.0, 2.0], mask=[False, True]))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    kosambi.errors.InputError: `y` has 1 masked entry (row 1), and a mask says that the number below it is not ...
    """
    if not np.ma.is_masked(value):
        return
    mask = np.ma.getmaskarray(value)
    rows = np.unique(np.nonzero(mask)[0])
    number = int(mask.sum())
    shown = ", ".join(str(row) for row in rows[:5]) + (", ..." if len(rows) > 5 else "")
    raise InputError(
        f"`{name}` has {number} masked entr{'ies' if number > 1 else 'y'} (row{'s' if len(rows) > 1 else ''} {shown}), "
        "and a mask says that the number below it is not to be used. Leave these rows out, or fill them in, with "
        f"`{name}.filled(...)` or an imputer in a pipeline, and pass a plain array."
    )


def checked_weights(sample_weight: Any, x: np.ndarray) -> Float[np.ndarray, " n"]:
    """Weights of the rows, ones when None; refused if none is positive."""
    refuse_masked("sample_weight", sample_weight)
    weights = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
    if np.max(weights) > FARTHEST:
        row = int(np.argmax(weights))
        raise InputError(
            f"`sample_weight` has {weights[row]:.2g} in row {row}, and sums of such weights cannot be represented. A "
            "weight says how often a row counts: correct this one."
        )
    if not np.any(weights > 0):
        raise InputError("`sample_weight` is zero everywhere. Give some row a positive weight.")
    return np.asarray(weights)


def is_near(
    x: Float[np.ndarray, "N D"], mean: Float[np.ndarray, " D"], scale: Float[np.ndarray, " D"]
) -> Bool[np.ndarray, "N D"]:
    """Whether (x − mean)/scale can be squared."""
    with np.errstate(over="ignore"):
        return np.abs((x - mean) / scale) < FARTHEST


def standardised(
    x: Float[np.ndarray, "N D"],
    mean: Float[np.ndarray, " D"],
    scale: Float[np.ndarray, " D"],
    names: Any = None,
    out: Float[np.ndarray, "N D"] | None = None,
) -> Float[np.ndarray, "N D"]:
    """(x − mean)/scale; raises if an input lies so far out that its distance to the data is no number any more.

    Arguments:
        x: the inputs, finite.
        mean: of each column.
        scale: of each column, positive.
        names: of the columns, for the message; None where they have none.
        out: where to write them, which may be x itself; a new array when None.
    """
    out = np.empty(x.shape) if out is None else out
    for part in row_blocks(len(x)):
        if not is_near(x[part], mean, scale).all():
            _refuse_far(x, mean, scale, names)
        np.divide(x[part] - mean, scale, out=out[part])
    return out


def _refuse_far(x: np.ndarray, mean: np.ndarray, scale: np.ndarray, names: Any) -> None:
    far = ~is_near(x, mean, scale)
    row, column = np.argwhere(far)[0]
    label = f"column {column}" if names is None else f"column {column} (`{names[column]}`)"
    rows = int(far.any(axis=1).sum())
    others = f" {rows - 1} more rows are as far out." if rows > 1 else ""
    raise InputError(
        f"`X` has {x[row, column]:g} in row {row}, {label}, more than {FARTHEST:g} standard deviations from the "
        f"mean of the training rows, {mean[column]:g}: nothing can be computed there.{others} Correct these "
        "cells, leave their rows out, or take logarithms of the column before the fit."
    )


def check_units(y: Float[np.ndarray, " N"], scale: float) -> None:
    """Refuse observations whose variance is no number: predictions would be infinite or NaN."""
    largest = float(np.max(np.abs(y)))
    if not largest < FARTHEST or not scale > 1.0 / FARTHEST:
        size = largest if largest >= FARTHEST else scale
        raise InputError(
            f"`y` has values of the size {size:.3g} (row {int(np.argmax(np.abs(y)))} has {largest:g}), whose variance "
            f"cannot be represented. Divide y by {size:.1g}, and multiply predictions by it."
        )


def for_equal_observations(likelihood: AbstractLikelihood, y: Float[np.ndarray, " N"]) -> AbstractLikelihood:
    """The likelihood to fit: another one where all observations are equal and noise was to vary.

    Noise that varies is then driven towards zero at every row, and a search for it ends nowhere after thousands of
    steps. What can be said is that y is constant, which Gaussian noise says in closed form.
    """
    is_equal = float(np.ptp(y)) <= 1e-13 * float(np.max(np.abs(y)))
    if not is_equal or not isinstance(likelihood, HeteroscedasticGaussian):
        return likelihood
    warnings.warn(
        f"`y` is {y[0]:g} in all {len(y)} rows. That says nothing about noise that varies with the inputs, so "
        "`Gaussian` noise was fitted instead of `HeteroscedasticGaussian`. Give rows that "
        "differ, or leave the model out.",
        HyperparameterWarning,
        stacklevel=3,
    )
    return Gaussian.standard()
