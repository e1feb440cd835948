"""Which input columns a kernel looks at, and whether its parameters fit them.

Squared Euclidean distances between two lists of points, without an N×M×D array.

The value is summed from coordinate differences, so that no digits are lost to |a|² + |b|² − 2ab when inputs sit far
from the origin, and equal points are at distance zero (or one rounding of a coordinate, where the compiler fuses a
scaling into the subtraction). The derivative is two matrix products.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.errors import InputError
from kosambi._core.types import Array


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


# Columns summed in one fused pass over the N×M matrix; more columns take several passes.
COLUMNS_PER_PASS = 16


@jax.custom_jvp
def squared_distance(x: Float[Array, "N D"], z: Float[Array, "M D"]) -> Float[Array, "N M"]:
    """Σ_d (x_nd − z_md)²."""
    num_columns = x.shape[1]
    if num_columns <= COLUMNS_PER_PASS:
        return _sum_of_squares(x.T, z.T)
    passes = -(-num_columns // COLUMNS_PER_PASS)
    padding = ((0, 0), (0, passes * COLUMNS_PER_PASS - num_columns))
    x_passes = jnp.pad(x, padding).T.reshape(passes, COLUMNS_PER_PASS, -1)
    z_passes = jnp.pad(z, padding).T.reshape(passes, COLUMNS_PER_PASS, -1)

    def add(total: Array, columns: tuple[Array, Array]) -> tuple[Array, None]:
        return total + _sum_of_squares(*columns), None

    start = jnp.zeros((x.shape[0], z.shape[0]), dtype=jnp.result_type(x, z))
    return jax.lax.scan(add, start, (x_passes, z_passes))[0]


def _sum_of_squares(x_columns: Float[Array, "C N"], z_columns: Float[Array, "C M"]) -> Float[Array, "N M"]:
    total = jnp.square(x_columns[0][:, None] - z_columns[0][None, :])
    for x_column, z_column in zip(x_columns[1:], z_columns[1:], strict=True):
        total = total + jnp.square(x_column[:, None] - z_column[None, :])
    return total


@squared_distance.defjvp
def _squared_distance_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    x, z = primals
    x_dot, z_dot = tangents
    # Centred first: the derivative does not change, and the products below lose no digits to a common offset.
    centre = jax.lax.stop_gradient(jnp.mean(z, axis=0))
    x_c, z_c = x - centre, z - centre
    own = jnp.sum(x_c * x_dot, axis=1)[:, None] + jnp.sum(z_c * z_dot, axis=1)[None, :]
    return squared_distance(x, z), 2.0 * (own - x_c @ z_dot.T - x_dot @ z_c.T)
