"""Functions drawn from a posterior with outliers in its data, and how the sampler got there, as two pictures.

Run it with `make demo`, or `python examples/posterior_particles.py --out demo`; it needs `kosambi[plots]`.
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
    "savefig.dpi": 110,
}


def truth(x: np.ndarray) -> np.ndarray:
    """The function behind the data."""
    return np.sin(2.0 * x) + 0.3 * x


# %% Data with outliers, and the potential of 24 coordinates
def make_target() -> ko.Target:
    """A Student-t model of 120 observations, of which every twelfth is far off."""
    generator = np.random.default_rng(0)
    x = np.concatenate([generator.uniform(-3.0, 0.0, 80), generator.uniform(1.2, 3.0, 40)])[:, None]
    y = truth(x[:, 0]) + 0.2 * generator.normal(size=len(x))
    y[::12] += generator.choice([-1.0, 1.0], size=len(y[::12])) * generator.uniform(2.0, 3.5, len(y[::12]))
    prior = ko.GaussianProcess(ko.kernels.Matern52(lengthscale=0.8, variance=1.5))
    basis = ko.PointBasis(prior, x[ko.inducing.greedy_variance(prior, x, num_inducing=24)])
    likelihood = ko.likelihoods.StudentT(degrees_of_freedom=3.0, scale=0.2)
    return ko.Target(basis, likelihood, x, y)


# %% The particles as functions
def plot_functions(path: Path, target: ko.Target, particles: ko.samplers.Particles) -> None:
    """The conditional-mean functions m(x) + φ(x)ᵀu_j of all particles, with the data."""
    grid = np.linspace(-3.4, 3.4, 400)[:, None]
    basis = target.basis
    functions = basis.prior.mean_at(grid) + particles.coordinates @ basis.conditional_mean(grid).T
    figure, axis = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
    axis.plot(grid[:, 0], functions.T, color=BLUE, lw=0.6, alpha=0.25)
    axis.plot([], [], color=BLUE, label=f"{len(functions)} particles")
    axis.plot(grid[:, 0], functions.mean(axis=0), color=ORANGE, lw=1.6, label="their mean")
    axis.plot(grid[:, 0], truth(grid[:, 0]), color=BLACK, lw=1.0, ls="--", label="truth")
    axis.plot(target.x[:, 0], target.y, "o", color=BLACK, ms=3.0, alpha=0.7, label="data")
    axis.set(xlabel="x", ylabel="f(x)", xlim=(-3.4, 3.4), title="Student-t regression: m(x) + φ(x)ᵀu")
    axis.legend(loc="lower left", ncols=4, columnspacing=1.2, handlelength=1.4)
    figure.savefig(path)
    plt.close(figure)


# %% The way there
def plot_traces(path: Path, reports: dict[str, ko.samplers.Report]) -> None:
    """Mean potential and nested R̂ over the steps, for each start."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.2), sharex=True, layout="constrained")
    for (name, report), colour in zip(reports.items(), (BLUE, ORANGE), strict=True):
        left.plot(report.energy_steps, report.energy, color=colour, label=f'initial="{name}"')
        shown = np.isfinite(report.r_hat_trace)
        right.semilogy(report.energy_steps[shown], report.r_hat_trace[shown] - 1.0, color=colour)
    limit = ko.samplers.R_HAT_LIMIT
    right.axhline(limit - 1.0, color=BLACK, lw=0.8, ls=":")
    right.text(0.3, limit - 1.0, f"limit {limit}", transform=right.get_yaxis_transform(), va="bottom")
    left.set(xlabel="step", ylabel="mean potential", title="Energy")
    right.set(xlabel="step", ylabel="R̂ − 1", title="Nested R̂, after adaptation")
    left.legend()
    figure.savefig(path)
    plt.close(figure)


def main(folder: Path) -> None:
    """Sample from two starts, write both pictures into `folder` and say where they are."""
    folder.mkdir(parents=True, exist_ok=True)
    target = make_target()
    particles, report = ko.sample(jax.random.key(0), target, num_particles=100)
    _, other = ko.sample(jax.random.key(1), target, num_particles=100, initial="prior")
    print(report)
    with plt.rc_context(STYLE):
        plot_functions(folder / "posterior_particles.png", target, particles)
        print(f"particles as functions: {folder / 'posterior_particles.png'}")
        plot_traces(folder / "traces.png", {"laplace": report, "prior": other})
        print(f"energy and R-hat: {folder / 'traces.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for the pictures")
    main(parser.parse_args().out)
