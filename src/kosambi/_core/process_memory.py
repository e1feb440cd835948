"""How much memory the process has, and giving back what it has freed."""

from __future__ import annotations

import ctypes
import os
import sys


def resident() -> int:
    """Bytes of memory that the process has now; the most it ever had where the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return peak()


def peak() -> int:
    """The most bytes of memory that the process has had; zero where the system does not say."""
    try:
        import resource
    except ImportError:
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Kilobytes, but for one system.
    return int(most if sys.platform == "darwin" else most * 1024)


def give_back() -> None:
    """Hand memory that was freed back to the system, where that can be asked for (glibc); elsewhere nothing is done.

    After a stage with many threads much of what they had lies in pieces that later stages do not use.
    """
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):
        return
