"""Draws of hyperparameters: each by itself with its prior, and each pair of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from kosambi.errors import InputError
from kosambi.learning import HyperparameterDraws
from kosambi.learning.hyperpriors import AbstractHyperprior, LogNormal
from kosambi.plots.style import BLACK, BLUE, ORANGE, Axes, as_axes, plain

MOST_PAIRED = 6
"""Numbers, at most, whose pairs are drawn; of more the ones that the data say most of."""


def hyperparameters(
    draws: HyperparameterDraws,
    priors: Mapping[str, AbstractHyperprior] | None = None,
    *,
    labels: Mapping[str, str] | None = None,
    axes: Axes | None = None,
) -> Axes:
    """The posterior of each hyperparameter: median, 50 % and 90 % of the draws, and of the prior in grey.

    Arguments:
        draws: `report.draws` of `fit_hyperparameters(..., num_draws=K)`.
        priors: `report.priors`, of positive parameters; none are drawn when None.
        labels: names to show in the place of those of the parameters.
        axes: where to draw; a new figure when None.

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(0.0, 10.0, 30)[:, None]
    >>> y = np.sin(x[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=30)
    >>> gaussian = ko.likelihoods.Gaussian()
    >>> report = ko.fit_hyperparameters(jax.random.key(0), ko.kernels.Matern52(), gaussian, x, y, num_draws=20)[2]
    >>> axes = ko.plots.hyperparameters(report.draws, report.priors)
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['kernel.lengthscale', 'kernel.variance', 'likelihood.noise']
    """
    columns = _columns(draws)
    axes = as_axes(axes, (7.2, 1.2 + 0.3 * len(columns)))
    for row, (values, prior) in enumerate(_with_priors(columns, priors).values()):
        if prior is not None:
            axes.plot(prior, [row, row], color="0.85", lw=9.0, solid_capstyle="butt", zorder=0)
        low, quarter, middle, three, high = np.quantile(values, [0.05, 0.25, 0.5, 0.75, 0.95])
        axes.plot([low, high], [row, row], color=BLUE, lw=1.2)
        axes.plot([quarter, three], [row, row], color=BLUE, lw=4.0, solid_capstyle="butt")
        axes.plot([middle], [row], "o", color=BLACK, ms=3.5)
    axes.set_yticks(range(len(columns)), [plain((labels or {}).get(name, name)) for name in columns])
    if all(np.all(values > 0) for values in columns.values()):
        axes.set_xscale("log")
    axes.invert_yaxis()
    axes.set_xlabel("median, 50 % and 90 % of the posterior" + ("; 90 % of the prior in grey" if priors else ""))
    return axes


def hyperparameter_pairs(draws: HyperparameterDraws, names: list[str] | None = None) -> Any:
    """Each pair of hyperparameters as points, one a draw, with histograms on the diagonal; a matplotlib figure.

    Arguments:
        draws: `report.draws` of `fit_hyperparameters(..., num_draws=K)`.
        names: which numbers, such as "kernel.lengthscale[0]"; the six that vary least, in logarithms, when None.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    columns = _columns(draws)
    if names is not None and (unknown := [name for name in names if name not in columns]):
        raise InputError(f"`names` has {unknown[0]!r}, which was not drawn. Drawn are {', '.join(columns)}.")
    chosen = names or _best_known(columns)
    is_log = {name: bool(np.all(columns[name] > 0)) for name in chosen}
    shown = {name: np.log10(columns[name]) if is_log[name] else columns[name] for name in chosen}
    titles = {name: plain(f"log10 {name}" if is_log[name] else name) for name in chosen}
    figure = Figure(figsize=(1.9 * len(chosen), 1.9 * len(chosen)), layout="constrained")
    grid = figure.subplots(len(chosen), len(chosen), squeeze=False, sharex="col")
    for i, below in enumerate(chosen):
        for j, beside in enumerate(chosen):
            axes = grid[i, j]
            axes.set_visible(j <= i)
            if i == j:
                axes.hist(shown[below], bins=10, color=BLUE, alpha=0.6)
                axes.set_yticks([])
            else:
                axes.plot(shown[beside], shown[below], "o", ms=2.5, color=ORANGE, alpha=0.8)
                axes.yaxis.set_major_locator(MaxNLocator(3))
            axes.xaxis.set_major_locator(MaxNLocator(3))
            if i == len(chosen) - 1:
                axes.set_xlabel(titles[beside], fontsize="x-small")
            if j == 0 and i > 0:
                axes.set_ylabel(titles[below], fontsize="x-small")
            axes.tick_params(labelsize="x-small")
    return figure


def _columns(draws: HyperparameterDraws) -> dict[str, Float[np.ndarray, " K"]]:
    """Every number that was drawn, by name."""
    if not isinstance(draws, HyperparameterDraws):
        raise InputError(
            f"Pictures of hyperparameters need draws of them. Got {type(draws).__name__}. Use "
            "`fit_hyperparameters(..., num_draws=20)[2].draws`."
        )
    found: dict[str, np.ndarray] = {}
    for name, values in draws.values.items():
        if values.ndim == 1:
            found[name] = values
        else:
            flat = values.reshape(len(values), -1)
            found |= {f"{name}[{i}]": flat[:, i] for i in range(flat.shape[1])}
    return found


def _with_priors(
    columns: Mapping[str, Float[np.ndarray, " K"]], priors: Mapping[str, AbstractHyperprior] | None
) -> dict[str, tuple[Float[np.ndarray, " K"], Float[np.ndarray, " 2"] | None]]:
    """Each number with the central 90 % of its prior, where that is log-normal."""
    found: dict[str, tuple[np.ndarray, np.ndarray | None]] = {}
    for name, values in columns.items():
        prior = (priors or {}).get(name.split("[")[0])
        between = None
        if isinstance(prior, LogNormal):
            at = int(name.split("[")[1][:-1]) if "[" in name else 0
            median, width = (np.ravel(part)[min(at, np.size(part) - 1)] for part in (prior.median, prior.width))
            between = median * np.exp(1.645 * width * np.array([-1.0, 1.0]))
        found[name] = values, between
    return found


def _best_known(columns: Mapping[str, Float[np.ndarray, " K"]]) -> list[str]:
    spread = {name: float(np.std(np.log(v) if np.all(v > 0) else v)) for name, v in columns.items()}
    few = sorted(spread, key=lambda name: spread[name])[:MOST_PAIRED]
    return [name for name in columns if name in few]
