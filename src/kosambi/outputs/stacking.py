"""Cells as rows: inputs (N, D) and observations (N, P) become one row for each cell that was observed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from kosambi._core.checks import as_count, as_float_array, as_inputs
from kosambi._core.types import ArrayLike
from kosambi.errors import InputError
from kosambi.likelihoods import AbstractLikelihood, Gaussian
from kosambi.target.checks import as_weights
from kosambi.target.neighbors import NEIGHBORS


class Cells(NamedTuple):
    """The observed cells of a matrix of observations, row by row."""

    x: Float[np.ndarray, "C D1"]
    """Inputs, with the number of the output as their last column."""
    y: Float[np.ndarray, " C"]
    """Observations."""
    row: Int[np.ndarray, " C"]
    """Which row of the matrix each comes from."""
    output: Int[np.ndarray, " C"]
    """Which output it is of."""


def stack(x: ArrayLike, y: ArrayLike) -> Cells:
    """One row for each observed cell of y.

    Arguments:
        x: (N, D), the inputs.
        y: (N, P), the observations; NaN in a cell that was not observed.

    >>> import numpy as np, kosambi as ko
    >>> cells = ko.outputs.stack([[0.5], [0.7]], [[1.0, np.nan], [3.0, 4.0]])
    >>> cells.x
    array([[0.5, 0. ],
           [0.7, 0. ],
           [0.7, 1. ]])
    >>> cells.y, cells.output
    (array([1., 3., 4.]), array([0, 0, 1]))
    """
    x, y = as_inputs("x", x), as_float_array("y", y)
    if y.ndim != 2 or y.shape[0] != x.shape[0] or y.shape[1] == 0:
        raise InputError(
            f"`y` must have shape (N, P), a row for each of {x.shape[0]} rows of x and a column for each output. Got "
            f"shape {y.shape}."
        )
    if np.isinf(y).any():
        row, output = np.argwhere(np.isinf(y))[0]
        raise InputError(
            f"`y` has an infinite value in row {row}, output {output}. Write NaN for a cell that was not observed."
        )
    row, output = np.nonzero(~np.isnan(y))
    if not len(row):
        raise InputError("`y` is NaN in every cell, so nothing was observed. Give at least one number.")
    return Cells(np.column_stack([x[row], output.astype(np.float64)]), y[row, output], row, output)


def every_cell(x: ArrayLike, num_outputs: int) -> Float[np.ndarray, "C D1"]:
    """Inputs of all outputs at each row of x (n, D): (n·P, D + 1), the P of a row next to each other.

    For `posterior.predict` and for functions drawn, whose values then have the shape (J, n·P).

    >>> import kosambi as ko
    >>> ko.outputs.every_cell([[0.5], [0.7]], 2)
    array([[0.5, 0. ],
           [0.5, 1. ],
           [0.7, 0. ],
           [0.7, 1. ]])
    """
    number, x = as_count("num_outputs", num_outputs), np.asarray(as_inputs("x", x, allow_empty=True))
    return np.column_stack([np.repeat(x, number, axis=0), np.tile(np.arange(number, dtype=np.float64), len(x))])


def is_matrix(y: Any) -> bool:
    """Whether observations are of several outputs: a matrix with more than one column.

    >>> is_matrix([1.0, 2.0]), is_matrix([[1.0, 2.0]]), is_matrix([[1.0], [2.0]])
    (False, True, False)
    """
    # Not with `np.shape`, which an array of another library may refuse, as NumPy does rows of different lengths.
    shape = y.shape if hasattr(y, "shape") else np.shape(as_float_array("y", y))
    return len(shape) == 2 and shape[1] > 1


def as_rows(
    likelihood: AbstractLikelihood, x: ArrayLike, y: ArrayLike, weights: ArrayLike | None
) -> tuple[AbstractLikelihood, Float[np.ndarray, "C D1"], Float[np.ndarray, " C"], Float[np.ndarray, " C"] | None]:
    """Arguments of `infer` and `fit_hyperparameters` for the cells of y (N, P) as rows.

    A `Gaussian` likelihood gets a noise for each output: those of `noise`, (P,), or the one number for all to begin
    with. Parameters of others are the same for all outputs. `weights` (N,) count for every cell of their row.
    """
    cells, number = stack(x, y), np.shape(y)[1]
    own = None if weights is None else np.asarray(as_weights(weights, as_inputs("x", x)))[cells.row]
    return _of_outputs(likelihood, cells, number), cells.x, cells.y, own


def _of_outputs(likelihood: AbstractLikelihood, cells: Cells, number: int) -> AbstractLikelihood:
    if isinstance(likelihood, Gaussian):
        if likelihood.noise.shape not in ((), (number,)):
            raise InputError(
                f"`y` has {number} outputs, and `Gaussian(noise=...)` {likelihood.noise.shape[0]} numbers. Give one, "
                "or one for each output. For a noise of each cell use `kosambi.outputs.stack`."
            )
        return Gaussian(np.broadcast_to(np.asarray(likelihood.noise), (number,)), groups=cells.output)
    if likelihood.num_latents > 1 or likelihood.num_rows is not None:
        raise InputError(
            f"`{type(likelihood).__name__}` is not for `y` of shape (N, P): an output is one latent function. Use "
            "`Gaussian`, or one model for each column of y."
        )
    return likelihood


def without_neighbors(num_neighbors: Any, potential: str, num_rows: int, largest: int) -> Any:
    """The number of neighbours to ask for with several outputs: none, unless they are all rows.

    The nearest rows by their inputs are cells of all outputs, of which some say little of each other; none is left out
    in silence, so neighbours that are fewer than the rows are refused.

    Arguments:
        num_neighbors: as given.
        potential: as given.
        num_rows: cells.
        largest: rows up to which "auto" chooses between points and all rows.
    """
    asked = "auto" if num_neighbors is None else num_neighbors
    if (isinstance(asked, int) and 0 < asked < num_rows) or (asked == "auto" and potential == NEIGHBORS):
        raise InputError(
            "Neighbours are found by distances between inputs, which say nothing of how outputs go together, so they "
            f"are not for `y` of shape (N, P). Got num_neighbors={num_neighbors!r} for {num_rows} cells. Leave it out, "
            "give `num_inducing`, or stack the cells with `kosambi.outputs.stack` and pass these as rows."
        )
    return 0 if asked == "auto" and num_rows > largest else asked
