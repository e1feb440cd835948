"""Running a sampler without a decision at the end of a step: segments of its loop, and what its path says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from kosambi._core.journal import Arrays, Steps
from kosambi._core.precision import at_rest
from kosambi._core.progress import Clock, Interruption, Progress
from kosambi._core.types import Array, Key
from kosambi.samplers.convergence import from_variances
from kosambi.samplers.segments import MAX_BLOCKS, AbstractDynamics, Path, advance

SEGMENT_SECONDS = 0.5
NUM_GROUPS = 8


class Advanced(NamedTuple):
    """A path at its end, at rest, and energies on the way."""

    path: Path
    energies: Float[np.ndarray, " T"]
    times: Int[np.ndarray, " T"]


class _Way:
    """The particles at present, for a journal."""

    def __init__(self, path: Any) -> None:
        self.path, self.seconds_per_block = path, np.inf

    def memory(self) -> list[Array]:
        return jax.tree.leaves(self.path)

    def recall(self, memory: Arrays) -> None:
        self.path = jax.tree.unflatten(jax.tree.structure(self.path), memory)


def advanced(
    dynamics: AbstractDynamics,
    key: Key,
    path: Path,
    step_size: float,
    num_steps: int,
    progress: Progress,
    stop: Interruption,
    check: Callable[[Array, int], None],
) -> Advanced:
    """`num_steps` steps in compiled segments, fewer after an interruption.

    Arguments:
        dynamics: how particles move, on the device.
        key: numbers the random keys of blocks.
        path: where they begin.
        step_size: of every step.
        num_steps: of the run.
        progress: is told.
        stop: catches Ctrl-C.
        check: is given the energies of a segment and the steps so far, and may raise.
    """
    way = _Way(path)
    scale = np.asarray(step_size, dtype=path.position.dtype)
    energies, times = [np.asarray(path.energies, dtype=np.float64)[:1]], [np.zeros(1)]
    steps, done, blocks = Steps("segment", way), 0, 1
    with stop:
        while done < num_steps:

            def compute(number: int = blocks) -> tuple[Any, ...]:
                segment = Clock()
                path = advance(dynamics, key, way.path, scale, np.asarray(num_steps), np.asarray(number))
                way.path, count = path, int(path.blocks)
                way.seconds_per_block = min(way.seconds_per_block, segment.seconds / max(count, 1))
                return np.asarray(path.energies, dtype=np.float64)[:count], np.asarray(path.times)[:count], path.step

            energy, time, step = steps.next(compute, done)
            done = int(step)
            energies.append(energy)
            times.append(time)
            check(energy, done)
            blocks = int(np.clip(SEGMENT_SECONDS / way.seconds_per_block, 1, MAX_BLOCKS))
            progress.update("diffusing", done, num_steps, f"energy {energy[-1]:.4g}")
    return Advanced(at_rest(way.path), np.concatenate(energies), np.concatenate(times))


def r_hats_of(path: Path, order: Int[np.ndarray, "J Q"]) -> tuple[Float[np.ndarray, " Q"], float]:
    """Nested R̂ over the second half of the run, and the effective number of draws in it.

    `order` has for each quantity the particles of the first superchain, those of the second, and so on.
    """
    size = len(order) // NUM_GROUPS
    counts = np.asarray(path.counts, dtype=np.float64)
    if size < 2 or counts.min() < 2:
        return np.full(order.shape[1], np.inf), 0.0
    means = np.asarray(path.sums, dtype=np.float64) / counts[:, None, None]
    squares = np.asarray(path.squares, dtype=np.float64) / counts[:, None, None]
    order = order[: size * NUM_GROUPS]

    def grouped(values: Array) -> Array:
        parts = np.take_along_axis(values, order[None], axis=1)
        return parts.reshape(2, NUM_GROUPS, size, -1).mean(axis=2).reshape(2 * NUM_GROUPS, -1)

    group_means = grouped(means)
    within = (grouped(squares) - group_means**2).mean(axis=0)
    between = group_means.var(axis=0, ddof=1)
    whole = (means * counts[:, None, None]).sum(axis=0) / counts.sum()
    variance = (squares * counts[:, None, None]).sum(axis=0).mean(axis=0) / counts.sum() - whole.mean(axis=0) ** 2
    tau = np.maximum(counts.sum() * whole.var(axis=0, ddof=1) / np.maximum(variance, 1e-300), 1.0)
    return from_variances(between, within), float(len(path.position) * counts.sum() / tau.max())
