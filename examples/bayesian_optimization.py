"""Minimise Branin's function in 40 evaluations: a regressor that learns as it goes, and expected improvement.

Run it with `make demo`, or `python examples/bayesian_optimization.py --out demo`; it needs `kosambi[plots]`.
"""

# %% Set-up
import argparse
import warnings
from pathlib import Path

import jax
import matplotlib as mpl
import numpy as np

import kosambi as ko

mpl.use("Agg")
import matplotlib.pyplot as plt

BLACK, GREEN, ORANGE = "#000000", "#009E73", "#E69F00"
BOUNDS = np.array([[-5.0, 0.0], [10.0, 15.0]])
LEAST, FIRST, EVERY = 0.397887, 8, 3


def branin(x: np.ndarray) -> np.ndarray:
    """What is to be minimised; it has three minima of the same depth."""
    a, b = x[:, 0], x[:, 1]
    bowl = b - 5.1 / (4.0 * np.pi**2) * a**2 + 5.0 / np.pi * a - 6.0
    return bowl**2 + 10.0 * (1.0 - 1.0 / (8.0 * np.pi)) * np.cos(a) + 10.0


# %% One round
def update(model: ko.ProjectedLangevinRegressor, x: np.ndarray, y: np.ndarray) -> None:
    """Learn hyperparameters again every third round, from where they were; add the new row to the fit otherwise."""
    with warnings.catch_warnings():
        # Of a noise that vanishes, since there is none, and of rows that surprise the hyperparameters so far.
        warnings.simplefilter("ignore", ko.errors.HyperparameterWarning)
        if (len(x) - FIRST) % EVERY == 0:
            model.fit(x, -y)
        else:
            model.partial_fit(x[-1:], -y[-1:])


def next_input(key: jax.Array, model: ko.ProjectedLangevinRegressor) -> tuple[np.ndarray, float]:
    """Where −y is expected to improve most, and by how much."""
    improvement = ko.acquisition.ExpectedImprovement(model.posterior_)
    # The posterior knows standardised inputs.
    top = ko.acquisition.maximize(key, improvement, model.transform_inputs(BOUNDS))
    return np.clip(top.x * model.x_scale_ + model.x_mean_, *BOUNDS), top.value


# %% The picture
def plot(model: ko.ProjectedLangevinRegressor, x: np.ndarray, y: np.ndarray, axes: np.ndarray) -> None:
    """The inputs on what is believed of the function, and the regret."""
    sides = [np.linspace(*BOUNDS[:, column], 60) for column in range(2)]
    grid = np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)
    mean = -model.predict(grid).reshape(60, 60)
    shown = axes[0].contourf(*sides, mean, levels=20, cmap="cividis_r")
    axes[0].figure.colorbar(shown, ax=axes[0], label="posterior mean")
    axes[0].plot(*x[:FIRST].T, "o", color="white", mec=BLACK, ms=5, label="first inputs")
    axes[0].plot(*x[FIRST:].T, "o", color=ORANGE, mec=BLACK, ms=5, label="chosen inputs")
    axes[0].set(xlabel="x1", ylabel="x2", title=f"{len(x)} evaluations", xlim=BOUNDS[:, 0], ylim=BOUNDS[:, 1])
    axes[0].legend(loc="upper right", fontsize=8)
    axes[1].semilogy(np.arange(1, len(y) + 1), np.minimum.accumulate(y) - LEAST, color=GREEN, lw=1.6)
    axes[1].axvline(FIRST, color=BLACK, lw=0.8, ls=":")
    axes[1].set(xlabel="evaluations", ylabel="best value seen above the minimum", title="regret")


def main(folder: Path, num_evaluations: int = 40) -> None:
    """Run the rounds, print what was found, and write the picture into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(0)
    cells = np.argsort(generator.uniform(size=(FIRST, 2)), axis=0)
    x = BOUNDS[0] + (cells + generator.uniform(size=(FIRST, 2))) / FIRST * (BOUNDS[1] - BOUNDS[0])
    y = branin(x)
    model = ko.ProjectedLangevinRegressor(kernel="matern52", warm_start=True, progress=False)
    for key in jax.random.split(jax.random.key(0), num_evaluations - FIRST):
        update(model, x, y)
        new, gain = next_input(key, model)
        x, y = np.concatenate([x, new[None]]), np.append(y, branin(new[None]))
        print(f"{len(x):2d} evaluations: ({new[0]:6.2f}, {new[1]:5.2f}), hoped for {gain:9.2g}, best {y.min():.4f}")
    update(model, x, y)
    print(f"least value seen: {y.min():.5f}; the minimum is {LEAST:.5f}")
    with plt.rc_context({"axes.spines.top": False, "axes.spines.right": False, "font.size": 10, "savefig.dpi": 110}):
        figure, axes = plt.subplots(1, 2, figsize=(9.6, 3.8), layout="constrained")
        plot(model, x, y, axes)
        figure.savefig(folder / "bayesian_optimization.png")
        plt.close(figure)
    print(f"inputs and regret: {folder / 'bayesian_optimization.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for the pictures")
    main(parser.parse_args().out)
