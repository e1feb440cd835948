"""What the numbers say about the paper, and about kosambi beside its rivals. Everything is computed from the cells."""

from __future__ import annotations

import math

import numpy as np

from reproduction.comparison import fidelity
from reproduction.comparison.data import CLASSIFICATION, REGRESSION, ROWS
from reproduction.comparison.methods import LABELS
from reproduction.comparison.paper import SPLITS, printed
from reproduction.comparison.sections import Setting, beside_code, beside_exact, diffusions, say
from reproduction.comparison.statistics import deviation, difference, mean, speed, values
from reproduction.experiment import Found


def regression(found: Found) -> list[str]:
    """The sections that follow the tables of the regressions."""
    settings = [(data, likelihood) for likelihood in ("gaussian", "student_t") for data in REGRESSION]
    return [
        beside_exact(found, settings),
        beside_code(found, settings),
        fidelity.variants(found, settings, ("nll", "mae", "width")),
        fidelity.before_convergence(found, settings, ("nll", "mae", "width")),
        diffusions(found, settings, "nll"),
        "### Verdicts",
        fidelity.verdict(found, settings, ("nll", "mae", "width")),
        _beats_paper(found, settings, ("nll", "mae")),
        _equal_size(found, settings, "nll"),
        _coverage(found, settings),
        _ratios(found, settings),
        _unconverged(found, settings),
    ]


def classification(found: Found) -> list[str]:
    """The sections that follow the tables of the classifications."""
    settings = [(data, "bernoulli") for data in CLASSIFICATION]
    return [
        fidelity.variants(found, settings, ("auc", "accuracy")),
        fidelity.before_convergence(found, settings, ("auc", "accuracy")),
        fidelity.larger_subsets(found, settings, ("auc", "accuracy")),
        diffusions(found, settings, "log_loss"),
        "### Verdicts",
        fidelity.verdict(found, settings, ("auc", "accuracy")),
        _at_least_paper(found, settings),
        _equal_size(found, settings, "log_loss"),
        _ratios(found, settings),
        _unconverged(found, settings),
    ]


def _beats_paper(found: Found, settings: list[Setting], metrics: tuple[str, ...]) -> str:
    """(b) for numbers: lower means than both columns of the paper."""
    wins, total, losses = 0, 0, []
    for data, likelihood in settings:
        for metric in metrics:
            both, some = printed(data, likelihood, metric), values(found, data, likelihood, "kosambi", metric)
            if both is None or not some:
                continue
            total += 1
            best = min(both, key=lambda p: p.mean)
            if mean(some) < best.mean:
                wins += 1
            else:
                losses.append(f"- {say((data, likelihood))}, {metric}: {mean(some):.3f} against {best.mean:.3f}")
    if not total:
        return ""
    first = (
        f"**(b) kosambi (defaults) and the paper's figures.** {wins} of {total} means ({' and '.join(metrics)}) are "
        "lower than both the paper's PLS and its SVGP. The defaults scale the inputs and choose the number of points; "
        f"with M = √N, as in the paper, {_lower_at_root(found, settings, metrics)}."
    )
    return "\n".join([first + (" Not:\n" if losses else ""), *losses])


def _lower_at_root(found: Found, settings: list[Setting], metrics: tuple[str, ...]) -> str:
    pairs = [
        (mean(some), min(p.mean for p in both))
        for setting in settings
        for metric in metrics
        if (both := printed(*setting, metric)) and (some := values(found, *setting, "kosambi_root", metric))
    ]
    return f"{sum(own < best for own, best in pairs)} of {len(pairs)}"


def _at_least_paper(found: Found, settings: list[Setting]) -> str:
    """(b) for labels: at least the paper's figures, or within one standard error of the difference."""
    strict, near, total, losses = 0, 0, 0, []
    for data, likelihood in settings:
        for metric in ("auc", "accuracy"):
            both, some = printed(data, likelihood, metric), values(found, data, likelihood, "kosambi", metric)
            if both is None or not some:
                continue
            total += 1
            best = max(both, key=lambda p: p.mean)
            error = math.sqrt(deviation(some) ** 2 / len(some) + best.deviation**2 / SPLITS)
            if mean(some) >= best.mean:
                strict += 1
            elif mean(some) >= best.mean - error:
                near += 1
            else:
                losses.append(
                    f"- {say((data, likelihood))}, {metric}: {mean(some):.2f} against {best.mean:.2f}, standard error "
                    f"of the difference {error:.2f}"
                )
    if not total:
        return ""
    first = (
        f"**(b) kosambi (defaults) and the paper's figures.** {strict} of {total} means (AUC and accuracy) are at "
        f"least the better one of the paper's PLS and SVGP, {near} more are within one standard error of it (both "
        "means counted as independent)."
    )
    return "\n".join([first + (" Not:\n" if losses else ""), *losses])


def _equal_size(found: Found, settings: list[Setting], metric: str) -> str:
    """(c) Against the practitioner's SVGP at equal M, and the defaults against M = 512."""
    parts = []
    for own, rival, label in (
        ("kosambi_root", "svgp", "kosambi at M = √N and SVGP at the same M"),
        ("kosambi", "svgp", "kosambi (defaults) and SVGP at M = √N"),
        ("kosambi", "svgp_512", "kosambi (defaults) and SVGP at M = 512"),
    ):
        lower, equal, losses, total, stopped = 0, 0, [], 0, []
        for data, likelihood in settings:
            gap = difference(
                values(found, data, likelihood, own, metric), values(found, data, likelihood, rival, metric)
            )
            if gap is None:
                continue
            total += 1
            stopped += [not flag for flag in values(found, data, likelihood, rival, "converged").values()]
            if gap.number > 1 and abs(gap.mean) <= gap.error:
                equal += 1
            elif gap.mean < 0:
                lower += 1
            else:
                error = f"± {gap.error:.3f}" if gap.number > 1 else "(one split)"
                losses.append(f"{say((data, likelihood))} {gap.mean:+.3f} {error}")
        if not total:
            continue
        worse = f": {'; '.join(losses)}" if losses else ""
        parts.append(
            f"- {label}: lower in {lower} of {total}, within one paired standard error in {equal}, higher in "
            f"{len(losses)}{worse}. Of the fits of SVGP {sum(stopped)} of {len(stopped)} had not converged."
        )
    if not parts:
        return ""
    return f"**(c) {metric.upper() if metric == 'nll' else 'Log loss'} beside GPyTorch's SVGP.**\n\n" + "\n".join(parts)


def _coverage(found: Found, settings: list[Setting]) -> str:
    """(d) Coverage of 95 % intervals that is more than 0.03 off."""
    lines, total = [], 0
    for data, likelihood in settings:
        for metric, label in (("plain_coverage", "plain"), ("coverage", "conformal")):
            some = values(found, data, likelihood, "kosambi", metric)
            if not some:
                continue
            total += 1
            if abs(mean(some) - 0.95) > 0.03:
                spread = deviation(some) / math.sqrt(len(some))
                rows = 0.1 * ROWS[data] * len(some)
                chance = math.sqrt(0.95 * 0.05 * (2.0 if label == "conformal" else 1.0) / rows)
                lines.append(
                    f"- {say((data, likelihood))}, {label}: {mean(some):.3f} (standard error over splits {spread:.3f}; "
                    f"of exact intervals, by the number of rows, {chance:.3f})"
                )
    if not total:
        return ""
    first = f"**(d) Coverage of kosambi (defaults).** {len(lines)} of {total} are more than 0.03 from 0.95."
    if lines:
        first += (
            " The error by the number of rows says how much of that is chance (for conformal intervals the validation "
            "rows count too). What else narrows plain intervals: hyperparameters are at their best values, and their "
            "own uncertainty is left out; how much that is was not measured.\n"
        )
    return "\n".join([first, *lines])


def _ratios(found: Found, settings: list[Setting]) -> str:
    """(e) How many times as long the variational fits take."""
    lines = []
    for slow, fast, label in (
        ("svgp", "kosambi_root", "SVGP / kosambi, both at M = √N"),
        ("svgp_512", "kosambi", "SVGP at M = 512 / kosambi (defaults)"),
        ("svgp_paper", "faithful", "SVGP as in the paper / the paper's recipe"),
    ):
        ratios = {}
        for data, likelihood in settings:
            ratio = speed(found, data, likelihood, slow, fast)
            if ratio is not None:
                ratios[data, likelihood] = ratio
        if not ratios:
            continue
        least = min(ratios, key=lambda s: ratios[s])
        most = max(ratios, key=lambda s: ratios[s])
        centre = math.exp(float(np.mean(np.log(list(ratios.values())))))
        if len(ratios) == 1:
            lines.append(f"- {label}: {centre:.2g} ({say(least)} only)")
            continue
        lines.append(
            f"- {label}: {centre:.2g} (geometric mean), from {ratios[least]:.2g} ({say(least)}) to {ratios[most]:.2g} "
            f"({say(most)}); kosambi faster in {sum(r > 1 for r in ratios.values())} of {len(ratios)}"
        )
    if not lines:
        return ""
    first = (
        "**(e) Time.** A variational fit that the limit stopped counts with the limit: it would have taken longer, and "
        "where all were stopped, as those with the paper's settings, the ratio says little but what the limit is. "
        "Only splits count that both methods did on the same kind of machine."
    )
    return f"{first}\n\n" + "\n".join(lines)


def _unconverged(found: Found, settings: list[Setting]) -> str:
    """How many fits say of themselves that they did not converge, or were stopped."""
    counts = {}
    for method in ("faithful", "kosambi_root", "kosambi", "svgp_paper", "svgp", "svgp_512"):
        flags = [flag for s in settings for flag in values(found, *s, method, "converged").values()]
        if flags:
            counts[method] = f"{LABELS[method]} {sum(not flag for flag in flags)} of {len(flags)}"
    if not counts:
        return ""
    return (
        "Fits that did not converge by their own rule, or were stopped by the limit: "
        + ", ".join(counts.values())
        + "."
    )
