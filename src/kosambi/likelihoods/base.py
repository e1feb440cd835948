r"""The likelihood contract: a cost c(y, f) for one datum (`AbstractCost`), and what it says about observations.

Densities, moments, draws, distribution functions and predictive densities for a normal f. Most have defaults that go by
quadrature; concrete classes replace them by closed forms where those are faster or stabler.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.errors import InputError, as_float_array, check_finite, check_key, is_traced
from kosambi._core.precision import compiled, public
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.likelihoods.cost import AbstractCost, integrate
from kosambi.likelihoods.predictive import log_concave_integral
from kosambi.likelihoods.quadrature import FEWEST_NODES, Rule, nodes_for, trapezoidal

# Nodes of a predictive density between the ends of its integrand, at least.
_FEWEST_FOR_DENSITY = 68


class AbstractLikelihood(AbstractCost):
    """A cost c(y, f), with everything that a target, a prediction or a bound asks of it."""

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

    def raw_mean(self, f: Array) -> Array:
        """E[y | f], traceable."""
        raise self.no_density("an observation mean")

    def raw_variance(self, f: Array) -> Array:
        """Var[y | f], traceable."""
        raise self.no_density("an observation variance")

    def raw_draw(self, key: Key, f: Array) -> Array:
        """One observation for each f, traceable."""
        raise self.no_density("draws of observations")

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

    def no_density(self, what: str) -> InputError:
        """The error to raise where `what` is asked for and only a density could give it."""
        return InputError(
            f"`{type(self).__name__}` is a loss without a density of y, so there is no such thing as {what}. "
            "Use a likelihood with a density, for example `StudentT` in place of `Huber`."
        )


@compiled
def _of_latent(likelihood: AbstractLikelihood, name: str, f: Array) -> Array:
    return getattr(likelihood, name)(f)


@compiled
def _draw(likelihood: AbstractLikelihood, key: Key, f: Array) -> Array:
    return likelihood.raw_draw(key, f)


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
