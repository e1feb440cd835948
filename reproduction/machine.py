"""What a figure was measured on."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Mapping
from pathlib import Path

PACKAGES = ("kosambi", "jax", "jaxlib", "equinox", "blackjax", "numpy", "scipy", "scikit-learn", "torch", "gpytorch")


def describe(*others: str) -> dict[str, object]:
    """Processor, cores that may be used, accelerator, and the versions that matter, of those that are installed.

    >>> sorted(describe())
    ['accelerator', 'cores', 'machine', 'processor', 'python', 'system', 'versions']
    """
    installed = {found.metadata["Name"].lower() for found in importlib.metadata.distributions()}
    return {
        "machine": platform.machine(),
        "processor": _processor(),
        "system": platform.system(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "accelerator": _accelerator(),
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in (*PACKAGES, *others) if name in installed},
    }


def label(description: Mapping[str, object]) -> str:
    """A line that tells machines apart on which times cannot be compared.

    >>> label({"processor": "Z80", "cores": 1, "accelerator": None})
    'Z80, 1 core'
    """
    cores = description.get("cores")
    parts = [description.get("processor"), f"{cores} {'core' if cores == 1 else 'cores'}"]
    return ", ".join(str(part) for part in (*parts, description.get("accelerator")) if part)


def _accelerator() -> str | None:
    """What JAX computes on, where that is not the processor."""
    import jax

    device = jax.devices()[0]
    return None if device.platform == "cpu" else str(device.device_kind)


def _processor() -> str:
    """Its name where the system tells it; Python's own answer is empty on Linux."""
    facts = Path("/proc/cpuinfo")
    if facts.is_file():
        for line in facts.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
