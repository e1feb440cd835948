"""What a timing was measured on, for the JSON of every benchmark."""

from __future__ import annotations

import importlib.metadata
import os
import platform


def describe() -> dict[str, object]:
    """Processor, cores, and the versions that matter."""
    packages = ("kosambi", "jax", "jaxlib", "equinox", "numpy", "scipy")
    return {
        "machine": platform.machine(),
        "system": platform.system(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in packages},
    }
