"""What `precision=` of `sample` means: the type of the numbers that steps are made with, and digits of their products.

    "float64"    float64; products with ψ in float32 where V was found to be right to 0.01 nats with them
    "float32"    float32, products with all its digits on every device, sums of V over rows in float64
    "tf32"       the same, products as JAX makes them by default: on NVIDIA's tensor cores from 11 bits of each factor

On a CPU the last two are the same. The search for the mode is in float64 with all of them.
"""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

import jax
import numpy as np

from kosambi.errors import InputError


class Precision(NamedTuple):
    """One of the three."""

    name: str
    dtype: Any
    products: str
    """Of two float32 matrices: "highest" for all digits, "default" for as many as are fast."""

    @property
    def is_double(self) -> bool:
        """Whether particles are in float64."""
        return bool(self.dtype == np.float64)

    def entered(self) -> contextlib.AbstractContextManager[Any]:
        """Products that are compiled inside have these digits, whatever JAX's own default says."""
        # JAX knows a program by this setting too, so what float64 has compiled before stays as it is.
        return contextlib.nullcontext() if self.is_double else jax.default_matmul_precision(self.products)


DOUBLE = Precision("float64", np.float64, "highest")
PRECISIONS = {
    "float64": DOUBLE,
    "float32": Precision("float32", np.float32, "highest"),
    "tf32": Precision("tf32", np.float32, "default"),
}


def as_precision(name: object) -> Precision:
    """The precision of that name.

    >>> as_precision("tf32").products
    'default'
    """
    if not isinstance(name, str) or name not in PRECISIONS:
        raise InputError(f'`precision` must be "float64", "float32" or "tf32". Got {name!r}.')
    return PRECISIONS[name]
