"""How long a run took, and how much of it JAX spent tracing and compiling."""

from __future__ import annotations

import threading
import time

import jax

_COMPILE_EVENTS = (
    "/jax/core/compile/jaxpr_trace_duration",
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "/jax/core/compile/backend_compile_duration",
)
_local = threading.local()


def _listen(event: str, duration_secs: float, **kwargs: str | int) -> None:
    del kwargs
    if event in _COMPILE_EVENTS:
        _local.seconds = getattr(_local, "seconds", 0.0) + duration_secs


jax.monitoring.register_event_duration_secs_listener(_listen)


class Clock:
    """Started when made."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._compiled = getattr(_local, "seconds", 0.0)

    @property
    def seconds(self) -> float:
        """Wall clock since the start."""
        return time.perf_counter() - self._start

    @property
    def compile_seconds(self) -> float:
        """What of that this thread spent tracing and compiling; nested traces count once at most."""
        return min(getattr(_local, "seconds", 0.0) - self._compiled, self.seconds)
