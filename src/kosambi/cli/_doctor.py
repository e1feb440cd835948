"""`kosambi doctor`: what is installed, what it runs on, and whether it computes what it should."""

from __future__ import annotations

import os
import platform
from typing import Any

import numpy as np

from kosambi._core.writing import REQUIRED, versions

_OPTIONAL = {
    "pandas": ("tables, `fit` and `predict`", "kosambi[cli]"),
    "matplotlib": ("pictures and reports", "kosambi[cli]"),
    "pyarrow": ("Parquet files", "kosambi[parquet]"),
    "arviz": ("export to ArviZ", "kosambi[arviz]"),
}
# Of a solution of 12 equations in float64; float32 would leave 1e-6.
_TOLERANCE = 1e-9


def examine() -> dict[str, Any]:
    """Everything that is found, as plain data; `healthy` is the verdict."""
    import jax

    error, installed = self_check(), versions()
    x64 = bool(jax.config.jax_enable_x64)  # type: ignore[attr-defined]
    return {
        "healthy": bool(error <= _TOLERANCE),
        "kosambi": installed["kosambi"],
        "python": installed["python"],
        "platform": platform.platform(),
        "packages": {name: installed.get(name) for name in REQUIRED},
        "optional": {
            name: {"version": installed.get(name), "for": use, "remedy": f"pip install {extra}"}
            for name, (use, extra) in _OPTIONAL.items()
        },
        "backend": jax.default_backend(),
        "devices": [str(device) for device in jax.devices()],
        "cores": os.cpu_count(),
        "cores_allowed": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": {
            name: value
            for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "XLA_FLAGS", "JAX_PLATFORMS")
            if (value := os.environ.get(name)) is not None
        },
        "compilation_cache": jax.config.jax_compilation_cache_dir,  # type: ignore[attr-defined]
        "x64_switch": x64,
        "x64_note": "kosambi's own calls compute in float64 either way, and leave the switch alone",
        "self_check": {"what": "exact Gaussian process against its closed form", "error": error, "limit": _TOLERANCE},
    }


def self_check() -> float:
    """The largest relative error of a posterior with as many inducing points as data, which has a closed form."""
    import jax

    import kosambi as ko

    x = np.linspace(-1.0, 1.0, 12)[:, None]
    y = np.sin(4.0 * x[:, 0])
    new = np.array([[-0.95], [0.1], [1.4]])
    noise = 0.3
    prior = ko.GaussianProcess(ko.kernels.Matern52(lengthscale=0.5, variance=2.0, active_dims=None))
    basis = ko.PointBasis(prior, x)
    found = ko.infer(jax.random.key(0), prior, ko.likelihoods.Gaussian(noise), x, y, basis=basis, progress=False)
    prediction = found.predict(new)

    def covariance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        scaled = np.sqrt(5.0) * np.abs(a - b.T) / 0.5
        return np.asarray(2.0 * (1.0 + scaled + scaled**2 / 3.0) * np.exp(-scaled))

    cross, data = covariance(new, x), covariance(x, x) + noise**2 * np.eye(12)
    mean = cross @ np.linalg.solve(data, y)
    variance = 2.0 - np.sum(cross * np.linalg.solve(data, cross.T).T, axis=1)
    errors = [np.abs(prediction.mean - mean) / np.abs(mean), np.abs(prediction.variance - variance) / variance]
    return float(np.max(errors))


def as_text(found: dict[str, Any]) -> str:
    """The same for people."""
    lines = [f"kosambi {found['kosambi']} on Python {found['python']}, {found['platform']}"]
    lines += [f"  {name:<14}{version or 'MISSING'}" for name, version in found["packages"].items()]
    lines.append("Optional:")
    for name, entry in found["optional"].items():
        state = entry["version"] or f"not installed; for {entry['for']}: {entry['remedy']}"
        lines.append(f"  {name:<14}{state}")
    threads = ", ".join(f"{name}={value}" for name, value in found["threads"].items()) or "no limits set"
    check = found["self_check"]
    lines += [
        f"Devices: {', '.join(found['devices'])} (backend {found['backend']})",
        f"Cores: {found['cores_allowed']} of {found['cores']}; threads: {threads}",
        f"Compiled programs are kept in {found['compilation_cache'] or 'memory alone'}.",
        f"JAX's x64 switch is {'on' if found['x64_switch'] else 'off'}; {found['x64_note']}.",
        f"Self check, {check['what']}: relative error {check['error']:.1e} (limit {check['limit']:g})",
        "All is well." if found["healthy"] else "The self check FAILED: results cannot be trusted on this machine.",
    ]
    return "\n".join(lines)
