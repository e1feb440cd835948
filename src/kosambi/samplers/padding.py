r"""Coordinates that the data say nothing of, so that programs for one number of coordinates serve several.

The loop of a sampler takes seconds to compile for each number K = M·C of coordinates. So M is rounded up to one of a
few sizes. What is added multiplies columns of zeros, hence is standard normal, independent of all else, and its steps
are always accepted: the distribution of the others is what it was. Random numbers are drawn for all of them, so the
draws for a given key depend on the size that M is rounded up to.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from kosambi._core.buckets import bucket
from kosambi._core.precision import host_generator, with_fields
from kosambi._core.types import Array, Key
from kosambi.target import QuadraticTerm, Target
from kosambi.target.modes import Frame, Modes

SMALLEST = 8
"""Coordinates of one latent function, at least, that a loop is compiled for."""


def padded_frame(target: Target, modes: Modes) -> Frame:
    """V around the most probable mode, with coordinates added behind those of the target."""
    size, *latents = target.shape
    more = bucket(size, SMALLEST) - size
    mode, root, lowest = modes.positions[0], modes.roots[0], np.asarray(modes.potentials[0])
    if not more:
        return Frame(target.term, target.shape, mode, root, lowest)
    name = "root" if isinstance(target.term, QuadraticTerm) else "psi"
    wide = np.pad(np.asarray(getattr(target.term, name)), ((0, 0), (0, more)))
    extra = more * int(np.prod(latents))
    below = np.pad(root, ((0, extra), (0, extra)))
    last = np.arange(len(root), len(below))
    below[last, last] = 1.0
    return Frame(
        with_fields(target.term, **{name: wide}), (size + more, *latents), np.pad(mode, (0, extra)), below, lowest
    )


def padded_start(key: Key, w: Float[Array, "J K"], frame: Frame) -> Float[np.ndarray, "J L"]:
    """Starts with standard normal numbers in the coordinates that were added."""
    extra = len(frame.mode) - w.shape[1]
    if not extra:
        return np.asarray(w)
    return np.concatenate([w, host_generator(key).normal(size=(len(w), extra))], axis=1)
