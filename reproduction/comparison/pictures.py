"""Scores of all methods at a glance, and what they cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from reproduction.comparison.methods import LABELS
from reproduction.comparison.statistics import difference, mean, values
from reproduction.experiment import Found

COLOURS = {
    "faithful": "#8c6bb1",
    "from_code": "#c994c7",
    "kosambi_root": "#41ab5d",
    "kosambi": "#006d2c",
    "svgp_paper": "#fdae6b",
    "svgp": "#e6550d",
    "svgp_512": "#a63603",
    "exact": "#111111",
    "laplace": "#3182bd",
    "logistic": "#9ecae1",
}


def draw(
    found: Found, folder: Path, name: str, datasets: tuple[str, ...], likelihoods: tuple[str, ...], metric: str
) -> list[Path]:
    """Two figures: scores beside those of a reference, and scores against seconds."""
    settings = [
        (data, likelihood)
        for likelihood in likelihoods
        for data in datasets
        if values(found, data, likelihood, "kosambi", metric)
    ]
    if not settings:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    return [_scores(found, folder, name, settings, metric), _times(found, folder, name, settings, metric)]


def _scores(found: Found, folder: Path, name: str, settings: list[tuple[str, str]], metric: str) -> Path:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 1.4 + 0.34 * len(settings)), layout="constrained")
    axes = figure.subplots()
    methods = [m for m in LABELS if any(values(found, *s, m, metric) for s in settings)]
    for row, setting in enumerate(settings):
        reference = "exact" if values(found, *setting, "exact", metric) else "kosambi"
        for place, method in enumerate(methods):
            gap = difference(values(found, *setting, method, metric), values(found, *setting, reference, metric))
            if gap is None:
                continue
            height = row + 0.6 * (place / max(len(methods) - 1, 1) - 0.5)
            error = gap.error if np.isfinite(gap.error) else 0.0
            axes.errorbar(gap.mean, height, xerr=error, fmt="o", markersize=4, color=COLOURS[method], linewidth=1)
    axes.axvline(0.0, color="0.6", linewidth=0.8, zorder=0)
    axes.set_xscale("symlog", linthresh=0.1)
    axes.set_yticks(range(len(settings)), [_label(setting) for setting in settings])
    axes.set_ylim(len(settings) - 0.5, -0.5)
    axes.set_xlabel(
        f"{_metric(metric)} minus that of the exact GP where there is one, else of kosambi (lower is better)"
    )
    _legend(figure, axes, methods)
    return _save(figure, folder / f"{name}-scores.png")


def _times(found: Found, folder: Path, name: str, settings: list[tuple[str, str]], metric: str) -> Path:
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    columns = min(4, len(settings))
    rows = -(-len(settings) // columns)
    figure = Figure(figsize=(2.3 * columns + 0.6, 1.9 * rows + 0.8), layout="constrained")
    grid = np.atleast_1d(figure.subplots(rows, columns, squeeze=False)).ravel()
    methods = [m for m in LABELS if any(values(found, *s, m, metric) for s in settings)]
    for axes, setting in zip(grid, settings, strict=False):
        for method in methods:
            score, seconds = (values(found, *setting, method, m) for m in (metric, "seconds"))
            if score and seconds:
                axes.plot(mean(seconds), mean(score), "o", color=COLOURS[method], markersize=5)
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_title(_label(setting), fontsize=8)
        axes.tick_params(labelsize=7)
    for axes in grid[len(settings) :]:
        axes.set_visible(False)
    figure.supxlabel("seconds of a fit", fontsize=8)
    figure.supylabel(_metric(metric), fontsize=8)
    _legend(figure, grid[0], methods)
    return _save(figure, folder / f"{name}-times.png")


def _legend(figure: Any, axes: Any, methods: list[str]) -> None:
    for method in methods:
        axes.plot([], [], "o", color=COLOURS[method], markersize=4, label=LABELS[method])
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, fontsize=7, frameon=False)


def _label(setting: tuple[str, str]) -> str:
    data, likelihood = setting
    return data.replace("_", " ") + {"student_t": ", Student-t", "gaussian": ", Gaussian"}.get(likelihood, "")


def _metric(metric: str) -> str:
    return "NLL" if metric == "nll" else metric.replace("_", " ")


def _save(figure: Any, path: Path) -> Path:
    figure.savefig(path, dpi=110)
    return path
