"""The two priors and the spectrum that a basis finds, as two pictures.

Run it with `make demo`, or `python examples/prior_functions.py --out demo`; it needs `kosambi[plots]`.
"""

# %% Set-up
import argparse
from pathlib import Path

import jax
import matplotlib as mpl
import numpy as np

import kosambi as ko

mpl.use("Agg")
import matplotlib.pyplot as plt

# Okabe and Ito's palette, which colour-blind readers can tell apart.
BLACK, ORANGE, BLUE = "#000000", "#D55E00", "#0072B2"
STYLE = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "font.size": 10,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "savefig.dpi": 130,
}


# %% Functions drawn from both priors
def plot_prior_functions(path: Path) -> None:
    """Draws of a Gaussian process and of a Gaussian random element, on a grid that goes past the data."""
    generator = np.random.default_rng(0)
    x = np.concatenate([generator.uniform(-3.0, -0.5, 60), generator.uniform(0.5, 3.0, 60)])[:, None]
    grid = np.linspace(-8.0, 8.0, 801)[:, None]
    process = ko.GaussianProcess(ko.kernels.SquaredExponential(lengthscale=0.5, variance=1.0))
    # r averages k² over the data, so k needs a larger variance than r is to have.
    element = ko.GaussianRandomElement(
        ko.kernels.SquaredExponential(lengthscale=0.5, variance=2.5), ko.measures.empirical(x)
    )
    panels = [
        ("GaussianProcess(kernel)", process, BLUE),
        ("GaussianRandomElement(kernel, empirical(x))", element, ORANGE),
    ]
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.3), sharex=True, sharey=True, layout="constrained")
    for axis, (title, prior, colour) in zip(axes, panels, strict=True):
        draws = prior.draw(jax.random.key(1), num_draws=5)
        standard_deviation = np.sqrt(prior.variance(grid))
        band = -2.0 * standard_deviation, 2.0 * standard_deviation
        axis.fill_between(grid[:, 0], *band, color=colour, alpha=0.15, lw=0, label="±2 sd")
        axis.plot(grid[:, 0], draws(grid).T, color=colour, lw=1.0, alpha=0.85)
        axis.plot([], [], color=colour, label="draws")
        # The rug sits at the lower edge whatever the range of the values.
        axis.plot(
            x[:, 0],
            np.full(len(x), 0.02),
            "|",
            color=BLACK,
            ms=7,
            mew=0.6,
            alpha=0.6,
            transform=axis.get_xaxis_transform(),
            label="data inputs",
        )
        axis.set(title=title, xlabel="x", xlim=(-8.0, 8.0), ylim=(-3.7, 3.7))
    axes[0].set_ylabel("f(x)")
    axes[1].legend(loc="upper right", ncols=3, columnspacing=1.2, handlelength=1.4)
    figure.savefig(path)
    plt.close(figure)


# %% The spectrum of the covariance operator, by two bases
def plot_spectrum(path: Path) -> dict[str, ko.basis.BasisReport]:
    """Eigenvalues from 32 inducing points beside those of the dense operator, and their relative errors."""
    num_data, num_inducing = 1000, 32
    x = np.random.default_rng(0).uniform(-3.0, 3.0, (num_data, 1))
    kernel = ko.kernels.SquaredExponential(lengthscale=0.35, variance=4.0)
    prior = ko.GaussianRandomElement(kernel, ko.measures.empirical(x))
    z = x[ko.inducing.greedy_variance(kernel, x, num_inducing)]
    bases = {"NystromBasis": ko.NystromBasis(prior, z), "RitzBasis": ko.RitzBasis(prior, z)}
    dense = np.linalg.eigvalsh(kernel(x) / num_data)[::-1][:num_inducing]

    figure, (upper, lower) = plt.subplots(
        2, 1, figsize=(6.4, 5.0), sharex=True, height_ratios=[3, 2], layout="constrained"
    )
    upper.semilogy(np.arange(1, num_inducing + 1), dense, color=BLACK, label=f"dense operator, N = {num_data}")
    for (name, basis), colour, marker in zip(bases.items(), (ORANGE, BLUE), "so", strict=True):
        order = np.arange(1, basis.size + 1)
        error = np.abs(basis.eigenvalues / dense[: basis.size] - 1.0)
        upper.semilogy(order, basis.eigenvalues, marker, color=colour, ms=4.5, mfc="none", label=name)
        lower.semilogy(order, error, marker + "-", color=colour, ms=4.5, mfc="none", lw=0.7)
    upper.set(ylabel="eigenvalue", title=f"Covariance operator from {num_inducing} greedy inducing points")
    upper.legend(loc="lower left")
    lower.set(ylabel="relative error", xlabel="m")
    figure.align_ylabels()
    figure.savefig(path)
    plt.close(figure)
    return {name: basis.report for name, basis in bases.items()}


def main(folder: Path) -> None:
    """Write both pictures into `folder` and say where they are."""
    folder.mkdir(parents=True, exist_ok=True)
    with plt.rc_context(STYLE):
        plot_prior_functions(folder / "prior_functions.png")
        print(f"prior functions: {folder / 'prior_functions.png'}")
        reports = plot_spectrum(folder / "spectrum.png")
        print(f"spectrum: {folder / 'spectrum.png'}")
    for name, report in reports.items():
        print(f"{name}: {report}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for the pictures")
    main(parser.parse_args().out)
