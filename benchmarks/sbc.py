"""Simulation-based calibration of every likelihood and every sampler, and of wrong ones, which must be rejected.

python -m benchmarks.sbc --out sbc.json [--replications 300] [--only "mala: Gamma" wrong] [--picture sbc.png]

A cell is a likelihood and a sampler, or a form of the posterior that is exact (`benchmarks.sbc_cells`). Ranks of five
numbers are tested for uniformity by χ² and by Kolmogorov-Smirnov, and the p-values of all cells that should be right
are corrected by Holm. A wrong cell is rejected when its smallest p-value, times as many tests, is below the level.
Cells that `--out` has with as many replications are not run again. `--only` takes names or parts of them; "right" and
"wrong" are all of one kind. Pictures of the rank histograms are `sbc.png` and `sbc_wrong.png`.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats

from benchmarks.sbc_cells import APPROXIMATE, CELLS, WRONG
from benchmarks.sbc_ranks import NUM_BINS, NUM_DRAWS, QUANTITIES, holm, p_values, run
from reproduction.store import describe

LEVEL = 1e-3
TOGETHER = "all but Euler-Maruyama together"
KINDS = {"right": (*CELLS, TOGETHER), "approximate": APPROXIMATE, "wrong": WRONG}
Record = dict[str, Any]


def chosen(only: list[str] | None) -> list[str]:
    """Cells whose names have one of the words in them, in their order."""
    kinds = {name: kind for kind, cells in KINDS.items() for name in cells}
    return [
        name
        for name, kind in kinds.items()
        if name != TOGETHER and (not only or any(word in name or word == kind for word in only))
    ]


def computed(name: str, num_replications: int) -> Record:
    # Of the processor, since the machine may have other work.
    began = time.process_time()
    found = run(name, {**CELLS, **APPROXIMATE, **WRONG}[name], num_replications)
    return {
        "ranks": found.ranks.tolist(),
        "converged": float(np.mean(found.converged)),
        "between": float(np.mean(found.between)),
        "seconds": time.process_time() - began,
    }


def together(cells: dict[str, Record]) -> Record:
    """The ranks of all cells that should be right, as of one: what is off a little everywhere shows there.

    Without Euler-Maruyama, which is biased.
    """
    some = [cells[name] for name in cells if name in CELLS and not name.startswith("euler_maruyama")]
    return {
        "ranks": [ranks for cell in some for ranks in cell["ranks"]],
        "converged": float(np.mean([cell["converged"] for cell in some])),
        "between": float(np.mean([cell["between"] for cell in some])),
        "seconds": sum(cell["seconds"] for cell in some),
    }


def verdicts(cells: dict[str, Record]) -> dict[str, Record]:
    """p-values of each cell, and whether it is rejected, given all that are there."""
    p = {name: p_values(name, np.array(cell["ranks"])) for name, cell in cells.items()}
    right = [name for name in p if name in KINDS["right"]]
    number = max(int(sum(np.sum(~np.isnan(p[name])) for name in right)), 1)
    corrected = dict(zip(right, holm(np.array([p[name] for name in right])), strict=True)) if right else {}
    found = {}
    for name, values in p.items():
        smallest = float(np.nanmin(values))
        adjusted = float(np.nanmin(corrected[name])) if name in right else min(smallest * number, 1.0)
        found[name] = {"p": values, "adjusted": adjusted, "rejected": adjusted < LEVEL}
    return found


def table(cells: dict[str, Record], verdict: dict[str, Record], names: list[str]) -> list[str]:
    """Rows of Markdown: the smaller p-value of the two tests for each quantity, and what is left after correction."""
    head = ("cell", *QUANTITIES, "corrected", "converged")
    rows = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name in names:
        values, cell = np.min(verdict[name]["p"], axis=1), cells[name]
        shown = [_in_words(value) for value in values]
        rest = [_in_words(verdict[name]["adjusted"]), f"{100 * cell['converged']:.0f} %"]
        rows.append("| " + " | ".join([name, *shown, *rest]) + " |")
    return rows


def _in_words(p: float) -> str:
    if np.isnan(p):
        return "–"
    return f"{p:.2g}" if p > 1e-300 else "<1e-300"


def sizes(cells: dict[str, Record], names: list[str]) -> list[str]:
    """Rows of Markdown: mean and deviation of the ranks' normal scores, 0 and 1 where draws are right.

    So about by how many posterior deviations draws are too low, and by which factor they are too narrow.
    """
    head = ("cell", *QUANTITIES)
    rows = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name in names:
        ranks = np.array(cells[name]["ranks"], dtype=float)
        scores = scipy.stats.norm.ppf((np.where(ranks < 0, np.nan, ranks) + 0.5) / (NUM_DRAWS + 1))
        pairs = zip(scores.mean(axis=0), scores.std(axis=0), strict=True)
        shown = ["–" if np.isnan(mean) else f"{mean:+.2f}, {deviation:.2f}" for mean, deviation in pairs]
        rows.append("| " + " | ".join([name, *shown]) + " |")
    return rows


def draw(path: Path, cells: dict[str, Record], names: list[str]) -> None:
    """Rank histograms, one row for each cell, with lines between which 99 % of the bins of a uniform histogram lie."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        len(names), len(QUANTITIES), figsize=(8.4, 0.33 * len(names) + 0.5), squeeze=False, layout="constrained"
    )
    figure.get_layout_engine().set(w_pad=0.02, h_pad=0.005, wspace=0.01, hspace=0.0)  # type: ignore[union-attr]
    for row, name in zip(axes, names, strict=True):
        ranks = np.array(cells[name]["ranks"])
        low, high = scipy.stats.binom.ppf([0.005, 0.995], len(ranks), 1.0 / NUM_BINS)
        for number, panel in enumerate(row):
            panel.set_axis_off()
            if ranks[0, number] < 0:
                continue
            counts = np.histogram(ranks[:, number], NUM_BINS, (-0.5, NUM_DRAWS + 0.5))[0]
            panel.bar(np.arange(NUM_BINS), counts, width=0.9, color="#0072B2")
            for level in (low, high):
                panel.axhline(level, color="#D55E00", lw=0.6)
            panel.set_ylim(0, 2.6 * len(ranks) / NUM_BINS)
            panel.set_xlim(-0.6, NUM_BINS - 0.4)
        row[0].text(-0.03, 0.3, name, transform=row[0].transAxes, ha="right", va="center", fontsize=7)
    for panel, quantity in zip(axes[0], QUANTITIES, strict=True):
        panel.set_title(quantity, fontsize=8)
    figure.savefig(path, dpi=110, bbox_inches="tight", pil_kwargs={"optimize": True})
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--replications", type=int, default=300)
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    result: Record = {"cells": {}}
    if options.out and options.out.is_file():
        result = json.loads(options.out.read_text())
    result |= describe()
    cells, names = result["cells"], chosen(options.only)
    for name in names:
        if name not in cells or len(cells[name]["ranks"]) != options.replications:
            cells[name] = computed(name, options.replications)
            smallest = np.nanmin(p_values(name, np.array(cells[name]["ranks"])))
            print(f"{name:<44} smallest p {smallest:8.2g}   {cells[name]['seconds']:6.1f} s", flush=True)
            if options.out:
                options.out.write_text(json.dumps(result))
    shown = {name: cells[name] for name in names}
    if sum(name in CELLS for name in names) > 1:
        shown[TOGETHER] = together(shown)
    verdict = verdicts(shown)
    for kind, kept in KINDS.items():
        some = [name for name in shown if name in kept]
        if not some:
            continue
        print(f"\n{kind}: {sum(verdict[name]['rejected'] for name in some)} of {len(some)} rejected at {LEVEL:g}\n")
        print("\n".join(table(shown, verdict, some)))
        if kind != "right":
            print("\nmean and deviation of normal scores\n\n" + "\n".join(sizes(shown, some)))
        if options.picture:
            path = options.picture if kind == "right" else options.picture.with_stem(f"{options.picture.stem}_{kind}")
            draw(path, shown, some)


if __name__ == "__main__":
    main()
