"""What all acquisition functions have in common: a value for each input, and a score that is climbed."""

from __future__ import annotations

import abc

import equinox as eqx
from jaxtyping import Float

from kosambi._core.checks import as_inputs
from kosambi._core.precision import Module, compiled, public
from kosambi._core.types import Array, ArrayLike


class AbstractAcquisition(Module):
    """How much an observation at x is worth: `acquisition(x)` gives (n,) for inputs (n, D).

    A pytree: differentiable in x, under `jit` and `vmap`, and one program for all data of the same shapes.
    """

    incumbent: eqx.AbstractVar[Float[Array, "T D"]]
    """Inputs near which `maximize` looks more closely, as many as there are."""

    @abc.abstractmethod
    def value(self, x: Float[Array, "n D"]) -> Float[Array, " n"]:
        """The values at the rows of `x`, traceable, for checked inputs."""

    def score(self, x: Float[Array, "n D"]) -> Float[Array, " n"]:
        """What is climbed, traceable: the value, or an increasing function of it that is easier to climb."""
        return self.value(x)

    @public
    def __call__(self, x: ArrayLike) -> Float[Array, " n"]:
        """The values at the rows of `x` (n, D)."""
        return _value(self, as_inputs("x", x, self.incumbent.shape[1]))


@compiled
def _value(acquisition: AbstractAcquisition, x: Array) -> Array:
    return acquisition.value(x)
