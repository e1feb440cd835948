"""How a run went: potential and R̂ over its steps."""

from __future__ import annotations

import numpy as np

from kosambi.diagnostics.report import Report
from kosambi.errors import InputError
from kosambi.plots._style import BLACK, BLUE, Axes, as_axes


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
