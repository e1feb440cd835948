r"""Langevin steps with gradients of some rows, around the mode of all of them.

In the frame of the mode, w = ŵ + A v, with δ_n = ψ_nᵀA v the change of a latent value and h_n ≥ 0 the curvature of its
cost at the mode, the gradient of V is

    ∇V(v) = Aᵀŵ + (AᵀA + G) v + Σ_n [c'_n(f̂_n + δ_n) − h_n δ_n] Aᵀψ_n,   G = Σ_n h_n Aᵀψ_nψ_nᵀA.

The sum is estimated from a batch S of rows with its value at the mode, which is known of all rows, as control variate
(Baker et al. 2019; BlackJAX's `control_variates`):

    Σ_n c'_n(f̂_n) Aᵀψ_n + B Σ_{n∈S} [c'_n(f̂_n + δ_n) − c'_n(f̂_n) − h_n δ_n] Aᵀψ_n,   B batches to a pass.

Since what is linear in v is exact, the bracket is of second order in δ: next to the mode a batch says as much as all
rows. A step solves the linear part of the Langevin equation exactly, as `kosambi.samplers.mala` does,

    v' = cos θ · v − (1 − cos θ) ∇Û(v) + sin θ · ξ,   ∇Û = ∇V̂ − v,

and is not accepted or refused. Noise of variance s² in the gradient adds tan²(θ/2) s² to a stationary variance of one.

Rows are shuffled once and cut into batches. Particles of a group, a part of a superchain, take the same one at a step,
so that a step is two matrix-matrix products for each group; different groups take different ones.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.precision import compiled, host_generator
from kosambi._core.types import Array, Key
from kosambi.likelihoods import AbstractLikelihood
from kosambi.likelihoods.quadrature import Rule
from kosambi.samplers.remainder import costs_and_slopes
from kosambi.samplers.segments import AbstractDynamics, Path, path_at
from kosambi.samplers.starts import NUM_SUPERCHAINS
from kosambi.target.data_terms import FactorisedTerm, largest_slope
from kosambi.target.modes import Modes

# Steps between two looks at the particles.
_BLOCK = 16
# Particles of a group at least, where there are as many, and numbers of all groups' batches at most.
_GROUP, _MOST_NUMBERS = 64, 2**26
# Batches of each group that the noise of a gradient is known from.
_LOOKS = 16


class Batch(NamedTuple):
    """Rows of one batch, or of several with an axis more in front."""

    psi: Float[Array, "*B R K"]
    """ψ_nᵀA."""
    y: Float[Array, "*B R"]
    centre: Float[Array, "*B R"]
    """f̂, the latent values at the mode."""
    weights: Float[Array, "*B R"] | None
    deviation: Float[Array, "*B R"] | None
    curvature: Float[Array, "*B R"]
    """h, with weights."""


class MiniBatches(AbstractDynamics):
    """Steps in the coordinates v, J of them at once, for one latent function."""

    likelihood: AbstractLikelihood
    rule: Rule | None
    batches: Batch
    at_mode: Float[Array, " K"]
    """Σ_n c'_n(f̂_n) Aᵀψ_n."""
    pull: Float[Array, " K"]
    """Aᵀŵ."""
    linear: Float[Array, "K K"]
    """AᵀA + G − I; zero but for rounding where h is the curvature that A was made with."""
    mode: Float[Array, " K"]
    root: Float[Array, "K K"]
    lowest: Float[Array, ""]

    def moved(self, key: Key, a: Array, noise: Array, step_size: Array) -> Array:
        """One step by the angle θ."""
        turn, rest = jnp.sin(step_size), jnp.cos(step_size)
        return rest * a - (1.0 - rest) * self.remainder(key, a) + turn * noise

    def remainder(self, key: Key, v: Float[Array, "J K"]) -> Float[Array, "J K"]:
        """∇Û(v), each group with a batch of its own; traceable."""
        # Imported here because BlackJAX takes as long to import as the rest.
        from blackjax.sgmcmc.gradients import control_variates

        number, size = len(self.batches.y), v.shape[1]
        estimate = control_variates(self._estimate, jnp.zeros((1, size), v.dtype), None)
        num_groups = groups_of(len(v), self.batches.y.shape[-1] * size)
        groups = jnp.swapaxes(v.reshape(-1, NUM_SUPERCHAINS, size), 0, 1).reshape(num_groups, -1, size)
        which = jax.random.randint(key, (num_groups,), 0, number)
        found = jax.vmap(estimate)(groups, jax.tree.map(lambda array: array[which], self.batches))
        found = jnp.swapaxes(found.reshape(NUM_SUPERCHAINS, -1, size), 0, 1)
        return self.pull + v @ self.linear + found.reshape(v.shape)

    def _estimate(self, v: Float[Array, "J K"], batch: Batch | None) -> Array:
        """The sum over rows from a batch of them; of all rows at the mode, where there is none."""
        if batch is None:
            return self.at_mode
        change = v @ batch.psi.T
        _, slope = costs_and_slopes(self.likelihood, self.rule, batch, batch.centre + change)
        left = slope - batch.curvature * change
        limit = largest_slope(left.dtype)
        return float(len(self.batches.y)) * (jnp.clip(left, -limit, limit) @ batch.psi)

    def potential(self, a: Array) -> Float[Array, " J"]:
        """By Laplace's approximation: V itself would take all rows."""
        return self.lowest + 0.5 * jnp.sum(jnp.square(a), axis=1)

    def watched(self, a: Array) -> Float[Array, "J K"]:
        """w = ŵ + A v."""
        return self.mode + a @ self.root.T

    def block_length(self, shape: tuple[int, ...]) -> int:
        """Short, since a run is."""
        del shape
        return _BLOCK

    def products(self, shape: tuple[int, ...]) -> int:
        """R·J·K."""
        return int(self.batches.y.shape[-1] * np.prod(shape))


def groups_of(num_particles: int, numbers: int) -> int:
    """How many groups share a batch each, of so many `numbers`: parts of equal size of eight superchains.

    >>> groups_of(64, 1000), groups_of(8000, 1000), groups_of(8000, 10**7)
    (8, 80, 8)
    """
    size = num_particles // NUM_SUPERCHAINS
    most = min(size // _GROUP, _MOST_NUMBERS // (NUM_SUPERCHAINS * max(1, numbers)))
    return NUM_SUPERCHAINS * max((k for k in range(1, most + 1) if size % k == 0), default=1)


def mini_batches(key: Key, term: FactorisedTerm, modes: Modes, batch_size: int) -> MiniBatches:
    """The dynamics of a sum over rows around its most probable mode, rows in batches of at most `batch_size`."""
    num_rows = len(term.y)
    number = math.ceil(num_rows / batch_size)
    height = math.ceil(num_rows / number)
    order = host_generator(key).permutation(num_rows)
    missing = number * height - num_rows
    weights = term.weights
    if missing and weights is None:
        weights = np.ones(num_rows)

    def placed(array: Any, empty: bool = False) -> Any:
        if array is None:
            return None
        array = np.asarray(array)[order]
        # Rows that are missing are like the first one, and count for nothing.
        extra = np.repeat(np.zeros_like(array[:1]) if empty else array[:1], missing, axis=0)
        return np.concatenate([array, extra]).reshape(number, height, *array.shape[1:])

    rows = (placed(term.psi), placed(term.y), placed(term.offset), placed(weights, empty=True), placed(term.deviation))
    settings = (modes.positions[0], modes.roots[0], np.asarray(modes.potentials[0]))
    return _around_mode(term.likelihood, term.rule, rows, *settings)


@compiled
def _around_mode(
    likelihood: AbstractLikelihood,
    rule: Rule | None,
    rows: tuple[Any, ...],
    mode: Float[Array, " K"],
    root: Float[Array, "K K"],
    lowest: Float[Array, ""],
) -> MiniBatches:
    psi, y, offset, weights, deviation = rows
    centre = offset + psi @ mode
    if rule is None:
        curvature = likelihood.raw_curvature(y, centre)
    else:
        curvature = likelihood.raw_expected_curvature(y, centre, deviation, rule)
    curvature = jnp.minimum(curvature, largest_slope(y.dtype)) * (1.0 if weights is None else weights)
    batches = Batch(psi @ root, y, centre, weights, deviation, curvature)
    flat = jax.tree.map(lambda array: array.reshape(-1, *array.shape[2:]), batches)
    slope = costs_and_slopes(likelihood, rule, flat, flat.centre[None])[1][0]
    normal = (flat.psi * flat.curvature[:, None]).T @ flat.psi
    linear = root.T @ root + normal - jnp.eye(len(mode), dtype=mode.dtype)
    return MiniBatches(
        likelihood, rule, batches, slope @ flat.psi, mode @ root, linear, mode, root, lowest.astype(mode.dtype)
    )


@compiled
def begin(dynamics: MiniBatches, v: Float[Array, "J K"]) -> Path:
    """The path before the first step."""
    return path_at(dynamics, v)


@compiled
def gradient_noise(dynamics: MiniBatches, key: Key, v: Float[Array, "J K"]) -> Float[Array, " K"]:
    """s², the variance of a gradient over batches, of each coordinate, in the mean over the points v."""

    def look(key: Array) -> Array:
        return dynamics.remainder(key, v)

    found = jax.lax.map(look, jax.random.split(key, _LOOKS))
    return jnp.mean(jnp.var(found, axis=0, ddof=1), axis=0)
