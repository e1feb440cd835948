"""What to make of a model, in a paragraph: did it converge, does it help, is it calibrated, what to distrust."""

from __future__ import annotations

import dataclasses

import numpy as np

from kosambi.page._facts import Facts, HeldOut
from kosambi.page._html import Markup, tag
from kosambi.posterior.certificate import Certificate

GOOD, CARE, BAD = 0, 1, 2
_STYLES = ("good", "care", "bad")
_BADGES = ("Sound on these data", "Use with care", "Do not rely on it yet")
# No probability should be off by more through having few inducing points.
_LARGEST_ERROR = 0.1
# Held-out rows below which the standard error of a coverage of 50 % is above 8 points, so that little can be seen.
FEW_ROWS = 40
# Above this share of rows beyond the training inputs it is said.
_MANY_OUTSIDE = 0.1


@dataclasses.dataclass(frozen=True)
class Finding:
    """A sentence, and how bad it is."""

    level: int
    sentence: str


def verdict(facts: Facts) -> Markup:
    """The badge and its paragraph."""
    main, doubts = [_convergence(facts), *_on_held_out(facts)], _doubts(facts)
    level = max(finding.level for finding in (*main, *doubts))
    badge = "Not checked on held-out data" if facts.held_out is None and level == CARE else _BADGES[level]
    close = "What to distrust: " + " ".join(finding.sentence for finding in doubts)
    if not doubts:
        close = "Nothing stands out to distrust; far from the training inputs predictions fall back on the prior."
    words = " ".join(finding.sentence for finding in main)
    return tag(
        "div", tag("span", badge, class_="badge"), tag("p", words), tag("p", close), class_=f"verdict {_STYLES[level]}"
    )


def _convergence(facts: Facts) -> Finding:
    report = facts.report
    if report is None:
        return Finding(CARE, "The draws came without a report, so it is not known whether they converged.")
    if not report.steps:
        return Finding(GOOD, "The draws are independent and from the exact posterior, so nothing had to converge.")
    numbers = f"nested R̂ {report.r_hat:.4f} after {report.steps} steps, limit {report.r_hat_limit:.6g}"
    if report.converged:
        return Finding(GOOD, f"The sampler converged ({numbers}).")
    return Finding(BAD, f"The sampler has not converged ({numbers}): the draws still depend on where they began.")


def _on_held_out(facts: Facts) -> list[Finding]:
    if facts.held_out is None:
        return [Finding(CARE, "There were no held-out data, so how well it predicts was not checked.")]
    return [_skill(facts.held_out, facts.has_labels), _calibration(facts.held_out)]


def _skill(held_out: HeldOut, has_labels: bool) -> Finding:
    scores, count = held_out.scores, len(held_out.y)
    if has_labels:
        start = (
            f"On {count} held-out rows it finds the right class in {100 * scores.accuracy:.1f} % of cases, where "
            f"always naming the most frequent class finds {100 * scores.trivial_accuracy:.1f} %"
        )
    elif np.isfinite(scores.r_squared):
        start = (
            f"On {count} held-out rows it explains {100 * scores.r_squared:.1f} % of the variance (R² "
            f"{scores.r_squared:.3f}), with errors of {scores.error:.4g} where the mean alone has "
            f"{scores.trivial_error:.4g}"
        )
    else:
        start = f"On {count} held-out rows, which do not vary, its errors are {scores.error:.4g}"
    if scores.is_better is None:
        return Finding(GOOD if scores.error < scores.trivial_error else CARE, f"{start}.")
    by = f"{scores.gain:.3g} ± {scores.gain_error:.2g} nats per observation, against {scores.trivial}"
    if scores.is_better:
        return Finding(GOOD, f"{start}; its log score is better by {by}.")
    return Finding(BAD, f"{start}; its log score gains nothing that could not be chance ({by}).")


def _calibration(held_out: HeldOut) -> Finding:
    if held_out.calibration is None:
        return Finding(CARE, "This likelihood has no distribution of an observation, so calibration cannot be judged.")
    return _of_words(held_out.calibration.verdict, len(held_out.y))


def _of_words(words: str, count: int) -> Finding:
    """What the verdict on the calibration of `count` rows amounts to."""
    if words.startswith("Calibrated"):
        if count >= FEW_ROWS:
            return Finding(GOOD, words)
        # Two standard errors of a share of one half.
        blind = 100.0 / np.sqrt(count)
        return Finding(
            CARE,
            f"Intervals show no fault, but {count} held-out rows can hardly show one: of 50 % intervals they would not "
            f"tell {50 - blind:.0f} % from {50 + blind:.0f} % inside.",
        )
    return Finding(BAD if words.startswith(("Too sure", "Wrong shape")) else CARE, words)


def _doubts(facts: Facts) -> list[Finding]:
    learned, report, chosen = facts.estimator.fit_report_, facts.report, facts.posterior.selection
    found = []
    if learned is not None and not learned.converged:
        found.append("The search for hyperparameters did not end by itself.")
    if report is not None and report.basins > 1:
        found.append(f"The posterior has {report.basins} modes or more, and how they share the draws is a guess.")
    if chosen is not None and not chosen.is_enough:
        found.append(f"The number of inducing points was limited by {chosen.reason}; more may do better.")
    certificate = facts.certificate
    if isinstance(certificate, Certificate) and certificate.bound != 0.0 and certificate.largest_error > _LARGEST_ERROR:
        found.append(
            f"Through its {facts.posterior.basis.size} inducing points probabilities may be off by up to "
            f"{100 * certificate.largest_error:.2g} %."
        )
    if facts.held_out is not None and facts.held_out.num_outside > _MANY_OUTSIDE * len(facts.held_out.y):
        found.append(
            f"{facts.held_out.num_outside} of {len(facts.held_out.y)} held-out rows lie well outside the range of "
            "the training rows in some column, where predictions lean on the prior."
        )
    if facts.warnings:
        how_many = f"{len(facts.warnings)} warning{'s were' if len(facts.warnings) > 1 else ' was'}"
        found.append(f"{how_many} given on the way; see below.")
    return [Finding(CARE, sentence) for sentence in found]
