"""How far posteriors in float32 and TF32 are from that in float64, for one set of labels.

python -m benchmarks.precisions --out precisions.json

Means and standard deviations of all whitened coordinates, in posterior standard deviations, of many particles of MALA,
beside those of a second run in float64 with another key, which is what Monte Carlo error alone makes of them; and nats
by which the errors of V differ between particles. Without an accelerator TF32 is simulated: factors of products are
rounded to 10 bits after the leading one, and products are summed in float32, as tensor cores do.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import kosambi as ko
from kosambi.samplers import markov
from kosambi.samplers.remainder import RemainderFrame
from reproduction.store import describe


def problem(num_rows: int, num_inducing: int) -> ko.Target:
    rng = np.random.default_rng(0)
    x = rng.uniform(-3.0, 3.0, (num_rows, 2))
    f = 2.0 * np.sin(2.0 * x[:, 0]) * np.cos(x[:, 1])
    y = (rng.uniform(size=num_rows) < 1.0 / (1.0 + np.exp(-f))).astype(float)
    prior = ko.GaussianProcess(ko.kernels.Matern52(lengthscale=1.0, variance=4.0))
    return ko.Target(ko.PointBasis(prior, x[:num_inducing]), ko.likelihoods.Bernoulli(), x, y, "projected")


def rounded(array: Any) -> Any:
    """float32 with 10 bits after the leading one, to nearest."""
    bits = jax.lax.bitcast_convert_type(array, jnp.uint32)
    return jax.lax.bitcast_convert_type((bits + jnp.uint32(0x1000)) & jnp.uint32(0xFFFFE000), jnp.float32)


def simulate_tf32() -> None:
    """Products of frames that ask for the digits of "default" get those of TF32 from here on."""
    plain = RemainderFrame._product

    def product(self: RemainderFrame, left: Any, right: Any) -> Any:
        if self.products == "highest":
            return plain(self, left, right)
        return jnp.matmul(rounded(left), rounded(right), precision="highest")

    RemainderFrame._product = product  # type: ignore[method-assign]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--particles", type=int, default=8192)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--inducing", type=int, default=24)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    is_simulated = jax.default_backend() == "cpu"
    if is_simulated:
        simulate_tf32()
    target = problem(options.rows, options.inducing)
    seen: list[float] = []
    plain = markov._errors

    def errors(*arguments: Any) -> Any:
        found = plain(*arguments)
        seen.append(float(np.ptp(found)))
        return found

    markov._errors = errors
    draws: dict[str, np.ndarray] = {}
    blurs: dict[str, float | None] = {}
    for name, precision, key in (
        ("float64", "float64", 0),
        ("float64, another key", "float64", 1),
        ("float32", "float32", 2),
        ("tf32", "tf32", 3),
    ):
        seen.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ko.errors.PrecisionWarning)
            particles, report = ko.sample(jax.random.key(key), target, "mala", options.particles, precision=precision)
        draws[name], blurs[name] = np.asarray(particles.whitened), seen[-1] if seen else None
        print(f"{name}: {report.steps} steps, acceptance {report.acceptance:.3f}, {report.seconds:.1f} s", flush=True)
    right = draws["float64"]
    deviation = right.std(axis=0)
    rows = []
    for name, w in list(draws.items())[1:]:
        means = np.abs(w.mean(axis=0) - right.mean(axis=0)) / deviation
        spreads = np.abs(w.std(axis=0) / deviation - 1.0)
        rows.append(
            {
                "name": name,
                "mean_largest": float(means.max()),
                "mean_rms": float(np.sqrt(np.mean(means**2))),
                "deviation_largest": float(spreads.max()),
                "deviation_rms": float(np.sqrt(np.mean(spreads**2))),
                "potential_nats": blurs[name],
            }
        )
        print(rows[-1], flush=True)
    error = float(np.sqrt(2.0 / options.particles))
    print(f"Monte Carlo error of a difference of means: {error:.4f}; of deviations: {error / np.sqrt(2.0):.4f}")
    if options.out:
        record = {"rows": rows, "is_simulated": is_simulated, "particles": options.particles, **describe()}
        options.out.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
