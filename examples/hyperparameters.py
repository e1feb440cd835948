"""Hyperparameters from the data: a posterior with default values, and one that maximises the marginal likelihood.

Run it with `make demo`, or `python examples/hyperparameters.py --out demo`; it needs `kosambi[plots]`.
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

STYLE = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "font.size": 10,
    "legend.frameon": False,
    "savefig.dpi": 110,
}
GRID = np.linspace(-3.0, 43.0, 185)[:, None]
NUM_INDUCING = 30


# %% Data far from unit scale: level 15, amplitude 6, a period of 25, noise 1.5, and a gap
def wave(x: np.ndarray) -> np.ndarray:
    """The function that is observed."""
    return 15.0 + 6.0 * np.sin(2.0 * np.pi * x[:, 0] / 25.0)


def observe(generator: np.random.Generator, num_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs in [0, 40] without those between 22 and 28, and noisy observations."""
    x = generator.uniform(0.0, 34.0, (num_rows, 1))
    x = np.where(x > 22.0, x + 6.0, x)
    return x, wave(x) + 1.5 * generator.normal(size=num_rows)


def main(folder: Path) -> None:
    """Learn, print the report and how well held-out data are predicted, and write the picture into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    key_fit, key_before, key_after, key_draws = jax.random.split(jax.random.key(0), 4)
    generator = np.random.default_rng(0)
    x, y = observe(generator, 120)
    x_test, y_test = observe(generator, 60)

    # %% Learn kernel, mean and noise
    prior, likelihood = ko.GaussianProcess(ko.kernels.Matern52()), ko.likelihoods.Gaussian()
    learned_prior, learned_likelihood, report = ko.fit_hyperparameters(
        key_fit, prior, likelihood, x, y, num_inducing=NUM_INDUCING
    )
    print(report)

    # %% The same inference with both
    points = report.inducing_points
    before = ko.infer(key_before, prior, likelihood, x, y, inducing_points=points)
    after = ko.infer(key_after, learned_prior, learned_likelihood, x, y, inducing_points=points)
    models = {
        "default parameters": (before, prior, likelihood),
        "learned parameters": (after, learned_prior, learned_likelihood),
    }

    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(1, 2, figsize=(10.0, 4.0), sharey=True, layout="constrained")
        for panel, (name, (posterior, its_prior, its_likelihood)) in zip(axes, models.items(), strict=True):
            evidence = ko.log_evidence(its_prior, its_likelihood, x, y, points)
            score = np.mean(posterior.log_predictive_density(x_test, y_test))
            print(f"{name}: log marginal likelihood {evidence:.1f}, log predictive density {score:.3f} per test row")
            ko.plots.posterior(posterior, key_draws, x_new=GRID, num_draws=5, axes=panel)
            # Above the axes is the legend.
            panel.set_xlabel(f"x\n{name}, log marginal likelihood {evidence:.0f}")
        figure.savefig(folder / "hyperparameters.png")
        plt.close(figure)
    print(f"before and after learning: {folder / 'hyperparameters.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for the pictures")
    main(parser.parse_args().out)
