"""How much memory rows may take: what the user says, what the process has, and what a block of rows needs."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

import jax
import numpy as np

from kosambi._core.process_memory import resident
from kosambi.errors import InputError
from kosambi.sources.base import AT_ONCE

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
# The share of the machine's memory that a fit takes where nobody says.
_DEFAULT_SHARE = 0.5
PROGRAMS = 300 * 10**6
"""What compiled programs and libraries take beside what the process has already."""
# The least that is left for rows.
_LEAST = 50 * 10**6
# Matrices of a block of rows, and of the sample, with as many columns as there are coordinates, that exist at once.
# With an accelerator those of a block are in its memory.
_PER_BLOCK, _PER_SAMPLE = 5, 14
_FEWEST_ROWS, MOST_SAMPLED = 2**9, 20_000
"""The smallest block, and rows of the sample beyond which learning from it would take longer than passes do."""


class Plan(NamedTuple):
    """How many rows are held at once."""

    max_memory: int
    """Bytes that the process may take."""
    block_rows: int
    """Rows of a block; a power of two, so that blocks of all sizes end where digests do."""
    sample_rows: int
    """Rows that stay in memory, to learn from."""


def as_bytes(value: object, name: str = "max_memory") -> int:
    """A number of bytes from a number, or from text such as "2GB" or "512 MiB".

    >>> as_bytes("2GB"), as_bytes("1.5 KiB"), as_bytes(10)
    (2000000000, 1536, 10)
    """
    if isinstance(value, str):
        match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?)\s*([A-Za-z]*)\s*", value)
        if match is not None and match[2].upper() in _UNITS and float(match[1]) > 0:
            return int(float(match[1]) * _UNITS[match[2].upper()])
    elif isinstance(value, int | float | np.number) and not isinstance(value, bool) and 0 < value < np.inf:
        return int(value)
    raise InputError(f'`{name}` must be a number of bytes, or text such as "2GB". Got {value!r}.')


def as_limit(max_memory: object) -> int:
    """Bytes that the process may take: those that were asked for, or half of the machine's when None."""
    return int(_DEFAULT_SHARE * machine_memory()) if max_memory is None else as_bytes(max_memory)


def plan(max_memory: object, num_columns: int, num_coordinates: int, num_draws: int) -> Plan:
    """Blocks and a sample that fit into `max_memory` bytes of the process, half of the machine's when None.

    Arguments:
        max_memory: see `as_bytes`.
        num_columns: D.
        num_coordinates: M, or M·C with C latent functions.
        num_draws: J.

    >>> plan("64GB", 8, 64, 100).sample_rows
    20000
    """
    limit = as_limit(max_memory)
    free = limit - resident() - PROGRAMS
    # Square matrices of coordinates: sums, factors and their copies.
    free -= 8 * 12 * num_coordinates**2
    if free < _LEAST:
        needed = limit - free + _LEAST
        raise InputError(
            f"`max_memory` is {limit / 1e9:.3g} GB, and {needed / 1e9:.3g} GB at least are needed for "
            f"{num_coordinates} coordinates: {resident() / 1e9:.2g} GB are taken already, before a row is read. Give "
            "more, or take fewer inducing points."
        )
    per_block = _PER_BLOCK if jax.default_backend() == "cpu" else 0
    block_row = 8 * (per_block * num_coordinates + 4 * num_columns + 2 * num_draws + 32)
    sample_row = 8 * (_PER_SAMPLE * num_coordinates + 6 * num_columns + 2 * num_draws + 32)
    rows = int(np.clip(0.3 * free / block_row, _FEWEST_ROWS, AT_ONCE))
    sampled = int(np.clip(0.6 * free / sample_row, _FEWEST_ROWS, MOST_SAMPLED))
    return Plan(limit, 2 ** int(np.log2(rows)), sampled)


def machine_memory() -> int:
    """Bytes of memory of the machine, or of the container where that is less; 8 GB where nobody says."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        total = 8 * 10**9
    try:
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as file:
            total = min(total, int(file.read()))
    except (OSError, ValueError):
        pass
    return int(total)
