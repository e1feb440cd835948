"""Sections that need held-out data: predictions against the truth, and calibration."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kosambi import plots
from kosambi.calibration import Calibration
from kosambi.calibration.checks import label_probabilities
from kosambi.page._facts import Facts, HeldOut
from kosambi.page._html import Child, Markup, section, table, tag
from kosambi.page._svg import SQUARE, WIDE, drawable, figure


def predictions_section(facts: Facts, numbers: Iterator[int]) -> Markup:
    """Truth and prediction side by side."""
    held_out = facts.held_out
    if held_out is None:
        return section("predictions", "Predictions against the truth", _left_out())
    if facts.has_labels:
        pictures = tag("div", _roc(facts, held_out, numbers), _confusion(facts, held_out, numbers), class_="grid")
    else:
        pictures = tag("div", _scatter(facts, held_out, numbers), class_="lead")
    return section("predictions", "Predictions against the truth", pictures)


def calibration_section(facts: Facts, numbers: Iterator[int]) -> Markup:
    """Whether probabilities keep their promises."""
    heading, held_out = "Calibration", facts.held_out
    if held_out is None:
        return section("calibration", heading, _left_out())
    report = held_out.calibration
    if report is None:
        why = "This likelihood gives no distribution of a new observation, so there is nothing to calibrate."
        return section("calibration", heading, tag("p", why))
    pictures = [_reliability(facts, held_out, numbers)] if facts.has_labels else []
    pictures += [_curve(report, numbers)]
    if not facts.has_labels and report.pit is not None:
        pictures += [_pit(report, numbers)]
    return section(
        "calibration", heading, tag("p", report.verdict), tag("div", *pictures, class_="grid"), _table(report)
    )


def _left_out() -> Markup:
    return tag("p", "No held-out data were given, so this section is left out. Pass rows that were not used to fit.")


def _scatter(facts: Facts, held_out: HeldOut, numbers: Iterator[int]) -> Markup:
    scores, count, name = held_out.scores, len(held_out.y), drawable(facts.target)

    def draw(axes: object) -> None:
        drawn = plots.predictions(held_out.prediction, held_out.y, axes=axes)
        drawn.set(xlabel=plots.plain(f"truth: {name}"), ylabel=plots.plain(f"prediction: {name}"))

    shown = f"Here the root mean squared error over {count} rows is {scores.error:.4g}"
    if held_out.calibration is not None:
        share = held_out.calibration.coverage.share[int(np.argmax(held_out.calibration.coverage.levels))]
        shown += f", and {100 * share:.1f} % of the intervals hold the truth"
    caption = (
        "Each dot is a held-out observation, its truth across and its predicted mean up, with its 95 % interval; on "
        f"the dashed line both agree, and intervals that miss it are orange. {shown}."
    )
    return figure(next(numbers), WIDE, draw, f"Predicted mean against truth for {count} held-out rows.", caption)


def _roc(facts: Facts, held_out: HeldOut, numbers: Iterator[int]) -> Markup:
    names = [drawable(name) for name in facts.classes]
    area = held_out.scores.auc
    shown = f"Here the area under {'it' if len(names) == 2 else 'them, on average,'} is {area:.3f}."
    caption = (
        "The share of a class that is found, against the share of others that is wrongly taken for it, as the "
        "threshold falls; the further above the dashed line of guessing the better. "
        + (shown if np.isfinite(area) else "Here only one class was observed, so there is no curve.")
    )
    return figure(
        next(numbers),
        SQUARE,
        lambda axes: plots.roc(held_out.prediction, held_out.y, axes, classes=names),
        f"ROC curves, mean area {area:.3f}.",
        caption,
    )


def _confusion(facts: Facts, held_out: HeldOut, numbers: Iterator[int]) -> Markup:
    names = _distinct([drawable(name) for name in facts.classes])
    guess = np.asarray(label_probabilities(held_out.prediction)).argmax(axis=1)
    truth = held_out.y.astype(int)
    wrong = int(np.sum(guess != truth))
    caption = (
        "Rows are the true class, columns the likeliest one; right answers are on the diagonal, and darker means a "
        f"larger share of the row. Here {wrong} of {len(truth)} are off the diagonal."
    )
    return figure(
        next(numbers),
        SQUARE,
        lambda axes: plots.confusion([names[k] for k in truth], [names[k] for k in guess], names, axes),
        f"Confusion matrix with {wrong} of {len(truth)} rows off the diagonal.",
        caption,
    )


def _distinct(names: list[str]) -> list[str]:
    """Names that were cut to the same text get their number."""
    return [name if names.count(name) == 1 else f"{name} ({k})" for k, name in enumerate(names)]


def _reliability(facts: Facts, held_out: HeldOut, numbers: Iterator[int]) -> Markup:
    what = f"of {facts.classes[1]}" if len(facts.classes) == 2 else "of the likeliest class"
    caption = (
        f"Rows are put into bins by their probability {what}; each dot is a bin, with the share that came true, its 95 "
        f"% interval and its number of rows. On the dashed line both agree. Here there are {len(held_out.y)} rows."
    )
    return figure(
        next(numbers),
        SQUARE,
        lambda axes: plots.reliability(held_out.prediction, held_out.y, axes),
        "Reliability diagram: observed share against predicted probability.",
        caption,
    )


def _curve(report: Calibration, numbers: Iterator[int]) -> Markup:
    at = int(np.argmax(report.coverage.levels))
    share, expected = report.coverage.share[at], report.coverage.expected[at]
    lines = "The line is the share of observations below each quantile, with a 95 % band if all is well; dots are"
    caption = (
        f"{'Dots are' if report.pit is None else lines} the shares inside intervals, with two standard errors; on the "
        f"dashed line promises are kept. Here {100 * share:.1f} % are inside where {100 * expected:.1f} % were "
        "promised."
    )
    return figure(
        next(numbers),
        SQUARE,
        lambda axes: plots.calibration(report, axes),
        "Calibration: observed against promised.",
        caption,
    )


def _pit(report: Calibration, numbers: Iterator[int]) -> Markup:
    caption = (
        "Where observations fall in their predictive distributions; level bars inside the grey band are good, high "
        f"ends too narrow ones, a high middle too wide ones. Here uniformity has p = {report.p_value:.2g}."
    )
    alt = f"Histogram of probability integral transforms, p = {report.p_value:.2g}."
    return figure(next(numbers), SQUARE, lambda axes: plots.pit(report, axes), alt, caption)


def _table(report: Calibration) -> Markup:
    found, unit = report.coverage, "Mean number of classes" if report.has_labels else "Mean width"
    rows: list[list[Child]] = [
        [f"{100 * level:g} %", f"{100 * share:.1f} %", f"{100 * wanted:.1f} ± {100 * error:.1f} %", f"{width:.4g}"]
        for level, share, wanted, error, width in zip(
            found.levels, found.share, found.expected, found.standard_error, report.width, strict=True
        )
    ]
    scores = f"negative log density {report.nll:.4g}, CRPS {report.crps:.4g}"
    caption = f"Coverage on {report.num_observations} held-out rows; {scores}"
    return table(["Level", "Inside", "Expected", unit], rows, caption, numbers=(1, 2, 3))
