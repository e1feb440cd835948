"""Any likelihood by writing its cost: of one observation (`Custom`), or of all of them together (`CustomJoint`)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.types import Array, ArrayLike
from kosambi.errors import InputError
from kosambi.likelihoods.base import AbstractLikelihood
from kosambi.likelihoods.specification import as_observations

# Where a custom cost is probed for differentiability.
_PROBES = np.array([-2.3, -0.7, 0.3, 1.1, 2.9])


class Custom(AbstractLikelihood):
    """A cost of your own: a JAX function of one observation y and one value f.

    Arguments:
        cost: maps two numbers to a number; written with `jax.numpy`, differentiable in f.
        is_density: whether exp(−cost) is a normalised density of y, so that log densities make sense.
        is_convex: whether the cost is convex in f for every y.
        name: what files call it; `kosambi.save` stores no code, and `kosambi.load` gets `custom={name: cost}`.

    >>> import jax.numpy as jnp, kosambi as ko
    >>> log_cosh = ko.likelihoods.Custom(lambda y, f: jnp.log(jnp.cosh(y - f)))
    >>> log_cosh.derivative([0.0], [1.0]).round(6)
    array([0.761594])
    """

    argument_fields: ClassVar[Mapping[str, str]] = {"cost": "function"}

    declared_density: bool = eqx.field(static=True)
    declared_convex: bool = eqx.field(static=True)
    function: Callable[[Array, Array], Array] = eqx.field(static=True)
    name: str | None = eqx.field(static=True)

    def __init__(
        self,
        cost: Callable[[Array, Array], Array],
        *,
        is_density: bool = False,
        is_convex: bool = False,
        name: str | None = None,
    ) -> None:
        if not callable(cost):
            raise InputError(f"`Custom` needs a function cost(y, f). Got {type(cost).__name__}.")
        self.function = cost
        self.declared_density, self.declared_convex = bool(is_density), bool(is_convex)
        self.name = _as_name("Custom", name)

    @property
    def is_convex(self) -> bool:
        return self.declared_convex

    @property
    def is_density(self) -> bool:
        return self.declared_density

    def check(self, y: ArrayLike) -> Float[Array, " N"]:
        """Finite numbers, for which the cost must be a differentiable number."""
        array = as_observations("Custom", y)
        check_cost(self.function, float(np.asarray(array)[0]))
        return array

    def raw_cost(self, y: Array, f: Array) -> Array:
        return jnp.vectorize(self.function)(y, f)


def check_cost(function: Callable[[Array, Array], Array], y: float) -> None:
    """Refuse a function that does not give a number, or that JAX cannot differentiate in f."""
    f = jnp.asarray(_PROBES)
    try:
        shape = jax.eval_shape(function, jnp.asarray(y), f[0])
    except Exception as error:
        raise InputError(
            f"`Custom(cost)` could not be traced by JAX: {type(error).__name__}. Write it with `jax.numpy` instead of "
            "`numpy` or `math`, and use `jnp.where` in place of `if`."
        ) from error
    if getattr(shape, "shape", None) != ():
        raise InputError(
            f"`Custom(cost)` must return one number for one y and one f. It returned shape "
            f"{getattr(shape, 'shape', type(shape).__name__)}. For a loss of all of them together use `CustomJoint`."
        )
    if not jnp.issubdtype(shape.dtype, jnp.floating):
        raise InputError(
            f"`Custom(cost)` must return a real number. It returned {shape.dtype}, which has no derivative."
        )
    # Numbers also inside somebody else's trace.
    with jax.ensure_compile_time_eval():
        values = jax.vmap(function, (None, 0))(jnp.asarray(y), jnp.asarray(_PROBES))
        slopes = jax.vmap(jax.grad(function, argnums=1), (None, 0))(jnp.asarray(y), jnp.asarray(_PROBES))
    finite = np.isfinite(np.asarray(values))
    flat = np.all(np.asarray(slopes) == 0) and np.unique(np.asarray(values)[finite]).size > 1
    if flat or np.any(np.isnan(np.asarray(slopes)[finite])):
        raise InputError(
            "`Custom(cost)` is not differentiable in f: its derivative is "
            f"{'zero everywhere although the cost changes' if flat else 'NaN'}. Rounding, comparisons and `jnp.where` "
            "around an infinite branch do that; use a smooth function."
        )


class CustomJoint(AbstractLikelihood):
    """A loss of the whole vector f(x_1), …, f(x_N) that does not split over data (the paper's general case).

    Arguments:
        loss: maps (y, f), each (N,), to a number, or f alone to a number.
        is_convex: whether the loss is convex in f.
        name: what files call it; `kosambi.save` stores no code, and `kosambi.load` gets `custom={name: loss}`.

    >>> import jax.numpy as jnp, kosambi as ko
    >>> joint = ko.likelihoods.CustomJoint(lambda y, f: jnp.max(jnp.abs(y - f)))
    >>> joint.num_latents
    1
    """

    argument_fields: ClassVar[Mapping[str, str]] = {"loss": "function"}

    declared_convex: bool = eqx.field(static=True)
    function: Callable[..., Array] = eqx.field(static=True)
    name: str | None = eqx.field(static=True)

    def __init__(self, loss: Callable[..., Array], *, is_convex: bool = False, name: str | None = None) -> None:
        if not callable(loss):
            raise InputError(f"`CustomJoint` needs a function loss(y, f). Got {type(loss).__name__}.")
        self.function, self.declared_convex = loss, bool(is_convex)
        self.name = _as_name("CustomJoint", name)

    @property
    def is_convex(self) -> bool:
        return self.declared_convex

    @property
    def is_density(self) -> bool:
        return False

    @property
    def takes_observations(self) -> bool:
        """Whether the loss has y as its first argument."""
        return len(inspect.signature(self.function).parameters) > 1

    def check(self, y: ArrayLike) -> Float[Array, " N"]:
        """Finite numbers, for which the loss must be a number."""
        array = as_observations("CustomJoint", y)
        vector = np.zeros(np.shape(array))
        shape = jax.eval_shape(self.loss, vector, vector)
        if getattr(shape, "shape", None) != ():
            raise InputError(
                f"`CustomJoint(loss)` must return one number. It returned {getattr(shape, 'shape', shape)}. "
                "Sum over the observations, or use `Custom` for a cost of one observation."
            )
        return array

    def loss(self, y: Array, f: Array) -> Any:
        """ℓ_N(f) for one vector f, (N,); traceable."""
        return self.function(y, f) if self.takes_observations else self.function(f)

    def raw_cost(self, y: Array, f: Array) -> Array:
        raise InputError("`CustomJoint` has no cost of one observation, only `loss(y, f)` of all of them together.")


def _as_name(owner: str, name: object) -> str | None:
    if name is not None and not (isinstance(name, str) and name):
        raise InputError(f"`{owner}(name=...)` must be a text that is not empty. Got {name!r}.")
    return name
