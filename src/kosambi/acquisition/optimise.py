r"""The largest value of an acquisition function in a box, by gradients from several starts at once.

Candidates are spread over the box, and some near the best input so far; from the best of them a projected BFGS method
climbs: variables at a wall that the slope pushes against are held, the others take the step −H g, shortened until the
score has risen enough (Armijo's rule), with H the inverse Hessian of BFGS. All starts and all lengths of a step are one
compiled program, which is used again as long as shapes stay the same.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_count, as_inputs, check_key
from kosambi._core.precision import compiled, host_generator, public
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.acquisition.base import AbstractAcquisition
from kosambi.errors import InputError, NumericalError

# Candidates near the best input so far: their part, and their standard deviations as parts of the box.
_NEAR, _SPREADS = 0.25, (0.1, 0.01)
# Lengths of a step that are tried, each half of the one before, and the longest in units of the box.
_LENGTHS, _LONGEST = 14, 0.3
_ARMIJO = 1e-4


class Maximum(NamedTuple):
    """Where an acquisition function is largest."""

    x: Float[np.ndarray, " D"]
    """The input."""
    value: float
    """The value there."""


def maximize(
    key: Key,
    acquisition: AbstractAcquisition,
    bounds: ArrayLike,
    *,
    num_candidates: int = 1024,
    num_starts: int = 8,
    num_steps: int = 50,
) -> Maximum:
    """Where an acquisition function is largest in a box, as far as several climbs find it.

    Arguments:
        key: a JAX random key.
        acquisition: what is to be maximised.
        bounds: (2, D), the lowest and the highest input of each column.
        num_candidates: inputs among which starts are chosen, a quarter of them near the best input so far.
        num_starts: climbs, from the best candidates.
        num_steps: of each climb.

    Returns:
        `x` (D,), and the value there, never below that of a candidate.

    >>> import jax, numpy as np, kosambi as ko
    >>> x, gaussian = np.array([[0.0], [0.4], [1.0]]), ko.likelihoods.Gaussian(0.01)
    >>> posterior = ko.infer(jax.random.key(0), ko.kernels.Matern52(0.3), gaussian, x, [0.0, 1.0, -1.0])
    >>> bound = ko.acquisition.UpperConfidenceBound(posterior)
    >>> top = ko.acquisition.maximize(jax.random.key(1), bound, [[0.0], [1.0]])
    >>> bool(top.value >= bound(np.linspace(0.0, 1.0, 101)[:, None]).max())
    True
    """
    if not isinstance(acquisition, AbstractAcquisition):
        raise InputError(f"`maximize` needs an acquisition function. Got {type(acquisition).__name__}.")
    key = check_key(key)
    box = as_box(bounds, acquisition.incumbent.shape[1])
    total, starts = as_count("num_candidates", num_candidates), as_count("num_starts", num_starts)
    if starts > total:
        raise InputError(f"`num_starts={starts}` is more than there are candidates, {total}. Take fewer.")
    steps = as_count("num_steps", num_steps)
    unit = _candidates(host_generator(key), np.asarray(acquisition.incumbent), box, total)
    return _maximize(acquisition, box, unit, starts, np.asarray(steps))


@public
def _maximize(
    acquisition: AbstractAcquisition, box: Float[np.ndarray, "2 D"], unit: np.ndarray, num_starts: int, steps: Array
) -> Maximum:
    scores = np.asarray(_scores(acquisition, box, unit))
    if not np.any(np.isfinite(scores)):
        raise NumericalError(
            "The acquisition function is no number at any candidate. Look at `bounds`, and at the posterior there."
        )
    order = np.argsort(-np.where(np.isfinite(scores), scores, -np.inf), kind="stable")[:num_starts]
    tops, reached = (np.asarray(part) for part in _climbs(acquisition, box, unit[order], steps))
    # A climb never ends below its start, but arithmetic may have no number on the way.
    best = int(np.argmax(np.where(np.isfinite(reached), reached, -np.inf)))
    u = tops[best] if reached[best] >= scores[order[0]] else unit[order[0]]
    x = np.clip(box[0] + u * (box[1] - box[0]), box[0], box[1])
    return Maximum(x, float(np.asarray(acquisition(x[None]))[0]))


def as_box(bounds: ArrayLike, num_columns: int) -> Float[np.ndarray, "2 D"]:
    """Checked lowest and highest inputs."""
    box = np.asarray(as_inputs("bounds", bounds, num_columns))
    if box.shape[0] != 2 or not np.all(box[0] < box[1]):
        raise InputError(
            "`bounds` must have two rows, the lowest and the highest input of each column, the first below the second. "
            f"Got {box.tolist()}."
        )
    return box


def _candidates(
    generator: np.random.Generator, incumbent: Float[np.ndarray, "T D"], box: Float[np.ndarray, "2 D"], number: int
) -> Float[np.ndarray, "S D"]:
    """Inputs of the unit box: some near the incumbent, the others in a Latin hypercube over all of it."""
    near, columns = int(_NEAR * number), box.shape[1]
    cells = np.argsort(generator.uniform(size=(number - near, columns)), axis=0)
    spread = (cells + generator.uniform(size=cells.shape)) / max(number - near, 1)
    centre = (incumbent[np.arange(near) % len(incumbent)] - box[0]) / (box[1] - box[0])
    widths = np.asarray(_SPREADS)[np.arange(near) % len(_SPREADS)][:, None]
    return np.clip(np.concatenate([spread, centre + widths * generator.normal(size=centre.shape)]), 0.0, 1.0)


@compiled
def _scores(acquisition: AbstractAcquisition, box: Array, unit: Array) -> Array:
    return acquisition.score(box[0] + unit * (box[1] - box[0]))


class _Climb(NamedTuple):
    u: Array
    cost: Array
    slope: Array
    inverse: Array
    is_first: Array


@compiled
def _climbs(acquisition: AbstractAcquisition, box: Array, starts: Array, steps: Array) -> tuple[Array, Array]:
    """Where climbs from `starts` (S, D) end in the unit box, and how high."""

    def cost(u: Array) -> Array:
        return -acquisition.score((box[0] + u * (box[1] - box[0]))[None])[0]

    def climb(start: Array) -> tuple[Array, Array]:
        value, slope = jax.value_and_grad(cost)(start)
        first = _Climb(start, value, slope, jnp.eye(start.shape[0], dtype=start.dtype), jnp.asarray(True))
        last = jax.lax.fori_loop(0, steps, lambda _, state: _step(cost, state), first)
        return last.u, -last.cost

    return jax.vmap(climb)(starts)


def _step(cost, state: _Climb) -> _Climb:  # type: ignore[no-untyped-def]
    u, value, slope, inverse, is_first = state
    free = ~(((u <= 0.0) & (slope > 0.0)) | ((u >= 1.0) & (slope < 0.0)))
    g = jnp.where(free, slope, 0.0)
    direction = -jnp.where(free[:, None] & free[None, :], inverse, 0.0) @ g
    direction = jnp.where(jnp.sum(direction * g) < 0.0, direction, -g)
    direction = direction * jnp.minimum(1.0, _LONGEST / jnp.maximum(jnp.max(jnp.abs(direction)), 1e-300))
    lengths = 0.5 ** jnp.arange(_LENGTHS, dtype=u.dtype)
    trials = jnp.clip(u + lengths[:, None] * direction, 0.0, 1.0)
    costs = jax.vmap(cost)(trials)
    falls = costs <= value + _ARMIJO * ((trials - u) @ slope)
    chosen = jnp.argmax(falls)
    moves = falls[chosen] & (costs[chosen] < value)
    new = jnp.where(moves, trials[chosen], u)
    new_value, new_slope = jax.value_and_grad(cost)(new)
    moved, turned = new - u, new_slope - slope
    along = jnp.sum(moved * turned)
    learns = (
        moves & (along > 1e-12 * jnp.linalg.norm(moved) * jnp.linalg.norm(turned)) & jnp.all(jnp.isfinite(new_slope))
    )
    size = jnp.where(learns, along, 1.0)
    # The first curvature that is seen is the unit of the others.
    scale = jnp.where(is_first & learns, size / jnp.maximum(jnp.sum(jnp.square(turned)), 1e-300), 1.0)
    identity = jnp.eye(u.shape[0], dtype=u.dtype)
    left = identity - jnp.outer(moved, turned) / size
    updated = left @ (scale * inverse) @ left.T + jnp.outer(moved, moved) / size
    # A step that could not be made begins again from the slope.
    inverse = jnp.where(learns, updated, jnp.where(moves, inverse, identity))
    return _Climb(
        new, jnp.where(moves, new_value, value), jnp.where(moves, new_slope, slope), inverse, is_first & ~learns
    )
