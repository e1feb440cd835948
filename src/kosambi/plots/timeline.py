"""The prediction over time, of an estimator whose inputs are one column of dates with its seasons."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from kosambi._core.calendar import as_days, circles, coded_days, time_columns
from kosambi._core.checks import as_count, as_level
from kosambi.errors import InputError
from kosambi.plots.average import averaged_inputs
from kosambi.plots.dates import mark_axis
from kosambi.plots.effects import draw_effect, title_of
from kosambi.plots.predictions import interval
from kosambi.plots.style import BLACK, BLUE, Axes, as_axes, as_fitted
from kosambi.plots.units import View, view

# Inputs at which the prediction is drawn in a period of each season, so that it is not cut off between them.
_POINTS = {"day": 24, "week": 14, "year": 52}
_PERIODS = {"day": 1.0, "week": 7.0, "year": 365.25}
# Without seasons.
_ENOUGH = 300
# What is drawn beyond the last row, as a share of the rest.
_AHEAD = 0.1


def timeline(
    estimator: Any,
    *,
    coverage: float = 0.95,
    num_points: int = 400,
    num_draws: int = 5,
    random_state: int = 0,
    axes: Axes | None = None,
) -> Axes:
    """Data, mean and bands over time, with dates on the axis; seasons go along with the time.

    The darker band holds E[y | f], at each time by itself, with probability `coverage`, and the lighter one an
    observation, where it has a distribution. Where the finest season would take more points than there are, the last
    part of the rows is drawn, up to a tenth beyond the last one.

    Arguments:
        estimator: a fitted estimator whose columns are those of one column of dates, as `TableTransformer` codes it.
        coverage: the probability of the bands, between 0 and 1.
        num_points: how many times, at most.
        num_draws: how many functions drawn from the posterior.
        random_state: a whole number; the same functions for the same number.
        axes: where to draw; a new figure when None.

    >>> import numpy as np, pandas as pd, kosambi as ko
    >>> table = pd.DataFrame({"date": pd.date_range("2024-01-01", periods=40)})
    >>> X = ko.tables.TableTransformer().fit_transform(table)
    >>> model = ko.ProjectedLangevinRegressor(hyperparameters=None, n_inducing=8).fit(X, np.arange(40.0) % 7)
    >>> axes = ko.plots.timeline(model)
    >>> axes.get_xlabel(), axes.get_legend_handles_labels()[1]
    ('date', ['95 % of y', 'data', '95 %', 'mean', '5 draws'])
    """
    seen = view("timeline", estimator)
    days = None if seen.posterior is estimator else time_columns(seen.names)
    if days is None:
        raise InputError(
            f"`plots.timeline` draws estimators of one column of dates. This one has {len(seen.names)} columns: "
            f"{', '.join(seen.names[:4])}. Use `plots.partial_effect` for one of them."
        )
    level, most = as_level("coverage", coverage), as_count("num_points", num_points)
    data = seen.shown(seen.posterior.target.x)
    column = next(place for place, label in enumerate(seen.names) if as_days(label) is not None)
    times = times_shown(seen, data[:, column], most)
    inside = data[:, column] >= times[0]
    effect = averaged_inputs(
        estimator,
        coded_days(seen.names, times),
        column=column,
        values=times,
        data=data[inside, column],
        is_few=False,
        coverage=level,
        num_samples=None,
        random_state=random_state,
    )
    axes = as_axes(axes, (7.2, 4.0))
    if not effect.has_labels:
        inputs = as_fitted(estimator, coded_days(seen.names, times))
        wide = interval(estimator.predict_distribution(inputs), level)
        if wide is not None:
            axes.fill_between(times, *wide, color=BLUE, alpha=0.13, lw=0, label=f"{100 * level:g} % of y")
        # Rows that count for nothing are no data.
        counted = inside if (weights := seen.posterior.target.weights) is None else inside & (np.asarray(weights) > 0)
        y = np.asarray(seen.posterior.target.y)
        if y.shape == counted.shape:
            style = {"ls": "", "marker": "o", "ms": 3, "alpha": 0.65, "label": "data"}
            axes.plot(data[counted, column], y[counted], color=BLACK, **style)
    classes = [str(name) for name in getattr(estimator, "classes_", range(effect.num_lines))]
    draw_effect(effect, title_of(seen.names[column]), classes, num_draws=num_draws, axes=axes)
    if not effect.has_labels:
        axes.set_ylabel("y")
    axes.set_xlim(times[0], times[-1])
    mark_axis(axes.xaxis, seen.names[column])
    return axes


def times_shown(seen: View, data: Float[np.ndarray, " N"], most: int) -> Float[np.ndarray, " G"]:
    """Days at which the prediction is drawn: from the first row on, or over the last part if that is too long."""
    first, last = float(data.min()), float(data.max())
    steps = [_PERIODS[circle.season] / _POINTS[circle.season] for circle in circles(seen.names)]
    width = (last - first) * (1.0 + _AHEAD) or 1.0
    step = min([width / min(most, _ENOUGH), *steps])
    if width / step > most:
        first = last - most * step / (1.0 + _AHEAD)
        width = most * step
    return first + np.linspace(0.0, width, min(most, max(2, round(width / step))))
