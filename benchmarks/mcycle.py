"""Two likelihoods on the motorcycle data, as a picture: noise that varies, and noise with heavy tails.

python -m benchmarks.mcycle --out mcycle.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import jax
import numpy as np
from matplotlib.figure import Figure

import kosambi as ko
from benchmarks import problems


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("mcycle.png"))
    out = parser.parse_args().out
    if not problems.is_available("mcycle"):
        print(problems.where_to_get("mcycle"))
        return
    x, y = problems.read("mcycle")
    figure = Figure(figsize=(11.0, 4.0), layout="constrained")
    for axes, name in zip(figure.subplots(1, 2, sharey=True), ("heteroscedastic", "student_t"), strict=True):
        model = ko.ProjectedLangevinRegressor(name, n_samples=200).fit(x, y)
        score = -float(np.mean(model.predict_log_density(x, y)))
        mean, scale = float(model.x_mean_[0]), float(model.x_scale_[0])
        ko.plots.posterior(model.posterior_, jax.random.key(0), x_mean=mean, x_scale=scale, axes=axes)
        axes.set(xlabel="milliseconds", ylabel="acceleration [g]", title=f"{name}: {score:.2f} nats a row")
        axes.legend().remove()
    figure.savefig(out, dpi=110)
    print(out)


if __name__ == "__main__":
    main()
