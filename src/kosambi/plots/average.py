r"""Averages of the response over rows of the data, with one column set to a value.

    g(v) = (1/R) Σ_r E[y | f(x_r with column d set to v)]

is a number for each function f. Its band comes from functions drawn from the posterior, evaluated at all values and
rows in one call. Its posterior mean is the average of predictive means, exactly; for more than two classes, where those
take an integral in as many dimensions, it is the mean over the functions drawn.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float

from kosambi._core.types import Array
from kosambi.likelihoods import AbstractLikelihood
from kosambi.plots.predictions import expected
from kosambi.plots.style import as_fitted, spread

# Columns of at most so many different values are drawn as points.
FEW_VALUES = 5


@dataclasses.dataclass(frozen=True, eq=False)
class Effect:
    """The effect of one column at G values, for L lines: one, or one a class where there are more than two."""

    column: int
    """Which column."""
    values: Float[np.ndarray, " G"]
    """What it was set to, increasing."""
    mean: Float[np.ndarray, "G L"]
    """The posterior mean of the average."""
    lower: Float[np.ndarray, "G L"]
    """The lower edge of its band."""
    upper: Float[np.ndarray, "G L"]
    """The upper edge."""
    draws: Float[np.ndarray, "S G L"]
    """The averages of functions drawn from the posterior."""
    coverage: float
    """The probability of the band."""
    data: Float[np.ndarray, " N"]
    """The column itself."""
    is_few: bool
    """Whether the values are all that the column has."""
    has_labels: bool
    """Whether observations are labels, so that averages are probabilities."""
    is_response: bool
    """Whether E[y | f] was averaged; otherwise f itself, where that is not known."""
    levels: tuple[str, ...] = ()
    """Names of the values, of a category."""

    @property
    def num_lines(self) -> int:
        """L."""
        return int(self.mean.shape[1])


def averaged(
    estimator: Any,
    X: Float[np.ndarray, "N D"],
    column: int,
    *,
    coverage: float = 0.95,
    num_points: int = 40,
    max_rows: int = 40,
    num_samples: int | None = None,
    random_state: int = 0,
) -> Effect:
    """The effect of a column; see `kosambi.plots.partial_effect` for the arguments."""
    data, rows = X[:, column], X[spread(len(X), max_rows)]
    # With one column the rows do not differ once it is set.
    rows = rows[:1] if X.shape[1] == 1 else rows
    distinct = np.unique(data)
    is_few = len(distinct) <= FEW_VALUES
    low, high = np.quantile(data, [0.01, 0.99])
    values = distinct if is_few else np.linspace(low, high, num_points)
    return averaged_inputs(
        estimator,
        with_values(rows, column, values),
        column=column,
        values=values,
        data=data,
        is_few=is_few,
        coverage=coverage,
        num_samples=num_samples,
        random_state=random_state,
    )


def averaged_inputs(
    estimator: Any,
    table: Float[np.ndarray, "K D"],
    *,
    column: int,
    values: Float[np.ndarray, " G"],
    data: Float[np.ndarray, " N"],
    is_few: bool,
    levels: tuple[str, ...] = (),
    coverage: float,
    num_samples: int | None,
    random_state: int,
) -> Effect:
    """The effect whose rows are in `table`, as many for each of the values, value after value."""
    likelihood = estimator.posterior_.likelihood
    inputs, shape = as_fitted(estimator, table), (len(values), len(table) // len(values))
    response, is_response = _responses(estimator, inputs, num_samples, random_state)
    draws = _lines(response.reshape(len(response), *shape, *response.shape[2:]).mean(axis=2), 2)
    mean = draws.mean(axis=0)
    if not _is_costly(likelihood):
        mean = expected(estimator.predict_distribution(inputs)).reshape(*shape, -1).mean(axis=1)
    tail = 0.5 * (1.0 - coverage)
    lower, upper = np.quantile(draws, [tail, 1.0 - tail], axis=0)
    return Effect(
        column=column,
        values=values,
        mean=mean,
        lower=lower,
        upper=upper,
        draws=draws,
        coverage=coverage,
        data=data,
        is_few=is_few,
        has_labels=likelihood.num_labels is not None,
        is_response=is_response,
        levels=levels,
    )


def influences(
    estimator: Any, X: Float[np.ndarray, "N D"], *, num_points: int = 9, max_rows: int = 20
) -> Float[np.ndarray, " D"]:
    """How much each column moves the prediction: the variance of its averaged effect over the data.

    The column is set to quantiles that are equally likely, so that far values count as seldom as they occur. All
    columns are asked for in one call.
    """
    rows = X[spread(len(X), max_rows)]
    levels = (np.arange(num_points) + 0.5) / num_points
    tables = [with_values(rows, d, np.quantile(X[:, d], levels, method="nearest")) for d in range(X.shape[1])]
    inputs = as_fitted(estimator, np.concatenate(tables))
    if _is_costly(estimator.posterior_.likelihood):
        mean = _responses(estimator, inputs, None, 0)[0].mean(axis=0)
    else:
        mean = expected(estimator.predict_distribution(inputs))
    effects = mean.reshape(X.shape[1], num_points, len(rows), -1).mean(axis=2)
    return effects.var(axis=1).sum(axis=1)


def with_values(rows: Float[np.ndarray, "R D"], column: int, values: Float[np.ndarray, " G"]) -> Array:
    """All rows for each value of the column, value after value, (G·R, D)."""
    table = np.tile(rows, (len(values), 1))
    table[:, column] = np.repeat(values, len(rows))
    return table


def _responses(estimator: Any, inputs: Any, num_samples: int | None, random_state: int) -> tuple[np.ndarray, bool]:
    """E[y | f] of functions drawn, (S, N) or (S, N, C); f itself, and False, where it is not known."""
    likelihood = estimator.posterior_.likelihood
    number = estimator.posterior_.num_particles if num_samples is None else num_samples
    functions = np.asarray(estimator.sample_functions(inputs, n_samples=number, random_state=random_state))
    # Draws first, as likelihoods have it.
    functions = np.ascontiguousarray(np.moveaxis(functions, 1, 0))
    if likelihood.is_density and likelihood.has_moments:
        response = np.asarray(likelihood.observation_mean(functions))
        if np.all(np.isfinite(response)):
            return response, True
    return functions, False


def _is_costly(likelihood: AbstractLikelihood) -> bool:
    """Whether a predictive mean is an integral over several functions."""
    return likelihood.num_labels is not None and likelihood.num_latents > 1


def _lines(values: np.ndarray, ndim: int) -> np.ndarray:
    """With a last axis for the lines, also where there is one."""
    return values[..., None] if values.ndim == ndim else values
