r"""The first half of the likelihood contract: a cost c(y, f) for one datum, its derivatives and its expectations.

Anything that is a function of an observation y and the value f of the latent function (or of C latent functions) at its
input can be a likelihood: implement `raw_cost` in plain JAX, elementwise. Derivatives, a positive curvature and
expectations under a normal f have defaults; concrete classes replace them by closed forms where those are faster or
stabler. Constants are part of the cost, so that −c is the log density.

Shapes: y (N,), f (..., N) for one latent function and (..., N, C) for several; costs are (..., N).
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.errors import InputError, as_count, as_float_array, is_traced
from kosambi._core.parameters import Configurable
from kosambi._core.precision import compiled, public
from kosambi._core.types import Array, ArrayLike
from kosambi.likelihoods.quadrature import EVIDENCE_NODES, FEWEST_NODES, Rule, nodes_for, trapezoidal

# Values of an integrand that are made at once. A loop over groups of nodes passes over memory less often, but writing
# the nodes of a group out takes seconds to compile, and a minute where derivatives are taken.
_AT_ONCE = 2**18


class AbstractCost(Configurable):
    """A cost c(y, f), with everything that a target or a bound asks of it."""

    supports: ClassVar[Mapping[str, str]] = {}
    """Which values a parameter can take where it is learned: "positive" (unless said otherwise), "real", "unit"
    (between 0 and 1), "increasing", or "fixed" for one that is never learned."""

    @property
    def num_latents(self) -> int:
        """C, how many latent functions one observation depends on."""
        return 1

    @property
    @abc.abstractmethod
    def is_convex(self) -> bool:
        """Whether c(y, ·) is convex for every y."""

    @property
    def is_even(self) -> bool:
        """Whether c(y, −f) = c(y, f) for every y, so that a posterior with a prior of mean zero has two signs."""
        return False

    @property
    def lipschitz(self) -> float | None:
        """sup |∂c/∂f|, the Lipschitz constant of one datum's cost, or None."""
        return None

    @property
    def curvature_bound(self) -> float | None:
        """An upper bound L on c'' where the cost is convex, 0 ≤ c'' ≤ L, or None."""
        return None

    def curvature_range(self, y: np.ndarray) -> tuple[Array | float, Array | float] | None:
        """Between which numbers c''(y, ·) lies, one pair for each y or for all; None where it has no bounds.

        With C latent functions, between which the trace of the second derivatives lies.
        """
        return None if self.curvature_bound is None or not self.is_convex else (0.0, self.curvature_bound)

    def has_pole(self, y: np.ndarray) -> np.ndarray:
        """Whether c(y, ·) is infinite at some finite f, elementwise."""
        return np.zeros(np.shape(y), dtype=bool)

    @property
    def strip(self) -> float:
        """Half-width of the strip around the real line in which c(y, ·) is analytic; quadrature needs it."""
        return np.inf

    @abc.abstractmethod
    def raw_cost(self, y: Array, f: Array) -> Array:
        """c(y, f), elementwise and traceable, for checked y."""

    def raw_derivative(self, y: Array, f: Array) -> Array:
        """∂c/∂f, elementwise and traceable."""
        return jax.jvp(lambda g: self.raw_cost(y, g), (f,), (jnp.ones_like(f),))[1]

    def raw_second_derivative(self, y: Array, f: Array) -> Array:
        """∂²c/∂f², elementwise and traceable."""
        return jax.jvp(lambda g: self.raw_derivative(y, g), (f,), (jnp.ones_like(f),))[1]

    def raw_curvature(self, y: Array, f: Array) -> Array:
        """A curvature that is never negative: the second derivative where it is positive, otherwise zero."""
        return jnp.maximum(self.raw_second_derivative(y, f), 0.0)

    def raw_search_curvature(self, y: Array, f: Array) -> Array:
        """The positive curvature that a search for the mode uses where the second derivative will not do."""
        return self.raw_curvature(y, f)

    def raw_rough_latent(self, y: Array) -> Array:
        """Latent values at which y is not unlikely, (N,) or (N, C), for the start of a search; traceable."""
        return jnp.zeros((*jnp.shape(y), *([self.num_latents] if self.num_latents > 1 else [])))

    @property
    def blur(self) -> Array | float:
        """Standard deviation over which f is averaged before a curvature is taken; above zero for costs with kinks."""
        return 0.0

    def raw_expected_cost(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """E c(y, mean + deviation·ξ) by quadrature, traceable."""
        return integrate(lambda f: self.raw_cost(y, f), mean, deviation, rule)

    def raw_expected_derivative(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """The derivative of the expected cost in `mean`: E ∂c/∂f by quadrature, traceable."""
        return integrate(lambda f: self.raw_derivative(y, f), mean, deviation, rule)

    def raw_expected_curvature(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """E of the positive curvature by quadrature, for one latent function; traceable."""
        return integrate(lambda f: self.raw_curvature(y, f), mean, deviation, rule)

    def raw_expected_search_curvature(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """The positive curvature of the expected cost that a search for the mode uses; traceable."""
        return self.raw_expected_curvature(y, mean, deviation, rule)

    def raw_expected_second_derivative(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """The second derivative of the expected cost in `mean`; with C latent functions (..., C, C). Traceable."""

        def slope(m: Array) -> Array:
            return self.raw_expected_derivative(y, m, deviation, rule)

        if self.num_latents == 1:
            return jax.jvp(slope, (mean,), (jnp.ones_like(mean),))[1]
        # The slopes of one datum depend on its own C latent values only, so C directions give all C×C derivatives.
        units = jnp.eye(self.num_latents, dtype=mean.dtype)
        columns = [jax.jvp(slope, (mean,), (jnp.broadcast_to(unit, mean.shape),))[1] for unit in units]
        return jnp.stack(columns, axis=-1)

    @abc.abstractmethod
    def check(self, y: ArrayLike) -> Float[Array, " N"]:
        """`y` as a float64 array, or an `InputError` that says which values are not possible."""

    @public
    def cost(self, y: ArrayLike, f: ArrayLike) -> Float[Array, "..."]:
        """c(y, f), constants included. Values of y are not checked, so that it can be probed anywhere."""
        return _elementwise(self, "raw_cost", as_float_array("y", y), as_float_array("f", f))

    @public
    def derivative(self, y: ArrayLike, f: ArrayLike) -> Float[Array, "..."]:
        """∂c/∂f; with C latent functions the gradient, (..., C)."""
        return _elementwise(self, "raw_derivative", as_float_array("y", y), as_float_array("f", f))

    @public
    def second_derivative(self, y: ArrayLike, f: ArrayLike) -> Float[Array, "..."]:
        """∂²c/∂f²; with C latent functions the Hessian, (..., C, C)."""
        return _elementwise(self, "raw_second_derivative", as_float_array("y", y), as_float_array("f", f))

    @public
    def curvature(self, y: ArrayLike, f: ArrayLike) -> Float[Array, "..."]:
        """A positive semi-definite curvature: the Hessian of a convex cost, Fisher or clipped otherwise."""
        return _elementwise(self, "raw_curvature", as_float_array("y", y), as_float_array("f", f))

    @public
    def expected_cost(
        self, y: ArrayLike, mean: ArrayLike, deviation: ArrayLike, *, num_nodes: int | None = None
    ) -> Float[Array, "..."]:
        """E c(y, f) for f ~ N(mean, deviation²): closed form, or quadrature.

        `num_nodes` is chosen from the largest deviation and the likelihood's `strip` when None.
        """
        deviation = as_float_array("deviation", deviation)
        rule = self.rule(deviation, num_nodes)
        return _expected_cost(self, as_float_array("y", y), as_float_array("mean", mean), deviation, rule)

    def rule(self, deviation: Array, num_nodes: int | None = None) -> Rule:
        """The quadrature rule for residual standard deviations up to the largest of `deviation`."""
        if num_nodes is not None:
            if as_count("num_nodes", num_nodes) < FEWEST_NODES:
                raise InputError(f"`num_nodes` must be at least {FEWEST_NODES}. Got {num_nodes}.")
            return trapezoidal(num_nodes)
        if is_traced(deviation):
            # The deviations are not known yet, so more nodes than most models need.
            return trapezoidal(nodes_for(self.strip, 3.0 * min(self.strip, 1.0)))
        return trapezoidal(nodes_for(self.strip, float(np.max(deviation, initial=0.0))))

    @property
    def evidence_rule(self) -> Rule:
        """The quadrature rule where derivatives in hyperparameters are taken, for any deviation.

        Ten digits for deviations up to the strip. The number of nodes has no divisor, so that `integrate` writes no
        group of them out: the derivative of a group takes a minute to compile.
        """
        return trapezoidal(EVIDENCE_NODES)


def integrate(function, mean: Array, deviation: Array, rule: Rule) -> Array:  # type: ignore[no-untyped-def]
    """Σ_k w_k function(mean + deviation ξ_k): all nodes at once where that is little, otherwise a few at a time."""
    nodes, weights = rule
    axes = jnp.ndim(mean + deviation * 0.0)
    if nodes.ndim == 2:
        at = jnp.reshape(nodes, (nodes.shape[0], *(1 for _ in range(axes - 1)), nodes.shape[1]))
        return jnp.tensordot(weights, function(mean + deviation * at), axes=1)
    if is_little(mean, deviation, rule):
        at = jnp.reshape(nodes, (-1, *(1 for _ in range(axes))))
        return jnp.tensordot(weights, function(mean + deviation * at), axes=1)
    group = 17 if nodes.shape[0] % 17 == 0 else (nodes.shape[0] if nodes.shape[0] < 34 else 1)

    def add(total: Array, part: tuple[Array, Array]) -> tuple[Array, None]:
        for i in range(group):
            total = total + part[1][i] * function(mean + deviation * part[0][i])
        return total, None

    shape = jax.eval_shape(function, mean + deviation * nodes[0])
    start = jnp.zeros(shape.shape, dtype=shape.dtype)
    grouped = (jnp.reshape(nodes, (-1, group)), jnp.reshape(weights, (-1, group)))
    # One node at a time is the way of derivatives in hyperparameters, which need not keep what each node computed.
    return jax.lax.scan(jax.checkpoint(add) if group == 1 else add, start, grouped)[0]


def is_little(mean: Array, deviation: Array, rule: Rule) -> bool:
    """Whether an integrand is little enough for all of its values to be made at once."""
    return int(np.prod(jnp.broadcast_shapes(jnp.shape(mean), jnp.shape(deviation)))) * rule.nodes.shape[0] <= _AT_ONCE


def tiny(array: Array) -> float:
    """A positive number whose square is still representable in the precision of `array`."""
    return 2.0 * float(np.sqrt(np.finfo(jnp.result_type(array, float)).tiny))


@compiled
def _elementwise(likelihood: AbstractCost, name: str, y: Array, f: Array) -> Array:
    return getattr(likelihood, name)(y, f)


@compiled
def _expected_cost(likelihood: AbstractCost, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
    return likelihood.raw_expected_cost(y, mean, deviation, rule)
