"""A mesh of devices as the layers below `kosambi.parallel` see it: rows of arrays on its devices, functions of rows.

A mesh has the axes `rows` and `particles`. What goes with particles is repeated along the other axis; what is computed
of rows alone, before there are particles, is shared out among all devices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from kosambi._core.precision import compiled
from kosambi._core.types import Array
from kosambi.errors import InputError

ROWS, PARTICLES = "rows", "particles"
"""Names of the axes."""
Spec: Any = PartitionSpec
ALL = Spec((ROWS, PARTICLES))
"""An axis of rows that is shared out among all devices."""


def check_mesh(value: object) -> Mesh:
    """A mesh with the two axes, or an error."""
    if isinstance(value, Mesh) and value.axis_names == (ROWS, PARTICLES):
        return value
    raise InputError(f"`mesh` must come from `kosambi.parallel.mesh(...)`. Got {value!r}.")


def filled(array: Any, parts: int) -> np.ndarray:
    """With copies of the last row until as many rows fall to each of the parts.

    >>> filled(np.arange(5), 4)
    array([0, 1, 2, 3, 4, 4, 4, 4])
    """
    whole = np.asarray(array)
    missing = -len(whole) % parts
    return np.concatenate([whole, np.repeat(whole[-1:], missing, axis=0)]) if missing else whole


def put(array: Any, mesh: Mesh, along: Any) -> Array:
    """A NumPy array on the devices, without a copy of all of it on one of them."""
    return jax.device_put(np.asarray(array), NamedSharding(mesh, along))


def of_rows(mesh: Mesh, function: Callable[..., Any], whole: Any, *rows: np.ndarray) -> Any:
    """`function(whole, *rows)` as NumPy arrays, each device with some of the rows.

    Arguments:
        mesh: whose devices.
        function: of arrays with one entry for each row, which it treats independently; traceable, and always the same
            object, since it is what a program is recognised by.
        whole: what all devices need.
        rows: arrays with as many rows each, one at least.
    """
    number = len(rows[0])
    with jax.enable_x64(True):
        placed = tuple(put(filled(each, mesh.size), mesh, ALL) for each in rows)
        found = on_devices(mesh, function, whole, placed)
        return jax.tree.map(lambda leaf: np.ascontiguousarray(np.asarray(leaf)[:number]), found)


@compiled
def on_devices(mesh: Mesh, function: Callable[..., Any], whole: Any, rows: tuple[Array, ...]) -> Any:
    """The same of arrays that lie on the devices already, where results stay, too.

    What `function` returns need not have an entry for each row: what the devices have is put one after the other.
    """

    def local(whole: Any, rows: tuple[Array, ...]) -> Any:
        return function(whole, *rows)

    # Nothing goes from one device to another.
    return jax.shard_map(local, mesh=mesh, in_specs=(Spec(), ALL), out_specs=ALL, check_vma=False)(whole, rows)
