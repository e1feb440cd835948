"""Table and figure of the experiment `complexity`, from what was kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from reproduction import complexity
from reproduction.experiment import Found

NAMES = {"N": "data N", "M": "inducing points M", "J": "particles J"}
STYLES = {
    "kosambi": ("#0072B2", "o", "-"),
    "kosambi, Student-t": ("#56B4E9", "D", ":"),
    "kosambi, rough kernel": ("#009E73", "^", "--"),
    "SVGP": ("#D55E00", "s", "-."),
}


def _axes(found: Found) -> list[tuple[str, dict[str, list[dict[str, Any]]]]]:
    axes = []
    for axis in complexity.DEFAULTS:
        cell = found.get(axis)
        if cell is not None:
            axes.append((axis, cell["points"]))
    return axes


def table(found: Found) -> str:
    """Totals, steps, slopes."""
    defaults = ", ".join(f"{name} = {value}" for name, value in complexity.DEFAULTS.items())
    lines = [
        f"Medians of {complexity.REPEATS} runs in float64, methods in turns; where nothing else is said {defaults}. "
        f"*Total* is, for kosambi, prior, Nyström basis, target and `kosambi.sample` with {complexity.NUM_STEPS} "
        "Euler-Maruyama steps (its search for the mode and its diagnostics included), already compiled; for SVGP "
        f"(GPyTorch, kernel r, full batch, kernel and points fixed) the model and {complexity.NUM_STEPS} steps. "
        "*A step* is one update of all J particles, or one gradient step of SVGP, by itself. *Compiling* is what the "
        "first run of a new shape costs kosambi once, and is in neither. *Kept* is the number of coordinates that are "
        "left when dependent points have been dropped; with the rough kernel (Matérn-1/2) none are. With normal noise, "
        "as in the paper, kosambi sums the data up in an M×M matrix before the first step, so that a step does not "
        "depend on N; Student-t noise has no such sum. SVGP has no particles: along J it does the same work again.",
    ]
    for axis, points in _axes(found):
        names = list(points)
        lines += ["", f"### Over {NAMES[axis]}", ""]
        header = [axis]
        for name in names:
            header += [f"{name}: total, ms", "a step, ms"] + ([] if name == "SVGP" else ["compiling, s", "kept"])
        lines += [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
        for row in zip(*(points[name] for name in names), strict=True):
            parts = [str(row[0]["value"])]
            for name, point in zip(names, row, strict=True):
                parts += [f"{1e3 * point['total']:.1f}", f"{1e3 * point['step']:.3f}"]
                parts += [] if name == "SVGP" else [f"{point['compiling']:.1f}", str(point["kept"])]
            lines.append(f"| {' | '.join(parts)} |")
        lines += ["", *_verdicts(axis, points)]
    return "\n".join(lines)


def _verdicts(axis: str, points: dict[str, list[dict[str, Any]]]) -> list[str]:
    told = []
    for name, own in points.items():
        values = [point["value"] for point in own]
        steps, totals = ([point[kind] for point in own] for kind in ("step", "total"))
        upper = len(own) // 2
        total, step = complexity.slope(values, totals), complexity.slope(values, steps)
        end = complexity.slope(values[upper:], steps[upper:])
        told.append(
            f"- {name}: time grows as {axis} to the power {total:.2f} (total) and {step:.2f} (a step; {end:.2f} over "
            f"the upper half, {values[upper]} to {values[-1]})."
        )
    for name in points if "SVGP" in points else ():
        if name == "SVGP":
            continue
        for kind, what in (("total", "in total"), ("step", "a step")):
            pairs = zip(points["SVGP"], points[name], strict=True)
            ratios = [svgp[kind] / own[kind] for svgp, own in pairs if own[kind] and own[kind] > 0]
            if ratios:
                told.append(f"- SVGP takes {min(ratios):.1f} to {max(ratios):.1f} times as long as {name} {what}.")
    return told


def draw(found: Found, folder: Path) -> list[Path]:
    """Totals above, steps below, one column an axis."""
    axes = _axes(found)
    if not axes:
        return []
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.6 * len(axes), 6.0), layout="constrained")
    panels = figure.subplots(2, len(axes), squeeze=False, sharey="row")
    for column, (axis, points) in enumerate(axes):
        for name, own in points.items():
            colour, mark, line = STYLES[name]
            values = [point["value"] for point in own]
            style = {"color": colour, "marker": mark, "ls": line, "ms": 4, "label": name}
            spread = np.array([np.quantile(point["totals"], [0.1, 0.9]) for point in own])
            panels[0, column].fill_between(values, *(1e3 * spread.T), color=colour, alpha=0.2, lw=0)
            panels[0, column].plot(values, [1e3 * point["total"] for point in own], **style)
            above = [(v, 1e3 * p["step"]) for v, p in zip(values, own, strict=True) if p["step"] > 0]
            if above:
                panels[1, column].plot(*zip(*above, strict=True), **style)
        for row, what in enumerate((f"Total with {complexity.NUM_STEPS} steps", "One step")):
            panels[row, column].set(xscale="log", yscale="log", xlabel=NAMES[axis], title=what)
            panels[row, column].grid(which="both", color="#dddddd", lw=0.5)
    for row in panels:
        row[0].set_ylabel("milliseconds")
    for panel in panels[0]:
        panel.legend(fontsize="x-small", frameon=False)
    path = folder / "complexity-growth.png"
    figure.savefig(path, dpi=110)
    return [path]
