"""Table and figure of the experiment `shift`, from what was kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from reproduction import shift
from reproduction.experiment import Found

COLOURS = ("#0072B2", "#D55E00")
NAMES = ("not shifted", "shifted")


def sampled_log_odds(shifted: int, number: int) -> tuple[float, float] | None:
    """Log-odds with their standard error, or None where all draws are in one mode.

    >>> value, error = sampled_log_odds(50, 100)
    >>> round(value, 3), round(error, 3)
    (0.0, 0.2)
    """
    if not 0 < shifted < number:
        return None
    share = shifted / number
    return float(np.log(share / (1.0 - share))), float((number * share * (1.0 - share)) ** -0.5)


def _plain(value: float, digits: int) -> str:
    """Without the sign of a zero.

    >>> _plain(-0.001, 2)
    '0.00'
    """
    return f"{round(value, digits) + 0.0:.{digits}f}"


def table(found: Found) -> str:
    """Energies, shares and log-odds, and what follows from them."""
    lines = [
        f"y = f + {shift.SHIFT:g}·b + ε, ε ~ N(0, {shift.NOISE:g}). Log-odds are those of *all observations shifted* "
        "against *none*: in closed form, and from the share of draws (with its standard error). *Paper's* data are "
        f"curve {shift.CURVE}, {shift.SIZE - shift.NUM_TEST} observations, none of them shifted; *half-way* are "
        f"{shift.HALFWAY_ROWS} observations centred at s/2, with α such that the log-odds are what is wanted. "
        "*Mixed* is the share of draws that take a tenth or more of the observations for shifted, and a tenth not.",
        "",
        "| data | sampler | α | draws | share shifted (95 % limits) | mixed | log-odds, sampled | closed form | "
        "seconds (compiling) |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    if "paper" in found and "shifted" in found["paper"]:
        lines.append(_row("paper's", "Euler-Maruyama, the paper's start", found["paper"], found["paper"]))
    if "paper-tempering" in found:
        lines.append(_row("paper's", "tempering", found["paper-tempering"], found["paper-tempering"]))
    for name, cell in _halfway(found):
        lines.append(_row(name, "MALA, the paper's start", cell["local"], cell))
        lines.append(_row(name, "tempering", cell, cell))
    return "\n".join([*lines, "", *_verdicts(found)])


def _halfway(found: Found) -> list[tuple[str, dict[str, Any]]]:
    names = sorted((name for name in found if name.startswith("odds-")), key=lambda n: float(n[len("odds-") :]))
    return [("half-way", found[name]) for name in names]


def _row(data: str, sampler: str, counts: dict[str, Any], cell: dict[str, Any]) -> str:
    number, shifted = counts["num_particles"], counts["shifted"]
    limits = stats.binomtest(shifted, number).proportion_ci(0.95)
    odds = sampled_log_odds(shifted, number)
    told = "all in one mode" if odds is None else f"{odds[0]:.2f} ± {odds[1]:.2f}"
    seconds = f"{counts['seconds']:.1f} ({counts['compile_seconds']:.1f})" if "seconds" in counts else "–"
    return (
        f"| {data} | {sampler} | {cell['alpha']:.3f} | {number} | {shifted / number:.3f} ({limits.low:.3f} to "
        f"{limits.high:.3f}) | {counts['mixed'] / number:.2f} | {told} | {_plain(cell['closed'], 2)} | {seconds} |"
    )


def _verdicts(found: Found) -> list[str]:
    told = []
    paper = found.get("paper")
    if paper is not None:
        low, high = paper["energies"]["unshifted"], paper["energies"]["shifted"]
        told.append(
            f"- Lowest potentials of the two modes of the paper's posterior: {low:.1f} and {high:.1f}, "
            f"{high - low:.1f} nats apart (the published code has 1892.5 and 6818.2, with its own random numbers and "
            f"kernel{_kernel(paper)}); log-odds in closed form {paper['closed']:.1f}. "
            + (
                "Its true posterior has one mode, and the second group comes from the start."
                if paper["closed"] < -20.0
                else "Both modes have weight."
            )
        )
        outcomes = [
            f"{one['size']:.2g}: {'diverged' if one['energy'] is None else format(one['energy'], '.1f')}"
            for one in paper["tried"]
        ]
        told.append(f"- The paper's search of a step size, mean potential at the end: {'; '.join(outcomes)}.")
        told.append(
            "- The published code reverses the sign of the shift against the paper; here the sign is the paper's, and "
            "the start is reversed with it. Data have the paper's distribution with other random numbers."
        )
    scores = []
    for _, cell in _halfway(found):
        odds = sampled_log_odds(cell["shifted"], cell["num_particles"])
        if odds is not None:
            scores.append((odds[0] - cell["closed"]) / odds[1])
    if scores:
        chance = float(stats.chi2.sf(np.sum(np.square(scores)), len(scores)))
        told.append(
            f"- Tempering, half-way data: sampled less closed log-odds is {', '.join(f'{z:+.1f}' for z in scores)} "
            f"standard errors (p = {chance:.2f}): {'they agree' if chance > 0.01 else 'they DISAGREE'}."
        )
    local = [cell["local"] for _, cell in _halfway(found)]
    if local:
        shifted = ", ".join(str(one["shifted"]) for one in local)
        wanted = ", ".join(_plain(cell["closed"], 1) for _, cell in _halfway(found))
        told.append(
            f"- MALA from the paper's start has {shifted} of {shift.NUM_PARTICLES} draws nearer to the shifted mode "
            f"where the log-odds are {wanted}; it began with {local[0]['begun']} there: its shares come from the start."
        )
    return told


def _kernel(cell: dict[str, Any]) -> str:
    if "kernel" not in cell:
        return ""
    return f"; here: lengthscale {cell['kernel']['lengthscale']:.3f}, variance {cell['kernel']['variance']:.2f}"


def draw(found: Found, folder: Path) -> list[Path]:
    """The paper's figure, the same data by tempering, and data that have both modes."""
    shown = []
    if "draws" in found.get("paper", {}):
        shown.append(("The paper's start, the paper's data", found["paper"]))
    if "paper-tempering" in found:
        shown.append(("Tempering, the paper's data", found["paper-tempering"]))
    shown += [
        (f"Tempering, data half-way between the modes, log-odds {_plain(cell['closed'], 1)}", cell)
        for _, cell in _halfway(found)
        if "draws" in cell
    ][-1:]
    if not shown:
        return []
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 3.2 * len(shown)), layout="constrained")
    for (left, right), (title, cell) in zip(
        figure.subplots(len(shown), 2, squeeze=False, width_ratios=[2.2, 1.0]), shown, strict=True
    ):
        _panel(left, right, title, cell)
    path = folder / "shift-functions.png"
    figure.savefig(path, dpi=110)
    return [path]


def _panel(left: Any, right: Any, title: str, cell: dict[str, Any]) -> None:
    left.plot(cell["x"], cell["y"], ".", color="#999999", ms=3, label="observations (some)", zorder=0)
    for f, mode in zip(cell["draws"], cell["draw_shifted"], strict=True):
        left.plot(cell["grid"], f, color=COLOURS[mode], ls="--" if mode else "-", lw=0.6, alpha=0.6)
    left.axvline(shift.CUT, color="#555555", lw=1.0, ls=":")
    for mode, name in enumerate(NAMES):
        left.plot([], [], color=COLOURS[mode], ls="--" if mode else "-", label=f"takes y for {name}")
    left.set(xlabel="x", ylabel="f(x)", title=title)
    left.legend(fontsize="x-small", loc="best", framealpha=0.9)
    values = np.asarray(cell["at_cut"])
    # s/2 below the observations at the cut is half-way between the modes there.
    near = np.asarray(cell["y"])[np.argsort(np.abs(np.asarray(cell["x"]) - shift.CUT))[:5]].mean() - 0.5 * shift.SHIFT
    edges = np.linspace(values.min(), values.max() + 1e-9, 51)
    for mode, chosen in enumerate((values > near, values <= near)):
        right.hist(values[chosen], bins=edges, color=COLOURS[mode])
    share = cell["shifted"] / cell["num_particles"]
    right.set(xlabel=f"f({shift.CUT})", ylabel="draws", title=f"{100 * share:.0f} % shifted")
