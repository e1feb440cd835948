"""What a timing was measured on, for the JSON of every benchmark."""

from __future__ import annotations

import importlib.metadata
import os
import platform


def describe(*others: str) -> dict[str, object]:
    """Processor, cores, and the versions that matter, of `others` where they are installed."""
    installed = {found.metadata["Name"] for found in importlib.metadata.distributions()}
    packages = (
        "kosambi",
        "jax",
        "jaxlib",
        "equinox",
        "numpy",
        "scipy",
        *(name for name in others if name in installed),
    )
    return {
        "machine": platform.machine(),
        "system": platform.system(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in packages},
    }
