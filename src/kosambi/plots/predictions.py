"""Predictions of numbers against the truth."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_count, as_level
from kosambi._core.types import Array, ArrayLike
from kosambi.calibration.checks import PredictiveDistribution, as_held_out, as_prediction
from kosambi.calibration.scores import point_prediction
from kosambi.errors import InputError
from kosambi.plots.style import BLACK, BLUE, ORANGE, Axes, as_axes, spread


def predictions(
    prediction: PredictiveDistribution,
    y: ArrayLike,
    coverage: float = 0.95,
    axes: Axes | None = None,
    *,
    max_points: int = 300,
) -> Axes:
    """The predicted mean against the truth on held-out data, each with its interval; on the diagonal both agree.

    Intervals that miss the truth do not cross the diagonal, and have another colour. Where there is no distribution of
    a new observation (a loss, a `Custom` cost) the intervals are left out. For numbers and counts; for labels see
    `roc`, `reliability` and `confusion`.

    Arguments:
        prediction: `posterior.predict(x_new)`, or that of an estimator, `predict_distribution(X)`.
        y: (N,), what was observed at these inputs, and not used to fit.
        coverage: the probability of the intervals, between 0 and 1.
        axes: where to draw; a new figure when None.
        max_points: how many observations are shown; of more an even selection, and the title says so.

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(-1.0, 1.0, 40)[:, None]
    >>> fitted = ko.infer(jax.random.key(0), ko.kernels.Matern52(), ko.likelihoods.Gaussian(0.1), x, np.sin(x[:, 0]))
    >>> axes = ko.plots.predictions(fitted.predict(x), np.sin(x[:, 0]), max_points=20)
    >>> axes.get_title()
    '20 of 40 observations'
    """
    law = as_prediction(prediction)
    if law.likelihood.num_labels is not None:
        raise InputError(
            f"`plots.predictions` draws numbers, and those of `{type(law.likelihood).__name__}` are labels. Use "
            "`plots.reliability`, `plots.roc` or `plots.confusion`."
        )
    truth, level = np.asarray(as_held_out(law, y)), as_level("coverage", coverage)
    chosen = spread(len(truth), as_count("max_points", max_points))
    middle, edges = expected(law), interval(law, level)
    axes = as_axes(axes, (4.4, 4.0))
    if edges is None:
        axes.plot(truth[chosen], middle[chosen], ls="", marker="o", ms=3, color=BLUE, alpha=0.8, label="mean of f")
    else:
        inside = (edges[0] <= truth) & (truth <= edges[1])
        percent, total = f"{100 * level:g} %", f"{100 * np.mean(inside):.1f} %"
        parts = ((inside, BLUE, f"in its {percent} interval: {total}"), (~inside, ORANGE, "outside"))
        for part, colour, label in parts:
            some = chosen[part[chosen]]
            if len(some):
                axes.vlines(truth[some], edges[0][some], edges[1][some], color=colour, lw=0.7, alpha=0.45)
                axes.plot(truth[some], middle[some], ls="", marker="o", ms=3, color=colour, alpha=0.85, label=label)
    ends = [min(truth.min(), middle[chosen].min()), max(truth.max(), middle[chosen].max())]
    axes.plot(ends, ends, color=BLACK, lw=0.8, ls="--")
    axes.set(xlabel="truth", ylabel="prediction")
    if len(chosen) < len(truth):
        axes.set_title(f"{len(chosen)} of {len(truth)} observations", fontsize="small")
    axes.legend(fontsize="small", frameon=False, loc="upper left")
    return axes


def expected(prediction: PredictiveDistribution) -> Float[Array, " N *C"]:
    """E y, for labels their probabilities; E f where an observation has no mean that is known."""
    return point_prediction(prediction)


def interval(law: PredictiveDistribution, coverage: float) -> tuple[Array, Array] | None:
    """The central interval of an observation, where it has a distribution."""
    likelihood, known = law.likelihood, getattr(law, "is_noise_known", True)
    if not (known and likelihood.is_density and likelihood.has_cdf):
        return None
    return law.interval(coverage)
