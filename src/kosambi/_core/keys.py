"""Random keys split on the host: the same keys as `jax.random.split`, and nothing is compiled for them.

JAX compiles a program for each number of keys, and another to take them apart, before the first random number of a
process is drawn. Its usual generator, Threefry-2x32 (Salmon, Moraes, Dror and Shaw 2011), takes a few lines of NumPy.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from kosambi._core.checks import is_traced
from kosambi._core.types import Key

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)


def split(key: Key, number: int) -> tuple[Key, ...]:
    """`number` independent keys, those that `jax.random.split(key, number)` gives.

    >>> import jax
    >>> first, second = split(jax.random.key(0), 2)
    >>> bool(first == jax.random.split(jax.random.key(0))[0])
    True
    """
    is_typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    is_usual = jax.config.jax_threefry_partitionable and not is_traced(key)  # type: ignore[attr-defined]
    if not is_usual or str(jax.random.key_impl(key)) != "threefry2x32":
        return tuple(jax.random.split(key, number))
    words = np.asarray(jax.random.key_data(key) if is_typed else key)
    counts = np.arange(number, dtype=np.uint32)
    data = np.stack(_threefry(words, np.zeros_like(counts), counts), axis=-1)
    if is_typed:
        return tuple(jax.random.wrap_key_data(jnp.asarray(row), impl="threefry2x32") for row in data)
    return tuple(jnp.asarray(row) for row in data)


def _threefry(words: np.ndarray, high: np.ndarray, low: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Twenty rounds of Threefry-2x32 on pairs of 32-bit numbers."""
    schedule = (words[0], words[1], words[0] ^ words[1] ^ _PARITY)
    high, low = high + schedule[0], low + schedule[1]
    for group in range(5):
        for turn in _ROTATIONS[group % 2]:
            high = high + low
            low = ((low << np.uint32(turn)) | (low >> np.uint32(32 - turn))) ^ high
        high = high + schedule[(group + 1) % 3]
        low = low + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return high, low
