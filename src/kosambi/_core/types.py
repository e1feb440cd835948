"""Shape aliases, and the letters that name the axes in every annotation.

| letter | meaning                                             |
|--------|-----------------------------------------------------|
| `N`    | data, or any list of inputs                         |
| `D`    | input columns                                       |
| `M`    | inducing points, basis functions, coordinates       |
| `S`    | support points of the measure                       |
| `J`    | draws (particles)                                   |
| `R`    | random frequencies of one draw                      |
| `C`    | latent functions per observation (classes)          |
| `K`    | M·C, all coordinates of one draw                    |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import numpy as np

# What a caller may hand over for numbers: an array, nested lists, a data frame, or a number. The checks in
# `kosambi._core.checks` judge it, with better messages than a type checker has.
ArrayLike: TypeAlias = Any

if TYPE_CHECKING:
    # JAX and NumPy arrays take each other's places everywhere, which static types cannot say; the tests check arrays
    # and their shapes at run time.
    Array: TypeAlias = Any
    Key: TypeAlias = Any
else:
    # Objects at rest hold NumPy arrays; under a trace the same fields hold JAX arrays.
    Array = jax.Array | np.ndarray
    # A typed key (`jax.random.key`) or a raw one (`jax.random.PRNGKey`).
    Key = jax.Array | np.ndarray
