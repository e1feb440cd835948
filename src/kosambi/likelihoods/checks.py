"""Checks of observations, with messages that show the values and say what to do."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from kosambi._core.errors import InputError, as_float_array, check_finite, is_traced
from kosambi._core.types import Array, ArrayLike


def as_observations(name: str, y: ArrayLike) -> Float[Array, " N"]:
    """A vector of finite observations, at least one; `name` is that of the likelihood, for messages."""
    array = as_float_array("y", y)
    if array.ndim != 1:
        raise InputError(
            f"`{name}` needs y of shape (N,). Got shape {array.shape}. Write `np.ravel(y)` for one column."
        )
    if array.shape[0] == 0:
        raise InputError(f"`{name}` needs at least one observation. Got an empty y.")
    check_finite("y", array)
    return array


def as_labels(name: str, y: ArrayLike, num_labels: int, remedy: str) -> Float[Array, " N"]:
    """Labels 0, 1, …, `num_labels` − 1."""
    array, last = as_observations(name, y), num_labels - 1
    allowed = (array >= 0) & (array <= last) & (array == np.round(array))
    return check_values(name, array, allowed, f"in {{0, ..., {last}}}", remedy)


def check_values(name: str, y: Array, allowed: Array, needed: str, remedy: str) -> Array:
    """Refuse observations outside the range of a likelihood, showing a few of them."""
    if not is_traced(y) and not np.all(allowed):
        bad = np.unique(np.asarray(y)[~np.asarray(allowed)])
        shown = ", ".join(f"{value:g}" for value in bad[:4]) + (", ..." if bad.size > 4 else "")
        raise InputError(f"`{name}` needs y {needed}. Got values {shown}. {remedy}")
    return y
