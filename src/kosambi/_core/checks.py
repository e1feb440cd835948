"""The checks that every public call makes of its arguments.

Checks look at values, so they apply to concrete arguments only: under a JAX trace the shapes are checked and the values
pass.
"""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import Bool, Float

from kosambi._core.types import Array, ArrayLike, Key
from kosambi.errors import InputError, NumericalError


def is_traced(value: object) -> bool:
    """Whether any array inside `value` is being traced, so that it has a shape but no numbers."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(value))


def as_float_array(name: str, value: ArrayLike) -> Array:
    """`value` copied to a contiguous float64 NumPy array, or as it is under a trace; what nobody can write to stays."""
    if is_traced(value):
        return jax.numpy.asarray(value)
    if np.ma.is_masked(value):
        raise InputError(f"`{name}` has masked entries. Drop or impute those rows, and pass a plain array.")
    try:
        given = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"`{name}` must be an array of numbers. Got {_described(value)} of type {type(value).__name__}, of which "
            "no array can be made. Give rows of equal length."
        ) from error
    try:
        if given.dtype.kind not in "biufO":
            raise TypeError(given.dtype)
        if _is_frozen(given):
            return given
        # A copy, so that nobody changes what an object holds by writing to the array it was made from.
        return np.array(given, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"`{name}` must hold numbers. Got {_described(value)} of type {given.dtype}. "
            "Convert it to a numeric array first."
        ) from error


def _is_frozen(array: np.ndarray) -> bool:
    """Whether this is a contiguous float64 array whose numbers no array can write to."""
    if array.dtype != np.float64 or not array.flags.c_contiguous or type(array) is not np.ndarray:
        return False
    own: object = array
    while isinstance(own, np.ndarray) and not own.flags.writeable:
        own = own.base
    return own is None


def check_finite(name: str, array: Array) -> None:
    """Refuse NaN and infinity, saying how many there are and in which rows."""
    if is_traced(array):
        return
    # One sum, since next to always all is well.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.sum(array)):
            return
    bad = ~np.isfinite(array)
    if bad.any():
        rows = np.unique(np.nonzero(np.atleast_1d(bad))[0])
        shown = ", ".join(str(row) for row in rows[:5]) + (", ..." if rows.size > 5 else "")
        raise InputError(
            f"`{name}` must be finite. Got {int(bad.sum())} NaN or infinite values (rows {shown}). "
            "Drop or impute those rows."
        )


def finite_rows(call: str, values: Array, x: Array, axis: int = 0) -> Array:
    """`values` at the rows of x, which are along `axis`; raises if `call` found none that are finite somewhere."""
    if is_traced((values, x)):
        return values
    host = np.asarray(values)
    # One sum, since next to always all is well.
    with np.errstate(over="ignore", invalid="ignore"):
        is_well = bool(np.isfinite(np.sum(host)))
    if not is_well:
        others = tuple(each for each in range(host.ndim) if each != axis)
        check_rows(call, np.isfinite(host).all(axis=others), x)
    return values


def check_rows(call: str, is_number: Bool[np.ndarray, " N"], x: Float[Array, "N D"]) -> None:
    """Raise where `call` found no number at a row of x, instead of handing infinity or NaN over in silence."""
    if is_number.all():
        return
    row, number = int(np.argmin(is_number)), int(np.sum(~is_number))
    raise NumericalError(
        f"`{call}` has overflowed, and found no number at {number} of {len(x)} inputs; the first is row {row}, "
        f"{np.array2string(np.asarray(x[row]), threshold=6, precision=4)}. Inputs so far out, lengthscales so short, "
        "or variances so large leave the range of floating point: correct these rows, or rescale the inputs."
    )


def as_inputs(name: str, value: ArrayLike, num_columns: int | None = None, *, allow_empty: bool = False) -> Array:
    """A checked matrix of inputs, (N, D): two-dimensional, not empty, finite, with `num_columns` columns if given."""
    array = as_float_array(name, value)
    if array.ndim != 2:
        remedy = f"Write `{name}[:, None]` for a single input column" if array.ndim == 1 else "Flatten each row"
        raise InputError(f"`{name}` must be a matrix of shape (N, D). Got shape {array.shape}. {remedy}.")
    if array.shape[1] == 0 or (array.shape[0] == 0 and not allow_empty):
        raise InputError(f"`{name}` is empty: shape {array.shape}. Give at least one row and one column of inputs.")
    if num_columns is not None and array.shape[1] != num_columns:
        raise InputError(
            f"`{name}` has {array.shape[1]} columns, but {num_columns} are expected. "
            "Pass the same input columns as before, in the same order."
        )
    check_finite(name, array)
    return array


def as_positive(name: str, value: ArrayLike, *, max_ndim: int = 0) -> Array:
    """A checked positive parameter: a number, or up to `max_ndim` axes of them, each finite and above zero."""
    array = as_float_array(name, value)
    if array.ndim > max_ndim or 0 in array.shape:
        allowed = "a number" if max_ndim == 0 else "a number or a list of numbers, one per column"
        raise InputError(f"`{name}` must be {allowed}. Got shape {array.shape}.")
    if not is_traced(array) and not (np.all(np.isfinite(array)) and np.all(array > 0)):
        raise InputError(f"`{name}` must be positive and finite. Got {_described(value)}. Use a value above zero.")
    return array


def as_number(name: str, value: ArrayLike) -> Array:
    """One finite number."""
    number = as_float_array(name, value)
    if number.ndim != 0 or not (is_traced(number) or np.isfinite(number)):
        raise InputError(f"`{name}` must be a finite number. Got {_described(value)}.")
    return number


def as_level(name: str, value: ArrayLike) -> float:
    """One number between 0 and 1."""
    level = as_float_array(name, value)
    if level.ndim != 0 or not 0.0 < float(level) < 1.0:
        raise InputError(f"`{name}` must be a number between 0 and 1. Got {value!r}. For 95 % write 0.95.")
    return float(level)


def as_few(name: str, value: object) -> int:
    """A checked whole number, 0 or more."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise InputError(f"`{name}` must be a whole number, 0 or more. Got {value!r}.")
    return int(value)


def as_count(name: str, value: object, *, at_most: int | None = None, limit_name: str = "") -> int:
    """A checked whole number, at least 1 and at most `at_most`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputError(f"`{name}` must be a whole number. Got {value!r} of type {type(value).__name__}.")
    if value < 1:
        raise InputError(f"`{name}` must be at least 1. Got {value}.")
    if at_most is not None and value > at_most:
        raise InputError(f"`{name}` must be at most {at_most}, {limit_name}. Got {value}. Ask for fewer.")
    return int(value)


def check_key(value: object) -> Key:
    """Refuse anything that is not one JAX random key."""
    if isinstance(value, jax.Array | np.ndarray):
        typed = jax.numpy.issubdtype(value.dtype, jax.dtypes.prng_key)
        if (typed and value.ndim == 0) or (value.dtype == np.uint32 and value.shape in ((2,), (4,))):
            return value
        raise InputError(
            f"`key` must be a single random key. Got an array of shape {value.shape} and type {value.dtype}. "
            "Use `jax.random.key(0)`."
        )
    raise InputError(f"`key` must be a random key. Got {value!r}. Use `jax.random.key(0)`.")


def _described(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else text[:57] + "..."
