"""Sections about the model itself: the run, the inducing points, the hyperparameters, warnings, versions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from kosambi import plots
from kosambi._core.writing import versions
from kosambi.page._facts import Facts
from kosambi.page._html import Child, Markup, section, table, tag
from kosambi.page._numbers import seconds_spent
from kosambi.page._parameters import Parameter, parameters
from kosambi.page._svg import SMALL, figure
from kosambi.plots.dates import mark_axis, shown_names, unit_of
from kosambi.posterior import AveragedPosterior
from kosambi.posterior.certificate import Certificate
from kosambi.samplers.report import Report


def run_section(facts: Facts, numbers: Iterator[int]) -> Markup:
    """Whether the draws can be trusted."""
    report, heading = facts.report, "Did the sampler converge?"
    if report is None:
        return section("sampler", heading, tag("p", "The draws came without a report."))
    summary = tag("pre", "\n".join(str(report).splitlines()[: 4 if report.steps else 1]))
    if not report.steps:
        words = f"The {report.sampler} sampler makes independent posterior draws and takes no steps, so there is "
        return section("sampler", heading, tag("p", words + "nothing to converge and no trace to show."), summary)
    if report.ladder is not None:
        return section("sampler", heading, *_tempering(facts, report, numbers), tag("pre", str(report)))
    first, last = float(report.energy[0]), float(report.energy[-1])
    energy = (
        "The mean potential of the draws; it falls while they leave their start and then stays level. Here it goes "
        f"from {first:.5g} to {last:.5g} over {report.steps} steps."
    )
    r_hat = (
        "Nested R̂ minus one compares groups of draws that began together; below the dashed limit they have forgotten "
        f"where. Here it ends at {report.r_hat:.4f}, and the limit is {report.r_hat_limit:.6g}."
    )
    return section(
        "sampler",
        heading,
        tag(
            "div",
            figure(next(numbers), SMALL, lambda axes: plots.energy(report, axes), "Mean potential over steps.", energy),
            figure(next(numbers), SMALL, lambda axes: plots.r_hat(report, axes), "Nested R̂ over steps.", r_hat),
            class_="grid",
        ),
        summary,
    )


def _tempering(facts: Facts, report: Report, numbers: Iterator[int]) -> list[Markup]:
    """Swaps between temperatures, and the modes with their shares."""
    assert report.ladder is not None
    ladder = (
        "Replicas move between the prior and the posterior by swaps of neighbouring temperatures; where few are "
        f"accepted, few modes are exchanged. Here at least {np.min(report.ladder.swap_rates):.0%} are, and "
        f"{report.ladder.arrivals:.0f} replicas came all the way while draws were taken."
    )
    alt = "Accepted swaps between temperatures."
    pictures = [figure(next(numbers), SMALL, lambda axes: plots.ladder(report, axes), alt, ladder)]
    estimator, posterior = facts.estimator, facts.posterior
    if len(facts.names) == 1 and posterior.likelihood.num_latents == 1:
        words = "Functions drawn, each in the colour of its mode, with the probability of the mode."

        def draw(axes: Any) -> None:
            mean, scale = float(estimator.x_mean_[0]), float(estimator.x_scale_[0])
            drawn = plots.modes(posterior, jax.random.key(0), x_mean=mean, x_scale=scale, axes=axes)
            mark_axis(drawn.xaxis, facts.names[0])

        pictures.append(figure(next(numbers), SMALL, draw, "Functions by mode.", words))
    alone = posterior.point if isinstance(posterior, AveragedPosterior) else posterior
    return [tag("div", *pictures, class_="grid"), tag("pre", str(alone.modes()))]


def basis_section(facts: Facts, numbers: Iterator[int]) -> Markup:
    """How many inducing points, why, and what they cost."""
    posterior, chosen = facts.posterior, facts.posterior.selection
    size, open_share = posterior.basis.size, 100 * (1.0 - posterior.explained_variance)
    spectrum = (
        "Prior variances of the M coordinates, largest first; where they have fallen far, more points would add "
        f"little. Here M is {size}, and {max(open_share, 0.0):.3g} % of the prior variance at the data is unexplained."
    )
    pictures = []
    if size:
        draw = lambda axes: plots.spectrum(posterior, axes, mark_size=True)  # noqa: E731
        pictures.append(figure(next(numbers), SMALL, draw, f"Eigenvalues of {size} coordinates.", spectrum))
    if chosen is not None and np.any(chosen.sizes > 0):
        words = (
            "What each number of inducing points that was tried achieves; the dotted line is the one that was taken. "
            f"Here: {str(chosen).splitlines()[0]}."
        )
        if chosen.alternatives:
            words += f" Alternatives, as rows left out score them: {'; '.join(map(str, chosen.alternatives))}."
        alt = "Scores of the numbers of inducing points that were tried."
        pictures.append(figure(next(numbers), SMALL, lambda axes: plots.selection(chosen, axes), alt, words))
    close = [tag("p", f"There is no certificate. {facts.certificate}" if size else str(facts.certificate))]
    if isinstance(facts.certificate, Certificate):
        words = "The certificate says how far the draws are from the best distribution with these points:"
        close = [tag("p", words), tag("pre", str(facts.certificate))]
    return section("inducing-points", "How many inducing points?", tag("div", *pictures, class_="grid"), *close)


def parameters_section(facts: Facts, numbers: Iterator[int]) -> Markup:
    """What was learned, or given."""
    learned = facts.estimator.fit_report_
    words = "Hyperparameters were given, not learned."
    if learned is not None:
        words = (
            f"Learned by the method “{learned.method}”, {'to the end' if learned.converged else 'NOT to the end'}, in "
            f"{learned.evaluations} evaluations; log marginal likelihood {learned.log_evidence:.5g} nats "
            "of standardised data."
        )
    rows: list[list[Child]] = [
        _row(facts, parameter, i) for parameter in parameters(facts) for i in range(parameter.size)
    ]
    kinds = (
        f"{type(facts.posterior.prior.kernel).__name__} kernel, {type(facts.posterior.likelihood).__name__} likelihood"
    )
    head = ["Parameter", "Input", "Value", "In the units of the input", "Remark"]
    parts: list[Child] = [tag("p", words), table(head, rows, kinds, numbers=(2, 3))]
    if isinstance(facts.posterior, AveragedPosterior) and (draws := facts.posterior.hyperparameters) is not None:
        state = "that agree" if draws.converged else "that do NOT agree"
        parts.append(
            tag(
                "p",
                f"The values above are the most probable ones. Predictions are averaged over {len(draws)} draws of all "
                f"of them from their posterior, by chains {state} (R-hat {draws.r_hat:.3f}).",
            )
        )
        caption = "What the data leave open of each hyperparameter: median, 50 % and 90 % of the draws."
        size = (7.2, 1.2 + 0.3 * sum(int(np.prod(each.shape[1:])) for each in draws.values.values()))
        picture = figure(
            next(numbers),
            size,
            lambda axes: plots.hyperparameters(draws, labels=_labels(facts), axes=axes),
            "Posterior of each hyperparameter.",
            caption,
        )
        parts.append(picture)
    return section("hyperparameters", "Hyperparameters", *parts)


def _labels(facts: Facts) -> dict[str, str]:
    """Names of lengthscales with their input."""
    found, names = {}, shown_names(facts.names)
    for parameter in parameters(facts):
        for i, column in enumerate(parameter.columns):
            found[parameter.entry(i)] = f"{parameter.name}, {names[column]}"
    return found


def _row(facts: Facts, parameter: Parameter, i: int) -> list[Child]:
    value, column = float(np.ravel(parameter.value)[i]), parameter.columns[i] if parameter.columns else None
    raw = ""
    scales = np.asarray(facts.estimator.x_scale_)
    # One length for several columns has units of its own only where these were divided by the same number.
    if parameter.is_length and (column is not None or np.all(scales == scales[0])):
        unit = unit_of(facts.names[column]) if column is not None else ""
        raw = f"{value * float(scales[column or 0]):.4g}{unit}"
    name = "all" if parameter.is_length else ""
    return [
        parameter.entry(i),
        name if column is None else shown_names(facts.names)[column],
        f"{value:.4g}",
        raw,
        parameter.remark(i),
    ]


def warnings_section(facts: Facts) -> Markup:
    """What the user was warned of, word for word."""
    if not facts.warnings:
        return section("warnings", "Warnings", tag("p", "None."))
    items = [tag("li", text) for text in facts.warnings]
    return section("warnings", "Warnings", tag("ul", *items, class_="warnings"))


def versions_section(facts: Facts) -> Markup:
    """With what it was made, and how long that took."""
    packages: list[list[Child]] = [[name, version] for name, version in versions().items()]
    times: list[list[Child]] = [[name, f"{seconds:.2f}"] for name, seconds in seconds_spent(facts).items()]
    return section(
        "versions",
        "Versions and time",
        tag(
            "div",
            table(["Step", "Seconds"], times, "Wall clock, compilation included", numbers=(1,)),
            table(["Package", "Version"], packages, "What the page was made with"),
            class_="grid",
        ),
    )
