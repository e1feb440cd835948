"""How many inducing points are enough: what `num_inducing="auto"` chooses, and the curve it chooses from.

python -m benchmarks.selection --out selection.json [--plot selection.png] [--problems concrete kin8nm breast waves]

For each problem hyperparameters are learned, `select_inducing` chooses M, and the test NLL is measured for several M
up to twice the choice, beside the leave-one-out score that the choice was made from, and the certificate: the proven
bound on the divergence from the full posterior (Gaussian), or the divergence of the draws from the best law with the
same coordinates (others). Doubling M should gain less than 0.02 nats. Data as in problems.py; splits as in
hyperparameters.py; "waves" is synthetic, in one column.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np

import kosambi as ko
from benchmarks import hyperparameters, problems
from reproduction.store import describe

NAMES = ("concrete", "kin8nm", "breast", "waves")
LABELS = {"breast"}


def data(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    if name == "waves":
        rng = np.random.default_rng(seed)
        x = rng.uniform(-6.0, 6.0, (2000, 1))
        y = np.sin(x[:, 0] ** 2 / 2.0) + 0.2 * rng.standard_t(4, 2000)
        return x[:1000], y[:1000], x[1000:], y[1000:]
    x, y, x_new, y_new = hyperparameters.split(name, seed)
    if name in LABELS:
        # Standardising moved the labels.
        y, y_new = (y > 0).astype(float), (y_new > 0).astype(float)
    return x, y, x_new, y_new


def model(name: str, columns: int) -> tuple[ko.kernels.AbstractKernel, ko.likelihoods.AbstractLikelihood]:
    if name in LABELS:
        # One lengthscale for all 30 columns: separable labels would let some of 30 run away.
        return ko.kernels.Matern52(np.sqrt(columns), 4.0), ko.likelihoods.Bernoulli()
    if name == "waves":
        return ko.kernels.Matern52(1.0), ko.likelihoods.StudentT(4.0, 0.3)
    return ko.kernels.Matern52(np.ones(columns)), ko.likelihoods.Gaussian()


def run(name: str, seed: int) -> dict[str, Any]:
    x, y, x_new, y_new = data(name, seed)
    # One key for all sizes, so that they differ by their size only.
    key, key_fit = jax.random.key(seed), jax.random.fold_in(jax.random.key(seed), 1)
    # In one column a hundred points are plenty.
    number = min(100 if x.shape[1] == 1 else 300, len(x))
    kernel, likelihood, _ = ko.fit_hyperparameters(key_fit, *model(name, x.shape[1]), x, y, num_inducing=number)
    selection = ko.select_inducing(ko.GaussianProcess(kernel), likelihood, x, y)
    chosen = selection.num_inducing
    # There are no more points than distinct rows.
    double = min(2 * chosen, len(np.unique(x, axis=0)))
    sizes = sorted({*(round(chosen * 2.0**i) for i in (-3, -2, -1, 0, 1)), double, chosen})
    sizes = [size for size in sizes if 4 <= size <= max(double, chosen)]
    curve = []
    for size in sizes:
        posterior = ko.infer(key, kernel, likelihood, x, y, num_inducing=size, num_particles=1000)
        certificate = posterior.certificate()
        curve.append(
            {
                "num_inducing": size,
                "nll": -float(np.mean(posterior.log_predictive_density(x_new, y_new))),
                "divergence": certificate.divergence,
                "bound": certificate.bound,
                "full_bound": certificate.full_bound,
                "residual_share": certificate.residual_share,
            }
        )
    by_size = {one["num_inducing"]: one["nll"] for one in curve}
    return {
        "num_rows": len(x),
        "chosen": chosen,
        "reason": selection.reason,
        "seconds": selection.seconds,
        "gain_of_doubling": by_size[chosen] - by_size[double],
        "sizes": selection.sizes.tolist(),
        "score": selection.score.tolist(),
        "curve": curve,
    }


def plot(results: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, len(results), figsize=(3.2 * len(results), 5.2), squeeze=False, sharex="col")
    for column, (name, found) in enumerate(results.items()):
        upper, lower = axes[:, column]
        sizes = [one["num_inducing"] for one in found["curve"]]
        upper.plot(sizes, [one["nll"] for one in found["curve"]], "o-", color="C0", label="test")
        upper.plot(found["sizes"], found["score"], "-", color="0.6", label="leave-one-out")
        upper.set(title=f"{name}, N = {found['num_rows']}", xscale="log")
        is_gaussian = found["curve"][0]["full_bound"] is not None
        field, label = ("full_bound", "bound, full posterior") if is_gaussian else ("divergence", "KL of the draws")
        lower.plot(sizes, [one[field] for one in found["curve"]], "s-", color="C1", label=label)
        lower.set(xlabel="inducing points M", yscale="log")
        for axis in (upper, lower):
            axis.axvline(found["chosen"], color="C3", linestyle=":", label=f"auto: {found['chosen']}")
            axis.legend(frameon=False, fontsize=8)
    axes[0, 0].set_ylabel("NLL [nats an observation]")
    axes[1, 0].set_ylabel("certificate [nats]")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--plot", type=Path, default=None)
    parser.add_argument("--problems", nargs="+", default=list(NAMES))
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    results: dict[str, Any] = {}
    for name in arguments.problems:
        if name != "waves" and not problems.is_available(name):
            print(problems.where_to_get(name))
            continue
        results[name] = found = run(name, arguments.seed)
        print(
            f"{name:10s} N={found['num_rows']} M={found['chosen']} ({found['reason']}, {found['seconds']:.1f} s), "
            f"doubling gains {found['gain_of_doubling']:.4f}; "
            + ", ".join(f"{one['num_inducing']}: {one['nll']:.3f}" for one in found["curve"]),
            flush=True,
        )
    if arguments.out is not None:
        arguments.out.write_text(json.dumps({"machine": describe(), "problems": results}, indent=1))
    if arguments.plot is not None:
        plot(results, arguments.plot)


if __name__ == "__main__":
    main()
