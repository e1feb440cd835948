"""Refusing observations and weights that a target cannot have."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_float_array, is_traced
from kosambi._core.types import Array, ArrayLike
from kosambi.errors import InputError
from kosambi.likelihoods import Gaussian

FARTHEST = 1e150
"""Standard deviations of the noise, and weights, beyond which squares and sums are no numbers."""


def check_length(name: str, values: Array, x: Array) -> None:
    """Refuse numbers that are not one per row of x."""
    if values.shape[0] != x.shape[0]:
        raise InputError(f"`{name}` has {values.shape[0]} entries for {x.shape[0]} rows of x. Give one for each row.")


def check_standardised(
    likelihood: Gaussian, error: Float[np.ndarray, " N"], weights: Float[np.ndarray, " N"] | None
) -> None:
    """Refuse observations whose squared distance from the prior mean, in units of the noise, is no number."""
    with np.errstate(all="ignore"):
        times = 1.0 if weights is None else weights
        distance = np.abs(error) / np.asarray(likelihood.row_noise) * np.sqrt(times)
        precision = times * np.square(1.0 / np.asarray(likelihood.row_noise))
    is_wrong = ~(distance < FARTHEST)
    if is_wrong.any() or not np.all(np.isfinite(precision)):
        row, noise = int(np.argmax(is_wrong)), float(np.min(likelihood.row_noise))
        raise InputError(
            f"`y` lies {distance[row]:.2g} standard deviations of the noise from the prior mean in row {row}, with a "
            f"noise of {noise:.2g}: its square cannot be represented. Correct this row, rescale y and the noise, or "
            "give a larger noise."
        )


def as_weights(weights: ArrayLike, x: Array) -> Float[Array, " N"]:
    """Checked counts of the data, (N,)."""
    array = as_float_array("weights", weights)
    if array.shape != (x.shape[0],):
        raise InputError(f"`weights` must have shape ({x.shape[0]},), one per row of x. Got shape {array.shape}.")
    if not is_traced(array) and (not np.all(np.isfinite(array)) or np.any(array < 0)):
        raise InputError("`weights` must be finite and not negative. Clip them at zero, or drop those rows.")
    if not is_traced(array) and np.any(array > FARTHEST):
        row = int(np.argmax(array))
        raise InputError(
            f"`weights` has {array[row]:.2g} in row {row}, and sums of such weights cannot be represented. A weight "
            "says how often a row counts: correct this one."
        )
    return array
