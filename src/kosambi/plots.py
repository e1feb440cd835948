"""Pictures of posteriors, runs and bases: axes in, axes out.

Every function draws into the matplotlib `axes` it is given, or into those of a new figure, and returns them. Nothing is
shown or saved, and no setting of matplotlib is changed. Needs matplotlib: `pip install kosambi[plots]`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float

from kosambi._types import Array, ArrayLike, Key
from kosambi.basis import AbstractBasis
from kosambi.diagnostics.calibration import Calibration
from kosambi.diagnostics.report import Report
from kosambi.draws import FunctionDraws
from kosambi.errors import InputError, as_inputs
from kosambi.features import expand
from kosambi.posterior import Posterior, Prediction
from kosambi.priors import GaussianProcess
from kosambi.selection import Selection

# matplotlib may be missing, so its classes cannot be named.
Axes: TypeAlias = Any
Link: TypeAlias = Callable[[ArrayLike], Array]

# Okabe and Ito's palette, which colour-blind readers can tell apart; width and lightness tell them apart in grey.
BLACK, ORANGE, BLUE = "#000000", "#D55E00", "#0072B2"
# Values of f an input from which quantiles are read where no formula gives them.
_NUM_VALUES = 20_000


def posterior(
    posterior: Posterior,
    key: Key | None = None,
    *,
    x_new: ArrayLike | None = None,
    latent: int = 0,
    num_draws: int = 10,
    coverage: float = 0.95,
    axes: Axes | None = None,
) -> Axes:
    """Data, mean, bands and functions drawn from a posterior over functions of one input.

    The darker band holds f, at each input by itself, with probability `coverage`; the lighter one an observation. It is
    left out for labels, and where the law of a new observation is not known (a loss, a `Custom` cost, one noise a
    datum). Ticks on the lower edge are the inducing points. Where E[y | f] is known and not f, it is drawn in place of
    f: the probability of a 1, the rate of a count. The line is then E y, and the band holds E[y | f], whether or not
    the link is monotone.

    Arguments:
        posterior: what `kosambi.infer` returned, for one input column.
        key: a JAX random key for the draws; no key, no draws.
        x_new: (N, 1), where to draw; when None 300 points that go a tenth of the data's width past them on either side.
        latent: which latent function, where the likelihood has several; then f itself is drawn, without labels.
        num_draws: how many functions, at most one a particle.
        coverage: the probability of both bands, between 0 and 1.
        axes: where to draw; a new figure when None.

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(-1.0, 1.0, 40)[:, None]
    >>> fitted = ko.infer(jax.random.key(0), ko.kernels.Matern52(), ko.likelihoods.Gaussian(0.1), x, np.sin(x[:, 0]))
    >>> axes = ko.plots.posterior(fitted, jax.random.key(1), num_draws=3)
    >>> axes.get_legend_handles_labels()[1]
    ['95 % of y', '95 % of f', '3 draws', 'mean of f', 'data', 'inducing points']
    """
    grid = _checked_grid(posterior, x_new, latent, num_draws)
    prediction, likelihood, x = posterior.predict(grid), posterior.likelihood, grid[:, 0]
    has_labels, is_single = likelihood.num_labels is not None, likelihood.num_latents == 1
    # Of several latent functions, observations are spread around the first, and labels around none.
    with_data = is_single or (latent == 0 and not has_labels)
    means, deviation = prediction.component_means, prediction.component_deviation
    function = Prediction(likelihood, means if is_single else means[..., latent], deviation, prediction.support)
    link, band = _link_and_band(function, coverage)
    name = "f" if is_single else f"$f_{{{latent}}}$"
    if link is not None:
        name = "P(y = 1 | f)" if likelihood.num_labels == 2 else "E[y | f]"
    axes, percent = _as_axes(axes, (7.2, 4.0)), f"{100 * coverage:g} %"
    has_law = likelihood.is_density and likelihood.has_distribution and prediction.is_noise_known
    if with_data and has_law and not has_labels:
        wide, step = prediction.interval(coverage), "mid" if likelihood.is_discrete else None
        axes.fill_between(x, *wide, step=step, color=BLUE, alpha=0.13, lw=0, label=f"{percent} of y")
    axes.fill_between(x, *band, color=BLUE, alpha=0.33, lw=0, label=f"{percent} of {name}")
    if key is not None and num_draws > 0:
        values = _draws(posterior, key, grid, num_draws)
        values = values if is_single else values[..., latent]
        lines = axes.plot(x, (values if link is None else link(values)).T, color=ORANGE, lw=0.7, alpha=0.8)
        lines[0].set_label(f"{len(lines)} draws")
    middle = function.mean if link is None else prediction.observation_mean
    axes.plot(x, middle, color=BLUE, lw=2.0, label=f"mean of {name}")
    if with_data:
        # Labels lie on a few lines, where strokes can be told apart better than dots.
        style = {"marker": "|", "ms": 9, "mew": 0.8} if has_labels else {"marker": "o", "ms": 3}
        axes.plot(posterior.target.x[:, 0], posterior.target.y, ls="", color=BLACK, alpha=0.65, label="data", **style)
    edge, points = axes.get_xaxis_transform(), posterior.basis.inducing_points[:, 0]
    axes.plot(points, 0 * points, ls="", marker=2, ms=5, mew=0.8, color=BLACK, transform=edge, label="inducing points")
    if x[0] < x[-1]:
        axes.set_xlim(x[0], x[-1])
    side = "P(y = 1)" if likelihood.num_labels == 2 else "y"
    axes.set(xlabel="x", ylabel=side if with_data else f"{name}(x)")
    axes.legend(fontsize="small", frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0.0, 1.0))
    return axes


def energy(report: Report, axes: Axes | None = None) -> Axes:
    """The mean potential of the particles over the steps of a run.

    Arguments:
        report: what `kosambi.sample` returned beside the particles, and what `posterior.report` is.
        axes: where to draw; a new figure when None.
    """
    axes = _run_axes("energy", report, axes)
    axes.set(xlabel="step", ylabel="mean potential")
    if report.steps:
        axes.plot(report.energy_steps, report.energy, color=BLUE, lw=1.2, label=report.sampler)
    return axes


def r_hat(report: Report, axes: Axes | None = None) -> Axes:
    """How far nested R̂ is above 1 over the steps after adaptation, on a logarithmic scale, with its limit.

    Arguments:
        report: what `kosambi.sample` returned beside the particles, and what `posterior.report` is.
        axes: where to draw; a new figure when None.
    """
    axes = _run_axes("r_hat", report, axes)
    axes.set(xlabel="step", ylabel="nested R̂ − 1")
    excess = np.asarray(report.r_hat_trace) - 1.0
    shown = np.isfinite(excess) & (excess > 0)
    if report.steps and shown.any():
        axes.plot(report.energy_steps[shown], excess[shown], color=BLUE, lw=1.2, marker=".", label=report.sampler)
        axes.axhline(report.r_hat_limit - 1.0, color=BLACK, lw=0.9, ls="--", label=f"limit {report.r_hat_limit:.6g}")
        axes.set_yscale("log")
        axes.legend(fontsize="small", frameon=False)
    elif report.steps:
        axes.set_title(f"{report.sampler}: R̂ was taken at the end only, {report.r_hat:.4f}")
    return axes


def spectrum(basis: AbstractBasis | Posterior, axes: Axes | None = None) -> Axes:
    """The prior variances of a basis in decreasing order, on a logarithmic scale.

    They are the eigenvalues of the covariance operator for `NystromBasis` and `RitzBasis`, and those of the covariance
    of the coordinates for other bases.

    Arguments:
        basis: a basis, or a posterior, whose basis is taken.
        axes: where to draw; a new figure when None. For several bases draw into the same and call `axes.legend()`.
    """
    basis = basis.basis if isinstance(basis, Posterior) else basis
    if not isinstance(basis, AbstractBasis):
        raise InputError(f"`plots.spectrum` needs a basis or a posterior. Got {type(basis).__name__}.")
    values, of = getattr(basis, "eigenvalues", None), ""
    if values is None:
        values, of = np.linalg.eigvalsh(np.asarray(basis.covariance))[::-1], " of Cov(u)"
    # The rest is rounding, of either sign.
    kept = values > len(values) * np.finfo(np.float64).eps * values[0]
    axes = _as_axes(axes, (4.8, 3.2))
    axes.plot(
        1 + np.flatnonzero(kept), values[kept], color=BLUE, lw=0.8, marker="o", ms=3.5, label=type(basis).__name__
    )
    axes.set(xlabel="m", ylabel=f"eigenvalue{of}", yscale="log")
    return axes


def selection(selection: Selection | Posterior, axes: Axes | None = None) -> Axes:
    """What each number of inducing points that was tried achieves, and the number that was taken.

    The leave-one-out score, or the share of the prior variance left open where there is no score.

    Arguments:
        selection: from `select_inducing`, or a posterior from `infer(num_inducing="auto")`.
        axes: where to draw; new when None.

    >>> import numpy as np, kosambi as ko
    >>> x = np.linspace(-3.0, 3.0, 200)[:, None]
    >>> prior = ko.GaussianProcess(ko.kernels.SquaredExponential(0.7))
    >>> found = ko.select_inducing(prior, ko.likelihoods.Gaussian(0.1), x, np.sin(2 * x[:, 0]))
    >>> ko.plots.selection(found).get_xlabel()
    'inducing points M'
    """
    found = selection.selection if isinstance(selection, Posterior) else selection
    if not isinstance(found, Selection):
        raise InputError(
            f"`plots.selection` needs a selection. Got {type(selection).__name__}"
            + (' without one. Use `infer(num_inducing="auto")`.' if found is None else ". Use `select_inducing`.")
        )
    axes = _as_axes(axes, (4.8, 3.2))
    has_score = bool(np.any(np.isfinite(found.score)))
    axes.plot(found.sizes, found.score if has_score else found.residual_share, "o-", markersize=4)
    axes.axvline(found.num_inducing, color="C3", linestyle=":", label=f"{found.num_inducing}: {found.reason}")
    axes.set(
        xlabel="inducing points M",
        ylabel="leave-one-out score [nats]" if has_score else "prior variance left open",
        xscale="log",
        yscale="linear" if has_score else "log",
    )
    axes.legend(frameon=False)
    return axes


def calibration(calibration: Calibration, axes: Axes | None = None) -> Axes:
    """Shares of held-out observations against what was promised; on the diagonal both agree.

    The line is the share of observations below each quantile of their laws, from the PIT, with a band that holds it
    with probability 95 % if the laws are right. Steeper in the middle than the diagonal, they are too wide; flatter,
    too narrow. Dots are coverages of intervals, with two standard errors.

    Arguments:
        calibration: what `kosambi.diagnostics.calibration.calibration_report` returned.
        axes: where to draw; a new figure when None.

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(-1.0, 1.0, 40)[:, None]
    >>> fitted = ko.infer(jax.random.key(0), ko.kernels.Matern52(), ko.likelihoods.Gaussian(0.1), x, np.sin(x[:, 0]))
    >>> report = ko.diagnostics.calibration.calibration_report(fitted.predict(x), np.sin(x[:, 0]))
    >>> ko.plots.calibration(report).get_ylabel()
    'observed share'
    """
    if not isinstance(calibration, Calibration):
        raise InputError(
            f"`plots.calibration` needs a `Calibration`. Got {type(calibration).__name__}. Use "
            "`kosambi.diagnostics.calibration.calibration_report(prediction, y)`."
        )
    axes = _as_axes(axes, (3.6, 3.6))
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


def _as_axes(axes: Axes | None, size: tuple[float, float]) -> Axes:
    if axes is not None and not hasattr(axes, "set_xlabel"):
        raise InputError(f"`axes` must be one matplotlib `Axes`. Got {type(axes).__name__}. Pass one, as `axes[0]`.")
    if axes is not None:
        return axes
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("`plots` needs matplotlib. Install it with `pip install kosambi[plots]`.") from error
    axes = plt.subplots(figsize=size, layout="constrained")[1]
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def _run_axes(name: str, report: object, axes: Axes | None) -> Axes:
    if not isinstance(report, Report):
        raise InputError(f"`plots.{name}` needs a report. Got {type(report).__name__}. Use `posterior.report`.")
    axes = _as_axes(axes, (4.8, 3.2))
    if not report.steps:
        axes.set_title(f"{report.sampler}: independent draws, no steps")
    return axes


def _checked_grid(posterior: object, x_new: ArrayLike | None, latent: object, num_draws: object) -> Float[Array, "N 1"]:
    """The inputs to draw at, in increasing order."""
    if not isinstance(posterior, Posterior):
        raise InputError(f"`plots.posterior` needs a posterior. Got {type(posterior).__name__}. Use `kosambi.infer`.")
    x, latents = np.asarray(posterior.target.x), posterior.likelihood.num_latents
    if x.shape[1] != 1:
        raise InputError(
            f"`plots.posterior` draws functions of one input column. These have {x.shape[1]}. Vary one column of "
            "`x_new` with the others fixed, and plot `posterior.predict(x_new)` against it."
        )
    if latent not in range(latents):
        raise InputError(f"`latent` must be one of {', '.join(map(str, range(latents)))}. Got {latent!r}.")
    if isinstance(num_draws, bool) or not isinstance(num_draws, int | np.integer) or num_draws < 0:
        raise InputError(f"`num_draws` must be a whole number, 0 or more. Got {num_draws!r}.")
    if x_new is not None:
        return np.sort(as_inputs("x_new", x_new, 1), axis=0)
    margin = 0.1 * float(np.ptp(x)) or 1.0
    return np.linspace(np.min(x) - margin, np.max(x) + margin, 300)[:, None]


def _link_and_band(function: Prediction, coverage: float) -> tuple[Link | None, tuple[Array, Array]]:
    """E[y | ·] where that is known and not f itself, and the band of what is then drawn."""
    likelihood, means, deviation = function.likelihood, function.component_means, function.component_deviation
    lower, upper = function.latent_interval(coverage)
    if likelihood.num_latents > 1 or not likelihood.is_density or not likelihood.has_moments:
        return None, (lower, upper)
    reach, link = 5.0 * float(np.max(deviation)), likelihood.observation_mean
    values = np.linspace(np.min(means) - reach, np.max(means) + reach, 1001)
    image = link(values)
    if np.isnan(image).any() or np.array_equal(image, values):
        return None, (lower, upper)
    if np.all(np.diff(image) >= 0):
        return link, (link(lower), link(upper))
    # Several f have one image, so its quantiles are not images of quantiles. They are read off the images of equally
    # likely values of f, which needs no random numbers.
    from scipy.special import ndtri

    count = max(20, -(-_NUM_VALUES // means.shape[0]))
    images = link(means + deviation * ndtri((np.arange(count) + 0.5) / count)[:, None, None])
    levels = 0.5 - 0.5 * coverage, 0.5 + 0.5 * coverage
    lower, upper = np.quantile(images.reshape(-1, function.num_points), levels, axis=0)
    return link, (lower, upper)


def _draws(posterior: Posterior, key: Key, grid: Float[Array, "N 1"], num_draws: int) -> Float[Array, "J N *C"]:
    prior = posterior.prior
    # A kernel without features can still be drawn on the grid, and nothing else is asked of it.
    needs_grid = isinstance(prior, GaussianProcess) and expand(prior.kernel) is None
    draws = posterior.functions(key, at=grid if needs_grid else None)
    assert isinstance(draws, FunctionDraws)
    # Spread over the particles, because neighbours may have begun at the same place.
    which = np.unique(np.linspace(0, len(draws) - 1, num_draws).round().astype(int))
    return np.asarray(draws[which](grid))
