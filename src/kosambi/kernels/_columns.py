"""Which input columns a kernel looks at, and whether its parameters fit them."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from kosambi._types import Array
from kosambi.errors import InputError


def as_active_dims(name: str, active_dims: object) -> tuple[int, ...] | None:
    """Checked column numbers, or None for all columns."""
    if active_dims is None:
        return None
    given = [active_dims] if isinstance(active_dims, int | np.integer) else list(active_dims)  # type: ignore[call-overload]
    whole = all(isinstance(d, int | np.integer) and not isinstance(d, bool) and d >= 0 for d in given)
    if not given or not whole or len(set(given)) != len(given):
        raise InputError(
            f"`{name}(active_dims=...)` must list different column numbers, each 0 or more. Got {active_dims!r}. "
            "For the first and third column write active_dims=[0, 2]."
        )
    return tuple(int(d) for d in given)


def check_selected(name: str, active_dims: tuple[int, ...] | None, per_column: dict[str, Any], columns: int) -> None:
    """Check `active_dims` and each parameter that has one entry a column against the number of input columns."""
    if active_dims is not None and max(active_dims) >= columns:
        raise InputError(
            f"`{name}` uses column {max(active_dims)}, but the inputs have {columns} columns, numbered from 0. "
            "Change `active_dims`, or pass inputs with more columns."
        )
    selected = columns if active_dims is None else len(active_dims)
    for parameter, value in per_column.items():
        # Leaves of a pytree may be placeholders without a shape, as `jax.tree.map` makes them.
        if getattr(value, "ndim", 0) == 1 and value.shape[0] not in (1, selected):
            raise InputError(
                f"`{name}` has {value.shape[0]} entries in `{parameter}` for {selected} input columns. "
                "Give one entry a column, or a single number for all."
            )


def min_columns(active_dims: tuple[int, ...] | None, *per_column: Any) -> int:
    """The smallest number of input columns that has the active ones and fits the parameters."""
    if active_dims is not None:
        return max(active_dims) + 1
    return max(value.size for value in per_column)


def select(x: Float[Array, "N D"], active_dims: tuple[int, ...] | None) -> Float[Array, "N A"]:
    """The columns that a kernel looks at."""
    return x if active_dims is None else x[:, np.asarray(active_dims)]
