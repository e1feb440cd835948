"""The cost of a potential and its gradient, beside the matrix products that it cannot do without.

python -m benchmarks.potential --out potential.json
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import kosambi as ko
from reproduction.store import describe


def seconds(function, *arguments, repeats: int = 5) -> float:  # type: ignore[no-untyped-def]
    """The median time of a call once compiled."""
    jax.block_until_ready(function(*arguments))
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--num-inducing", type=int, default=100)
    parser.add_argument("--num-particles", type=int, default=1000)
    parser.add_argument("--columns", type=int, default=4)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    x = rng.normal(size=(options.rows, options.columns))
    y = (rng.uniform(size=options.rows) < 0.5).astype(float)
    prior = ko.GaussianProcess(ko.kernels.Matern52(lengthscale=np.sqrt(options.columns)))
    basis = ko.PointBasis(prior, x[: options.num_inducing])
    bernoulli = ko.likelihoods.Bernoulli()
    targets = {kind: ko.Target(basis, bernoulli, x, y, potential=kind) for kind in ("projected", "optimal")}
    u = basis.colour(rng.normal(size=(options.num_particles, basis.size)))

    with jax.enable_x64(True):
        psi, w = jnp.asarray(basis.whitened_mean(x)), jnp.asarray(basis.whiten(u))
        slopes = jnp.asarray(rng.normal(size=(options.num_particles, options.rows)))
        first = seconds(jax.jit(lambda w, psi: w @ psi.T), w, psi)
        second = seconds(jax.jit(lambda s, psi: s @ psi), slopes, psi)
    products = first + second
    result = {
        "rows": options.rows,
        "num_inducing": options.num_inducing,
        "num_particles": options.num_particles,
        "two_products_seconds": products,
        "gradient_ratio": seconds(targets["projected"].gradient, u) / products,
        "value_and_gradient_ratio": seconds(targets["projected"].value_and_gradient, u) / products,
        "optimal_gradient_ratio": seconds(targets["optimal"].gradient, u) / products,
        "optimal_nodes": int(targets["optimal"].term.rule.nodes.shape[0]),
        "largest_deviation": float(np.sqrt(basis.residual_variance(x).max())),
        **describe(),
    }
    print(json.dumps(result, indent=2))
    if options.out:
        options.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
