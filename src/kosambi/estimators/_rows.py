"""Rows made ready for a fit: equal ones merged, inputs standardised, their number rounded up to a few sizes.

Covariances of f between new inputs.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float

from kosambi._core.long_tables import column_groups, sorted_by_values
from kosambi._core.precision import compiled
from kosambi._core.programs import bucket
from kosambi._core.types import Array
from kosambi.basis import AbstractBasis
from kosambi.posterior import AveragedPosterior, Posterior

EXTREME = 100.0
"""Half widths between the quartiles beyond which a cell looks like a mistake; of normal numbers none are beyond ten."""
MOST_PADDED = 2**16
"""Rows up to which their number is rounded up."""
# Numbers of a table that is looked at as a whole.
_MANY_VALUES = 2**22


@dataclasses.dataclass(frozen=True, eq=False)
class Rows:
    """Inputs, observations, and how often each counts."""

    x: Float[np.ndarray, "N D"]
    y: Float[np.ndarray, " N"]
    weights: Float[np.ndarray, " N"]

    @property
    def has_weights(self) -> bool:
        """Whether some rows count other than once."""
        return bool(np.any(self.weights != 1.0))


def merged(
    x: Float[np.ndarray, "N D"], y: Float[np.ndarray, " N"], weights: Float[np.ndarray, " N"], is_own: bool = False
) -> Rows:
    """Distinct rows in a fixed order, each with the sum of its weights; rows of weight zero are left out.

    A row that counts twice and a row that occurs twice are the same from here on, and so are rows in another order.

    Arguments:
        x: the inputs.
        y: the observations.
        weights: how often each counts.
        is_own: whether x may be written over, so that there is no second copy of it.
    """
    used = np.flatnonzero(weights > 0)
    chosen = slice(None) if len(used) == len(y) else used
    order, number = sorted_by_values(x[chosen], y[chosen])
    counts = np.bincount(number, weights=weights[chosen])
    # The first of each, in order.
    first = used[order[np.concatenate([[True], np.diff(number[order]) > 0])]]
    if is_own:
        for column in x.T:
            column[: len(first)] = column[first]
        found = x[: len(first)]
    else:
        found = x[first]
    # Minus zero is zero.
    found += 0.0
    return Rows(found, y[first] + 0.0, counts)


def location_and_scale(
    values: Float[np.ndarray, " N *D"], weights: Float[np.ndarray, " N"]
) -> tuple[Float[np.ndarray, " *D"], Float[np.ndarray, " *D"]]:
    """Weighted means and standard deviations; a deviation of one where all values are equal."""
    groups = list(column_groups(values.shape[1])) if values.ndim == 2 and values.size > _MANY_VALUES else []
    if len(groups) > 1:
        found = [location_and_scale(values[:, group], weights) for group in groups]
        mean, scale = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return mean, scale
    largest = np.max(np.abs(values), axis=0, initial=0.0)
    # In units of a power of two, which changes no digit, so that squares of 1e200 and of 1e-200 are numbers.
    exponent = np.frexp(largest)[1]
    small = np.ldexp(values, -exponent)
    mean = np.asarray(np.average(small, axis=0, weights=weights))
    deviation = np.sqrt(np.average(np.square(small - mean), axis=0, weights=weights))
    # Rounding of the mean leaves a deviation of about this size where there is none.
    varies = deviation > 1e-13 * np.ldexp(largest, -exponent)
    return np.asarray(np.ldexp(mean, exponent)), np.where(varies, np.ldexp(deviation, exponent), 1.0)


def extreme_cells(x: Float[np.ndarray, "N D"]) -> str | None:
    """What to say of cells that lie so far from the bulk of their column that they look like mistakes; None if none do.

    >>> import numpy as np
    >>> x = np.arange(20.0)[:, None]
    >>> x[3] = -999.0
    >>> extreme_cells(x)
    'Column 0 has -999 in row 3, 212 times as far from the median as the quartiles are.'
    """
    count, farthest, cell = 0, 0.0, (0, 0)
    for column, values in enumerate(x.T):
        # Smaller by a power of two, so that differences of the largest numbers are numbers.
        near = np.ldexp(values, -2)
        low, middle, high = np.quantile(near, [0.25, 0.5, 0.75])
        half = 0.5 * (high - low)
        if not half > 0:
            continue
        with np.errstate(all="ignore"):
            times = np.abs(near - middle) / half
        count, row = count + int(np.sum(times > EXTREME)), int(np.argmax(times))
        if times[row] > max(EXTREME, farthest):
            farthest, cell = float(times[row]), (row, column)
    if not count:
        return None
    row, column = cell
    others = f" {count - 1} more cells are as far out." if count > 1 else ""
    return (
        f"Column {column} has {x[row, column]:g} in row {row}, {farthest:.3g} times as far from the median "
        f"as the quartiles are.{others}"
    )


def padded(rows: Rows) -> Rows:
    """The rows with copies of the first, of weight zero, behind them, up to one of a few sizes.

    What was compiled for one size serves all numbers of rows that are rounded up to it, such as folds of a
    cross-validation. At most a sixteenth of the rows is added where there are many. Very many are left as they are:
    compiling is then the least of the work, and a copy of them is not.
    """
    if len(rows.y) > MOST_PADDED:
        return rows
    extra = bucket(len(rows.y)) - len(rows.y)
    return Rows(
        np.concatenate([rows.x, np.repeat(rows.x[:1], extra, axis=0)]),
        np.concatenate([rows.y, np.repeat(rows.y[:1], extra)]),
        np.concatenate([rows.weights, np.zeros(extra)]),
    )


def padded_inputs(x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "K D"]:
    """New inputs with copies of the first behind them, for the same reason."""
    return np.concatenate([x, np.repeat(x[:1], bucket(len(x)) - len(x), axis=0)])


def has_covariance(posterior: Posterior) -> bool:
    """Whether `latent_covariance` is a closed form: without neighbours, or with all rows and no coordinates."""
    if isinstance(posterior, AveragedPosterior):
        return all(has_covariance(component) for component in posterior.components)
    rows = posterior.target.neighborhood
    return rows is None or (rows.is_all and not posterior.basis.size)


def latent_covariance(posterior: Posterior, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N N"]:
    """Cov(f(x_i), f(x_j) | data) = r − ψψᵀ + ψ Cov(w) ψᵀ, for a basis whose weights are conditional means.

    Cov(w) is that of the normal distribution of the draws where it is known, and of the draws themselves otherwise.
    """
    if isinstance(posterior, AveragedPosterior):
        every = [latent_covariance(component, x) for component in posterior.components]
        means = np.stack([component.predict(x).mean for component in posterior.components])
        return np.mean(every, axis=0) + np.cov(means, rowvar=False, bias=True)
    if (rows := posterior.target.neighborhood) is not None:
        # All rows, by their precisions W: r − r W^½ (I + W^½ r W^½)⁻¹ W^½ r.
        cross = np.asarray(posterior.prior.covariance(x, rows.x)) * np.sqrt(rows.precision)
        own = np.asarray(posterior.prior.covariance(rows.x, rows.x)) * np.sqrt(rows.precision)
        system = np.eye(len(rows.x)) + np.sqrt(rows.precision)[:, None] * own
        return np.asarray(posterior.prior.covariance(x, x)) - cross @ np.linalg.solve(system, cross.T)
    known = posterior.particles.distribution
    if known is not None:
        root = np.asarray(known.root)
    else:
        w = np.asarray(posterior.particles.whitened)
        root = (w - w.mean(axis=0)).T / np.sqrt(len(w))
    return np.array(_covariance(posterior.basis, root, x))


@compiled
def _covariance(basis: AbstractBasis, root: Array, x: Array) -> Array:
    psi = basis.whitened_weights(x)
    spread = psi @ root
    return basis.prior.pairwise(x, x) - psi @ psi.T + spread @ spread.T
