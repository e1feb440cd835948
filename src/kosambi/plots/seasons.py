"""The effect of a season: both of its columns set to one point of its circle after the other.

Taken one by one, sine and cosine would be set to points that are on no circle.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from kosambi._core.calendar import WEEKDAYS, Circle, on_circle, phases_of
from kosambi.plots.average import Effect, averaged_inputs
from kosambi.plots.dates import clock
from kosambi.plots.style import spread

PERIODS = {"day": 24.0, "week": 7.0, "year": 12.0}
"""What the axis of a season goes to: hours, days, months."""
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def averaged_season(
    estimator: Any,
    X: Float[np.ndarray, "N D"],
    circle: Circle,
    *,
    coverage: float = 0.95,
    num_points: int = 49,
    max_rows: int = 40,
    num_samples: int | None = None,
    random_state: int = 0,
) -> Effect:
    """The effect of a season: the average over rows with both of its columns set to one time after the other.

    Days of the week are those that the data have; the other two go once round.
    """
    rows, columns = X[spread(len(X), max_rows)], list(circle.columns)
    period = PERIODS[circle.season]
    data = phases_of(X[:, columns]) * period
    if circle.season == "week":
        # Inputs that were standardised and carried back are off by a rounding.
        data = np.mod(np.round(data), period)
        values = np.unique(data)
    else:
        values = np.linspace(0.0, period, num_points)
    table = np.tile(rows, (len(values), 1))
    table[:, columns] = np.repeat(on_circle(values / period), len(rows), axis=0)
    return averaged_inputs(
        estimator,
        table,
        column=columns[0],
        values=values,
        data=data,
        is_few=circle.season == "week",
        levels=tuple(WEEKDAYS[int(value)] for value in values) if circle.season == "week" else (),
        coverage=coverage,
        num_samples=num_samples,
        random_state=random_state,
    )


def influence(effect: Effect) -> float:
    """The variance of an effect over the data, as `influences` has it for other columns."""
    lines = [np.interp(effect.data, effect.values, line) for line in effect.mean.T]
    return float(sum(np.var(line) for line in lines))


def mark_season(axis: Any, season: str) -> None:
    """Put hours or months on the axis of a season; days of the week are levels, and have their names already."""
    if season == "day":
        ticks = np.arange(0.0, 25.0, 4.0)
        axis.set_ticks(ticks, [clock(tick) for tick in ticks])
    elif season == "year":
        ticks = np.arange(0.0, 12.0, 2.0)
        axis.set_ticks(ticks, [_MONTHS[int(tick)] for tick in ticks])
