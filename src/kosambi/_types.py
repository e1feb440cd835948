"""Shape aliases, and the letters that name the axes in every annotation.

| letter | meaning                                             |
|--------|-----------------------------------------------------|
| `N`    | data, or any list of inputs                         |
| `D`    | input columns                                       |
| `M`    | inducing points, basis functions, coordinates       |
| `S`    | support points of the measure                       |
| `J`    | draws (particles)                                   |
| `R`    | random frequencies of one draw                      |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    # What a caller may hand over for numbers: arrays, nested lists, data frames, or a number.
    ArrayLike: TypeAlias = npt.ArrayLike | jax.Array
else:
    # The checks in `kosambi.errors` judge these at run time, with better messages than a type checker has.
    ArrayLike = Any

# Objects at rest hold NumPy arrays; under a trace the same fields hold JAX arrays.
Array: TypeAlias = jax.Array | np.ndarray

# A typed key (`jax.random.key`) or a raw one (`jax.random.PRNGKey`).
Key: TypeAlias = jax.Array | np.ndarray
