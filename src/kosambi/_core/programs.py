"""How many programs are compiled, and how many a process keeps, so that fits are fast and none ends in a crash.

JAX keeps every program that it has compiled, one for each shape of the data. Each takes memory and some ten memory
maps, of which Linux allows a process 65,530 (`vm.max_map_count`). Past that XLA's compiler ends the process with a
segmentation fault, which nothing can catch. So public calls count: when the programs compiled since the last time have
added `MAX_MAPS` maps, or where maps cannot be counted when there are `MAX_PROGRAMS`, JAX is told to forget them all.
What is needed again is loaded from disk (`kosambi._core.compilation`) or compiled again; results are the same.

Fewer are compiled where sizes are rounded up to a few (`bucket`), and where keys are split on the host (`split`): JAX
compiles a program for each number of keys, and another to take them apart.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from kosambi._core.checks import is_traced
from kosambi._core.types import Key
from kosambi.errors import ProcessLimitError

MAX_MAPS = 6000
"""Memory maps that compiled programs may add to a process before they are dropped: those of a dozen fits or so."""
MAX_PROGRAMS = 500
"""Programs before they are dropped where maps cannot be counted."""
LOOK_EVERY = 24
"""Programs after which the maps are counted again, which takes milliseconds."""
RESERVE = 5000
"""Maps below the system's limit that are left to a single call; with fewer, kosambi refuses to compile."""
SMALLEST_BUCKET = 32
"""Rows, at least, that computations are compiled for."""
_MAPS, _LIMIT = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")
_COMPILED = "/jax/core/compile/backend_compile_duration"


def count_maps() -> int | None:
    """Memory maps of this process; None where the system does not say."""
    try:
        with _MAPS.open("rb") as lines:
            return sum(1 for _ in lines)
    except OSError:
        return None


def most_maps() -> int | None:
    """How many the system allows; None where it does not say."""
    try:
        return int(_LIMIT.read_text())
    except (OSError, ValueError):
        return None


class _Tally:
    """Programs since the maps were last counted and since programs were last dropped, and the maps without them."""

    def __init__(self) -> None:
        self.since_look = self.since_drop = self.drops = 0
        self.floor = count_maps()
        self.held = threading.Lock()


_tally = _Tally()


def _listen(event: str, duration_secs: float, **kwargs: str | int) -> None:
    # Also called for a program that is loaded from disk, which takes as many maps.
    del duration_secs, kwargs
    if event == _COMPILED:
        _tally.since_look += 1
        _tally.since_drop += 1


jax.monitoring.register_event_duration_secs_listener(_listen)


def keep_few() -> None:
    """Drop compiled programs when there are too many; costs nothing when few were compiled since the last call.

    Raises `ProcessLimitError` when the process is close to the system's limit of memory maps without them.
    """
    if _tally.since_look < LOOK_EVERY or not _tally.held.acquire(blocking=False):
        return
    try:
        maps, most = count_maps(), most_maps()
        if maps is None:
            if _tally.since_drop > MAX_PROGRAMS:
                drop()
        elif maps > (_tally.floor or 0) + MAX_MAPS or _is_close(maps, most):
            drop()
            if _is_close(_tally.floor, most):
                # The next call looks again.
                raise ProcessLimitError(
                    f"This process has {_tally.floor} memory maps without kosambi's programs, and the system allows "
                    f"{most}; past that, compiling would end the process. Raise the limit (`sysctl "
                    "vm.max_map_count`), or do the work in several processes."
                )
        _tally.since_look = 0
    finally:
        _tally.held.release()


def drop() -> None:
    """Forget every compiled program of this process, and give their memory back to the system."""
    if hasattr(eqx, "clear_caches"):
        eqx.clear_caches()  # type: ignore[no-untyped-call]
    jax.clear_caches()  # type: ignore[no-untyped-call]
    # glibc keeps what is freed in small pieces: half of what programs took.
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
    _tally.since_drop, _tally.drops, _tally.floor = 0, _tally.drops + 1, count_maps()


def _is_close(maps: int | None, most: int | None) -> bool:
    return maps is not None and most is not None and maps > most - RESERVE


def bucket(number: int, smallest: int = SMALLEST_BUCKET) -> int:
    """The smallest size that is not below `number`: at most a sixteenth more where that is large.

    Arguments:
        number: how many there are.
        smallest: the first size, and the least that two sizes differ by.

    >>> [bucket(number) for number in (1, 33, 65, 500, 6553)], [bucket(number, 8) for number in (5, 25, 64, 300)]
    ([32, 64, 96, 512, 6656], [8, 32, 64, 304])
    """
    step = max(smallest, 2 ** (max(number, 1).bit_length() - 5))
    return -(-max(number, 1) // step) * step


# Threefry-2x32 (Salmon, Moraes, Dror and Shaw 2011), JAX's usual generator.
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)


def split(key: Key, number: int) -> tuple[Key, ...]:
    """`number` independent keys, those that `jax.random.split(key, number)` gives.

    >>> import jax
    >>> first, second = split(jax.random.key(0), 2)
    >>> bool(first == jax.random.split(jax.random.key(0))[0])
    True
    """
    is_typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    is_usual = jax.config.jax_threefry_partitionable and not is_traced(key)  # type: ignore[attr-defined]
    if not is_usual or str(jax.random.key_impl(key)) != "threefry2x32":
        return tuple(jax.random.split(key, number))
    words = np.asarray(jax.random.key_data(key) if is_typed else key)
    counts = np.arange(number, dtype=np.uint32)
    data = np.stack(_threefry(words, np.zeros_like(counts), counts), axis=-1)
    if is_typed:
        return tuple(jax.random.wrap_key_data(jnp.asarray(row), impl="threefry2x32") for row in data)
    return tuple(jnp.asarray(row) for row in data)


def _threefry(words: np.ndarray, high: np.ndarray, low: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Twenty rounds of Threefry-2x32 on pairs of 32-bit numbers."""
    schedule = (words[0], words[1], words[0] ^ words[1] ^ _PARITY)
    high, low = high + schedule[0], low + schedule[1]
    for group in range(5):
        for turn in _ROTATIONS[group % 2]:
            high = high + low
            low = ((low << np.uint32(turn)) | (low >> np.uint32(32 - turn))) ^ high
        high = high + schedule[(group + 1) % 3]
        low = low + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return high, low
