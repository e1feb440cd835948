"""Highest density regions of functions of one input: the smallest sets that hold f, in several pieces where it must."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from kosambi._core.checks import as_level
from kosambi._core.types import ArrayLike
from kosambi.errors import InputError
from kosambi.plots._functions import as_grid
from kosambi.plots.style import Axes, as_axes, class_style, spread
from kosambi.posterior import AveragedPosterior, Posterior

_CELLS = 256
# Particles that the density is made of; more change nothing that can be seen.
_PARTICLES = 400


def highest_density(
    posterior: Posterior,
    coverage: Sequence[float] = (0.5, 0.8, 0.95),
    *,
    x_new: ArrayLike | None = None,
    x_mean: float = 0.0,
    x_scale: float = 1.0,
    axes: Axes | None = None,
) -> Axes:
    """At each input the smallest sets that hold f with the given probabilities, and the mean function of each mode.

    An interval between quantiles covers the gap between two modes; these regions leave it out. The density of f is
    that of the particles' conditional distributions, each widened by Silverman's rule within its own mode.

    Arguments:
        posterior: what `kosambi.infer` returned, for one input column and one latent function.
        coverage: probabilities between 0 and 1.
        x_new: (N, 1), where to draw; when None 300 points that go a tenth of the data's width past them on either side.
        x_mean: added to the inputs on the axis, after `x_scale`.
        x_scale: what the inputs are multiplied by on the axis.
        axes: where to draw; a new figure when None.

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(-1.0, 1.0, 40)[:, None]
    >>> fitted = ko.infer(jax.random.key(0), ko.kernels.Matern52(), ko.likelihoods.Gaussian(0.1), x, np.sin(x[:, 0]))
    >>> ko.plots.highest_density(fitted).get_legend_handles_labels()[1]
    ['100.0 %']
    """
    grid = as_grid("highest_density", posterior, x_new, 0, 1)
    if posterior.likelihood.num_latents > 1:
        raise InputError("`plots.highest_density` draws one latent function. Use `posterior.by_mode()` for several.")
    levels = np.unique([as_level("coverage", level) for level in coverage])
    if not len(levels):
        raise InputError("`coverage` is empty. Give probabilities between 0 and 1, such as (0.5, 0.95).")
    is_averaged = isinstance(posterior, AveragedPosterior)
    prediction = posterior.predict(grid)
    means = np.asarray(prediction.component_means)
    labels, shares = np.zeros(len(means), dtype=int), np.ones(1)
    # A posterior in closed form has one component, and one mode; an average is taken as a whole.
    if not is_averaged and len((found := posterior.modes()).labels) == len(means):
        labels, shares = np.asarray(found.labels), np.asarray(found.shares)
    chosen = spread(len(means), _PARTICLES)
    deviation = np.broadcast_to(prediction.component_deviation, means.shape)
    values, depth = smallest_coverage(means[chosen], deviation[chosen], labels[chosen])
    axes = as_axes(axes, (7.2, 4.0))
    x = x_mean + x_scale * grid[:, 0]
    # Lighter outwards; grey, since colours are those of the modes.
    shades = [str(0.55 + 0.35 * k / len(levels)) for k in range(len(levels))]
    drawn = axes.contourf(np.broadcast_to(x, values.shape), values, depth, levels=[0.0, *levels], colors=shades)
    for number, share in enumerate(shares):
        own = means[labels == number]
        if len(own):
            style = class_style(number)
            axes.plot(x, own.mean(axis=0), lw=1.6, label=f"{100 * share:.1f} %", **style)
    axes.figure.colorbar(drawn, ax=axes, label="smallest region that holds f", ticks=levels)
    axes.set(xlabel="x", ylabel="f(x)")
    axes.legend(fontsize="small", frameon=False, title="modes: mean and share", title_fontsize="small")
    return axes


def smallest_coverage(
    means: Float[np.ndarray, "J N"], deviation: Float[np.ndarray, "*J N"], labels: Int[np.ndarray, " J"]
) -> tuple[Float[np.ndarray, "V N"], Float[np.ndarray, "V N"]]:
    """Values of f at each input, and the coverage of the smallest region that each value belongs to.

    Arguments:
        means: of f, given each of J particles, at N inputs.
        deviation: that of f given a particle.
        labels: the mode of each particle.
    """
    spreads = np.broadcast_to(deviation, means.shape).copy()
    for label in np.unique(labels):
        own = labels == label
        if np.sum(own) > 1:
            width = 1.06 * np.std(means[own], axis=0) * np.sum(own) ** -0.2
            spreads[own] = np.sqrt(np.square(spreads[own]) + np.square(width))
    scale = np.maximum(spreads, 1e-12 * (1.0 + np.abs(means)))
    low, high = np.min(means - 4.0 * scale, axis=0), np.max(means + 4.0 * scale, axis=0)
    values = low + np.linspace(0.0, 1.0, _CELLS)[:, None] * (high - low)
    density = np.zeros_like(values)
    for mean, width in zip(means, scale, strict=True):
        density += np.exp(-0.5 * np.square((values - mean) / width)) / width
    order = np.argsort(-density, axis=0, kind="stable")
    mass = np.cumsum(np.take_along_axis(density, order, axis=0), axis=0)
    coverage = np.empty_like(density)
    np.put_along_axis(coverage, order, mass / mass[-1], axis=0)
    return values, coverage
