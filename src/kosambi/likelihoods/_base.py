r"""The likelihood contract: a cost c(y, f) for one datum, and what follows from it.

Anything that is a function of an observation y and the value f of the latent function (or of C latent functions) at its
input can be a likelihood: implement `raw_cost` in plain JAX, elementwise. Derivatives, a positive curvature,
expectations under a normal f and predictive densities have defaults; concrete classes replace them by closed forms
where those are faster or stabler. Constants are part of the cost, so that −c is the log density.

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

from kosambi._types import Array, ArrayLike, Key
from kosambi.errors import InputError, as_count, as_float_array, check_finite, check_key, is_traced
from kosambi.likelihoods._predictive import log_concave_integral
from kosambi.likelihoods._quadrature import EVIDENCE_NODES, FEWEST_NODES, Rule, nodes_for, trapezoidal
from kosambi.precision import Module, compiled, public

# Nodes of a predictive density between the ends of its integrand, at least.
_FEWEST_FOR_DENSITY = 68
# Values of an integrand that are made at once. A loop over groups of nodes passes over memory less often, but writing
# the nodes of a group out takes seconds to compile, and a minute where derivatives are taken.
_AT_ONCE = 2**18


class AbstractLikelihood(Module):
    """A cost c(y, f), with everything that a target, a prediction or a bound asks of it."""

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
    def is_density(self) -> bool:
        """Whether exp(−c) is a normalised density of y."""
        return True

    @property
    def is_discrete(self) -> bool:
        """Whether observations are whole numbers: labels or counts."""
        return False

    @property
    def num_labels(self) -> int | None:
        """How many labels there are, 0, 1, …; None where observations are not labels."""
        return None

    @property
    def has_moments(self) -> bool:
        """Whether the mean of an observation is known."""
        return type(self).raw_mean is not AbstractLikelihood.raw_mean

    @property
    def has_distribution(self) -> bool:
        """Whether the distribution function of an observation is known."""
        names = ("distribution", "predictive_distribution")
        return any(getattr(type(self), name) is not getattr(AbstractLikelihood, name) for name in names)

    @property
    def lowest(self) -> float:
        """The smallest observation that is possible."""
        return -np.inf

    @property
    def lipschitz(self) -> float | None:
        """sup |∂c/∂f|, the Lipschitz constant of one datum's cost, or None."""
        return None

    @property
    def curvature_bound(self) -> float | None:
        """An upper bound L on c'' where the cost is convex, 0 ≤ c'' ≤ L, or None."""
        return None

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

    def raw_mean(self, f: Array) -> Array:
        """E[y | f], traceable."""
        raise self.no_density("an observation mean")

    def raw_variance(self, f: Array) -> Array:
        """Var[y | f], traceable."""
        raise self.no_density("an observation variance")

    def raw_draw(self, key: Key, f: Array) -> Array:
        """One observation for each f, traceable."""
        raise self.no_density("draws of observations")

    def raw_expected_cost(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """E c(y, mean + deviation·ξ) by quadrature, traceable."""
        return integrate(lambda f: self.raw_cost(y, f), mean, deviation, rule)

    def raw_expected_derivative(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """The derivative of the expected cost in `mean`: E ∂c/∂f by quadrature, traceable."""
        return integrate(lambda f: self.raw_derivative(y, f), mean, deviation, rule)

    def raw_expected_curvature(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """E of the positive curvature by quadrature, for one latent function; traceable."""
        return integrate(lambda f: self.raw_curvature(y, f), mean, deviation, rule)

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

    def raw_log_predictive(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """log E exp(−c(y, mean + deviation·ξ)) by quadrature, around the mode of a convex cost; traceable."""
        if self.is_convex and self.num_latents == 1:
            shape = jnp.broadcast_shapes(jnp.shape(y), jnp.shape(mean), jnp.shape(deviation))
            y, mean, deviation = (jnp.broadcast_to(v, shape) for v in (y, mean, deviation))
            cost, slope = (lambda f: self.raw_cost(y, f)), (lambda f: self.raw_derivative(y, f))
            return log_concave_integral(cost, slope, mean, deviation, max(rule.nodes.shape[0], _FEWEST_FOR_DENSITY))

        def add(total: Array, node: tuple[Array, Array]) -> tuple[Array, None]:
            x, log_weight = node
            return jnp.logaddexp(total, log_weight - self.raw_cost(y, mean + deviation * x)), None

        start = jnp.full(jnp.broadcast_shapes(jnp.shape(y), jnp.shape(mean), jnp.shape(deviation)), -jnp.inf)
        return jax.lax.scan(add, start, (rule.nodes, jnp.log(rule.weights)))[0]

    def raw_moments(self, mean: Array, deviation: Array, rule: Rule) -> tuple[Array, Array]:
        """Mean and variance of an observation for f ~ N(mean, deviation²), traceable; by quadrature here."""
        first = integrate(lambda f: self.raw_mean(f), mean, deviation, rule)
        spread = integrate(lambda f: self.raw_variance(f) + jnp.square(self.raw_mean(f) - first), mean, deviation, rule)
        return first, spread

    def raw_probabilities(self, mean: Array, deviation: Array, rule: Rule) -> Array:
        """P(y = k) for each label k, along a new last axis, for f ~ N(mean, deviation²), traceable."""
        raise InputError(
            f"`{type(self).__name__}` has no labels, so there are no probabilities. Use `quantile`, `interval` or "
            "`log_predictive_density`."
        )

    def distribution(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """P(observation ≤ y | f), elementwise; with NumPy and SciPy, whose special functions are the fastest."""
        raise InputError(
            f"`{type(self).__name__}` has no distribution function, so there are no quantiles. Use a likelihood that "
            "has one, or look at `posterior.functions(key)` and the summaries of f."
        )

    def predictive_distribution(self, y: np.ndarray, mean: np.ndarray, deviation: np.ndarray, rule: Rule) -> np.ndarray:
        """P(observation ≤ y) for f ~ N(mean, deviation²), elementwise; with NumPy."""
        total = np.zeros(np.broadcast_shapes(np.shape(y), np.shape(mean), np.shape(deviation)))
        for node, weight in zip(rule.nodes, rule.weights, strict=True):
            total += weight * self.distribution(y, mean + deviation * node)
        return total

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
    def log_density(self, y: ArrayLike, f: ArrayLike) -> Float[Array, "..."]:
        """log p(y | f) = −c(y, f). Refused for a loss that is no density."""
        if not self.is_density:
            raise self.no_density("a log density")
        return -self.cost(y, f)

    @public
    def observation_mean(self, f: ArrayLike) -> Float[Array, "..."]:
        """E[y | f]."""
        return _of_latent(self, "raw_mean", as_float_array("f", f))

    @public
    def observation_variance(self, f: ArrayLike) -> Float[Array, "..."]:
        """Var[y | f]."""
        return _of_latent(self, "raw_variance", as_float_array("f", f))

    @public
    def draw(self, key: Key, f: ArrayLike) -> Float[Array, "..."]:
        """One observation for each value of the latent function."""
        return _draw(self, check_key(key), as_float_array("f", f))

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

    @public
    def log_predictive_density(self, y: ArrayLike, mean: ArrayLike, deviation: ArrayLike) -> Float[Array, "..."]:
        """log ∫ p(y | f) N(f; mean, deviation²) df: closed form, or quadrature with nodes where the integrand lies."""
        if not self.is_density:
            raise self.no_density("a predictive density")
        deviation = as_float_array("deviation", deviation)
        # Under a trace the deviations are not known yet, so more nodes than most models need.
        count = 544 if is_traced(deviation) else int(np.max(self.density_nodes(deviation), initial=FEWEST_NODES))
        arrays = (as_float_array("y", y), as_float_array("mean", mean), deviation)
        return _log_predictive(self, *arrays, trapezoidal(count))

    def density_nodes(self, deviation: np.ndarray) -> np.ndarray:
        """How many nodes the predictive density of each input needs."""
        return np.array([nodes_for(self.strip, float(value)) for value in np.ravel(deviation)], dtype=int)

    def distribution_width(self, y: np.ndarray) -> np.ndarray:
        """The scale on which P(observation ≤ y | f) changes with f."""
        return np.full(np.shape(y), self.strip / 3.0)

    def thresholds(self, y: np.ndarray, t: np.ndarray) -> tuple[np.ndarray | None, np.ndarray] | None:
        """Between which f an observation is at most y, for a uniform t: P(observation ≤ y | f) = P(lower < f ≤ upper).

        With them P(observation ≤ y) is an average of normal distribution functions, which is smooth where the noise is
        narrow beside the deviation of f. `lower` is None where there is none; None for both if they are not known.
        """
        del y, t
        return None

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

    def no_density(self, what: str) -> InputError:
        """The error to raise where `what` is asked for and only a density could give it."""
        return InputError(
            f"`{type(self).__name__}` is a loss without a density of y, so there is no such thing as {what}. "
            "Use a likelihood with a density, for example `StudentT` in place of `Huber`."
        )


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
def _elementwise(likelihood: AbstractLikelihood, name: str, y: Array, f: Array) -> Array:
    return getattr(likelihood, name)(y, f)


@compiled
def _of_latent(likelihood: AbstractLikelihood, name: str, f: Array) -> Array:
    return getattr(likelihood, name)(f)


@compiled
def _draw(likelihood: AbstractLikelihood, key: Key, f: Array) -> Array:
    return likelihood.raw_draw(key, f)


@compiled
def _expected_cost(likelihood: AbstractLikelihood, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
    return likelihood.raw_expected_cost(y, mean, deviation, rule)


@compiled
def _log_predictive(likelihood: AbstractLikelihood, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
    return likelihood.raw_log_predictive(y, mean, deviation, rule)


def as_observations(name: str, y: ArrayLike) -> Float[Array, " N"]:
    """A checked vector of finite observations."""
    array = as_float_array("y", y)
    if array.ndim != 1:
        raise InputError(
            f"`{name}` needs y of shape (N,). Got shape {array.shape}. Write `np.ravel(y)` for one column."
        )
    if array.shape[0] == 0:
        raise InputError(f"`{name}` needs at least one observation. Got an empty y.")
    check_finite("y", array)
    return array


def check_values(name: str, y: Array, allowed: Array, needed: str, remedy: str) -> Array:
    """Refuse observations outside the range of a likelihood, showing a few of them."""
    if not is_traced(y) and not np.all(allowed):
        bad = np.unique(np.asarray(y)[~np.asarray(allowed)])
        shown = ", ".join(f"{value:g}" for value in bad[:4]) + (", ..." if bad.size > 4 else "")
        raise InputError(f"`{name}` needs y {needed}. Got values {shown}. {remedy}")
    return y
