"""The figures of `convergence`, from what its cells have kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from reproduction._convergence_tables import KERNELS, NAMES, best_bound, of_kind, race_curves
from reproduction._rates import theory
from reproduction.experiment import Found

# Okabe and Ito's colours, which people with any colour vision can tell apart; markers say the same again.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DOTS_PER_INCH = 110


def draw(found: Found, folder: Path) -> list[Path]:
    """Rates, divergences and races, those of which there is anything."""
    written = []
    for what, drawn in (("rates", _rates(found)), ("divergence", _divergences(found)), ("seconds", _races(found))):
        if drawn is not None:
            written.append(save(drawn, folder, f"convergence-{what}.png"))
    return written


def save(figure: Any, folder: Path, name: str) -> Path:
    """Write a figure, in a folder that is made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    figure.savefig(path, dpi=DOTS_PER_INCH)
    return path


def panels(count: int, width: float = 4.3, height: float = 3.6) -> tuple[Any, list[Any]]:
    """A figure with `count` axes side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * count, height), layout="constrained")
    axes = figure.subplots(1, count, squeeze=False)[0]
    for one in axes:
        one.grid(alpha=0.25)
    return figure, list(axes)


def _rates(found: Found) -> Any:
    cells = of_kind(found, "rate")
    if not cells:
        return None
    figure, axes = panels(3)
    titles = ("kernel as k, uniform ν", "kernel as r, uniform ν", "squared exponential, normal ν")
    for axis, title in zip(axes, titles, strict=True):
        axis.set(title=title, xlabel="M", ylabel="R_M", yscale="log")
    for axis in axes[:2]:
        axis.set_xscale("log")
        axis.set_xticks([8, 16, 32, 64, 128], labels=["8", "16", "32", "64", "128"])
        axis.minorticks_off()
    for cell in cells:
        order, process = cell["order"], cell["prior"] == "process"
        axis = axes[2] if order is None else axes[int(process)]
        mark = (3 + process) if order is None else order
        used = np.array(cell["clean"], dtype=bool)
        sizes, values = np.array(cell["sizes"])[used], np.array(cell["remainder"], dtype=float)[used]
        if not len(sizes):
            continue
        label = ("as r" if process else "as k") if order is None else KERNELS[order]
        axis.plot(sizes, values, MARKERS[mark], color=COLOURS[mark], label=label)
        axis.plot(sizes, np.array(cell["best"])[used], "-", color=COLOURS[mark], linewidth=1)
        expected = theory(cell["prior"], order)
        # Through the last point, a little below it, so that both can be seen.
        shape = np.exp(expected * (sizes - sizes[-1])) if order is None else (sizes / sizes[-1]) ** expected
        name = f"exp({expected:.2f} M)" if order is None else f"M^{expected:.0f}"
        axis.plot(sizes, 0.3 * values[-1] * shape, ":", color=COLOURS[mark], label=name)
    for axis in axes:
        if axis.lines:
            axis.legend(fontsize=7)
    figure.suptitle("Residual variance: points are inducing points, lines the leading eigenfunctions", fontsize=10)
    return figure


def _divergences(found: Found) -> Any:
    cells = of_kind(found, "divergence")
    if not cells:
        return None
    likelihoods = [
        name for name in ("bernoulli", "student_t", "gaussian") if any(c["likelihood"] == name for c in cells)
    ]
    figure, axes = panels(len(likelihoods))
    for axis, likelihood in zip(axes, likelihoods, strict=True):
        gaussian = likelihood == "gaussian"
        what = "KL(Π*, full posterior)" if gaussian else "KL(Π_∞, Π*)"
        axis.set(title=NAMES[likelihood], xlabel="M", ylabel=f"{what}, nats", yscale="log")
        for mark, cell in enumerate(c for c in cells if c["likelihood"] == likelihood):
            sizes = [row["M"] for row in cell["rows"]]
            values = [row.get("full_gap", row["divergence"]) or np.nan for row in cell["rows"]]
            style = {"color": COLOURS[mark], "marker": MARKERS[mark], "markersize": 4}
            axis.plot(sizes, _positive(values), "-", label=f"{NAMES[cell['prior']]}", **style)
            axis.plot(
                sizes,
                _positive([best_bound(row) for row in cell["rows"]]),
                "--",
                color=COLOURS[mark],
                label="least bound",
            )
            if not gaussian:
                theorem = _positive([row["theorem"] for row in cell["rows"]])
                axis.plot(sizes, theorem, ":", color=COLOURS[mark], label="Theorem 2")
        axis.legend(fontsize=7)
    return figure


def _positive(values: list[float | None]) -> Any:
    """What a logarithmic axis can show."""
    array = np.array([np.nan if value is None else value for value in values], dtype=float)
    return np.where(array > 1e-14, array, np.nan)


def _races(found: Found) -> Any:
    races = race_curves(found)
    if not races:
        return None
    figure, axes = panels(len(races), width=5.0, height=4.2)
    methods = list(dict.fromkeys(method for race in races.values() for method in race["curves"]))
    for axis, (name, race) in zip(axes, races.items(), strict=True):
        axis.set(title=NAMES[name], xlabel="seconds, without compilation", ylabel="energy distance to NUTS")
        axis.set(xscale="log", yscale="log")
        for method, curve in race["curves"].items():
            mark = methods.index(method)
            seconds = [point["seconds"] for point in curve["points"]]
            distances = [point["distance"] for point in curve["points"]]
            axis.plot(seconds, distances, "-", color=COLOURS[mark], marker=MARKERS[mark], markersize=4, label=method)
        if race.get("noise_floor"):
            axis.axhline(race["noise_floor"], color="0.4", linestyle="--", linewidth=1, label="noise floor")
            axis.axhspan(0.0, race["noise_limit"], color="0.9", zorder=0)
    # The panel with most methods speaks for all; outside, because curves go everywhere.
    fullest = max(axes, key=lambda axis: len(axis.get_legend_handles_labels()[1]))
    figure.legend(*fullest.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=7)
    return figure
