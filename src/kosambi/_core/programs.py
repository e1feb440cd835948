"""How many compiled programs a process keeps, so that one that fits model after model does not end in a crash.

JAX keeps every program that it has compiled, one for each shape of the data. Each takes memory and some ten memory
maps, of which Linux allows a process 65,530 (`vm.max_map_count`). Past that XLA's compiler ends the process with a
segmentation fault, which nothing can catch. So public calls count: when the programs compiled since the last time have
added `MAX_MAPS` maps, or where maps cannot be counted when there are `MAX_PROGRAMS`, JAX is told to forget them all.
What is needed again is loaded from disk (`kosambi._core.compilation`) or compiled again; results are the same.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from pathlib import Path

import equinox as eqx
import jax

from kosambi.errors import ProcessLimitError

MAX_MAPS = 6000
"""Memory maps that compiled programs may add to a process before they are dropped: those of a dozen fits or so."""
MAX_PROGRAMS = 500
"""Programs before they are dropped where maps cannot be counted."""
LOOK_EVERY = 24
"""Programs after which the maps are counted again, which takes milliseconds."""
RESERVE = 5000
"""Maps below the system's limit that are left to a single call; with fewer, kosambi refuses to compile."""
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
