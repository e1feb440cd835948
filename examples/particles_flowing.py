"""Particles that flow from the prior to the posterior, as an animation.

Each of 20 particles is a function (its conditional mean given the coordinates). At time 0 they are prior draws; the
unadjusted Langevin diffusion, the paper's sampler, then carries them to the posterior. The frames are runs of one, two
and more steps with the same key, so that a frame continues the one before it.

    python examples/particles_flowing.py --out docs/images
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import jax
import matplotlib as mpl
import numpy as np

import kosambi as ko

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.animation import FuncAnimation, PillowWriter

# Steps at which a frame is drawn: dense at first, where everything happens.
STEPS = [1, 2, 3, 4, 6, 8, 11, 15, 20, 27, 36, 48, 64, 85, 113, 150]


def frames() -> tuple[np.ndarray, np.ndarray, np.ndarray, list[np.ndarray]]:
    """Inputs, observations, a grid, and the functions of each frame, (J, G)."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-3.0, 0.0, 30), rng.uniform(1.2, 3.0, 20)])[:, None]
    y = np.sin(2.0 * x[:, 0]) + 0.2 * rng.normal(size=50)
    prior = ko.GaussianProcess(ko.kernels.Matern52(lengthscale=0.8))
    basis = ko.PointBasis(prior, x[ko.inducing.greedy_variance(prior.kernel, x, num_inducing=16)])
    target = ko.Target(basis, ko.likelihoods.StudentT(4.0, 0.2), x, y, "projected")
    grid = np.linspace(-3.2, 3.2, 120)[:, None]
    features = np.asarray(basis.conditional_mean(grid))
    start = np.asarray(basis.coordinates(prior.draw(jax.random.key(1), num_draws=20)))
    found = [start @ features.T]
    for steps in STEPS:
        sampler = ko.samplers.EulerMaruyama(num_steps=steps, preconditioned=True)
        with warnings.catch_warnings():
            # A run of a few steps has not converged, and this is what is to be seen.
            warnings.simplefilter("ignore", ko.errors.ConvergenceWarning)
            particles, _ = ko.sample(
                jax.random.key(2), target, sampler, num_particles=20, initial=start, progress=False
            )
        found.append(np.asarray(particles.coordinates) @ features.T)
    return x, y, grid, found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("demo"))
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    x, y, grid, found = frames()
    figure, axes = plt.subplots(figsize=(6.4, 3.4), dpi=80, layout="constrained")
    axes.plot(x[:, 0], y, "o", ms=3, color=ko.plots.BLACK, zorder=3)
    lines = axes.plot(grid[:, 0], found[0].T, color=ko.plots.BLUE, lw=0.8, alpha=0.7)
    axes.set(xlim=(-3.2, 3.2), ylim=(-3.0, 3.0), xlabel="x", ylabel="f(x)")

    def show(number: int) -> list:
        for line, values in zip(lines, found[number], strict=True):
            line.set_ydata(values)
        axes.set_title(f"step {[0, *STEPS][number]}", loc="left")
        return lines

    order = [0, 0, 0, *range(1, len(found)), *[len(found) - 1] * 6]
    animation = FuncAnimation(figure, show, frames=order)
    animation.save(out / "particles_flowing.gif", writer=PillowWriter(fps=5))
    show(len(found) - 1)
    figure.savefig(out / "particles_flowing.png")
    print(out / "particles_flowing.gif")
    print(out / "particles_flowing.png")


if __name__ == "__main__":
    main()
