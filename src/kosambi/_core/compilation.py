"""JAX's persistent compilation cache, in the user's cache folder: a second process compiles next to nothing.

Most of a first small fit is compilation. JAX can keep compiled programs on disk, which is off unless a folder is named.
kosambi names one, unless the user has (`JAX_COMPILATION_CACHE_DIR`, or `jax.config`): a folder `kosambi` where the
system keeps caches. JAX locks it, so that processes may share it, and above `MAX_BYTES` drops what was not used for the
longest time. The environment variable `KOSAMBI_COMPILATION_CACHE` is another folder, or "off".

What has to be compiled is compiled without XLA's newer code generator for CPUs, where this can be left out: it takes
twice as long as the older one and makes programs that are no faster. On a GPU XLA's trials of kernels for each product
are left out, except in loops that run long: they were more than half of the time to compile, and won nothing back.
"""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path

import jax

VARIABLE = "KOSAMBI_COMPILATION_CACHE"
MAX_BYTES = 2**30
"""What the folder may hold."""
# Programs that compile faster than that are not worth a file.
_SETTINGS = {"jax_compilation_cache_max_size": MAX_BYTES, "jax_persistent_cache_min_compile_time_secs": 0.05}


_QUICKER: dict[str, dict[str, bool | int]] = {
    "cpu": {"xla_cpu_use_fusion_emitters": False},
    "gpu": {"xla_gpu_autotune_level": 0},
}


@functools.cache
def quicker_options(backend: str) -> dict[str, bool | int]:
    """Options with which XLA compiles faster for a kind of device; none where this version does not know them."""
    options = _QUICKER.get(backend, {})
    try:
        jax.jit(lambda: 0.0, compiler_options=options)()
    except Exception:  # What an unknown option raises is not documented.
        return {}
    return options


def cache_folder() -> Path | None:
    """Where compiled programs are kept; None if they are not to be."""
    chosen = os.environ.get(VARIABLE, "")
    if chosen.lower() in ("off", "0", "false", "no"):
        return None
    if chosen:
        return Path(chosen).expanduser()
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = home / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return base / "kosambi" / "compiled"


def use_cache() -> None:
    """Let JAX keep compiled programs, unless the user has said where or that it must not, or the folder is no good."""
    folder = cache_folder()
    if folder is None or jax.config.jax_compilation_cache_dir is not None:  # type: ignore[attr-defined]
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    if not os.access(folder, os.W_OK):
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))  # type: ignore[no-untyped-call]
    for name, value in _SETTINGS.items():
        if name.upper() not in os.environ:
            jax.config.update(name, value)  # type: ignore[no-untyped-call]
