r"""Hyperparameters and inducing points on all rows, in random batches: natural gradients for q, Adam for the rest.

The bound of `kosambi.learning.points` is a sum over rows, so that a random batch of B rows, its terms times N/B, has
the right expectation, and so has its gradient. q(w) = N(Λ⁻¹η, Λ⁻¹) has natural parameters that the best sites make

    Λ = I + Σ_n W_n ψ_nψ_nᵀ,   η = Σ_n (λ_n − W_nμ_n) ψ_n,

and a step of length ρ towards what the sites of a batch make is one along the natural gradient (Hoffman et al. 2013).
Kernel, likelihood and points take a step of Adam with q as it is; in coordinates that are white under the prior the
divergence does not change with them. All of it is one compiled loop over batches.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import optax

from kosambi._core.journal import Arrays, Steps
from kosambi._core.precision import at_rest, compiled, lift, strong
from kosambi._core.types import Array
from kosambi.basis.points import whitened_features
from kosambi.kernels import column_scales
from kosambi.learning.layout import Layout, Model, rebuilt
from kosambi.learning.points import POINTS
from kosambi.learning.task import Found, Task
from kosambi.likelihoods import AbstractLikelihood
from kosambi.priors import AbstractPrior

BATCH = 2048
"""Rows of one step."""
STEPS, MOST_STEPS = 240, 1600
"""Steps, at least and at most."""
EPOCHS = 8.0
"""How often each row is seen, on average, within these limits."""
WORK = 1.2e12
"""Steps times rows of a batch times squared points, at most."""
AT_ONCE = 20
"""Steps between two looks at the progress."""
# Adam: the first step in logarithms, and in lengthscales for points; it falls to zero along a cosine.
_STEP = 0.03
# Length of a natural step: one over the number of steps so far, but no less.
_SHORTEST = 0.01


class _State(NamedTuple):
    """What the next step needs."""

    vector: Array
    """Free numbers, (P,)."""
    points: Array
    """(M, D), in units of the lengthscales at the start."""
    precision: Array
    """Λ, (C, M, M)."""
    shift: Array
    """η, (C, M)."""
    adam: Any


class _Held:
    """The state at present, for a journal."""

    def __init__(self, state: _State) -> None:
        self.state = state

    def memory(self) -> list[Array]:
        return jax.tree.leaves(self.state)

    def recall(self, memory: Arrays) -> None:
        self.state = jax.tree.unflatten(jax.tree.structure(self.state), memory)


def refined(task: Task, prior: AbstractPrior, found: Found) -> Found:
    """Kernel, mean, likelihood and points from where they are, with all rows."""
    bounds, points = found.bounds, found.inducing_points
    assert bounds is not None
    assert points is not None
    pool = task.counting
    size, latents = len(points), task.likelihood.num_latents
    most = min(EPOCHS * len(pool) / BATCH, WORK / (BATCH * size**2 * latents), MOST_STEPS)
    number = AT_ONCE * max(1, round(max(STEPS, most) / AT_ONCE))
    scales = column_scales(found.model.kernel, np.asarray(task.x))
    counts = np.ones(len(task.x)) if task.counts is None else np.asarray(task.counts)
    held = lift((found.model, prior, bounds.centre, bounds.width, bounds.lower, bounds.upper, bounds.scale, scales))
    vector = np.clip(task.layout.vector(found.model), bounds.lower, bounds.upper)
    held_state = _Held(_begun(vector, points / scales, latents))
    steps = Steps("batches", held_state)
    values: list[np.ndarray] = []
    notes: tuple[str, ...] = ()
    # Arrays, so that another number of rows compiles nothing again.
    factors = lift((np.asarray(float(number)), np.asarray(len(pool) / BATCH)))
    task.show.update("all rows", 0, number)
    with task.stop:
        for start in range(0, number, AT_ONCE):
            rows = task.generator.choice(pool, size=(AT_ONCE, BATCH), replace=len(pool) < AT_ONCE * BATCH)
            places = np.arange(start, start + AT_ONCE, dtype=float)

            def compute(rows: np.ndarray = rows, places: np.ndarray = places) -> tuple[np.ndarray, bool]:
                data = lift((np.asarray(task.x)[rows], np.asarray(task.y)[rows], counts[rows]))
                further, bound = _steps(task.layout, held_state.state, *held, *data, places, *factors)
                # The bound of a step is of what was before it.
                numbers = bound, further.vector, further.points, further.precision, further.shift
                is_finite = all(bool(np.all(np.isfinite(np.asarray(part)))) for part in numbers)
                held_state.state = further if is_finite else held_state.state
                return np.asarray(bound), is_finite

            bound, is_finite = steps.next(compute, rows)
            if not is_finite:
                task.record.failures += AT_ONCE
                notes = (f"Steps on batches of rows were not finite after {start} of {number}; those before count.",)
                break
            task.record.moves += AT_ONCE
            values.append(bound)
            task.show.step(start + AT_ONCE, f"{np.mean(values[-1]) / len(pool):.3f} nats per observation")
    if not values:
        return found
    state = held_state.state
    last = np.asarray(state.vector, dtype=np.float64)
    evidence = float(np.mean(values[-max(1, len(values) // 10) :]))
    away = (last - bounds.centre) / bounds.width
    return dataclasses.replace(
        found,
        model=at_rest(task.layout.model(last, found.model)),
        strategy=POINTS,
        inducing_points=np.ascontiguousarray(np.asarray(state.points) * scales),
        objective=evidence - 0.5 * float(away @ away),
        log_evidence=evidence,
        gradient_norm=np.nan,
        is_settled=True,
        converged=len(values) * AT_ONCE >= number,
        at_bound=bounds.names_at_bound(task.layout, last),
        iterations=found.iterations + len(values) * AT_ONCE,
        num_rows=len(pool),
        is_exact=False,
        warnings=(*found.warnings, *notes),
    )


@compiled
def _begun(vector: Array, points: Array, latents: int) -> _State:
    size = points.shape[0]
    precision = jnp.broadcast_to(jnp.eye(size, dtype=points.dtype), (latents, size, size))
    adam = optax.scale_by_adam(b2=0.99).init((vector, points))
    return strong(_State(vector, points, precision, jnp.zeros((latents, size), dtype=points.dtype), adam))


@compiled
def _steps(
    layout: Layout,
    state: _State,
    given: Model,
    prior: AbstractPrior,
    centre: Array,
    width: Array,
    lower: Array,
    upper: Array,
    scale: Array,
    units: Array,
    x: Array,
    y: Array,
    counts: Array,
    places: Array,
    number: Array,
    factor: Array,
) -> tuple[_State, Array]:
    """One step for each batch, and an estimate of the bound at each."""

    def one(state: _State, batch: tuple[Array, Array, Array, Array]) -> tuple[_State, Array]:
        rows, seen, times, place = batch
        roots = jnp.linalg.cholesky(state.precision)
        means = jax.vmap(lambda root, shift: jsl.cho_solve((root, True), shift))(roots, state.shift)

        def loss(v: Array, z: Array) -> tuple[Array, tuple[Array, ...]]:
            return _loss(layout, v, z * units, given, prior, roots, means, rows, seen, times * factor)

        (cost, aux), slopes = jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)(state.vector, state.points)
        psi, offset, mean, slope, curvature = aux
        weight = jnp.maximum(curvature, 0.0)
        target = weight * mean - slope - weight * offset[:, None]
        reach = jnp.maximum(1.0 / (1.0 + place), _SHORTEST)
        eye = jnp.eye(psi.shape[1], dtype=psi.dtype)
        wanted = jax.vmap(lambda w: (psi * w[:, None]).T @ psi + eye, in_axes=1)(weight)
        precision = (1.0 - reach) * state.precision + reach * wanted
        shift = (1.0 - reach) * state.shift + reach * (psi.T @ target).T
        pull = (state.vector - centre) / jnp.square(width)
        gradient = (slopes[0] + pull) * scale, slopes[1]
        updates, adam = optax.scale_by_adam(b2=0.99).update(gradient, state.adam)
        length = _STEP * 0.5 * (1.0 + jnp.cos(jnp.pi * place / number))
        vector = jnp.clip(state.vector - length * updates[0] * scale, lower, upper)
        points = state.points - length * updates[1]
        return _State(vector, points, precision, shift, adam), -cost - _divergence(roots, means)

    return jax.lax.scan(one, state, (x, y, counts, places))


def _divergence(roots: Array, means: Array) -> Array:
    """KL(q, prior), with the Cholesky factors of Λ."""

    def one(root: Array, mean: Array) -> Array:
        inverse = jsl.solve_triangular(root, jnp.eye(root.shape[0], dtype=root.dtype), lower=True)
        log_determinant = 2.0 * jnp.sum(jnp.log(jnp.diagonal(root)))
        return jnp.sum(jnp.square(inverse)) + jnp.sum(jnp.square(mean)) - root.shape[0] + log_determinant

    return 0.5 * jnp.sum(jax.vmap(one)(roots, means))


def _loss(
    layout: Layout,
    vector: Array,
    points: Array,
    given: Model,
    prior: AbstractPrior,
    roots: Array,
    means: Array,
    x: Array,
    y: Array,
    counts: Array,
) -> tuple[Array, tuple[Array, ...]]:
    """Σ E c of a batch for q as it is, with what a natural step needs beside."""
    model = layout.model(vector, given)
    features = whitened_features(rebuilt(prior, model), x, points)
    centre = features.offset[:, None] + features.psi @ means.T
    loads = jax.vmap(lambda root: jsl.solve_triangular(root, features.psi.T, lower=True))(roots)
    variance = features.residual[:, None] + jnp.sum(jnp.square(loads), axis=1).T

    def cost(mean: Array, deviation: Array) -> Array:
        likelihood: AbstractLikelihood = model.likelihood
        return jnp.sum(counts * likelihood.raw_expected_cost_of_each(y, mean, deviation))

    deviation = jnp.sqrt(variance)
    value, (slope, widening) = jax.value_and_grad(cost, argnums=(0, 1))(centre, deviation)
    beside = features.psi, features.offset, centre, slope, widening / deviation
    return value, jax.lax.stop_gradient(beside)
