r"""Terms of the neighbour likelihood: a row given its neighbours, for batches of rows, and the gradient of their sum.

With K the covariance of m + 1 rows, noise included, p the last column of K⁻¹ and α = K⁻¹(y − μ),

    log p(y_n | y_𝒩(n)) = −½ log(2π/p_n) − ½ α_n²/p_n.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.precision import compiled
from kosambi._core.types import Array
from kosambi.learning.layout import Layout, Model, rebuilt
from kosambi.priors import AbstractPrior
from kosambi.priors.base import evaluate_mean


class Conditionals(NamedTuple):
    """Terms of a batch."""

    value: float
    """Their sum."""
    square: float
    """The sum of squared standardised errors."""
    alpha: Float[np.ndarray, "B K"]
    column: Float[np.ndarray, "B K"]
    """p, the last column of K⁻¹."""
    miss: Float[np.ndarray, " B"]
    variance: Float[np.ndarray, " B"]


def conditionals(
    layout: Layout,
    vector: Float[np.ndarray, " P"],
    given: Model,
    prior: AbstractPrior,
    rows: Float[Array, "B K D"],
    y: Float[Array, "B K"],
    present: Float[Array, "B K"],
    counts: Float[Array, "B K"],
) -> Conditionals:
    """log p(y_n | y_𝒩(n)) of a batch.

    Arguments:
        layout: which parameters are free.
        vector: their values.
        given: the model whose other parameters stand still.
        prior: whose kernel and mean are replaced.
        rows: K = m + 1 inputs for each row: its neighbours, and the row itself, last.
        y: their observations.
        present: zero for an empty place.
        counts: how often each counts. w copies of one observation are one with variance σ²/w, and a factor
            (2πσ²)^{−(w−1)/2} w^{−½}.
    """
    parts = _grams(layout, vector, given, prior, rows, y, present, counts)
    gram, error, copies = (np.asarray(part) for part in parts)
    last = np.zeros(gram.shape[1])
    last[-1] = 1.0
    # With p the last column of K⁻¹ and α = K⁻¹e: the variance given the neighbours is 1/p_n, the error α_n/p_n. On the
    # host, because batches of factorisations can block XLA's threads on a CPU for good.
    try:
        both = np.linalg.solve(gram, np.stack([error, np.broadcast_to(last, error.shape)], axis=2))
    except np.linalg.LinAlgError:
        both = np.full((*error.shape, 2), np.nan)
    alpha, column = both[:, :, 0], both[:, :, 1]
    variance = 1.0 / column[:, -1]
    miss = alpha[:, -1] * variance
    if not (np.all(variance > 0) and np.all(np.isfinite(both))):
        return Conditionals(-np.inf, np.nan, alpha, column, miss, variance)
    squares = np.square(miss) / variance
    value = -0.5 * float(np.sum(np.log(2.0 * np.pi * variance) + squares)) + float(np.sum(copies))
    return Conditionals(value, float(np.sum(squares)), alpha, column, miss, variance)


def batch_evidence(
    layout: Layout, vector: Float[np.ndarray, " P"], given: Model, prior: AbstractPrior, *arrays: Any
) -> tuple[float, Float[np.ndarray, " P"]]:
    """The sum of a batch's terms and its gradient in the free numbers; `arrays` are those of `conditionals`."""
    value, _, alpha, column, miss, variance = conditionals(layout, vector, given, prior, *arrays)
    if not np.isfinite(value):
        return value, np.full(len(vector), np.nan)
    # ½(ααᵀ − K⁻¹) of all, less that of the neighbours.
    cross = miss[:, None, None] * alpha[:, :, None] * column[:, None, :]
    slope = 0.5 * (cross + np.swapaxes(cross, 1, 2))
    slope -= 0.5 * (np.square(miss) + variance)[:, None, None] * column[:, :, None] * column[:, None, :]
    slopes = slope, -miss[:, None] * column
    return value, np.asarray(_pulled_back(layout, vector, given, prior, arrays, slopes))


def _parts(
    layout: Layout,
    vector: Array,
    given: Model,
    prior: AbstractPrior,
    rows: Array,
    y: Array,
    present: Array,
    counts: Array,
) -> tuple[Array, Array, Array]:
    """K with the noise, where an empty place is independent of all, the errors y − μ, and what copies add."""
    model = layout.model(vector, given)
    one = rebuilt(prior, model)
    gram = jax.vmap(lambda x: one.pairwise(x, x))(rows) * present[:, :, None] * present[:, None, :]
    noise = jnp.square(model.likelihood.noise)
    diagonal = present * noise / counts + (1.0 - present)
    mean = jax.vmap(lambda x: jnp.asarray(evaluate_mean(model.mean, x)))(rows)
    own = counts[:, -1]
    copies = -0.5 * ((own - 1.0) * jnp.log(2.0 * jnp.pi * noise) + jnp.log(own))
    return gram + diagonal[:, :, None] * jnp.eye(rows.shape[1], dtype=gram.dtype), (y - mean) * present, copies


_grams = compiled(_parts)


@compiled
def _pulled_back(
    layout: Layout,
    vector: Array,
    given: Model,
    prior: AbstractPrior,
    arrays: tuple[Array, Array, Array, Array],
    slopes: tuple[Array, Array],
) -> Float[Array, " P"]:
    def weighted(v: Array) -> Array:
        gram, error, copies = _parts(layout, v, given, prior, *arrays)
        return jnp.sum(slopes[0] * gram) + jnp.sum(slopes[1] * error) + jnp.sum(copies)

    return jax.grad(weighted)(vector)
