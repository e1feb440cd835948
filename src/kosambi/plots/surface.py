"""A function of two inputs as a map, in the units of the table."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_count
from kosambi.errors import InputError
from kosambi.plots.dates import mark_axes, shown_name
from kosambi.plots.predictions import expected
from kosambi.plots.style import BLACK, Axes, as_axes, plain, spread
from kosambi.plots.units import View, view

# Dots of the data; more would hide the map.
_MAX_DOTS = 500
QUANTITIES = ("mean", "deviation")


def surface(model: Any, quantity: str = "mean", *, num_points: int = 40, axes: Axes | None = None) -> Axes:
    """The prediction over two input columns, as filled contours, with the training inputs as dots.

    Arguments:
        model: a fitted estimator, whose units and column names the axes have, or a posterior; of two input columns and
            numbers, counts or two classes.
        quantity: "mean" for E y (the probability of the second class), "deviation" for the standard deviation of f,
            which is large where there are no data.
        num_points: G, the map is computed at G × G inputs.
        axes: where to draw; a new figure when None.

    >>> import numpy as np, kosambi as ko
    >>> X = np.random.default_rng(0).uniform(0.0, 100.0, (40, 2))
    >>> model = ko.ProjectedLangevinRegressor(hyperparameters=None, n_inducing=8).fit(X, np.sin(X[:, 0] / 20.0))
    >>> axes = ko.plots.surface(model, num_points=8)
    >>> axes.get_xlabel(), axes.get_title()
    ('x0', 'mean of y')
    """
    seen = view("surface", model)
    if len(seen.names) != 2:
        raise InputError(
            f"`plots.surface` draws functions of two input columns. These have {len(seen.names)}. Use "
            "`plots.posterior` for one and `plots.partial_effect` for more."
        )
    if quantity not in QUANTITIES:
        raise InputError(f"`quantity` must be one of {', '.join(QUANTITIES)}. Got {quantity!r}.")
    likelihood = seen.posterior.likelihood
    has_labels = likelihood.num_labels is not None
    if likelihood.num_latents > 1 and (has_labels or quantity == "deviation"):
        raise InputError("`plots.surface` draws one function. Use `plots.partial_effect` for several.")
    points = as_count("num_points", num_points)
    across, up, values = grid_values(seen, quantity, points)
    axes = as_axes(axes, (5.2, 4.0))
    drawn = axes.contourf(across, up, values, 12)
    axes.figure.colorbar(drawn, ax=axes)
    data = seen.shown(seen.posterior.target.x)
    data = data[spread(len(data), _MAX_DOTS)]
    axes.plot(data[:, 0], data[:, 1], ls="", marker="o", ms=2, color=BLACK, alpha=0.6)
    classes = [str(each) for each in getattr(model, "classes_", (0, 1))]
    of = f"P(y = {classes[-1]})" if has_labels else "mean of y"
    title = of if quantity == "mean" else "standard deviation of f"
    across_name, up_name = (plain(shown_name(label)) for label in seen.names)
    axes.set(xlabel=across_name, ylabel=up_name, title=plain(title))
    mark_axes(axes, *seen.names)
    return axes


def grid_values(
    seen: View, quantity: str, num_points: int
) -> tuple[Float[np.ndarray, " G"], Float[np.ndarray, " G"], Float[np.ndarray, "G G"]]:
    """Both axes in their units, and the values, row by row of the second column."""
    data = seen.shown(seen.posterior.target.x)
    across, up = (np.linspace(low, high, num_points) for low, high in zip(data.min(0), data.max(0), strict=True))
    inputs = np.column_stack([part.ravel() for part in np.meshgrid(across, up)])
    prediction = seen.posterior.predict(seen.known(inputs))
    found = prediction.standard_deviation if quantity == "deviation" else expected(prediction)
    values = np.asarray(found)
    # Labels have a probability for each where they are given as a table.
    values = values[:, -1] if values.ndim == 2 else values
    return across, up, values.reshape(num_points, num_points)
