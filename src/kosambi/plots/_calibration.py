"""Whether predictions kept their promises on held-out data: coverage and PIT."""

from __future__ import annotations

import numpy as np

from kosambi.calibration import Calibration
from kosambi.errors import InputError
from kosambi.plots.style import BLACK, BLUE, ORANGE, Axes, as_axes


def calibration(calibration: Calibration, axes: Axes | None = None) -> Axes:
    """Shares of held-out observations against what was promised; on the diagonal both agree.

    The line is the share of observations below each quantile of their predictive distributions, from the PIT, with a
    band that holds it with probability 95 % if the predictions are right. Steeper in the middle than the diagonal, they
    are too wide; flatter, too narrow. Dots are coverages of intervals, with two standard errors.

    Arguments:
        calibration: what `kosambi.calibration.calibration_report` returned.
        axes: where to draw; a new figure when None.

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(-1.0, 1.0, 40)[:, None]
    >>> fitted = ko.infer(jax.random.key(0), ko.kernels.Matern52(), ko.likelihoods.Gaussian(0.1), x, np.sin(x[:, 0]))
    >>> report = ko.calibration.calibration_report(fitted.predict(x), np.sin(x[:, 0]))
    >>> ko.plots.calibration(report).get_ylabel()
    'observed share'
    """
    _check("calibration", calibration)
    axes = as_axes(axes, (3.6, 3.6))
    axes.plot([0, 1], [0, 1], color=BLACK, lw=0.8, ls="--")
    if calibration.pit is not None:
        from scipy.stats import kstwo

        grid = np.linspace(0.0, 1.0, 201)
        reach = kstwo.ppf(0.95, calibration.num_observations)
        axes.fill_between(grid, grid - reach, grid + reach, color=BLUE, alpha=0.15, lw=0, label="95 % if calibrated")
        shares = np.arange(1, calibration.num_observations + 1) / calibration.num_observations
        axes.step([0.0, *np.sort(calibration.pit), 1.0], [0.0, *shares, 1.0], color=BLUE, where="post", label="PIT")
    table, error = calibration.coverage, 2.0 * calibration.coverage.standard_error
    axes.errorbar(table.expected, table.share, error, color=ORANGE, ls="", marker="o", ms=4, label="coverage")
    axes.set(xlabel="promised share", ylabel="observed share", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.legend(fontsize="small", frameon=False, loc="upper left")
    return axes


def pit(calibration: Calibration, axes: Axes | None = None) -> Axes:
    """A histogram of the probability integral transforms, with a band for each bar: inside, predictions are right.

    The bars are level for right predictions. High at both ends, they are too narrow; high in the middle, too wide; on
    one side, observations lie above or below what was predicted. Each bar leaves its band with probability 5 % at most,
    so one in twenty may.

    Arguments:
        calibration: what `kosambi.calibration.calibration_report` returned, with a key for counts.
        axes: where to draw; a new figure when None.

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(-1.0, 1.0, 40)[:, None]
    >>> fitted = ko.infer(jax.random.key(0), ko.kernels.Matern52(), ko.likelihoods.Gaussian(0.1), x, np.sin(x[:, 0]))
    >>> report = ko.calibration.calibration_report(fitted.predict(x), np.sin(x[:, 0]))
    >>> len(ko.plots.pit(report).containers[0])
    5
    """
    _check("pit", calibration)
    if calibration.pit is None:
        raise InputError(
            "This `Calibration` has no PIT: labels without order have none, and counts and ordered labels need random "
            "numbers. For those pass `calibration_report(prediction, y, jax.random.key(0))`."
        )
    from scipy.stats import binom

    axes, count = as_axes(axes, (3.6, 3.6)), calibration.num_observations
    # Ten observations a bar or more, so that the band is narrower than the bar is high.
    bars = int(np.clip(count // 10, 5, 20))
    lower, upper = binom(count, 1.0 / bars).ppf([0.025, 0.975])
    axes.hist(calibration.pit, np.linspace(0.0, 1.0, bars + 1), color=BLUE, alpha=0.55, rwidth=0.92, label="PIT")
    axes.axhspan(lower, upper, color=BLACK, alpha=0.12, lw=0, label="95 % if calibrated")
    axes.axhline(count / bars, color=BLACK, lw=0.8, ls="--")
    axes.set(xlabel="PIT: P(observation ≤ y)", ylabel="observations", xlim=(0, 1))
    axes.legend(fontsize="small", frameon=False, ncols=2, loc="lower left", bbox_to_anchor=(0.0, 1.0))
    return axes


def _check(name: str, calibration: object) -> None:
    if not isinstance(calibration, Calibration):
        raise InputError(
            f"`plots.{name}` needs a `Calibration`. Got {type(calibration).__name__}. Use "
            "`kosambi.calibration.calibration_report(prediction, y)`."
        )
