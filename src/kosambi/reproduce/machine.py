"""What a figure was measured on."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path

PACKAGES = ("kosambi", "jax", "jaxlib", "equinox", "blackjax", "numpy", "scipy", "scikit-learn", "torch", "gpytorch")


def describe(*others: str) -> dict[str, object]:
    """Processor, cores that may be used, and the versions that matter, of those that are installed.

    >>> sorted(describe())
    ['cores', 'machine', 'processor', 'python', 'system', 'versions']
    """
    installed = {found.metadata["Name"].lower() for found in importlib.metadata.distributions()}
    return {
        "machine": platform.machine(),
        "processor": _processor(),
        "system": platform.system(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in (*PACKAGES, *others) if name in installed},
    }


def _processor() -> str:
    """Its name where the system tells it; Python's own answer is empty on Linux."""
    facts = Path("/proc/cpuinfo")
    if facts.is_file():
        for line in facts.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
