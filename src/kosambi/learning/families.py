"""Which family of kernels suits the data: Matérn-3/2, Matérn-5/2 or the squared exponential, by their evidence.

How smooth a function is decides how far its observations reach, and is seen by few rows. The families are compared on
the rows that a search begins with, each from where the first ended, and the one with the highest evidence goes
on. One kernel whose family is an array stands for all three, so that whatever is compiled serves each of them.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.precision import with_fields
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.errors import InputError
from kosambi.kernels import AbstractKernel, AbstractRadial, Matern32, Matern52, SquaredExponential
from kosambi.learning.layout import Model

FAMILIES: tuple[type[AbstractRadial], ...] = (Matern52, Matern32, SquaredExponential)
"""In the order in which they are tried."""
STRETCHES = (1.0, 1.2, 0.75)
"""About how long the lengthscales of each are for the same data. From those of a rougher family the squared exponential
would look too smooth at first, and a short search would end before it has caught up."""
ROWS = 512
"""Rows, at most, that families are compared on."""


_CORRELATIONS = tuple(family(1.0, 1.0, active_dims=None).correlation for family in FAMILIES)


class AnyFamily(AbstractRadial):
    """A kernel of one of the `FAMILIES`; which one is an array, so that no other program is compiled for another."""

    family: Array
    """Its number among them."""

    def __init__(
        self, lengthscale: ArrayLike = 1.0, variance: ArrayLike = 1.0, *, active_dims: Any = None, family: int = 0
    ) -> None:
        super().__init__(lengthscale, variance, active_dims=active_dims)
        self.family = np.asarray(family)

    @classmethod
    def of(cls, kernel: AbstractKernel) -> AnyFamily:
        """With the parameters of a kernel of one of the families."""
        if not isinstance(kernel, AbstractRadial) or type(kernel) not in FAMILIES:
            names = ", ".join(f"`{family.__name__}`" for family in FAMILIES)
            raise InputError(
                f"`choose_family=True` chooses between {names}, so the kernel must be one of them. Got "
                f"`{type(kernel).__name__}`. Leave it out to keep the kernel."
            )
        number = FAMILIES.index(type(kernel))
        return cls(kernel.lengthscale, kernel.variance, active_dims=kernel.active_dims, family=number)

    def concrete(self) -> AbstractRadial:
        """The kernel that this one is."""
        return FAMILIES[int(self.family)](self.lengthscale, self.variance, active_dims=self.active_dims)

    def correlation(self, s: Float[Array, "..."]) -> Float[Array, "..."]:
        """That of the family; only one of the branches runs."""
        return jax.lax.switch(jnp.asarray(self.family), _CORRELATIONS, s)

    def spectral_scales(self, key: Key, num_frequencies: int) -> Float[Array, " R"]:
        """Not needed where hyperparameters are learned."""
        raise NotImplementedError


def with_family(model: Model, number: int) -> Model:
    """The model with the same numbers and another family."""
    return model._replace(kernel=with_fields(model.kernel, family=np.asarray(number)))


def without_choice(kernel: AbstractKernel) -> AbstractKernel:
    """The kernel itself, where a search has chosen its family."""
    return kernel.concrete() if isinstance(kernel, AnyFamily) else kernel
