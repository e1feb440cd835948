"""Inducing points: which inputs span the basis. Every function gives indices into x, never the same point twice.

`greedy_variance` is the paper's choice (appendix on implementation details, after Burt et al. 2020 and Chen et al.
2018): a partial pivoted Cholesky factorisation of k(x, x) that takes, again and again, the input whose variance is
least explained by those taken before.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from kosambi._core import long_tables
from kosambi._core.checks import as_count, as_inputs, check_key, is_traced
from kosambi._core.linalg import one_blas_thread
from kosambi._core.precision import compiled, public
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.errors import InputError, TruncationWarning
from kosambi.kernels import AbstractKernel
from kosambi.priors import AbstractPrior

# Greedy selection ends when the largest residual variance is below this part of the largest prior variance.
STOPPING_TOLERANCE = 1e-12
HOST_ROWS = 2048
"""Rows up to which the whole Gram matrix is made, and nothing is compiled for their number."""
# Rows of the factor that one fused pass over the data subtracts.
_ROWS_PER_PASS = 16
# Distances above which clusters are found from batches of rows, rows of a batch, and passes over all.
_MANY_DISTANCES, _BATCH, _EPOCHS = 10**7, 4096, 5


class GreedySelection(NamedTuple):
    """What `greedy_path` found, in the order in which points were taken."""

    indices: Int[np.ndarray, " M"]
    """Rows of x, the most informative first."""
    largest_residual: Float[np.ndarray, " M"]
    """The largest variance left unexplained after each point."""
    residual_trace: Float[np.ndarray, " M"]
    """The variance left unexplained after each point, summed over all rows."""
    prior_trace: float
    """The variance of all rows before the first point."""
    stopped_early: bool
    """Whether there were fewer points worth taking than were asked for."""


@public
def greedy_path(kernel: AbstractKernel | AbstractPrior, x: ArrayLike, num_inducing: int) -> GreedySelection:
    """Greedy selection with the variance left unexplained after each point.

    Arguments:
        kernel: k; of a prior, its kernel.
        x: (N, D), the candidates.
        num_inducing: M, at most N.

    >>> import numpy as np, kosambi as ko
    >>> path = ko.inducing.greedy_path(ko.kernels.Matern32(), np.linspace(0.0, 4.0, 9)[:, None], 3)
    >>> path.indices, path.residual_trace.round(3)
    (array([0, 8, 4]), array([7.053, 5.107, 2.609]))
    """
    kernel = kernel.kernel if isinstance(kernel, AbstractPrior) else kernel
    if not isinstance(kernel, AbstractKernel):
        raise InputError(f"`greedy_variance` needs a kernel or a prior. Got {type(kernel).__name__}.")
    x = as_inputs("x", x)
    if is_traced((kernel, x)):
        raise InputError("`greedy_variance` needs concrete arrays: how many points it takes depends on their values.")
    kernel.check_columns(x.shape[1])
    limit = "the number of rows of x"
    num_inducing = as_count("num_inducing", num_inducing, at_most=x.shape[0], limit_name=limit)
    if len(x) <= HOST_ROWS:
        found = _on_host(np.asarray(kernel(x)), num_inducing)
    else:
        found = _pivoted_cholesky(kernel, x, num_inducing)
    count, indices, largest, trace, prior_trace = found
    kept = int(count)
    if kept == 0:
        raise InputError("`greedy_variance` found no input at which the kernel is positive. Change the kernel.")
    return GreedySelection(
        np.asarray(indices)[:kept],
        np.asarray(largest)[:kept],
        np.asarray(trace)[:kept],
        float(prior_trace),
        kept < num_inducing,
    )


def greedy_variance(kernel: AbstractKernel | AbstractPrior, x: ArrayLike, num_inducing: int) -> Int[np.ndarray, " M"]:
    """Indices of `num_inducing` rows of `x`, each the one with the largest variance left by those before it.

    O(NM²) time, O(NM) memory; deterministic, ties go to the lowest index. Returns fewer, with a `TruncationWarning`,
    only when the largest residual variance falls below 1e-12 of the largest prior variance.

    Arguments:
        kernel: k; of a prior, its kernel.
        x: (N, D), the candidates.
        num_inducing: M, at most N.

    >>> import numpy as np, kosambi as ko
    >>> x = np.linspace(0.0, 4.0, 9)[:, None]
    >>> ko.inducing.greedy_variance(ko.kernels.Matern32(), x, num_inducing=3)
    array([0, 8, 4])
    """
    path = greedy_path(kernel, x, num_inducing)
    if path.stopped_early:
        _warn_fewer(
            "greedy_variance", len(path.indices), num_inducing, "the others add less than 1e-12 of the variance"
        )
    return path.indices


@public
def uniform(key: Key, x: ArrayLike, num_inducing: int) -> Int[np.ndarray, " M"]:
    """Indices of `num_inducing` rows of `x`, drawn uniformly from those that differ.

    >>> import jax, numpy as np, kosambi as ko
    >>> len(set(ko.inducing.uniform(jax.random.key(0), np.arange(8.0)[:, None], 5).tolist()))
    5
    """
    x, num_inducing = _checked(x, num_inducing)
    distinct, _, num_inducing = _distinct_rows("uniform", x, num_inducing)
    chosen = jax.random.choice(check_key(key), distinct.shape[0], (num_inducing,), replace=False)
    return distinct[np.asarray(chosen)]


@public
def kmeans(key: Key, x: ArrayLike, num_inducing: int) -> Int[np.ndarray, " M"]:
    """Indices of the rows of `x` nearest to the centres of `num_inducing` clusters (scikit-learn's `KMeans`).

    Where rows times clusters are more than ten million, `MiniBatchKMeans`, whose empty clusters become random rows.
    Distances are Euclidean in the units of `x`: scale the columns first if they differ much.

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.array([[0.0], [0.1], [0.2], [9.0], [9.1], [9.2]])
    >>> sorted(ko.inducing.kmeans(jax.random.key(0), x, 2).tolist())
    [1, 4]
    """
    # Imported here because it takes longer than the rest of kosambi together.
    from sklearn.cluster import KMeans, MiniBatchKMeans

    x, num_inducing = _checked(x, num_inducing)
    distinct, counts, num_inducing = _distinct_rows("kmeans", x, num_inducing)
    seed = int(jax.random.randint(check_key(key), (), 0, np.iinfo(np.int32).max))
    candidates = np.asarray(x) if len(distinct) == len(x) else np.asarray(x)[distinct]
    if len(distinct) * num_inducing <= _MANY_DISTANCES:
        search = KMeans(num_inducing, n_init=1, random_state=seed)
    else:
        search = MiniBatchKMeans(num_inducing, n_init=1, random_state=seed, batch_size=_BATCH, max_iter=_EPOCHS)
    clusters = search.fit(candidates, sample_weight=counts)
    distance = np.empty(len(candidates))
    for part in long_tables.row_blocks(len(candidates)):
        apart = candidates[part] - clusters.cluster_centers_[clusters.labels_[part]]
        distance[part] = np.sum(apart**2, axis=1)
    # A row belongs to one cluster only, so the nearest rows of different clusters differ.
    order = np.lexsort((distance, clusters.labels_))
    _, first = np.unique(clusters.labels_[order], return_index=True)
    chosen = order[first]
    if len(chosen) < num_inducing:
        rest = np.setdiff1d(np.arange(len(distinct)), chosen)
        more = np.random.default_rng(seed).choice(rest, num_inducing - len(chosen), replace=False)
        chosen = np.concatenate([chosen, more])
    return distinct[chosen]


def _checked(x: ArrayLike, num_inducing: int) -> tuple[Array, int]:
    x = as_inputs("x", x)
    if is_traced(x):
        raise InputError("Inducing points are chosen among concrete arrays. Do it outside `jit` and `vmap`.")
    limit = "the number of rows of x"
    return x, as_count("num_inducing", num_inducing, at_most=x.shape[0], limit_name=limit)


def _distinct_rows(name: str, x: Array, wanted: int) -> tuple[np.ndarray, np.ndarray, int]:
    """First occurrences of the distinct rows, how often each occurs, and how many points there can be."""
    first, counts = long_tables.distinct_rows(np.asarray(x))
    if wanted > len(first):
        _warn_fewer(name, len(first), wanted, "x has no more distinct rows")
    return first, counts, min(wanted, len(first))


def _warn_fewer(name: str, got: int, wanted: int, reason: str) -> None:
    warnings.warn(
        f"`{name}` took {got} inducing points instead of {wanted}: {reason}.", TruncationWarning, stacklevel=3
    )


def _on_host(gram: Float[np.ndarray, "N N"], num_inducing: int) -> tuple[int, Array, Array, Array, float]:
    """`_pivoted_cholesky` with NumPy, from the Gram matrix of all rows."""
    prior = np.diagonal(gram).copy()
    residual, threshold = prior.copy(), STOPPING_TOLERANCE * np.max(prior)
    factor = np.empty((num_inducing, len(gram)))
    indices, largest, trace = np.zeros(num_inducing, dtype=int), np.zeros(num_inducing), np.zeros(num_inducing)
    count = 0
    with one_blas_thread():
        while count < num_inducing:
            pivot = int(np.argmax(residual))
            # Also where the kernel has no variance anywhere, or is not finite.
            if not residual[pivot] > threshold:
                break
            column = (gram[pivot] - factor[:count, pivot] @ factor[:count]) / np.sqrt(residual[pivot])
            factor[count] = column
            residual -= np.square(column)
            # A point that was taken is out of the race for good, whatever rounding leaves of its residual.
            residual[pivot] = -np.inf
            left = np.maximum(residual, 0.0)
            indices[count], largest[count], trace[count] = pivot, np.max(left), np.sum(left)
            count += 1
    return count, indices, largest, trace, float(np.sum(prior))


@compiled
def _pivoted_cholesky(
    kernel: AbstractKernel, x: Float[Array, "N D"], num_inducing: int
) -> tuple[Array, Array, Array, Array, Array]:
    num_rows = x.shape[0]
    passes = -(-num_inducing // _ROWS_PER_PASS)
    prior = kernel.pointwise(x)
    threshold = STOPPING_TOLERANCE * jnp.max(prior)

    def subtract(i: Array, column: Array, factor: Array, weights: Array) -> Array:
        # Written out row by row so that the compiler fuses one pass over the data and copies nothing.
        for row in range(_ROWS_PER_PASS):
            at = i * _ROWS_PER_PASS + row
            column = column - weights[at] * jax.lax.dynamic_index_in_dim(factor, at, 0, keepdims=False)
        return column

    def unfinished(state: tuple[Array, ...]) -> Array:
        count, residual = state[0], state[1]
        return (count < num_inducing) & (jnp.max(residual) > threshold)

    def take(state: tuple[Array, ...]) -> tuple[Array, ...]:
        count, residual, factor, indices, largest, trace = state
        pivot = jnp.argmax(residual)
        column = kernel.pairwise(x, jax.lax.dynamic_slice_in_dim(x, pivot, 1))[:, 0]
        weights = jax.lax.dynamic_index_in_dim(factor, pivot, 1, keepdims=False)
        used = (count + _ROWS_PER_PASS - 1) // _ROWS_PER_PASS
        column = jax.lax.fori_loop(0, used, lambda i, c: subtract(i, c, factor, weights), column)
        column = column / jnp.sqrt(residual[pivot])
        factor = jax.lax.dynamic_update_index_in_dim(factor, column, count, 0)
        # A point that was taken is out of the race for good, whatever rounding leaves of its residual.
        residual = (residual - jnp.square(column)).at[pivot].set(-jnp.inf)
        left = jnp.maximum(residual, 0.0)
        indices, largest = indices.at[count].set(pivot), largest.at[count].set(jnp.max(left))
        return count + 1, residual, factor, indices, largest, trace.at[count].set(jnp.sum(left))

    start = (
        jnp.zeros((), dtype=int),
        prior,
        jnp.zeros((passes * _ROWS_PER_PASS, num_rows)),
        jnp.zeros(num_inducing, dtype=int),
        jnp.zeros(num_inducing),
        jnp.zeros(num_inducing),
    )
    count, _, _, indices, largest, trace = jax.lax.while_loop(unfinished, take, start)
    return count, indices, largest, trace, jnp.sum(prior)


def as_num_inducing(name: str, value: object, *, allow_none: bool = False) -> int | str:
    """A checked number of inducing points, with one meaning wherever it is asked for.

    A whole number, which may be zero if `allow_none`; "auto", for which None is another word, as many as predictions
    can use; "all", every distinct row.

    >>> as_num_inducing("num_inducing", None), as_num_inducing("num_inducing", 20)
    ('auto', 20)
    """
    if value is None:
        return "auto"
    if isinstance(value, str):
        if value in ("auto", "all"):
            return value
        raise InputError(f'`{name}` must be a whole number, "all", "auto" or None (the same as "auto"). Got {value!r}.')
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and value == 0:
        if allow_none:
            return 0
        raise InputError(f"`{name}` must be at least 1. Got 0, which leaves everything to neighbours: say how many.")
    return as_count(name, value)


def distinct_rows(x: Float[np.ndarray, "N D"]) -> Int[np.ndarray, " M"]:
    """Where each distinct row of `x` occurs first, in that order: the points that "all" stands for."""
    return long_tables.distinct_rows(np.asarray(x))[0]
