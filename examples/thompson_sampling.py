"""Maximise a noisy black box by Thompson sampling: draw a function from the posterior, go where it is largest, repeat.

Run it with `make demo`, or `python examples/thompson_sampling.py --out demo`; it needs `kosambi[plots]`.
"""

# %% Set-up
import argparse
from pathlib import Path

import jax
import matplotlib as mpl
import numpy as np
from scipy.optimize import minimize

import kosambi as ko

mpl.use("Agg")
import matplotlib.pyplot as plt

BLACK, GREEN = "#000000", "#009E73"
STYLE = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "font.size": 10,
    "legend.frameon": False,
    "savefig.dpi": 110,
}
LOW, HIGH, NOISE = 0.0, 1.2, 0.1
GRID = np.linspace(LOW, HIGH, 241)[:, None]


def black_box(x: np.ndarray) -> np.ndarray:
    """What is to be maximised: four hills, of which the last is the highest."""
    return (3.0 * x - 1.4) * np.sin(18.0 * x)


def fit(key: jax.Array, x: np.ndarray, y: np.ndarray) -> ko.Posterior:
    """The posterior given all observations so far; inducing points on a grid, so that shapes stay the same."""
    kernel = ko.kernels.Matern52(lengthscale=0.1, variance=2.0)
    points = np.linspace(LOW, HIGH, 25)[:, None]
    return ko.infer(key, kernel, ko.likelihoods.Gaussian(NOISE), x, y, inducing_points=points, num_particles=50)


# %% The largest value of one draw
@jax.jit
def cost_and_slope(draw: ko.FunctionDraws, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Minus the draw at one input, and its derivative: a draw is a pytree, and plain JAX under `jit` and `grad`."""
    return jax.value_and_grad(lambda t: -draw(t[None, :])[0, 0])(x)


def maximise(draw: ko.FunctionDraws, num_starts: int = 4) -> tuple[float, float]:
    """Where a draw is largest, and how large: L-BFGS from the best inputs of a grid."""
    values = draw(GRID)[0]
    # One start per hill: grid points above both neighbours, the highest first.
    padded = np.concatenate([[-np.inf], values, [-np.inf]])
    hills = np.flatnonzero((values > padded[:-2]) & (values > padded[2:]))
    starts = GRID[hills[np.argsort(-values[hills])[:num_starts]]]
    # Outside of kosambi's own calls JAX works in float32 unless it is told otherwise.
    with jax.enable_x64(True):
        found = [
            minimize(lambda t: cost_and_slope(draw, t), start, jac=True, method="L-BFGS-B", bounds=[(LOW, HIGH)])
            for start in starts
        ]
    best = min(found, key=lambda result: result.fun)
    return float(best.x[0]), -float(best.fun)


# %% The picture
def plot_round(axes: plt.Axes, posterior: ko.Posterior, draw: ko.FunctionDraws, top: tuple[float, float]) -> None:
    """The posterior, the truth, the draw that chooses the next input, and that input."""
    ko.plots.posterior(posterior, x_new=GRID, axes=axes).get_legend().remove()
    axes.plot(GRID[:, 0], black_box(GRID[:, 0]), color=BLACK, lw=1.0, ls="--", label="black box")
    axes.plot(GRID[:, 0], draw(GRID)[0], color=GREEN, lw=1.4, label="one draw")
    axes.plot(*top, "v", color=GREEN, ms=9, mec=BLACK, label="its maximum: observe here next", clip_on=False)
    axes.set(title=f"{len(posterior.target.y)} observations", ylim=(-2.9, 2.9))


def main(folder: Path, num_rounds: int = 16) -> None:
    """Run the rounds, print what was found, and write the picture into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(0)
    # Both ends are among the first inputs: what is compiled for the draws depends on how far the data reach.
    x = np.linspace(LOW, HIGH, 4)[:, None]
    y = black_box(x[:, 0]) + NOISE * generator.normal(size=4)
    rounds = []
    # Two keys per round, and none used twice.
    for key in jax.random.split(jax.random.key(0), num_rounds):
        key_fit, key_draw = jax.random.split(key)
        posterior = fit(key_fit, x, y)
        draw = posterior.functions(key_draw)[0]
        x_next, value = maximise(draw)
        rounds.append((posterior, draw, (x_next, value)))
        y_next = black_box(x_next) + NOISE * generator.normal()
        print(f"{len(x):2d} observations: a draw is largest at {x_next:.3f} ({value:.2f}); observed {y_next:.2f} there")
        x, y = np.append(x, [[x_next]], axis=0), np.append(y, y_next)
    best, top = int(np.argmax(y)), int(np.argmax(black_box(GRID[:, 0])))
    print(f"best observation: {y[best]:.2f} at {x[best, 0]:.3f}", end="; ")
    print(f"the black box is largest at {GRID[top, 0]:.3f}, {black_box(GRID[top, 0]):.2f}")

    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(1, 2, figsize=(9.6, 3.8), sharey=True, layout="constrained")
        for axis, number in zip(axes, (0, num_rounds - 1), strict=True):
            plot_round(axis, *rounds[number])
        axes[1].set_ylabel("")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, handlelength=1.6)
        figure.savefig(folder / "thompson_sampling.png")
        plt.close(figure)
    print(f"first and last round: {folder / 'thompson_sampling.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for the pictures")
    main(parser.parse_args().out)
