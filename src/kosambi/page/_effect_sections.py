"""What the inputs do: the function itself for one input, averaged effects for several."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from kosambi import plots
from kosambi._core.calendar import Circle, as_days, circles, time_columns
from kosambi.page._facts import Facts
from kosambi.page._html import Markup, section, tag
from kosambi.page._svg import SMALL, WIDE, drawable, figure
from kosambi.plots.average import FEW_VALUES, Effect, averaged, influences
from kosambi.plots.categories import averaged_category, categories, influence
from kosambi.plots.dates import mark_axis, shown_ends, shown_name
from kosambi.plots.effects import draw_effect, mark, title_of, with_words
from kosambi.plots.predictions import interval
from kosambi.plots.seasons import averaged_season
from kosambi.plots.seasons import influence as season_influence

MAX_EFFECTS = 12
"""Inputs that are drawn, the most influential ones."""


def effects_section(facts: Facts, numbers: Iterator[int]) -> Markup:
    """The function of one input, or the effects of several."""
    if len(facts.names) == 1:
        picture = _single(facts, numbers) if facts.posterior.likelihood.num_latents == 1 else _several(facts, numbers)
        return section("effects", "The function", tag("div", picture, class_="lead"))
    coded, seasons = categories(facts.names, facts.x), circles(facts.names)
    in_one = {column for category in coded for column in category.columns}
    in_one |= {column for circle in seasons for column in circle.columns}
    ranked: list[tuple[float, str | Circle, Effect]] = []
    for category in coded:
        effect = averaged_category(facts.estimator, facts.x, category)
        ranked.append((influence(effect), category.name, effect))
    for circle in seasons:
        effect = averaged_season(facts.estimator, facts.x, circle)
        ranked.append((season_influence(effect), circle, effect))
    variances = influences(facts.estimator, facts.x)
    order = [int(d) for d in np.argsort(-variances, kind="stable") if d not in in_one]
    ranked += [(variances[d], facts.names[d], averaged(facts.estimator, facts.x, d)) for d in order[:MAX_EFFECTS]]
    ranked = sorted(ranked, key=lambda each: -each[0])[:MAX_EFFECTS]
    effects = [effect for _, _, effect in ranked]
    # One scale for all, so that an input without effect looks like one.
    low, high = min(effect.lower.min() for effect in effects), max(effect.upper.max() for effect in effects)
    limits = low - 0.05 * (high - low), high + 0.05 * (high - low)
    pictures = [
        _effect(facts, shown, effect, rank, limits, numbers) for rank, (_, shown, effect) in enumerate(ranked, start=1)
    ]
    words = (
        "Each picture sets one input to its values in turn and averages the prediction over training rows; the input "
        "that moves it most comes first, and all have one scale. The band holds the averaged function at each value "
        "with probability 95 %, thin lines are functions drawn from the posterior, and marks below are training rows. "
        "Inputs that go together in the data are taken apart here, so an average may use rows that do not occur."
    )
    left = len(order) + len(coded) + len(seasons) - len(pictures)
    rest = (
        f"{left} input{'s' if left > 1 else ''} with less effect {'are' if left > 1 else 'is'} left out."
        if left
        else None
    )
    return section(
        "effects",
        "What each input does",
        _surface(facts, numbers),
        _timeline(facts, numbers),
        tag("p", words),
        tag("div", *pictures, class_="grid"),
        None if rest is None else tag("p", rest),
    )


def _surface(facts: Facts, numbers: Iterator[int]) -> Markup | None:
    """A map of the prediction over two inputs; none where that is not one number, or an input has few values."""
    likelihood = facts.posterior.likelihood
    is_one = likelihood.num_latents == 1 or not facts.has_labels
    has_few = any(len(np.unique(column)) <= FEW_VALUES for column in facts.x.T)
    # Sine and cosine of a season are two columns, but one input.
    if len(facts.names) != 2 or circles(facts.names) or not is_one or has_few:
        return None
    first, second = (shown_name(label) for label in facts.names)
    label = facts.classes[-1] if len(facts.classes) == 2 else None
    what = f"the mean of {facts.target}" if label is None else f"the probability of {label}"

    def draw(axes: Any) -> None:
        plots.surface(facts.estimator, axes=axes)
        title = f"mean of {drawable(facts.target)}" if label is None else f"P({drawable(label)})"
        axes.set(xlabel=plots.plain(drawable(first)), ylabel=plots.plain(drawable(second)), title=plots.plain(title))

    caption = (
        f"Over {first} and {second}: {what}. Dots are training rows; where there are none, the map says what the model "
        "supposes there."
    )
    return tag("div", figure(next(numbers), WIDE, draw, f"A map of {what}.", caption), class_="lead")


def _effect(
    facts: Facts, shown: str | Circle, effect: Effect, rank: int, limits: tuple[float, float], numbers: Iterator[int]
) -> Markup:
    name, effect = title_of(shown), with_words(effect, shown)

    def draw(axes: Any) -> None:
        target, classes = drawable(facts.target), [drawable(c) for c in facts.classes]
        named = dataclasses.replace(effect, levels=tuple(drawable(level) for level in effect.levels))
        draw_effect(named, drawable(name), classes, target=target, axes=axes).set_ylim(*limits)
        mark(axes, shown, effect)

    if isinstance(shown, str):
        low, high = shown_ends(shown, effect.values)
    if effect.levels:
        by_mean = np.argsort(np.ptp(effect.mean, axis=0))[-1]
        order = np.argsort(effect.mean[:, by_mean], kind="stable")
        low, high = effect.levels[order[0]], effect.levels[order[-1]]
    if effect.num_lines == 1:
        quantity = _quantity(facts, effect)
        moves = f"the average of {quantity} lies between {effect.mean.min():.4g} and {effect.mean.max():.4g}"
    else:
        k = int(np.argmax(np.ptp(effect.mean, axis=0)))
        ends = f"between {effect.mean[:, k].min():.3g} and {effect.mean[:, k].max():.3g}"
        moves = f"the probability of {facts.classes[k]} moves most, {ends}"
    over = "once round" if isinstance(shown, Circle) and not effect.levels else f"from {low} to {high}"
    caption = f"{rank}. {name}: {over} {moves}."
    return figure(next(numbers), SMALL, draw, f"Averaged effect of {name}.", caption)


def _quantity(facts: Facts, effect: Effect) -> str:
    if effect.has_labels:
        return f"the probability of {facts.classes[-1]}" if len(facts.classes) == 2 else "the label"
    return facts.target if effect.is_response else "f"


def _timeline(facts: Facts, numbers: Iterator[int]) -> Markup | None:
    """The prediction over time, where all columns are those of one column of dates."""
    if time_columns(facts.names) is None:
        return None
    column = next(place for place, label in enumerate(facts.names) if as_days(label) is not None)
    name = shown_name(facts.names[column])

    def draw(axes: Any) -> None:
        plots.timeline(facts.estimator, axes=axes)
        ends = axes.get_xlim()
        if not facts.has_labels:
            _held_out_points(facts, axes, column)
            axes.set(xlim=ends, ylabel=plots.plain(drawable(facts.target)))
        axes.set_xlabel(plots.plain(drawable(name)))
        axes.legend(fontsize="small", frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0.0, 1.0))

    caption = (
        "The line is the mean, the darker band holds its average at each time with probability 95 %"
        f"{'' if facts.has_labels else ', the lighter one a new observation'}, and thin lines are functions drawn from "
        "the posterior. Where rows are many the last of them are shown; beyond the last one the seasons go on, and the "
        "rest falls back on the prior."
    )
    picture = figure(next(numbers), WIDE, draw, f"The prediction and its band, over {name}.", caption)
    return tag("div", picture, class_="lead")


def _single(facts: Facts, numbers: Iterator[int]) -> Markup:
    """Data, bands and draws in the units of the data."""
    name, estimator = shown_name(facts.names[0]), facts.estimator

    def draw(axes: Any) -> None:
        mean, scale = float(estimator.x_mean_[0]), float(estimator.x_scale_[0])
        drawn = plots.posterior(facts.posterior, jax.random.key(0), num_draws=8, x_mean=mean, x_scale=scale, axes=axes)
        if not facts.has_labels:
            drawn.set_ylabel(plots.plain(drawable(facts.target)))
        _held_out_points(facts, drawn)
        drawn.set_xlabel(plots.plain(drawable(name)))
        mark_axis(drawn.xaxis, facts.names[0])
        drawn.legend(fontsize="small", frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0.0, 1.0))

    return figure(next(numbers), WIDE, draw, f"Data, mean, bands and functions drawn, over {name}.", _caption(facts))


def _several(facts: Facts, numbers: Iterator[int]) -> Markup:
    """One line a class, or the mean of an observation where the noise varies too."""
    name = shown_name(facts.names[0])
    effect = averaged(facts.estimator, facts.x, 0, num_points=150)

    def draw(axes: Any) -> None:
        if not effect.has_labels:
            wide = interval(facts.estimator.predict_distribution(effect.values[:, None]), effect.coverage)
            if wide is not None:
                axes.fill_between(effect.values, *wide, color=plots.BLUE, alpha=0.13, lw=0, label="95 % of y")
            y = np.asarray(facts.posterior.target.y)
            axes.plot(facts.x[:, 0], y, ls="", marker="o", ms=3, color=plots.BLACK, alpha=0.65, label="data")
            _held_out_points(facts, axes)
        draw_effect(effect, drawable(name), [drawable(c) for c in facts.classes], axes=axes)
        mark(axes, facts.names[0], effect)
        if not effect.has_labels:
            axes.set_ylabel(plots.plain(drawable(facts.target)))

    return figure(next(numbers), WIDE, draw, f"The prediction and its band, over {name}.", _caption(facts))


def _held_out_points(facts: Facts, axes: Any, column: int = 0) -> None:
    if facts.held_out is not None:
        x, y = facts.held_out.x[:, column], facts.held_out.y
        style = {"marker": "|", "ms": 9} if facts.has_labels else {"marker": "o", "ms": 4, "mfc": "none"}
        axes.plot(x, y, ls="", color="#009E73", mew=0.9, label="held out", **style)


def _caption(facts: Facts) -> str:
    what = "the probability" if facts.has_labels else "the function"
    low, high = shown_ends(facts.names[0], np.array([facts.x.min(), facts.x.max()]))
    wide = "" if facts.has_labels else ", the lighter one a new observation"
    return (
        f"The line is the mean, the darker band holds {what} at each input with probability 95 %{wide}, and thin lines "
        f"are functions drawn from the posterior. Here {len(facts.x)} training rows lie between {low} and "
        f"{high}; beyond them the band widens towards the prior."
    )
