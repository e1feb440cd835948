"""Forks: a child of a process in which JAX had begun to work is told so, instead of waiting for ever.

A fork copies the memory of its parent and one of its threads. The threads that JAX computes with are not there in the
child, and what they held locked stays locked, so that the first computation never ends. Nothing can mend that from
inside, but it can be known: a hook runs in every child.
"""

from __future__ import annotations

import os
import sys

from kosambi.errors import ForkError

_is_broken = False


def check_process() -> None:
    """Raise `ForkError` in a child that cannot compute."""
    if _is_broken:
        raise ForkError(
            f"Process {os.getpid()} was forked from one in which JAX had begun to work, and JAX would wait for ever "
            "here. Start workers with `multiprocessing.get_context('spawn')`, or with joblib's default backend; load "
            "models after the fork, and do not preload them in a server that forks. See `Threads and processes` in "
            "the documentation."
        )


def _has_begun() -> bool:
    """Whether JAX has made its threads. There is no public way to ask; where this one is gone, a fork is let pass."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    asked = getattr(bridge, "backends_are_initialized", None)
    return bool(asked()) if callable(asked) else False


def _after_fork() -> None:
    global _is_broken
    _is_broken = _is_broken or _has_begun()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
