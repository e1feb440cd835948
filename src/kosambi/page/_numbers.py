"""Key figures: the few numbers that a reader looks for first, each with its unit."""

from __future__ import annotations

import numpy as np

from kosambi.page._facts import Facts, HeldOut
from kosambi.page._html import Markup, tag


def key_figures(facts: Facts) -> Markup:
    """A row of numbers, the most telling first."""
    rows = [] if facts.held_out is None else _of_held_out(facts, facts.held_out)
    size, draws = facts.posterior.basis.size, facts.posterior.num_particles
    rows.append(("Training rows", f"{len(facts.x)}", f"{len(facts.names)} input{'s' if len(facts.names) > 1 else ''}"))
    share = f"{100 * facts.posterior.explained_variance:.4g} % of prior variance"
    rows.append(("Inducing points M", f"{size}", share if size else "neighbours say everything"))
    rows.append(("Functions drawn", f"{draws}", "draws"))
    seconds = seconds_spent(facts)
    rows.append(("Time", f"{sum(seconds.values()):.3g}", "seconds, all steps"))
    return tag("dl", *[_card(*row) for row in rows], class_="figures-row")


def seconds_spent(facts: Facts) -> dict[str, float]:
    """Wall clock by step, of those that were timed."""
    learned, chosen, drawn = facts.estimator.fit_report_, facts.posterior.selection, facts.report
    found = {"learning hyperparameters": learned, "choosing inducing points": chosen, "drawing": drawn}
    return {name: part.seconds for name, part in found.items() if part is not None}


def _of_held_out(facts: Facts, held_out: HeldOut) -> list[tuple[str, str, str]]:
    scores, rows = held_out.scores, []
    if facts.has_labels:
        rows.append(
            ("Accuracy", f"{100 * scores.accuracy:.1f} %", f"majority class: {100 * scores.trivial_accuracy:.1f} %")
        )
        if np.isfinite(scores.auc):
            kind = "one curve" if len(facts.classes) == 2 else "mean over classes"
            rows.append(("Area under ROC", f"{scores.auc:.3f}", kind))
        rows.append(("Log loss", f"{-scores.log_score:.4g}", "nats per row"))
    else:
        if np.isfinite(scores.r_squared):
            rows.append(("R²", f"{scores.r_squared:.3f}", "held out"))
        rows.append(("Root mean squared error", f"{scores.error:.4g}", f"units of {facts.target}"))
    if np.isfinite(scores.gain):
        rows.append(("Log score gain", f"{scores.gain:.3g}", "nats per row, over trivial"))
    if held_out.calibration is not None:
        at = int(np.argmax(held_out.calibration.coverage.levels))
        share, level = held_out.calibration.coverage.share[at], held_out.calibration.coverage.levels[at]
        what = "sets" if facts.has_labels else "intervals"
        rows.append((f"Inside {100 * level:g} % {what}", f"{100 * share:.1f} %", f"of {len(held_out.y)} held-out rows"))
        unit = "classes" if facts.has_labels else f"units of {facts.target}"
        rows.append(
            (f"Mean {'size' if facts.has_labels else 'width'} of those", f"{held_out.calibration.width[at]:.4g}", unit)
        )
    return rows


def _card(label: str, value: str, unit: str) -> Markup:
    inside = (tag("span", value, class_="value"), " ", tag("span", unit, class_="unit"))
    return tag("div", tag("dt", label), tag("dd", *inside))
