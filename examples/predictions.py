"""Posterior predictive distributions: intervals, densities and regions, for counts and for observations with two modes.

Run it with `make demo`, or `python examples/predictions.py --out demo`; it needs `kosambi[plots]`.
"""

# %% Set-up
import argparse
import importlib.util
from pathlib import Path

import jax
import matplotlib as mpl
import numpy as np

import kosambi as ko

mpl.use("Agg")
import matplotlib.pyplot as plt

BLACK, BLUE = "#000000", "#0072B2"
STYLE = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "font.size": 10,
    "legend.frameon": False,
    "savefig.dpi": 110,
}
# From left of the data to well past them on the right.
GRID = np.linspace(-3.5, 4.5, 161)[:, None]


# %% Counts at a rate that changes
def fit_counts(key: jax.Array, x: np.ndarray, y: np.ndarray) -> ko.Posterior:
    """A Poisson model whose log rate is a Gaussian process around log 5."""
    prior = ko.GaussianProcess(ko.kernels.Matern52(lengthscale=1.0, variance=0.5), mean=np.log(5.0))
    return ko.infer(key, prior, ko.likelihoods.Poisson(), x, y, num_inducing=20)


def describe_counts(posterior: ko.Posterior, x_test: np.ndarray, y_test: np.ndarray) -> None:
    """Predictions inside and beyond the data, and how well held-out counts were predicted."""
    prediction, held_out = posterior.predict(GRID), posterior.predict(x_test)
    lower, upper = prediction.interval(0.9)
    # Two inputs within the data and one beyond them.
    for i in (30, 70, 150):
        row = GRID[i, 0], prediction.observation_mean[i], lower[i], upper[i]
        print("x = {:.1f}: mean count {:.1f}, 90 % interval {:.0f} to {:.0f}".format(*row))
    if importlib.util.find_spec("pandas") is None:
        print("pandas is not installed, so there is no data frame of this; `prediction.to_pandas()` would be one")
    else:
        print(held_out.to_pandas(coverage=0.9).head(3).round(2).to_string())
    lower, upper = held_out.interval(0.9)
    covered = np.mean((lower <= y_test) & (y_test <= upper))
    print(f"90 % intervals hold {covered:.0%} of {len(y_test)} held-out counts")
    score = np.mean(posterior.log_predictive_density(x_test, y_test))
    # The same for a model that knows nothing of x.
    baseline = np.mean(ko.likelihoods.Poisson().log_density(y_test, np.log(np.mean(posterior.target.y))))
    print(f"log predictive density: {score:.3f} per held-out count, with one rate for all {baseline:.3f}")


# %% Observations of which some are shifted
def fit_shifted(key: jax.Array, x: np.ndarray, y: np.ndarray) -> ko.Posterior:
    """A model in which 40 % of the observations lie 3 higher, and it is not known which."""
    likelihood = ko.likelihoods.ShiftMixture(shift=3.0, probability=0.4, noise=0.3)
    return ko.infer(key, ko.kernels.Matern52(lengthscale=1.0), likelihood, x, y, num_inducing=20)


def plot_regions(axes: plt.Axes, posterior: ko.Posterior) -> None:
    """The smallest sets that hold 90 % of the observations, and the interval that holds as many; at x = 0 in words."""
    grid = np.linspace(-3.0, 3.0, 81)[:, None]
    prediction = posterior.predict(grid)
    interval, regions = prediction.interval(0.9), prediction.highest_density_region(0.9)
    middle = len(grid) // 2
    print("90 % interval of a shifted observation at x = 0: {:.2f} to {:.2f}".format(*(v[middle] for v in interval)))
    intervals = " and ".join("{:.2f} to {:.2f}".format(*row) for row in regions[middle])
    print(f"the smallest set that holds as many: {intervals}")
    half = 0.5 * (grid[1, 0] - grid[0, 0])
    for x, region in zip(grid[:, 0], regions, strict=True):
        for low, high in region:
            axes.fill_between([x - half, x + half], low, high, color=BLUE, alpha=0.33, lw=0)
    axes.fill_between([], [], color=BLUE, alpha=0.33, lw=0, label="highest density region, 90 %")
    for edge, label in zip(interval, ("interval, 90 %", None), strict=True):
        axes.plot(grid[:, 0], edge, color=BLUE, lw=1.2, ls="--", label=label)
    axes.plot(posterior.target.x[:, 0], posterior.target.y, "o", color=BLACK, ms=3, alpha=0.65, label="data")
    axes.set(xlabel="x", ylabel="y", xlim=(-3.0, 3.0))
    axes.legend(fontsize="small", ncols=2, loc="lower left", bbox_to_anchor=(0.0, 1.0))


def main(folder: Path) -> None:
    """Fit both models, print predictions, and write the picture into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    key_counts, key_shifted, key_draws = jax.random.split(jax.random.key(0), 3)
    generator = np.random.default_rng(0)
    x = generator.uniform(-3.0, 3.0, (160, 1))
    wave = np.sin(2.0 * x[:, 0])
    y = generator.poisson(np.exp(1.6 + 0.9 * wave)).astype(float)
    counts = fit_counts(key_counts, x[:120], y[:120])
    describe_counts(counts, x[120:], y[120:])

    is_shifted = generator.uniform(size=120) < 0.4
    y = wave[:120] + 3.0 * is_shifted + 0.3 * generator.normal(size=120)
    shifted = fit_shifted(key_shifted, x[:120], y)

    with plt.rc_context(STYLE):
        figure, (left, right) = plt.subplots(1, 2, figsize=(10.0, 4.0), layout="constrained")
        # Past the data the rate goes back to the prior's, and the bands widen.
        ko.plots.posterior(counts, key_draws, x_new=GRID, num_draws=5, axes=left)
        left.locator_params(axis="y", integer=True)
        plot_regions(right, shifted)
        figure.savefig(folder / "predictions.png")
        plt.close(figure)
    print(f"counts, and observations with two modes: {folder / 'predictions.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for the pictures")
    main(parser.parse_args().out)
