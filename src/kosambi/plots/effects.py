"""What one input does to the prediction, the others averaged over the data."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from kosambi._core.calendar import Circle, circles
from kosambi._core.checks import as_count, as_few, as_level
from kosambi._core.types import ArrayLike
from kosambi.errors import InputError
from kosambi.plots.average import Effect, averaged
from kosambi.plots.categories import averaged_category, categories
from kosambi.plots.dates import mark_axis, shown_name, shown_value
from kosambi.plots.seasons import averaged_season, mark_season
from kosambi.plots.style import (
    BLACK,
    BLUE,
    ORANGE,
    Axes,
    as_axes,
    as_column_number,
    as_columns,
    class_style,
    plain,
    spread,
)
from kosambi.plots.units import check_one_output

# Marks of the rug; more would be a bar.
_MAX_MARKS = 300
# Characters below the axis, above which names of levels are written aslant.
_LONG = 28


def partial_effect(
    estimator: Any,
    X: ArrayLike,
    feature: int | str,
    *,
    label: int | None = None,
    coverage: float = 0.95,
    num_points: int = 40,
    max_rows: int = 40,
    num_samples: int | None = None,
    num_draws: int = 5,
    random_state: int = 0,
    axes: Axes | None = None,
) -> Axes:
    """The effect of one input: E[y | f] with that column set to each value in turn, averaged over rows of X.

    The line is the posterior mean of that average, without Monte Carlo error except for more than two classes. The band
    holds the average at each value by itself with probability `coverage`, from functions drawn from the posterior, and
    not an observation. Thin lines are the averages of a few of those functions. For labels all of it is a
    probability, one line per class where there are more than two. A column of at most five different values gets points
    with error bars. Marks on the lower edge are the rows of X. Values go from the 1 % to the 99 % quantile.

    Inputs that go together in the data are taken apart here, so an average may use rows that do not occur.

    Arguments:
        estimator: a fitted `ProjectedLangevinRegressor` or `ProjectedLangevinClassifier`.
        X: (N, D), the rows to average over, in the units of the fit; an array or a data frame.
        feature: the column, by number or name; of columns `city=Bonn`, `city=Ulm` that code one category, its name,
            `city`, for the levels beside each other; of a date, as `TableTransformer` codes it, its name, `date`, for
            the days, and `date: time of day`, `date: day of the week` or `date: time of year` for a season.
        label: which class to draw, from 0; all when None, and 1 of two.
        coverage: the probability of the band, between 0 and 1.
        num_points: how many values of the column.
        max_rows: of X at most so many are averaged over, an even selection.
        num_samples: functions that the band comes from; as many as were drawn for the fit when None.
        num_draws: how many of them are drawn.
        random_state: a whole number; the same functions for the same number.
        axes: where to draw; a new figure when None.

    >>> import numpy as np, kosambi as ko
    >>> X = np.random.default_rng(0).uniform(-1.0, 1.0, (60, 2))
    >>> model = ko.ProjectedLangevinRegressor(hyperparameters=None, n_inducing=10).fit(X, np.sin(3.0 * X[:, 0]))
    >>> ko.plots.partial_effect(model, X, 0, num_points=10, max_rows=5, num_samples=20).get_xlabel()
    'x0'
    """
    check_one_output("plots.partial_effect", estimator)
    array, names = as_columns(estimator, X)
    options: dict[str, Any] = {
        "coverage": as_level("coverage", coverage),
        "max_rows": as_count("max_rows", max_rows),
        "num_samples": None if num_samples is None else as_count("num_samples", num_samples),
        "random_state": random_state,
    }
    points = as_count("num_points", num_points)
    coded = {category.name: category for category in categories(names, array)}
    seasons = {circle.title: circle for circle in circles(names)}
    shown: str | Circle
    if isinstance(feature, str) and feature in coded and feature not in names:
        shown, effect = feature, averaged_category(estimator, array, coded[feature], **options)
    elif isinstance(feature, str) and feature in seasons:
        shown, effect = seasons[feature], averaged_season(estimator, array, seasons[feature], **options)
    else:
        column = as_column_number(feature, names)
        shown, effect = names[column], averaged(estimator, array, column, num_points=points, **options)
    classes = [str(name) for name in getattr(estimator, "classes_", range(effect.num_lines))]
    effect = with_words(effect, shown)
    axes = draw_effect(effect, title_of(shown), classes, label=label, num_draws=num_draws, axes=axes)
    mark(axes, shown, effect)
    return axes


def title_of(shown: str | Circle) -> str:
    """What the effect of a column, a category or a season is called."""
    return shown.title if isinstance(shown, Circle) else shown_name(shown)


def with_words(effect: Effect, shown: str | Circle) -> Effect:
    """The effect, whose values are named where they are a few dates or times of day."""
    if isinstance(shown, Circle) or not effect.is_few or effect.levels or shown_name(shown) == shown:
        return effect
    return dataclasses.replace(effect, levels=tuple(shown_value(shown, float(value)) for value in effect.values))


def mark(axes: Axes, shown: str | Circle, effect: Effect) -> None:
    """Put the calendar on the axis of an effect, where its values are times."""
    if isinstance(shown, Circle):
        mark_season(axes.xaxis, shown.season)
    elif not effect.is_few:
        mark_axis(axes.xaxis, shown)


def draw_effect(
    effect: Effect,
    name: str,
    classes: list[str],
    *,
    label: int | None = None,
    num_draws: int = 5,
    target: str = "y",
    axes: Axes | None = None,
) -> Axes:
    """An effect that has been computed; `target` is what y is called."""
    shown = _as_lines(effect, label, classes)
    drawn = effect.draws[spread(len(effect.draws), as_few("num_draws", num_draws))] if num_draws else effect.draws[:0]
    axes = as_axes(axes, (4.4, 3.2))
    for k in shown:
        style = class_style(k) if effect.num_lines > 1 else {"color": BLUE, "ls": "-"}
        label_text = plain(classes[k]) if effect.num_lines > 1 else "mean"
        mean, lower, upper = effect.mean[:, k], effect.lower[:, k], effect.upper[:, k]
        band = f"{100 * effect.coverage:g} %" if k == shown[0] else None
        if effect.is_few:
            # The mean is exact and the band is drawn, so the mean may lie at its edge.
            axes.vlines(effect.values, lower, upper, color=style["color"], lw=1.6, alpha=0.5, label=band)
            axes.plot(effect.values, mean, ls="", marker="o", ms=6, color=style["color"], label=label_text)
        else:
            axes.fill_between(effect.values, lower, upper, color=style["color"], alpha=0.2, lw=0, label=band)
            axes.plot(effect.values, mean, lw=2.0, label=label_text, **style)
        if len(shown) == 1 and len(drawn):
            offset = {"ls": "", "marker": "_", "ms": 8} if effect.is_few else {"lw": 0.7}
            lines = axes.plot(effect.values, drawn[:, :, k].T, color=ORANGE, alpha=0.75, zorder=1.9, **offset)
            lines[0].set_label(f"{len(lines)} draws")
    marks = np.sort(effect.data)[spread(len(effect.data), _MAX_MARKS)]
    inside = marks[(marks >= effect.values[0]) & (marks <= effect.values[-1])]
    edge = axes.get_xaxis_transform()
    axes.plot(inside, np.zeros_like(inside), ls="", marker=2, ms=5, mew=0.6, color=BLACK, alpha=0.5, transform=edge)
    if effect.is_few:
        words = [plain(level) for level in effect.levels] or [f"{value:.6g}" for value in effect.values]
        is_long = sum(map(len, words)) > _LONG
        axes.set_xticks(effect.values, words, rotation=35 if is_long else 0, ha="right" if is_long else "center")
        axes.margins(x=0.15)
    axes.set(xlabel=plain(name), ylabel=plain(_response(effect, classes, shown, target)))
    axes.legend(fontsize="small", frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0.0, 1.0))
    return axes


def _as_lines(effect: Effect, label: int | None, classes: list[str]) -> list[int]:
    """Which lines to draw; for two classes there is one, the probability of the second."""
    if label is None:
        return list(range(effect.num_lines))
    allowed = range(effect.num_lines) if effect.num_lines > 1 else (1,)
    if not effect.has_labels or label not in allowed:
        raise InputError(
            f"`label` must be one of {', '.join(map(str, allowed))} ({', '.join(classes)}) for labels, and None for "
            f"numbers. Got {label!r}."
        )
    return [label] if effect.num_lines > 1 else [0]


def _response(effect: Effect, classes: list[str], shown: list[int], target: str) -> str:
    if not effect.has_labels:
        return f"E[{target} | f], averaged" if effect.is_response else "f, averaged"
    if effect.num_lines == 1:
        return f"P({target} = {classes[-1]})" if len(classes) == 2 else "mean label"
    return f"P({target} = {classes[shown[0]]})" if len(shown) == 1 else "probability"
