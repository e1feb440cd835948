"""The compiled loop of samplers without a decision at the end of a step, with its noise drawn in blocks of steps."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from kosambi._core.precision import Module, compiled_loop, strong
from kosambi._core.types import Array, Key

MAX_BLOCKS = 256
"""Blocks whose energies one compiled segment can hold."""
# Steps of an accelerator's loop that follow each other without a look at a counter, where a step has less to multiply
# than this many numbers: launching what a step consists of takes longer than the step.
_UNROLLED, _SMALL = 16, 2**26


class AbstractDynamics(Module):
    """What moves particles a, all of them at once, without a decision at the end of a step."""

    @abc.abstractmethod
    def moved(self, key: Key, a: Array, noise: Array, step_size: Array) -> Array:
        """One step with the given standard normal noise; traceable. `key` is for whatever else is random."""

    @abc.abstractmethod
    def potential(self, a: Array) -> Float[Array, " J"]:
        """What the energy of a run is the mean of; traceable."""

    @abc.abstractmethod
    def watched(self, a: Array) -> Float[Array, "J K"]:
        """The whitened coordinates, flattened; traceable."""

    @abc.abstractmethod
    def block_length(self, shape: tuple[int, ...]) -> int:
        """Steps between two looks at the particles."""

    @abc.abstractmethod
    def products(self, shape: tuple[int, ...]) -> int:
        """About how many pairs of numbers a step multiplies."""


class Path(NamedTuple):
    """Where the particles are, and what the report needs of how they came there."""

    position: Array
    first_potential: Float[Array, " J"]
    step: Int[Array, ""]
    sums: Float[Array, "2 J Q"]
    squares: Float[Array, "2 J Q"]
    counts: Int[Array, " 2"]
    """Snapshots of whitened coordinates and potential in the third and the last quarter of the run."""
    blocks: Int[Array, ""]
    energies: Float[Array, " B"]
    times: Int[Array, " B"]


def path_at(dynamics: AbstractDynamics, a: Array) -> Path:
    """The path before the first step; traceable."""
    potential = dynamics.potential(a)
    none = jnp.zeros((2, a.shape[0], int(np.prod(a.shape[1:])) + 1), dtype=a.dtype)
    energies = jnp.zeros(MAX_BLOCKS, dtype=a.dtype).at[0].set(jnp.mean(potential))
    zero = jnp.asarray(0)
    times = jnp.zeros(MAX_BLOCKS, int)
    return strong(Path(a, potential, zero, none, none, jnp.zeros(2, dtype=int), zero, energies, times))


@compiled_loop
def advance(
    dynamics: AbstractDynamics,
    key: Key,
    path: Path,
    step_size: Array,
    num_steps: Int[Array, ""],
    max_blocks: Int[Array, ""],
) -> Path:
    """Up to `max_blocks` blocks of steps, ending at `num_steps` or when something is not finite."""
    shape = path.position.shape
    length = dynamics.block_length(shape)

    def one_block(path: Path) -> Path:
        # Numbered by its first step, so each block of a run has a key of its own.
        block_key = jax.random.fold_in(key, path.step)
        # Flat, because the generator is compiled for long rows; and finished before the steps begin.
        # In float32 also for float64 runs, at half the cost: its steps of 1e-7 and its end at 5.3 deviations are
        # nothing beside the scheme's own bias.
        flat = jax.random.normal(block_key, (length * path.position.size,), dtype=jnp.float32)
        noise = jax.lax.optimization_barrier(flat.reshape(length, *shape))  # type: ignore[no-untyped-call]
        count = jnp.minimum(length, num_steps - path.step)

        def one(i: Array, a: Array) -> Array:
            # The block's own key has made its noise, so this is another one.
            return dynamics.moved(jax.random.fold_in(block_key, i), a, noise[i].astype(a.dtype), step_size)

        a = repeated(one, count, length, path.position, unroll(dynamics.products(shape)))
        potential = dynamics.potential(a)
        step = path.step + count
        snapshot = jnp.concatenate([dynamics.watched(a), potential[:, None]], axis=1)
        # Quarter 2 and 3 of 0 to 3.
        quarter = jnp.stack([4 * step > 2 * num_steps, 4 * step > 3 * num_steps])
        here = jnp.stack([quarter[0] & ~quarter[1], quarter[1]])
        part = here[:, None, None] * snapshot
        return Path(
            a,
            path.first_potential,
            step,
            path.sums + part,
            path.squares + part * snapshot,
            path.counts + here,
            path.blocks + 1,
            path.energies.at[path.blocks].set(jnp.mean(potential)),
            path.times.at[path.blocks].set(step),
        )

    def going_on(path: Path) -> Array:
        last = path.energies[jnp.maximum(path.blocks - 1, 0)]
        return (path.step < num_steps) & (path.blocks < max_blocks) & jnp.isfinite(last)

    return strong(jax.lax.while_loop(going_on, one_block, path._replace(blocks=jnp.asarray(0))))


def unroll(products: int) -> int | None:
    """Steps of one turn of a loop whose length is known; None for a CPU, where a loop may end early."""
    if jax.default_backend() == "cpu":
        return None
    return _UNROLLED if products <= _SMALL else 1


def repeated(
    one: Callable[[Array, Array], Array], count: Int[Array, ""], length: int, a: Array, unrolled: int | None
) -> Array:
    """`count` of `length` steps; traceable.

    Where the number of turns is not known when a loop is compiled, an accelerator's host asks after each of them
    whether there is another, which takes longer than a small step. So all are made there, and those after `count` are
    not kept.
    """
    if unrolled is None:
        return jax.lax.fori_loop(0, count, one, a)

    def turn(a: Array, i: Array) -> tuple[Array, None]:
        return jnp.where(i < count, one(i, a), a), None

    return jax.lax.scan(turn, a, jnp.arange(length), unroll=min(unrolled, length))[0]
