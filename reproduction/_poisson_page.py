"""Table and figures of the experiment `poisson`, from what was kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from reproduction import curves, poisson
from reproduction.experiment import Found

COLOURS = {"positive": "#0072B2", "negative": "#D55E00", "changing": "#000000"}
MARKS = {"Euler-Maruyama": ("#D55E00", "s"), "MALA": ("#009E73", "^"), "tempering": ("#0072B2", "o")}
HEADINGS = {"Euler-Maruyama": "The paper's recipe (Euler-Maruyama from N(0, I))", "tempering": "kosambi's tempering"}


def interval(positive: int, number: int) -> tuple[float, float]:
    """Exact 95 % limits for a share.

    >>> low, high = interval(50, 100)
    >>> round(low, 3), round(high, 3)
    (0.398, 0.602)
    """
    limits = stats.binomtest(positive, number).proportion_ci(0.95)
    return float(limits.low), float(limits.high)


def table(found: Found) -> str:
    """Shares, energies and evidence, and what follows from them."""
    lines = [
        "Posterior of f for counts with rate f² (N = 581, M = 24, kernel and basis as in the paper). f and −f are "
        "equally probable, so a half of the draws is positive anywhere. *Truth*, *other* and *changing* are shares of "
        "draws: with the signs of c or of −c on every stretch of training inputs where the true rate is 1 or more; "
        "with other signs, but none changing inside a stretch; with a change of sign inside one. *Minimum below* "
        "is how far the local minimum below a draw is above the lowest one found for that curve, in nats: median and "
        "worst. *Energy* is the mean potential less that minimum; M/2 = 12 would be that of a single normal mode.",
        "",
        "| curve | sampler | draws | positive at the largest count (95 % limits) | truth | other | changing | "
        "minimum below | energy | log evidence | R̂, converged | seconds (compiling) |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    entries = list(poisson.rows(found))
    lowest: dict[int, float] = {}
    for number, _, entry in entries:
        lowest[number] = min(entry["lowest"], lowest.get(number, np.inf))
    for number, name, entry in entries:
        low, high = interval(entry["positive"], entry["num_particles"])
        above = np.asarray(entry["above"]) + entry["lowest"] - lowest[number]
        shares = " | ".join(f"{100 * entry['states'][s] / entry['num_particles']:.0f} %" for s in poisson.STATES)
        evidence = "–"
        if "ladder" in entry and entry["ladder"]["log_evidence"][0] is not None:
            value, error = entry["ladder"]["log_evidence"]
            evidence = f"{value:.2f}" + ("" if error is None else f" ± {error:.2f}")
        r_hat = "–" if entry["r_hat"] is None else f"{entry['r_hat']:.3f}"
        r_hat += ", yes" if entry["converged"] else ", no"
        share = entry["positive"] / entry["num_particles"]
        lines.append(
            f"| {number} | {name} | {entry['num_particles']} | {share:.2f} ({low:.2f} to {high:.2f}), "
            f"x = {entry['cut']:.2f} | {shares} | {above[0]:.1f}, {above[1]:.1f} | "
            f"{entry['energy'] - lowest[number]:.1f} | {evidence} | {r_hat} | "
            f"{entry['seconds']:.1f} ({entry['compile_seconds']:.1f}) |"
        )
    return "\n".join([*lines, "", *_verdicts(found, entries, lowest)])


def _verdicts(found: Found, entries: list[tuple[int, str, dict[str, Any]]], lowest: dict[int, float]) -> list[str]:
    told = []
    for name in MARKS:
        own = [(number, entry) for number, kind, entry in entries if kind == name]
        if not own:
            continue
        holds = sum(_holds_half(entry) for _, entry in own)
        total = sum(entry["num_particles"] for _, entry in own)
        changing = sum(entry["states"]["changing"] for _, entry in own)
        low, high = interval(changing, total)
        worst = max(max(entry["above"]) + entry["lowest"] - lowest[number] for number, entry in own)
        positive = sum(entry["positive"] for _, entry in own)
        chance = float(stats.binomtest(positive, total).pvalue)
        both = sum(0 < entry["positive"] < entry["num_particles"] for _, entry in own)
        told.append(
            f"- **{name}**: both signs on {both} of {len(own)} curves; a half lies within the 95 % limits on {holds} "
            f"of {len(own)} (all curves together: {positive} of {total} positive, p = {chance:.2g}); "
            f"{100 * changing / total:.1f} % of the draws ({100 * low:.1f} to {100 * high:.1f} %) change sign where "
            f"the counts speak against it; the worst minimum below a draw is {worst:.1f} nats up."
        )
    told += _comparisons(entries)
    told += [_search(cell) for name, cell in sorted(found.items()) if name == f"local-{poisson.FIGURE_CURVE}"]
    # Where no step size came through there is no row in the table, and the reader is told why.
    lost = [cell for cell in found.values() if "tried" in cell and "Euler-Maruyama" not in cell["samplers"]]
    lost.sort(key=lambda cell: cell["number"])
    told += [f"{_search(cell)[:-1]}; it has no row." for cell in lost if cell["number"] != poisson.FIGURE_CURVE]
    for number, name, entry in entries:
        if "ladder" in entry and number == poisson.FIGURE_CURVE:
            ladder = entry["ladder"]
            told.append(
                f"- {name.capitalize()}, curve {number}: {len(ladder['swap_rates']) + 1} temperatures, "
                f"{ladder['chains']} chains, swaps accepted {min(ladder['swap_rates']):.2f} to "
                f"{max(ladder['swap_rates']):.2f}, {ladder['arrivals']:.0f} replicas came from the prior to the "
                f"posterior, {entry['num_modes']} minima with draws. Its exact change of signs was switched off here."
            )
    told.append(
        f"- The figure shows curve {poisson.FIGURE_CURVE}: the paper does not name its curve, but cuts at x = −0.55, "
        "and this is the one whose rate is largest there. Data have the paper's distribution with other random numbers."
    )
    return told


def _comparisons(entries: list[tuple[int, str, dict[str, Any]]]) -> list[str]:
    """Whether local samplers have as many draws with the signs of the truth as tempering."""
    told = []
    tempered = {number: entry for number, name, entry in entries if name == "tempering"}
    for name in ("Euler-Maruyama", "MALA"):
        own = {number: entry for number, kind, entry in entries if kind == name and number in tempered}
        if not own:
            continue
        chances, counts = [], np.zeros((2, 2), dtype=int)
        for number, entry in own.items():
            pair = [(one["states"]["truth"], one["num_particles"]) for one in (entry, tempered[number])]
            square = [[true, total - true] for true, total in pair]
            chances.append(float(stats.fisher_exact(square)[1]))
            counts += np.array(square)
        shares = 100.0 * counts[:, 0] / counts.sum(axis=1)
        differ = sum(p < 0.01 for p in chances)
        told.append(
            f"- Signs of the truth: {shares[0]:.0f} % of the draws of {name}, {shares[1]:.0f} % with tempering; they "
            f"differ on {differ} of {len(chances)} curves (Fisher's exact test, p < 0.01; least p {min(chances):.1g})."
        )
    return told


def _holds_half(entry: dict[str, Any]) -> bool:
    low, high = interval(entry["positive"], entry["num_particles"])
    return low <= 0.5 <= high


def _search(cell: dict[str, Any]) -> str:
    outcomes = [
        f"{one['size']:.2g}: {'diverged' if one['energy'] is None else format(one['energy'], '.1f')}"
        for one in cell["tried"]
    ]
    told = "; ".join(outcomes)
    return f"- The paper's search of a step size, curve {cell['number']}, mean potential at the end: {told}."


def draw(found: Found, folder: Path) -> list[Path]:
    """The paper's figure for both samplers, and the shares of all curves."""
    entries = list(poisson.rows(found))
    shown = [(name, entry) for number, name, entry in entries if "draws" in entry and name in HEADINGS]
    paths = []
    if shown:
        paths.append(_functions(shown, folder / "poisson-functions.png"))
    if entries:
        paths.append(_shares(entries, folder / "poisson-shares.png"))
    return paths


def _functions(shown: list[tuple[str, dict[str, Any]]], path: Path) -> Path:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 3.5 * len(shown)), layout="constrained")
    axes = figure.subplots(len(shown), 2, squeeze=False, width_ratios=[2.2, 1.0])
    for (left, right), (name, entry) in zip(axes, shown, strict=True):
        grid, draws = np.asarray(entry["grid"]), np.asarray(entry["draws"])
        at_cut = np.asarray(entry["at_cut"])
        for f, value, state in zip(draws, at_cut, entry["draw_states"], strict=False):
            kind = "changing" if state == "changing" else ("positive" if value > 0 else "negative")
            left.plot(grid, f, color=COLOURS[kind], lw=0.6, alpha=0.55, ls=":" if kind == "changing" else "-")
        for sign in (-1.0, 1.0):
            left.plot(grid, sign * np.asarray(entry["truth"]), color="#999999", lw=1.4, zorder=0)
        _shade(left)
        left.axvline(entry["cut"], color="#555555", lw=1.0, ls="--")
        limit = 1.6 * np.abs(entry["truth"]).max()
        left.set(xlabel="x", ylabel="f(x)", title=f"{HEADINGS[name]}: {len(draws)} draws", ylim=(-limit, limit))
        left.plot([], [], color=COLOURS["positive"], label="positive at the cut")
        left.plot([], [], color=COLOURS["negative"], label="negative at the cut")
        if "changing" in entry["draw_states"]:
            left.plot([], [], color=COLOURS["changing"], ls=":", label="changes sign where the rate is 1 or more")
        left.plot([], [], color="#999999", label="2c and −2c (the truth)")
        left.legend(fontsize="x-small", ncols=2, loc="upper right", framealpha=0.9)
        edges = np.linspace(at_cut.min(), at_cut.max(), 51)
        for kind, chosen in (("positive", at_cut > 0), ("negative", at_cut <= 0)):
            right.hist(at_cut[chosen], bins=edges, color=COLOURS[kind])
        share = entry["positive"] / entry["num_particles"]
        right.set(xlabel=f"f({entry['cut']:.2f})", ylabel="draws", title=f"{100 * share:.0f} % positive")
    figure.savefig(path, dpi=110)
    return path


def _shade(axes: Any) -> None:
    """Grey where inputs are held out."""
    split = curves.interval_split(poisson.FIGURE_CURVE, poisson.SIZE)
    x = curves.grid(poisson.SIZE)[:, 0]
    for run in np.split(split.test, np.flatnonzero(np.diff(split.test) > 1) + 1):
        axes.axvspan(x[run[0]], x[run[-1]], color="#000000", alpha=0.07, lw=0)
    axes.axvspan(np.nan, np.nan, color="#000000", alpha=0.07, lw=0, label="held out")


def _shares(entries: list[tuple[int, str, dict[str, Any]]], path: Path) -> Path:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    numbers = sorted({number for number, _, _ in entries})
    for place, (name, (colour, mark)) in enumerate(MARKS.items()):
        own = [(number, entry) for number, kind, entry in entries if kind == name]
        if not own:
            continue
        x = np.array([numbers.index(number) for number, _ in own]) + 0.2 * (place - 1)
        shares = np.array([entry["positive"] / entry["num_particles"] for _, entry in own])
        limits = np.array([interval(entry["positive"], entry["num_particles"]) for _, entry in own])
        errors = np.maximum(np.abs(limits.T - shares), 0.0)
        left.errorbar(x, shares, errors, color=colour, marker=mark, ls="none", capsize=2, label=name)
        changing = [100 * entry["states"]["changing"] / entry["num_particles"] for _, entry in own]
        right.bar(x, changing, 0.18, color=colour, label=name)
    left.axhline(0.5, color="#555555", lw=0.8, ls="--")
    left.set(xlabel="curve", ylabel="share positive at the cut", title="Both signs are equally probable", ylim=(0, 1))
    right.set(xlabel="curve", ylabel="% of draws", title="Draws that change sign where the rate is 1 or more")
    for axis in (left, right):
        axis.set_xticks(range(len(numbers)), [str(number) for number in numbers])
        axis.legend(fontsize="small", frameon=False)
    figure.savefig(path, dpi=110)
    return path
