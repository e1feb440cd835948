"""Posteriors with several modes: functions in the colour of their mode, and the ladder that connects them.

How a run went: potential and R̂ over its steps.
"""

from __future__ import annotations

import numpy as np

from kosambi._core.types import ArrayLike, Key
from kosambi.errors import InputError
from kosambi.plots._functions import as_grid, drawn_functions
from kosambi.plots.style import BLACK, BLUE, Axes, as_axes, class_style, spread
from kosambi.posterior import AveragedPosterior, Posterior
from kosambi.samplers.report import Report


def modes(
    posterior: Posterior,
    key: Key,
    *,
    x_new: ArrayLike | None = None,
    num_draws: int = 40,
    x_mean: float = 0.0,
    x_scale: float = 1.0,
    axes: Axes | None = None,
) -> Axes:
    """Functions drawn from a posterior over functions of one input, in the colour of their mode, with its share.

    Each mode has at least one function, and otherwise as many as its share asks for. Of an average over hyperparameters
    they are those of the most probable ones.

    Arguments:
        posterior: what `kosambi.infer` returned, for one input column and one latent function.
        key: a JAX random key.
        x_new: (N, 1), where to draw; when None 300 points that go a tenth of the data's width past them on either side.
        num_draws: how many functions, about.
        x_mean: added to the inputs on the axis, after `x_scale`.
        x_scale: what the inputs are multiplied by on the axis.
        axes: where to draw; a new figure when None.

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(-1.0, 1.0, 40)[:, None]
    >>> fitted = ko.infer(jax.random.key(0), ko.kernels.Matern52(), ko.likelihoods.Gaussian(0.1), x, np.sin(x[:, 0]))
    >>> ko.plots.modes(fitted, jax.random.key(1)).get_legend_handles_labels()[1]
    ['100.0 ± 0.0 %']
    """
    grid = as_grid("modes", posterior, x_new, 0, num_draws)
    if posterior.likelihood.num_latents > 1:
        raise InputError("`plots.modes` draws one latent function. Use `posterior.by_mode()` for several.")
    posterior = posterior.point if isinstance(posterior, AveragedPosterior) else posterior
    found = posterior.modes()
    values = drawn_functions(posterior, key, grid, posterior.num_particles)
    axes = as_axes(axes, (7.2, 4.0))
    for number, (share, error) in enumerate(zip(found.shares, found.standard_errors, strict=True)):
        own = np.flatnonzero(found.labels == number)
        chosen = own[spread(len(own), max(1, round(share * num_draws)))]
        style = class_style(number)
        lines = axes.plot(x_mean + x_scale * grid[:, 0], values[chosen].T, lw=0.8, alpha=0.7, **style)
        lines[0].set_label(f"{100 * share:.1f} ± {100 * error:.1f} %")
    axes.set(xlabel="x", ylabel="f(x)")
    axes.legend(fontsize="small", frameon=False, title="share of the draws", title_fontsize="small")
    return axes


def ladder(report: Report, axes: Axes | None = None) -> Axes:
    """How often neighbouring temperatures exchange their replicas; for runs of `Tempering`.

    Arguments:
        report: what `kosambi.sample` returned beside the particles, and what `posterior.report` is.
        axes: where to draw; a new figure when None.
    """
    if not isinstance(report, Report) or report.ladder is None:
        raise InputError('`plots.ladder` needs the report of a run with sampler="tempering".')
    axes = as_axes(axes, (4.8, 3.2))
    axes.plot(np.arange(1, len(report.ladder.betas)), report.ladder.swap_rates, color=BLUE, marker=".", lw=1.2)
    axes.axhline(0.0, color=BLACK, lw=0.6)
    axes.set(xlabel="temperature, from prior to posterior", ylabel="swaps accepted", ylim=(0.0, 1.05))
    return axes


def energy(report: Report, axes: Axes | None = None) -> Axes:
    """The mean potential of the particles over the steps of a run.

    Arguments:
        report: what `kosambi.sample` returned beside the particles, and what `posterior.report` is.
        axes: where to draw; a new figure when None.
    """
    axes = _run_axes("energy", report, axes)
    axes.set(xlabel="step", ylabel="mean potential")
    if report.steps:
        axes.plot(report.energy_steps, report.energy, color=BLUE, lw=1.2, label=report.sampler)
    return axes


def r_hat(report: Report, axes: Axes | None = None) -> Axes:
    """How far nested R̂ is above 1 over the steps after adaptation, on a logarithmic scale, with its limit.

    Arguments:
        report: what `kosambi.sample` returned beside the particles, and what `posterior.report` is.
        axes: where to draw; a new figure when None.
    """
    axes = _run_axes("r_hat", report, axes)
    axes.set(xlabel="step", ylabel="nested R̂ − 1")
    excess = np.asarray(report.r_hat_trace) - 1.0
    shown = np.isfinite(excess) & (excess > 0)
    if report.steps and shown.any():
        axes.plot(report.energy_steps[shown], excess[shown], color=BLUE, lw=1.2, marker=".", label=report.sampler)
        axes.axhline(report.r_hat_limit - 1.0, color=BLACK, lw=0.9, ls="--", label=f"limit {report.r_hat_limit:.6g}")
        axes.set_yscale("log")
        axes.legend(fontsize="small", frameon=False)
    elif report.steps:
        axes.set_title(f"{report.sampler}: R̂ was taken at the end only, {report.r_hat:.4f}")
    return axes


def _run_axes(name: str, report: object, axes: Axes | None) -> Axes:
    if not isinstance(report, Report):
        raise InputError(f"`plots.{name}` needs a report. Got {type(report).__name__}. Use `posterior.report`.")
    axes = as_axes(axes, (4.8, 3.2))
    if not report.steps:
        axes.set_title(f"{report.sampler}: independent draws, no steps")
    return axes
