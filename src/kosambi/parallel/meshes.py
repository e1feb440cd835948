"""Devices in a rectangle: rows of the data along one side, particles along the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from kosambi._core.checks import as_count
from kosambi._core.meshes import PARTICLES, ROWS
from kosambi.errors import InputError


def mesh(rows: int | None = None, particles: int = 1, devices: Sequence[Any] | None = None) -> Mesh:
    """Devices for one posterior: `rows` parts of the data, times `particles` parts of the draws.

    Arguments:
        rows: parts of the data; as many as there are devices for when None.
        particles: parts of the particles. Chains come in multiples of eight, so 1, 2, 4 and 8 always suit.
        devices: of `jax.devices()`; all those of this process when None. The first rows·particles are used.

    For a trial without accelerators, `XLA_FLAGS=--xla_force_host_platform_device_count=8` makes eight devices of a CPU.

    >>> dict(mesh(rows=1).shape)
    {'rows': 1, 'particles': 1}
    """
    found = list(jax.local_devices() if devices is None else devices)
    particles = as_count("particles", particles)
    rows = max(1, len(found) // particles) if rows is None else as_count("rows", rows)
    if rows * particles > len(found):
        raise InputError(
            f"`mesh(rows={rows}, particles={particles})` needs {rows * particles} devices. There are {len(found)}. Ask "
            "for fewer parts."
        )
    return Mesh(np.array(found[: rows * particles]).reshape(rows, particles), (ROWS, PARTICLES))
