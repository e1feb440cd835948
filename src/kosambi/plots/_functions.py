"""Functions of one input: data, mean, bands and draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float

from kosambi._core.calendar import time_columns
from kosambi._core.checks import as_few, as_inputs
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.errors import InputError
from kosambi.plots.dates import mark_axis, shown_name
from kosambi.plots.style import BLACK, BLUE, ORANGE, Axes, as_axes, plain, spread
from kosambi.plots.surface import surface
from kosambi.plots.timeline import timeline
from kosambi.plots.units import view
from kosambi.posterior import AveragedPosterior, Posterior, Prediction
from kosambi.priors import GaussianProcess
from kosambi.priors.functions.draws import FunctionDraws
from kosambi.priors.functions.features import expand

Link: TypeAlias = Callable[[ArrayLike], Array]

# Values of f an input from which quantiles are read where no formula gives them.
_NUM_VALUES = 20_000


def posterior(
    posterior: Posterior | Any,
    key: Key | None = None,
    *,
    x_new: ArrayLike | None = None,
    latent: int = 0,
    num_draws: int = 10,
    coverage: float = 0.95,
    x_mean: float = 0.0,
    x_scale: float = 1.0,
    axes: Axes | None = None,
) -> Axes:
    """Data, mean, bands and functions drawn from a posterior over functions of one input.

    The darker band holds f, at each input by itself, with probability `coverage`; the lighter one an observation. It is
    left out for labels, and where the distribution of a new observation is not known (a loss, a `Custom` cost, one
    noise per observation). Ticks on the lower edge are the inducing points. Where E[y | f] is known and not f, it is
    drawn in place of f: the probability of a 1, the rate of a count. The line is then E y, and the band holds E[y | f],
    whether or not the link is monotone.

    Arguments:
        posterior: what `kosambi.infer` returned, for one input column; or a fitted estimator, and then the axis has the
            units and the name of its column; two columns give `plots.surface`, and those that code one column of dates
            `plots.timeline`.
        key: a JAX random key for the draws; no key, no draws.
        x_new: (N, 1), where to draw; when None 300 points that go a tenth of the data's width past them on either side.
        latent: which latent function, where the likelihood has several; then f itself is drawn, without labels.
        num_draws: how many functions, at most one a particle.
        coverage: the probability of both bands, between 0 and 1.
        x_mean: added to the inputs on the axis, after `x_scale`; for a posterior of standardised inputs.
        x_scale: what the inputs are multiplied by on the axis.
        axes: where to draw; a new figure when None.

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(-1.0, 1.0, 40)[:, None]
    >>> fitted = ko.infer(jax.random.key(0), ko.kernels.Matern52(), ko.likelihoods.Gaussian(0.1), x, np.sin(x[:, 0]))
    >>> axes = ko.plots.posterior(fitted, jax.random.key(1), num_draws=3)
    >>> axes.get_legend_handles_labels()[1]
    ['95 % of y', '95 % of f', '3 draws', 'mean of f', 'data', 'inducing points']
    """
    seen = view("posterior", posterior, x_mean, x_scale)
    if seen.posterior is not posterior:
        if len(seen.names) == 2:
            return surface(posterior, axes=axes)
        if len(seen.names) > 1 and time_columns(seen.names) is not None:
            return timeline(posterior, coverage=coverage, num_draws=0 if key is None else num_draws, axes=axes)
        # New inputs of an estimator are in the units of its table.
        x_new = None if x_new is None else seen.known(x_new)
        posterior = seen.posterior
    grid = as_grid("posterior", posterior, x_new, latent, num_draws)

    def shown(inputs: Float[Array, "N 1"]) -> Float[Array, " N"]:
        return seen.shown(inputs)[:, 0]

    prediction, likelihood, x = posterior.predict(grid), posterior.likelihood, shown(grid)
    has_labels, is_single = likelihood.num_labels is not None, likelihood.num_latents == 1
    # Of several latent functions, observations are spread around the first, and labels around none.
    with_data = is_single or (latent == 0 and not has_labels)
    means, deviation = prediction.component_means, prediction.component_deviation
    function = Prediction(likelihood, means if is_single else means[..., latent], deviation, prediction.support)
    link, band = _link_and_band(function, coverage, with_data)
    name = "f" if is_single else f"$f_{{{latent}}}$"
    if link is not None:
        name = "P(y = 1 | f)" if likelihood.num_labels == 2 else "E[y | f]"
    axes, percent = as_axes(axes, (7.2, 4.0)), f"{100 * coverage:g} %"
    has_law = likelihood.is_density and likelihood.has_cdf and prediction.is_noise_known
    if with_data and has_law and not has_labels:
        wide, step = prediction.interval(coverage), "mid" if likelihood.is_discrete else None
        axes.fill_between(x, *wide, step=step, color=BLUE, alpha=0.13, lw=0, label=f"{percent} of y")
    axes.fill_between(x, *band, color=BLUE, alpha=0.33, lw=0, label=f"{percent} of {name}")
    if key is not None and num_draws > 0:
        values = drawn_functions(posterior, key, grid, num_draws)
        values = values if is_single else values[..., latent]
        lines = axes.plot(x, (values if link is None else link(values)).T, color=ORANGE, lw=0.7, alpha=0.8)
        lines[0].set_label(f"{len(lines)} draws")
    middle = function.mean if link is None else prediction.observation_mean
    axes.plot(x, middle, color=BLUE, lw=2.0, label=f"mean of {name}")
    if with_data:
        # Labels lie on a few lines, where strokes can be told apart better than dots.
        style = {"marker": "|", "ms": 9, "mew": 0.8} if has_labels else {"marker": "o", "ms": 3}
        # Rows that count for nothing are no data.
        counted = slice(None) if (weights := posterior.target.weights) is None else np.asarray(weights) > 0
        x_data, y_data = shown(posterior.target.x)[counted], np.asarray(posterior.target.y)[counted]
        axes.plot(x_data, y_data, ls="", color=BLACK, alpha=0.65, label="data", **style)
    edge, points = axes.get_xaxis_transform(), shown(posterior.basis.inducing_points)
    style = {"marker": 2, "ms": 5, "mew": 0.8, "transform": edge}
    axes.plot(points, np.zeros_like(points), ls="", color=BLACK, label="inducing points", **style)
    if x[0] < x[-1]:
        axes.set_xlim(x[0], x[-1])
    side = "P(y = 1)" if likelihood.num_labels == 2 else "y"
    mark_axis(axes.xaxis, seen.names[0])
    axes.set(xlabel=plain(shown_name(seen.names[0])), ylabel=side if with_data else f"{name}(x)")
    axes.legend(fontsize="small", frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0.0, 1.0))
    return axes


def as_grid(
    name: str, posterior: object, x_new: ArrayLike | None, latent: object, num_draws: object
) -> Float[Array, "N 1"]:
    """The inputs to draw at, in increasing order."""
    if not isinstance(posterior, Posterior):
        raise InputError(f"`plots.{name}` needs a posterior. Got {type(posterior).__name__}. Use `kosambi.infer`.")
    x, latents = np.asarray(posterior.target.x), posterior.likelihood.num_latents
    if x.shape[1] != 1:
        raise InputError(
            f"`plots.{name}` draws functions of one input column. These have {x.shape[1]}. Vary one column of "
            "`x_new` with the others fixed, and plot `posterior.predict(x_new)` against it."
        )
    if latent not in range(latents):
        raise InputError(f"`latent` must be one of {', '.join(map(str, range(latents)))}. Got {latent!r}.")
    as_few("num_draws", num_draws)
    if x_new is not None:
        return np.sort(as_inputs("x_new", x_new, 1), axis=0)
    margin = 0.1 * float(np.ptp(x)) or 1.0
    return np.linspace(np.min(x) - margin, np.max(x) + margin, 300)[:, None]


def _link_and_band(function: Prediction, coverage: float, with_data: bool) -> tuple[Link | None, tuple[Array, Array]]:
    """E[y | ·] where that is known and not f itself, and the band of what is then drawn."""
    likelihood, means, deviation = function.likelihood, function.component_means, function.component_deviation
    lower, upper = function.latent_interval(coverage)
    if not with_data or not likelihood.is_density or not likelihood.has_moments:
        return None, (lower, upper)
    rest = likelihood.num_latents - 1

    def link(f: ArrayLike) -> Array:
        # Of several functions the mean goes by the first, and the others say how observations are spread.
        f = np.asarray(f)
        several = np.stack([f, *([np.zeros_like(f)] * rest)], axis=-1) if rest else f
        return np.asarray(likelihood.observation_mean(several))

    reach = 5.0 * float(np.max(deviation))
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


def drawn_functions(
    posterior: Posterior, key: Key, grid: Float[Array, "N 1"], num_draws: int
) -> Float[Array, "J N *C"]:
    """Functions at the grid, of particles that are spread over all."""
    prior = posterior.prior
    # A kernel without features can still be drawn on the grid, and nothing else is asked of it.
    needs_grid = isinstance(prior, GaussianProcess) and expand(prior.kernel) is None
    draws = posterior.functions(key, at=grid if needs_grid else None)
    assert isinstance(draws, FunctionDraws)
    # Spread over the particles, because neighbours may have begun at the same place.
    # Those of an average that follow each other are of different models.
    is_averaged = isinstance(posterior, AveragedPosterior)
    chosen = np.arange(min(len(draws), num_draws)) if is_averaged else spread(len(draws), num_draws)
    return np.asarray(draws[chosen](grid))
