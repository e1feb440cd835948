"""The tables of `convergence`, and sentences that say what they show, computed from the numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from reproduction._distances import power_law
from reproduction._races import seconds_to_reach
from reproduction._rates import fitted, theory
from reproduction.experiment import Found

KERNELS = {0: "Matérn-1/2", 1: "Matérn-3/2", 2: "Matérn-5/2", None: "squared exponential"}
PRIORS = {"element": "as k, `GaussianRandomElement`", "process": "as r, `GaussianProcess`"}
NAMES = {
    "bernoulli": "Bernoulli",
    "student_t": "Student-t",
    "gaussian": "Gaussian",
    "poisson": "Poisson (exp link)",
    "rough_element": "k = Matérn-3/2",
    "element": "k = squared exponential",
    "few_labels": "few labels, wide prior",
}


def of_kind(found: Found, kind: str) -> list[dict[str, Any]]:
    """Cells whose names begin with `kind`, in the order of their names."""
    return [found[name] for name in sorted(found) if name.startswith(f"{kind}-")]


def table(found: Found) -> str:
    """All of them; what has not been computed is left out."""
    parts = [_rates(of_kind(found, "rate")), _divergences(of_kind(found, "divergence")), _races(found)]
    return "\n\n".join(part for part in parts if part) or "Nothing has been computed yet."


def number(value: float | None, digits: int = 3) -> str:
    """A number for a table.

    >>> number(0.000123456), number(None)
    ('0.000123', '–')
    """
    return "–" if value is None or not np.isfinite(value) else f"{value:.{digits}g}"


def _rates(cells: list[dict[str, Any]]) -> str:
    if not cells:
        return ""
    lines = [
        "### Rates of R_M in one dimension",
        "",
        "Slopes of log R_M over log M (over M for the squared exponential kernel, with a normal ν), by least squares "
        "over all M at which nothing is lost in rounding, and over the upper half of them. Inducing points are equally "
        "spaced (zeros of an eigenfunction for the normal ν); the last two columns compare with the M leading "
        "eigenfunctions, which leave the least that M coordinates can.",
        "",
        "| kernel | given | M | slope | upper half | theory | eigenfunctions, upper half | R_M over the least |",
        "|---|---|---|---|---|---|---|---|",
    ]
    gaps = []
    for cell in cells:
        sizes = [size for size, clean in zip(cell["sizes"], cell["clean"], strict=True) if clean]
        if len(sizes) < 3:
            continue
        middle = sizes[(len(sizes) - 1) // 2]
        every, upper, best = fitted(cell), fitted(cell, at_least=middle), fitted(cell, "best", at_least=middle)
        ratios = [r / b for r, b, ok in zip(cell["remainder"], cell["best"], cell["clean"], strict=True) if ok]
        if every is None or upper is None or best is None:
            continue
        expected = theory(cell["prior"], cell["order"])
        gaps.append(abs(upper.slope / expected - 1.0))
        lines.append(
            f"| {KERNELS[cell['order']]} | {PRIORS[cell['prior']]} | {sizes[0]} to {sizes[-1]} | {every.slope:.2f} | "
            f"{upper.slope:.2f} ± {upper.standard_error:.2f} | {expected:.2f} | {best.slope:.2f} | "
            f"{min(ratios):.2f} to {max(ratios):.2f} |"
        )
    if gaps:
        lines += [
            "",
            f"The fitted slopes of the upper half are within {100 * max(gaps):.1f} % of theory. {_paper(cells)}",
        ]
    return "\n".join(lines)


def _paper(cells: list[dict[str, Any]]) -> str:
    """Whether the paper's exponent for a random element is attained, or only a bound."""
    slopes = []
    for cell in cells:
        line = fitted(cell) if cell["prior"] == "element" and cell["order"] is not None else None
        if line is not None:
            slopes.append((cell["order"], line.slope, -3.0 * (cell["order"] + 1)))
    if not slopes:
        return ""
    faster = [KERNELS[order] for order, slope, bound in slopes if slope < bound - 0.3]
    if not faster:
        return "The paper's M^{−3(l+1)} is what is seen."
    return f"R_M falls faster than the paper's bound M^{{−3(l+1)}} for {' and '.join(faster)}."


def _divergences(cells: list[dict[str, Any]]) -> str:
    if not cells:
        return ""
    lines = [
        "### The divergence and the bounds on it",
        "",
        "KL(Π_∞, Π*_M) in nats for all data together, estimated on the draws, and bounds that are proven: from the "
        "curvature of the cost, from its slope, and the paper's Theorem 2. For a Gaussian likelihood Π_∞ = Π*_M, and "
        "the divergence from the full posterior is given, which is known in closed form, with its own bound "
        "(Titsias 2014). Inducing points are greedy, N = 120.",
        "",
        "| likelihood, prior | M | R_M | divergence | bound, curvature | bound, slope | Theorem 2 |",
        "|---|---|---|---|---|---|---|",
    ]
    verdicts = []
    for cell in cells:
        label = f"{NAMES[cell['likelihood']]}, {NAMES[cell['prior']]}"
        gaussian = cell["likelihood"] == "gaussian"
        for row in cell["rows"]:
            value, error = (row["full_gap"], None) if gaussian else (row["divergence"], row["standard_error"])
            shown = number(value) if error is None else f"{number(value)} ± {number(error, 1)}"
            bounds = (
                [row["full_bound"], None, None] if gaussian else [row[b] for b in ("curvature", "lipschitz", "theorem")]
            )
            lines.append(
                f"| {label} | {row['M']} | {number(row['remainder'])} | {shown} | "
                + " | ".join(map(number, bounds))
                + " |"
            )
        verdicts.append(f"{label}: {_verdict(cell)}")
    return "\n".join([*lines, "", *[f"- {text}" for text in verdicts]])


def best_bound(row: dict[str, Any]) -> float | None:
    """The least bound that goes with the divergence of a row."""
    if "full_gap" in row:
        return row["full_bound"]
    return min((row[name] for name in ("curvature", "lipschitz", "theorem") if row[name] is not None), default=None)


def _verdict(cell: dict[str, Any]) -> str:
    pairs = []
    for row in cell["rows"]:
        value, bound = row.get("full_gap", row["divergence"]), best_bound(row)
        if value is not None and bound is not None and value > 1e-12:
            pairs.append((row["remainder"], value, bound, row.get("standard_error") or 0.0))
    if not pairs:
        return "nothing to compare."
    broken = sum(value - 3.0 * error > bound for _, value, bound, error in pairs)
    factors = [bound / value for _, value, bound, _ in pairs]
    holds = (
        "the least bound holds for every M" if broken == 0 else f"the least bound FAILS for {broken} of {len(pairs)} M"
    )
    text = f"{holds}, {number(min(factors), 2)} to {number(max(factors), 2)} times the divergence"
    if len(pairs) >= 3:
        remainders, values = np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])
        line = power_law(remainders, values)
        text += f"; the divergence falls as R_M to the power {line.slope:.2f} ± {line.standard_error:.2f}"
    return text + "."


def race_curves(found: Found) -> dict[str, dict[str, Any]]:
    """Problem -> what is known of its race, with the curves of all methods together."""
    races = {cell["problem"]: {**cell, "curves": dict(cell["curves"])} for cell in of_kind(found, "race")}
    for cell in of_kind(found, "variational"):
        # Without the other cell there is no noise floor, but a curve all the same.
        races.setdefault(cell["problem"], {"problem": cell["problem"], "curves": {}})["curves"].update(cell["curves"])
    return races


def _races(found: Found) -> str:
    races = race_curves(found)
    if not races:
        return ""
    lines = [
        "### Distance to the full posterior against seconds",
        "",
        "Energy distance (per coordinate, in units of the reference's standard deviations) of 1000 functions at 25 "
        "inputs to a long NUTS run over all latent values. The floor is the mean distance of as many draws of the "
        "reference itself; arrived: at or below what 99 % of such draws keep, and staying there. Seconds are without "
        "compilation, which is given beside them.",
        "",
        "| problem | method | last distance, times the floor | gradients | seconds in all | arrived after (s) | "
        "compilation (s) |",
        "|---|---|---|---|---|---|---|",
    ]
    verdicts = []
    for name, race in races.items():
        floor = race.get("noise_floor")
        arrived: dict[str, float] = {}
        for method, curve in race["curves"].items():
            last = curve["points"][-1]
            reached = None if floor is None else seconds_to_reach(curve["points"], race["noise_limit"])
            if reached is not None:
                arrived[method] = reached
            times = "–" if floor is None else f"{last['distance'] / floor:.1f}"
            lines.append(
                f"| {NAMES[name]} | {method} | {number(last['distance'])}, {times} | "
                f"{last.get('gradients', last['steps'])} | {number(last['seconds'])} | {number(reached)} | "
                f"{number(curve['compile_seconds'])} |"
            )
        verdicts.append(f"- {NAMES[name]}: {_race_verdict(race, arrived)}")
    return "\n".join([*lines, "", *verdicts])


def _race_verdict(race: dict[str, Any], arrived: dict[str, float]) -> str:
    if race.get("noise_floor") is None:
        return "the cell with the noise floor is missing."
    order = sorted(arrived, key=arrived.__getitem__)
    never = [method for method in race["curves"] if method not in arrived]
    first = f"{order[0]} arrives first, after {number(arrived[order[0]], 2)} s" if order else "no method arrives"
    if len(order) > 1:
        first += ", then " + ", ".join(f"{method} ({number(arrived[method], 2)} s)" for method in order[1:])
    if never:
        distances = {m: race["curves"][m]["points"][-1]["distance"] / race["noise_floor"] for m in never}
        first += "; not within the time: " + ", ".join(
            f"{m} ({number(d, 2)} times the floor)" for m, d in distances.items()
        )
    reference = race["reference"]
    return f"{first}. Reference: R-hat {reference['r_hat']:.4f}, effective draws {reference['ess']:.0f}."
