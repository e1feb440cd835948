r"""What the posterior says at new inputs: moments, probabilities, quantiles, intervals.

f(x) follows a mixture of K normal distributions with one standard deviation (`kosambi.posterior._predictive`).
Summaries of an observation integrate its noise and the residual in closed form or by one-dimensional quadrature for
each component, and average over the K: nothing is simulated, and several modes stay several modes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_float_array, as_level
from kosambi._core.html import table_html
from kosambi._core.types import Array, ArrayLike
from kosambi.errors import InputError
from kosambi.likelihoods import AbstractLikelihood, Gaussian
from kosambi.likelihoods.normal import normal_cdf
from kosambi.posterior.summaries import (
    continuous_quantile,
    count_quantile,
    highest_density,
    highest_probability,
    likeliest_counts,
    log_density,
    moments,
    probabilities,
)

_BLOCK_VALUES = 2**19
# Inputs in the table of a notebook.
_ROWS_SHOWN = 10


class Prediction:
    """The predictive distributions of f and of an observation at N inputs. `Posterior.predict` makes it.

    Summaries are computed when they are asked for, and the basis is not evaluated again for any of them. With C latent
    functions, `mean` and `variance` are (N, C).

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(-1.0, 1.0, 50)[:, None]
    >>> gaussian = ko.likelihoods.Gaussian(0.1)
    >>> posterior = ko.infer(jax.random.key(0), ko.kernels.Matern52(), gaussian, x, np.sin(3 * x[:, 0]))
    >>> prediction = posterior.predict([[0.0], [0.5]])
    >>> prediction
    Prediction(2 inputs, Gaussian, 1 component)
    >>> lower, upper = prediction.interval(0.95)
    >>> prediction.quantile([0.1, 0.5, 0.9]).shape, bool(np.all(lower < prediction.mean))
    ((3, 2), True)
    """

    def __init__(
        self,
        likelihood: AbstractLikelihood,
        means: Float[Array, "K N *C"],
        deviation: Float[Array, "*K N"],
        support: Float[Array, " N"],
        warnings: tuple[str, ...] = (),
        *,
        is_noise_known: bool = True,
    ) -> None:
        self.likelihood = likelihood
        """With the noise of these inputs, where there is one for each."""
        self.is_noise_known = is_noise_known
        """Whether the likelihood holds for new inputs; not where it has one noise per observation at the old ones."""
        self.component_means = means
        """(K, N): the means of the K components of the distribution of f; (K, N, C) with C latent functions."""
        self.component_deviation = deviation
        """(N,): their common standard deviation; (K, N) where hyperparameters differ between components."""
        self.support = support
        """(N,): r(x, x) over its largest value at the data, cut to [0, 1]. Near 0 the prior holds no uncertainty."""
        self.warnings = warnings
        """What the user was warned of."""

    @property
    def num_points(self) -> int:
        """N, the number of inputs."""
        return int(self.component_deviation.shape[-1])

    @functools.cached_property
    def mean(self) -> Float[Array, " N *C"]:
        """E f, (N,), or (N, C) with C latent functions."""
        return np.mean(self.component_means, axis=0)

    @functools.cached_property
    def variance(self) -> Float[Array, " N *C"]:
        """Var f, (N,) or (N, C): that of the components' means, and the variance within them."""
        within = self._within
        return np.var(self.component_means, axis=0) + (within if self.mean.ndim == 1 else within[:, None])

    @property
    def _within(self) -> Float[Array, " N"]:
        """The mean variance within a component."""
        squared = np.square(self.component_deviation)
        return squared if squared.ndim == 1 else np.mean(squared, axis=0)

    @property
    def standard_deviation(self) -> Float[Array, " N *C"]:
        """The posterior standard deviation of f, √Var f, (N,) or (N, C)."""
        return np.sqrt(self.variance)

    @functools.cached_property
    def _observation(self) -> tuple[Array, Array]:
        return moments(self._model, self.component_means, self.component_deviation)

    @property
    def observation_mean(self) -> Float[Array, " N *C"]:
        """E y, (N,). For `Categorical` the class probabilities, (N, C); for `Ordinal` the mean class number."""
        if isinstance(self.likelihood, Gaussian):
            return self.mean
        return self._observation[0]

    @property
    def observation_variance(self) -> Float[Array, " N *C"]:
        """Var y, (N,): noise and uncertainty of f together; for `Categorical` that of each indicator, (N, C)."""
        return self._observation[1]

    @functools.cached_property
    def probability(self) -> Float[Array, " N *L"]:
        """P(y = 1), (N,), for `Bernoulli`; P(y = k), (N, L), for `Categorical` and `Ordinal`."""
        table = self._label_probabilities
        return np.ascontiguousarray(table[:, 1]) if self.likelihood.is_binary else table

    @functools.cached_property
    def _label_probabilities(self) -> Float[Array, "N L"]:
        return probabilities(self._model, self.component_means, self.component_deviation)

    def quantile(self, q: ArrayLike) -> Float[Array, "*Q N"]:
        """The q-quantile of an observation: (N,) for a number q, (Q, N) for Q of them, each in (0, 1).

        For labels and counts the smallest y with P(observation ≤ y) ≥ q.
        """
        return self._for_each(q, self._quantile)

    def interval(self, coverage: float = 0.95) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
        """The central predictive interval (lower, upper), each (N,): an observation is inside with that probability.

        It lies below as often as above. Where an observation has several likely values far apart, see
        `highest_density_region`.
        """
        tail = 0.5 * (1.0 - as_level("coverage", coverage))
        lower, upper = self.quantile([tail, 1.0 - tail])
        return lower, upper

    def highest_density_region(self, coverage: float = 0.95, *, num_cells: int = 256) -> list[Array]:
        """For each input the smallest set that holds an observation with probability `coverage`.

        An array of intervals, (R, 2), with R > 1 where the density has several modes, to the resolution of `num_cells`
        cells between far quantiles. For labels and counts the array of the likeliest values.
        """
        coverage = as_level("coverage", coverage)
        if self.likelihood.num_labels is not None:
            return highest_probability(np.asarray(self._label_probabilities), coverage)
        if self.num_points == 0:
            return []
        edge = min(1e-4, 0.1 * (1.0 - coverage))
        low, high = self.quantile([edge, 1.0 - edge])
        if self.likelihood.is_discrete:
            return likeliest_counts(self._cdf, coverage, low, high)
        return highest_density(self._cdf, coverage, low, high, int(num_cells))

    def latent_quantile(self, q: ArrayLike) -> Float[Array, "*Q N"]:
        """The q-quantile of f itself, without noise; for one latent function."""
        return self._for_each(q, self._latent_quantile)

    def latent_interval(self, coverage: float = 0.95) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
        """The central credible interval (lower, upper) of f itself, without noise, each (N,)."""
        tail = 0.5 * (1.0 - as_level("coverage", coverage))
        lower, upper = self.latent_quantile([tail, 1.0 - tail])
        return lower, upper

    def log_density(self, y: ArrayLike) -> Float[Array, " N"]:
        """The log density, or log probability, of one observation `y` (N,) at each input."""
        y = self.likelihood.check(y) if np.size(y) or self.num_points else np.empty(0)
        if y.shape != (self.num_points,):
            raise InputError(f"`y` has shape {y.shape} for {self.num_points} inputs. Give one observation per input.")
        return log_density(self._model, y, self.component_means, self.component_deviation)

    def to_pandas(self, coverage: float = 0.95) -> Any:
        """A data frame with one row per input: moments of f and of an observation, interval, probabilities, support.

        Columns that the likelihood cannot give, such as the interval of a `Custom` cost, are left out. Needs
        pandas: `pip install kosambi[pandas]`.
        """
        try:
            import pandas as pd  # type: ignore[import-untyped]
        except ImportError as error:
            raise ImportError("`to_pandas` needs pandas. Install it with `pip install kosambi[pandas]`.") from error
        return pd.DataFrame(self._columns(coverage))

    def _columns(self, coverage: float) -> dict[str, Array]:
        """What is known at each input, by name."""
        table: dict[str, Array] = {}
        for name, values in (("mean", self.mean), ("variance", self.variance)):
            if values.ndim == 1:
                table[name] = values
            else:
                table |= {f"{name}_{c}": values[:, c] for c in range(values.shape[1])}
        if self.likelihood.num_labels is not None:
            labels = np.asarray(self._label_probabilities)
            table |= {f"probability_{k}": labels[:, k] for k in range(labels.shape[1])}
        elif self.is_noise_known and self.likelihood.is_density:
            if self.likelihood.has_moments:
                table |= {"observation_mean": self.observation_mean, "observation_variance": self.observation_variance}
            if self.likelihood.has_cdf:
                table |= dict(zip(("lower", "upper"), self.interval(coverage), strict=True))
        return table | {"support": self.support}

    def first(self, number: int) -> Prediction:
        """The prediction at the first inputs."""
        rows = slice(0, number)
        likelihood = self.likelihood.at_rows(rows) if self.is_noise_known else self.likelihood
        means = np.ascontiguousarray(self.component_means[:, rows])
        parts = means, np.ascontiguousarray(self.component_deviation[..., rows]), self.support[rows]
        return Prediction(likelihood, *parts, self.warnings, is_noise_known=self.is_noise_known)

    def with_latent_factor(self, factor: float) -> Prediction:
        """The prediction with the variance of f multiplied by `factor`, around its mean."""
        return self._stretched(float(np.sqrt(factor)), self.mean)

    def _stretched(self, root: float, centre: Float[Array, " N *C"]) -> Prediction:
        parts = centre + root * (self.component_means - centre), root * self.component_deviation, self.support
        return Prediction(self.likelihood, *parts, self.warnings, is_noise_known=self.is_noise_known)

    def __repr__(self) -> str:
        inputs, components = self.num_points, self.component_means.shape[0]
        return (
            f"Prediction({inputs} input{'s' * (inputs != 1)}, {type(self.likelihood).__name__}, "
            f"{components} component{'s' * (components != 1)})"
        )

    def _repr_html_(self) -> str:
        # Quantiles of all inputs may take long.
        columns = self.first(_ROWS_SHOWN)._columns(0.95)
        rows = [[i, *(f"{values[i]:.4g}" for values in columns.values())] for i in range(len(columns["support"]))]
        left = self.num_points - len(rows)
        notes = [f"and {left} more inputs"] * (left > 0) + [f"warning: {text}" for text in self.warnings]
        return table_html(repr(self), rows, head=("input", *columns), notes=notes)

    @property
    def _model(self) -> AbstractLikelihood:
        """The likelihood, refused where the noise of new inputs is not known."""
        if not self.is_noise_known:
            raise InputError(
                "`Gaussian(noise=...)` holds one noise per observation, and that of new inputs is not known. "
                "Pass it: `predict(x_new, noise=...)`."
            )
        return self.likelihood

    def _for_each(self, q: ArrayLike, one: Callable[[float], Array]) -> Array:
        levels = as_float_array("q", q)
        if levels.ndim > 1 or not np.all((levels > 0) & (levels < 1)):
            raise InputError(f"`q` must be a number, or a list of numbers, between 0 and 1. Got {q!r}.")
        rows = [one(float(level)) for level in np.atleast_1d(levels)]
        return rows[0] if levels.ndim == 0 else np.stack(rows) if rows else np.empty((0, self.num_points))

    def _quantile(self, q: float) -> Float[Array, " N"]:
        model = self._model
        if model.num_labels is not None and model.num_latents > 1:
            raise InputError(
                f"The labels of `{type(model).__name__}` have no order, so there are no quantiles. Use `probability` "
                "or `highest_density_region`."
            )
        if model.num_labels is not None:
            below = np.cumsum(np.asarray(self._label_probabilities), axis=1)
            return np.argmax(below >= q * (1.0 - 1e-12), axis=1).astype(float)
        if not model.is_density or not model.has_cdf:
            raise model.no_density("a quantile of an observation")
        if self.num_points == 0:
            return np.empty(0)
        centre, scale = self._start
        if model.is_discrete:
            return count_quantile(self._cdf, q, centre)
        return continuous_quantile(self._cdf, q, centre, scale, model.lowest)

    @functools.cached_property
    def _start(self) -> tuple[Array, Array]:
        """Where searches for quantiles begin: moments where they exist, those of f where not."""
        centre, variance = (np.array(v) for v in self._observation)
        f = self.component_means if self.component_means.ndim == 2 else self.component_means[..., 0]
        middle = np.median(f, axis=0)
        bad = ~np.isfinite(centre) | ~np.isfinite(variance)
        centre[bad], variance[bad] = middle[bad], self._within[bad] + 1.0
        return centre, np.sqrt(np.maximum(variance, 1e-200))

    def _latent_quantile(self, q: float) -> Float[Array, " N"]:
        if self.mean.ndim > 1:
            raise InputError("Quantiles of f are for one latent function. Use `component_means`.")
        if self.num_points == 0:
            return np.empty(0)
        sd = np.maximum(self.component_deviation, 1e-200)

        def cdf(y: np.ndarray, points: np.ndarray) -> np.ndarray:
            return normal_cdf((y - self.component_means[:, points]) / sd[..., points]).mean(axis=0)

        scale = np.maximum(self.standard_deviation, 1e-200)
        return continuous_quantile(cdf, q, self.mean, scale, -np.inf)

    def _cdf(self, y: np.ndarray, points: np.ndarray) -> np.ndarray:
        """P(observation ≤ y) at some of the inputs, by their numbers; in blocks, on all cores."""
        size = max(1, _BLOCK_VALUES // self.component_means.shape[0])
        blocks = [slice(start, start + size) for start in range(0, points.shape[0], size)]

        def one(block: slice) -> np.ndarray:
            some = points[block]
            means, deviation = self.component_means[:, some], self.component_deviation[some]
            return self._model.at_rows(some).mixture_cdf(y[block], means, deviation)

        if len(blocks) < 2:
            return one(blocks[0]) if blocks else np.empty(0)
        with ThreadPoolExecutor() as pool:
            return np.concatenate(list(pool.map(one, blocks)))
