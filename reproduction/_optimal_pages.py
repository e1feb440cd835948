"""Table and figure of `optimal`: means over splits, and sentences computed from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reproduction._convergence_figures import COLOURS, MARKERS, panels, save
from reproduction._convergence_tables import number
from reproduction.experiment import Found

NAMES = {
    "bernoulli": "Bernoulli, 1-D",
    "student_t": "Student-t, 1-D",
    "poisson": "Poisson (exp), 1-D",
    "coal_yearly": "coal, Poisson (exp)",
    "breast": "breast, Bernoulli",
    "boston": "boston, Student-t",
}
FEWEST_SPLITS = 3
"""With fewer, errors come from the held-out data and the draws of each split instead of the spread over splits."""


class Entry(NamedTuple):
    """Means over the splits of one problem and one M."""

    problem: str
    size: int
    splits: int
    share: float
    """Of the prior variance at the data, left out by the coordinates."""
    nats: float
    gain: float
    """Mean log density of held-out data, optimal minus projected."""
    error: float
    to_full: float
    """Mean log density, full posterior minus projected."""
    projected: float
    optimal: float
    """Energy distances to the full posterior."""
    distance_error: float
    """Standard error of their difference."""
    floor: float
    """The distance of draws of the full posterior itself."""
    moments: tuple[float, float, float, float]
    """Errors of mean and deviation, projected, then optimal."""

    @property
    def closer(self) -> str:
        """Which of the two is nearer to the full posterior, where more than noise tells them apart."""
        if abs(self.optimal - self.projected) <= max(2.0 * self.distance_error, self.floor):
            return "neither"
        return "optimal" if self.optimal < self.projected else "projected"

    @property
    def better(self) -> str:
        """Which of the two predicts better, by more than two standard errors."""
        if abs(self.gain) <= 2.0 * self.error:
            return "neither"
        return "optimal" if self.gain > 0 else "projected"


def entries(found: Found) -> list[Entry]:
    """One for each problem and number of inducing points that is there."""
    groups: dict[tuple[str, int], list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    for name in sorted(found):
        cell = found[name]
        for row in cell["rows"]:
            groups.setdefault((cell["problem"], row["M"]), []).append((cell, row))
    order = list(NAMES)
    return [_entry(key, groups[key]) for key in sorted(groups, key=lambda key: (order.index(key[0]), key[1]))]


def _entry(key: tuple[str, int], group: list[tuple[dict[str, Any], dict[str, Any]]]) -> Entry:
    rows = [row for _, row in group]

    def mean(values: list[Any]) -> float:
        known = [value for value in values if value is not None]
        return float(np.mean(known)) if known else float("nan")

    gains = np.array([row["gain"] for row in rows])
    if len(rows) >= FEWEST_SPLITS:
        error = float(gains.std(ddof=1) / np.sqrt(len(gains)))
        nearer = [row["optimal"]["distance"] - row["projected"]["distance"] for row in rows]
        distance_error = float(np.std(nearer, ddof=1) / np.sqrt(len(rows)))
    else:
        within = [np.hypot(row["gain_error"], row["monte_carlo"]) for row in rows]
        error = float(np.sqrt(np.sum(np.square(within))) / len(rows))
        distance_error = float(np.sqrt(np.sum([row["distance_error"] ** 2 for row in rows])) / len(rows))
    kinds = ("projected", "optimal")
    return Entry(
        *key,
        splits=len(rows),
        share=mean([row["residual_share"] for row in rows]),
        nats=mean([row["nats"] for row in rows]),
        gain=float(gains.mean()),
        error=error,
        to_full=mean([cell["full_log_density"] - row["projected"]["log_density"] for cell, row in group]),
        projected=mean([row["projected"]["distance"] for row in rows]),
        optimal=mean([row["optimal"]["distance"] for row in rows]),
        distance_error=distance_error,
        floor=mean([cell["noise_floor"] for cell, _ in group]),
        moments=tuple(  # type: ignore[arg-type]
            mean([row[kind][what] for row in rows]) for kind in kinds for what in ("mean_error", "deviation_error")
        ),
    )


def table(found: Found) -> str:
    """Markdown."""
    rows = entries(found)
    if not rows:
        return "Nothing has been computed yet."
    lines = [
        "Gain: mean log density of held-out data, optimal minus projected, in nats per observation, ± one standard "
        f"error (over splits; with fewer than {FEWEST_SPLITS} of them, over held-out data in pairs). Beside it what "
        "the full posterior would gain. Distance: energy distance of functions at 25 held-out inputs to NUTS on all "
        "latent values (N ≤ 300), with the noise floor; errors of mean and standard deviation are root mean squares, "
        "in standard deviations of the reference. Nats: by so much KL(posterior of M coordinates, full posterior) "
        "falls when the optimal potential takes the place of the projected one; never negative.",
        "",
        "| problem | M | splits | unexplained | nats | gain | full − projected | distance: projected | optimal | "
        "floor | mean error: projected, optimal | deviation error: projected, optimal |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for e in rows:
        lines.append(
            f"| {NAMES[e.problem]} | {e.size} | {e.splits} | {100 * e.share:.2g} % | {number(e.nats)} | "
            f"{e.gain:+.4f} ± {e.error:.4f} | {e.to_full:+.4f} | {number(e.projected)} | {number(e.optimal)} | "
            f"{number(e.floor, 1)} | {e.moments[0]:.3f}, {e.moments[2]:.3f} | {e.moments[1]:.3f}, {e.moments[3]:.3f} |"
        )
    return "\n".join([*lines, "", *[f"- {text}" for text in verdicts(rows)]])


def verdicts(rows: list[Entry]) -> list[str]:
    """What the table says."""
    texts = [_count("log density of held-out data", [e.better for e in rows])]
    texts.append(_count("energy distance to the full posterior", [e.closer for e in rows]))
    won, lost = ([e for e in rows if e.better == who] for who in ("optimal", "projected"))
    if won:
        best = max(won, key=lambda e: e.gain)
        texts.append(
            f"The largest gain in log density is {best.gain:+.4f} ± {best.error:.4f} ({NAMES[best.problem]}, M = "
            f"{best.size}, where {100 * best.share:.2g} % of the prior variance is unexplained)."
        )
    if lost:
        worst = min(lost, key=lambda e: e.gain)
        texts.append(
            f"The largest loss is {worst.gain:+.4f} ± {worst.error:.4f} ({NAMES[worst.problem]}, M = {worst.size}, "
            f"{100 * worst.share:.2g} % unexplained)."
        )
    small = [e for e in rows if e.nats < 0.01]
    if small:
        largest = max(small, key=lambda e: abs(e.gain))
        texts.append(
            f"Where the certificate promises less than 0.01 nats, log densities differ by {abs(largest.gain):.4f} "
            "per observation at most."
        )
    return texts


def _count(what: str, winners: list[str]) -> str:
    optimal, projected = winners.count("optimal"), winners.count("projected")
    return (
        f"In {what}, optimal is better in {optimal} of {len(winners)} cases, projected in {projected}, by more than "
        "two standard errors (chance alone does that in one case of twenty); the rest cannot be told apart."
    )


def draw(found: Found, folder: Path) -> list[Path]:
    """Gains and distances against the number of inducing points."""
    rows = entries(found)
    if not rows:
        return []
    figure, (gains, distances) = panels(2, width=5.6, height=4.0)
    gains.set(xlabel="M", ylabel="gain in log density, nats per observation", xscale="log")
    gains.set_title("held-out log density, optimal − projected, ± 2 standard errors", fontsize=10)
    gains.set_yscale("symlog", linthresh=1e-3)
    gains.axhline(0.0, color="0.4", linewidth=1)
    distances.set(xlabel="M", ylabel="distance, optimal / projected", xscale="log")
    distances.set_title("distance to the full posterior, below 1: optimal nearer", fontsize=10)
    distances.axhline(1.0, color="0.4", linewidth=1)
    for mark, problem in enumerate(NAMES):
        mine = [e for e in rows if e.problem == problem]
        if not mine:
            continue
        sizes = [e.size for e in mine]
        style = {"color": COLOURS[mark], "marker": MARKERS[mark], "markersize": 5, "label": NAMES[problem]}
        gains.errorbar(sizes, [e.gain for e in mine], [2.0 * e.error for e in mine], capsize=2, **style)
        distances.plot(sizes, [e.optimal / e.projected for e in mine], "-", **style)
    sizes = sorted({e.size for e in rows})
    for axis in (gains, distances):
        axis.set_xticks(sizes, labels=[str(size) for size in sizes])
        axis.minorticks_off()
    figure.legend(*gains.get_legend_handles_labels(), loc="outside lower center", ncols=6, fontsize=7)
    return [save(figure, folder, "optimal-gain.png")]
