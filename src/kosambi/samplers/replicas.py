r"""Replicas at T temperatures in C independent chains, all moved together.

Replica k has the density exp(−β_k D(w) − ½|w|²), D being the cost of the data. One iteration is

* a Metropolis-adjusted Langevin step of every replica, in coordinates where the prior is standard normal and the
  curvature of D at the modes is diagonal with entries g: steps are scaled by s = (1 + β_k g)^{-1/2}, and their drift is
  bounded; each eighth is a random walk instead, which leaves places where slopes are so steep that no drift fits. At
  β = 0 every step is so long that it is a fresh draw from the prior;
* if there are any, one of the user's involutions, proposed to the replicas at β = 1;
* swaps of neighbours, of the pairs that begin with an even k and an odd k in turn (non-reversible parallel tempering).

The gradient of D goes along with a replica, so that an iteration takes one gradient for each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from kosambi._core.precision import Module, compiled_loop
from kosambi._core.types import Array, Key
from kosambi.target import Target

TARGET_ACCEPTANCE = 0.6
"""Of the Langevin steps."""
# Values of the latent function that are held at once, before temperatures are handled one after the other.
_VALUES_AT_ONCE = 2**25
_LARGEST_ANGLE = 0.5 * jnp.pi
# Times √K. Beside a pole of the cost, as the squared link has where f = 0 and y > 0, slopes are so steep that every
# proposal would be thrown far out and refused, for ever; a bounded drift is as exact, and leaves.
_LONGEST_DRIFT = 3.0
# Every so many iterations the step has no drift and is shorter: as close to a pole as 1e-5 every drift is too long, and
# only such a step is likely to be accepted.
_WALK_EVERY = 8


class Ladder(Module):
    """What stands still during a run."""

    target: Target
    axes: Float[Array, "K K"]
    """Eigenvectors of the curvature; w = axes·ω."""
    curvature: Float[Array, " K"]
    """Its eigenvalues g, in the cost of the data alone."""
    betas: Float[Array, " T"]

    def cost(self, w: Float[Array, "... K"]) -> tuple[Float[Array, "..."], Float[Array, "... K"]]:
        """D and its gradient, in the coordinates ω."""
        rows = w.reshape(-1, w.shape[-1]) @ self.axes.T
        value, slope = self.target.term.value_and_gradient(rows.reshape(-1, *self.target.shape))
        slope = slope.reshape(rows.shape) @ self.axes
        # Where the cost is infinite there is no slope; such a place is left by a fresh draw or never entered.
        slope = jnp.where(jnp.isfinite(slope), slope, 0.0)
        value = jnp.where(jnp.isnan(value), jnp.inf, value)
        return value.reshape(w.shape[:-1]), slope.reshape(w.shape)

    def costs(self, w: Float[Array, "T C K"]) -> tuple[Float[Array, "T C"], Float[Array, "T C K"]]:
        """The same for all replicas, in one product or temperature by temperature."""
        if self.target.x.shape[0] * w.shape[0] * w.shape[1] <= _VALUES_AT_ONCE:
            return self.cost(w)
        value, slope = jax.lax.map(self.cost, w)
        return value, slope


class Replicas(NamedTuple):
    """The state of all chains."""

    w: Float[Array, "T C K"]
    cost: Float[Array, "T C"]
    slope: Float[Array, "T C K"]
    ascending: Int[Array, "T C"]
    """1 for replicas that were at β = 0 since they were last at β = 1."""
    renewed: Int[Array, "T C"]
    """1 for replicas that were at β = 0 at some time, and so have forgotten where they began."""
    log_angle: Float[Array, " T"]
    iteration: Int[Array, ""]


class Tally(NamedTuple):
    """Sums over iterations, for each chain."""

    steps: Float[Array, ""]
    accepted: Float[Array, "T C"]
    """Steps, with drift or without."""
    divergent: Float[Array, ""]
    """Proposals of theirs whose cost was not finite, where β > 0."""
    refused: Float[Array, " P"]
    """Swaps of the P = T − 1 pairs of neighbours, averaged over chains."""
    arrivals: Float[Array, " C"]
    """Replicas that came to β = 1 from a fresh draw at β = 0."""
    moved: Float[Array, ""]
    """Involutions that were accepted."""
    first: Float[Array, "C L"]
    """Of coordinates and potential at β = 1."""
    second: Float[Array, "C L"]
    """Of their squares."""
    down: Float[Array, "P C"]
    """log Σ exp(−δD/2) at the upper end of each step δ of β, from its lower end β_k."""
    up: Float[Array, "P C"]
    """log Σ exp(+δD/2) at β_{k+1}."""


def start(ladder: Ladder, w: Float[Array, "C K"], log_angle: Float[Array, " T"]) -> Replicas:
    """Every temperature of a chain at its starting point; traceable."""
    number = ladder.betas.shape[0]
    places = jnp.broadcast_to(w @ ladder.axes, (number, *w.shape))
    cost, slope = ladder.costs(places)
    none = jnp.zeros(cost.shape, dtype=int)
    return Replicas(places, cost, slope, none, none, log_angle, jnp.asarray(0))


def empty_tally(ladder: Ladder, num_chains: int) -> Tally:
    """Nothing yet."""
    number, size = ladder.betas.shape[0], ladder.axes.shape[0]
    dtype = ladder.axes.dtype
    pairs = jnp.full((number - 1, num_chains), -jnp.inf, dtype=dtype)
    sums = jnp.zeros((num_chains, size + 1), dtype=dtype)
    zero = jnp.zeros((), dtype=dtype)
    return Tally(
        zero,
        jnp.zeros((number, num_chains), dtype=dtype),
        zero,
        jnp.zeros(number - 1, dtype=dtype),
        jnp.zeros(num_chains, dtype=dtype),
        zero,
        sums,
        sums,
        pairs,
        pairs,
    )


def _tempered(beta: Array, cost: Array, w: Array) -> Array:
    """β D + ½|w|², without 0·∞."""
    return jnp.where(beta > 0, beta * cost, 0.0) + 0.5 * jnp.sum(jnp.square(w), axis=-1)


def _walks(at: Replicas) -> Array:
    """Whether this iteration steps without drift."""
    return at.iteration % _WALK_EVERY == _WALK_EVERY - 1


def _langevin(key: Key, ladder: Ladder, at: Replicas) -> tuple[Replicas, Float[Array, "T C"], Array]:
    key_noise, key_accept = jax.random.split(key)
    beta = ladder.betas[:, None]
    scale = jax.lax.rsqrt(1.0 + ladder.betas[:, None, None] * ladder.curvature)
    angle = jnp.exp(at.log_angle).at[0].set(_LARGEST_ANGLE)[:, None, None]
    walks = _walks(at) & (beta > 0.0)[..., None]
    turn = jnp.where(walks, at.w.shape[-1] ** -0.5, jnp.sin(angle))
    shift = jnp.where(walks, 0.0, 1.0 - jnp.cos(angle))
    noise = jax.random.normal(key_noise, at.w.shape, dtype=at.w.dtype)
    # At the prior a step must stay a fresh draw, wherever it begins.
    longest = jnp.where(beta > 0.0, _LONGEST_DRIFT * at.w.shape[-1] ** 0.5, jnp.inf)[..., None]

    def drift(w: Array, slope: Array) -> Array:
        """In units of `scale`, in which it is as long as a standard normal draw where all is well."""
        step = scale * (beta[..., None] * slope + w)
        length = jnp.linalg.norm(step, axis=-1, keepdims=True)
        return step * jnp.minimum(1.0, longest / jnp.maximum(length, 1e-30))

    w = at.w + scale * (turn * noise - shift * drift(at.w, at.slope))
    cost, slope = ladder.costs(w)
    back = ((at.w - w) / scale + shift * drift(w, slope)) / turn
    ratio = _tempered(beta, at.cost, at.w) - _tempered(beta, cost, w)
    ratio = ratio + 0.5 * jnp.sum((noise - back) * (noise + back), axis=-1)
    # A fresh draw from the prior is always right, whatever rounding says.
    ratio = jnp.where((beta == 0.0) | (jnp.isinf(at.cost) & jnp.isfinite(cost)), 0.0, ratio)
    chance = jnp.where(jnp.isnan(ratio), 0.0, jnp.exp(jnp.minimum(ratio, 0.0)))
    accept = jax.random.uniform(key_accept, chance.shape, dtype=chance.dtype) < chance
    chosen = accept[..., None]
    moved = at._replace(
        w=jnp.where(chosen, w, at.w), cost=jnp.where(accept, cost, at.cost), slope=jnp.where(chosen, slope, at.slope)
    )
    divergent = jnp.sum(~jnp.isfinite(cost) & (beta > 0.0)).astype(w.dtype)
    return moved, chance, divergent


def _swap(key: Key, ladder: Ladder, at: Replicas) -> tuple[Replicas, Float[Array, "P C"]]:
    gaps = jnp.diff(ladder.betas)[:, None]
    ratio = gaps * (at.cost[1:] - at.cost[:-1])
    chance = jnp.where(jnp.isnan(ratio), 0.0, jnp.exp(jnp.minimum(ratio, 0.0)))
    pairs = jnp.arange(chance.shape[0])[:, None]
    uniform = jax.random.uniform(key, chance.shape, dtype=chance.dtype)
    swapped = (uniform < chance) & (pairs % 2 == at.iteration % 2)
    none = jnp.zeros((1, chance.shape[1]), dtype=bool)
    from_above, from_below = jnp.concatenate([swapped, none]), jnp.concatenate([none, swapped])

    def exchanged(values: Array) -> Array:
        shape = (*from_above.shape, *(1,) * (values.ndim - 2))
        above, below = jnp.roll(values, -1, axis=0), jnp.roll(values, 1, axis=0)
        return jnp.where(from_above.reshape(shape), above, jnp.where(from_below.reshape(shape), below, values))

    moved = at._replace(
        w=exchanged(at.w),
        cost=exchanged(at.cost),
        slope=exchanged(at.slope),
        ascending=exchanged(at.ascending),
        renewed=exchanged(at.renewed),
    )
    return moved, 1.0 - chance


def _involution(
    key: Key, ladder: Ladder, at: Replicas, moves: tuple[Callable[[Array], Array], ...]
) -> tuple[Replicas, Array]:
    """One of the user's maps of the coordinates u, each in turn, proposed at β = 1."""
    target = ladder.target

    def mapped(move: Callable[[Array], Array]) -> Callable[[Array], Array]:
        def on_whitened(w: Array) -> Array:
            u = _coloured(target, (w @ ladder.axes.T).reshape(-1, *target.shape))
            return target.whiten(jax.vmap(move)(u)).reshape(w.shape) @ ladder.axes

        return on_whitened

    old = at.w[-1]
    new = jax.lax.switch(at.iteration % len(moves), [mapped(move) for move in moves], old)
    cost, slope = ladder.cost(new)
    ratio = _tempered(jnp.ones(()), at.cost[-1], old) - _tempered(jnp.ones(()), cost, new)
    chance = jnp.where(jnp.isnan(ratio), 0.0, jnp.exp(jnp.minimum(ratio, 0.0)))
    accept = jax.random.uniform(key, chance.shape, dtype=chance.dtype) < chance
    moved = at._replace(
        w=at.w.at[-1].set(jnp.where(accept[:, None], new, old)),
        cost=at.cost.at[-1].set(jnp.where(accept, cost, at.cost[-1])),
        slope=at.slope.at[-1].set(jnp.where(accept[:, None], slope, at.slope[-1])),
    )
    return moved, jnp.mean(accept.astype(ratio.dtype))


def _coloured(target: Target, w: Array) -> Array:
    """u = L w along the axis of coordinates."""
    if len(target.shape) == 1:
        return target.basis.multiply_root(w)
    return jnp.moveaxis(target.basis.multiply_root(jnp.moveaxis(w, 2, 1)), 1, 2)


def _count(
    tally: Tally, ladder: Ladder, at: Replicas, accepted: Array, divergent: Array, refused: Array, moved: Array
) -> Tally:
    arrived = at.ascending[-1] > 0
    values = jnp.concatenate([at.w[-1], (at.cost[-1] + 0.5 * jnp.sum(jnp.square(at.w[-1]), axis=-1))[:, None]], axis=1)
    half = 0.5 * jnp.diff(ladder.betas)[:, None]
    return Tally(
        tally.steps + 1.0,
        tally.accepted + accepted,
        tally.divergent + divergent,
        tally.refused + jnp.mean(refused, axis=1),
        tally.arrivals + arrived,
        tally.moved + moved,
        tally.first + values,
        tally.second + jnp.square(values),
        jnp.logaddexp(tally.down, -half * at.cost[:-1]),
        jnp.logaddexp(tally.up, half * at.cost[1:]),
    )


def _iterate(
    key: Key, ladder: Ladder, at: Replicas, tally: Tally, moves: tuple[Callable[[Array], Array], ...], rate: Array
) -> tuple[Replicas, Tally]:
    key_step, key_move, key_swap = jax.random.split(jax.random.fold_in(key, at.iteration), 3)
    at, accepted, divergent = _langevin(key_step, ladder, at)
    # A walk says nothing about the length of other steps.
    rate = jnp.where(_walks(at), 0.0, rate)
    shortened = at.log_angle + rate * (jnp.mean(accepted, axis=1) - TARGET_ACCEPTANCE)
    at = at._replace(log_angle=jnp.clip(shortened, jnp.log(1e-4), jnp.log(_LARGEST_ANGLE)))
    moved = jnp.zeros((), dtype=at.w.dtype)
    if moves:
        at, moved = _involution(key_move, ladder, at, moves)
    at, refused = _swap(key_swap, ladder, at)
    # A replica that comes to β = 0 by this swap is drawn afresh in the next step.
    at = at._replace(ascending=at.ascending.at[0].set(1), renewed=at.renewed.at[0].set(1), iteration=at.iteration + 1)
    tally = _count(tally, ladder, at, accepted, divergent, refused, moved)
    return at._replace(ascending=at.ascending.at[-1].set(0)), tally


@compiled_loop
def advance(
    moves: tuple[Callable[[Array], Array], ...],
    key: Key,
    ladder: Ladder,
    at: Replicas,
    tally: Tally,
    num_iterations: Int[Array, ""],
    rate: Float[Array, ""],
) -> tuple[Replicas, Tally]:
    """`num_iterations` iterations; the angles are adapted at `rate`, which is 0 for a run that keeps them."""

    def body(_: Array, carry: tuple[Replicas, Tally]) -> tuple[Replicas, Tally]:
        return _iterate(key, ladder, *carry, moves, rate)

    return jax.lax.fori_loop(0, num_iterations, body, (at, tally))
