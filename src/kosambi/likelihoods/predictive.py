r"""What follows for an observation whose f is normal: moments, label probabilities, densities and cdfs.

    p(y) = ∫ p(y | f) N(f; μ, σ²) df

and likewise for the moments and the cdf. Nothing here has to be written: quadrature gives it from the cost, `raw_mean`,
`raw_variance` and `cdf`. A likelihood replaces a member where it has a closed form.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.types import Array
from kosambi.errors import InputError
from kosambi.likelihoods.expectations import AbstractExpectations
from kosambi.likelihoods.normal import log_concave_integral, normal_cdf, uniform_nodes
from kosambi.likelihoods.quadrature import IS_WIDE, Rule, nodes_for, numbered_rule, rule_number
from kosambi.likelihoods.specification import AbstractSpecification

# Nodes of a predictive density between the ends of its integrand, at least.
_FEWEST_FOR_DENSITY = 68


class AbstractPredictive(AbstractExpectations):
    """What predictions ask of a likelihood, derived from its cost and from the distribution of y given f."""

    @property
    def has_moments(self) -> bool:
        """Whether the mean of an observation is known."""
        return type(self).raw_mean is not AbstractSpecification.raw_mean

    @property
    def has_cdf(self) -> bool:
        """Whether the cumulative distribution function of an observation is known."""
        is_own = type(self).cdf is not AbstractSpecification.cdf
        return is_own or type(self).predictive_cdf is not AbstractPredictive.predictive_cdf

    def raw_moments(self, mean: Array, deviation: Array, rule: Rule) -> tuple[Array, Array]:
        """Mean and variance of an observation for f ~ N(mean, deviation²), traceable; by quadrature."""
        first = self.expected(lambda f: self.raw_mean(f), mean, deviation, rule)
        spread = lambda f: self.raw_variance(f) + jnp.square(self.raw_mean(f) - first)
        return first, self.expected(spread, mean, deviation, rule)

    def raw_probabilities(self, mean: Array, deviation: Array, rule: Rule) -> Array:
        """P(y = k) for each label k, along a new last axis, for f ~ N(mean, deviation²), traceable; by quadrature."""
        if self.num_labels is None:
            raise InputError(
                f"`{type(self).__name__}` has no labels, so there are no probabilities. Use `quantile`, `interval` or "
                "`log_predictive_density`."
            )
        labels = [jnp.full((), float(k), dtype=jnp.result_type(mean, float)) for k in range(self.num_labels)]
        each = lambda f: jnp.stack([jnp.exp(-self.raw_cost(label, f)) for label in labels], axis=-1)
        return self.expected(each, mean, deviation, rule)

    def raw_log_predictive(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """log E exp(−c(y, mean + deviation·ξ)), traceable; by quadrature, around the mode where the cost is convex."""
        if self.is_convex and self.num_latents == 1:
            shape = jnp.broadcast_shapes(jnp.shape(y), jnp.shape(mean), jnp.shape(deviation))
            y, mean, deviation = (jnp.broadcast_to(v, shape) for v in (y, mean, deviation))
            cost, slope = (lambda f: self.raw_cost(y, f)), (lambda f: self.raw_derivative(y, f))
            return log_concave_integral(cost, slope, mean, deviation, max(rule.nodes.shape[0], _FEWEST_FOR_DENSITY))
        if self.num_latents > 1:
            return jnp.log(self.expected(lambda f: jnp.exp(-self.raw_cost(y, f)), mean, deviation, rule))

        def add(total: Array, node: tuple[Array, Array]) -> tuple[Array, None]:
            x, log_weight = node
            return jnp.logaddexp(total, log_weight - self.raw_cost(y, mean + deviation * x)), None

        start = jnp.full(jnp.broadcast_shapes(jnp.shape(y), jnp.shape(mean), jnp.shape(deviation)), -jnp.inf)
        return jax.lax.scan(add, start, (rule.nodes, jnp.log(rule.weights)))[0]

    def summary_rules(self, deviation: np.ndarray) -> np.ndarray:
        """Which of the numbered quadrature rules the moments and probabilities of each input need."""
        return rule_number(self.strip, deviation)

    def density_nodes(self, deviation: np.ndarray) -> np.ndarray:
        """How many quadrature nodes the predictive density of each input needs."""
        return np.array([nodes_for(self.strip, float(value)) for value in np.ravel(deviation)], dtype=int)

    def predictive_cdf(self, y: np.ndarray, mean: np.ndarray, deviation: np.ndarray, rule: Rule) -> np.ndarray:
        """P(observation ≤ y) for f ~ N(mean, deviation²), elementwise; with NumPy, by quadrature."""
        total = np.zeros(np.broadcast_shapes(np.shape(y), np.shape(mean), np.shape(deviation)))
        for node, weight in zip(rule.nodes, rule.weights, strict=True):
            total += weight * self.cdf(y, mean + deviation * node)
        return total

    def cdf_width(self, y: np.ndarray) -> np.ndarray:
        """The scale on which P(observation ≤ y | f) changes with f; decides on the nodes of `mixture_cdf`."""
        return np.full(np.shape(y), self.strip / 3.0)

    def thresholds(self, y: np.ndarray, t: np.ndarray) -> tuple[np.ndarray | None, np.ndarray] | None:
        """Between which f an observation is at most y, for a uniform t: P(observation ≤ y | f) = P(lower < f ≤ upper).

        With them P(observation ≤ y) is an average of normal cdfs, which is smooth where the noise is narrow beside the
        deviation of f. `lower` is None where there is none; None for both if they are not known.
        """
        del y, t
        return None

    def mixture_cdf(
        self, y: Float[np.ndarray, " P"], means: Float[np.ndarray, "K P *C"], deviation: Float[np.ndarray, " P"]
    ) -> Float[np.ndarray, " P"]:
        """P(observation ≤ y) at P inputs, where f follows K normal distributions of one deviation, equally likely.

        Each input has the quadrature rule that its own deviation asks for, so that none depends on the others. Where
        the noise is narrow beside f it is the noise that is integrated over, if the `thresholds` are known.
        """
        numbers = rule_number(3.0 * self.cdf_width(y), deviation)
        values = np.empty(len(y))
        for number in np.unique(numbers):
            chosen = np.flatnonzero(numbers == number)
            some = (y[chosen], means[:, chosen], deviation[chosen])
            model = self.at_rows(chosen)
            if number < IS_WIDE or (found := model._cdf_over_noise(*some)) is None:
                found = model.predictive_cdf(*some, numbered_rule(int(number)))
            values[chosen] = found.mean(axis=0)
        return values

    def _cdf_over_noise(self, y: np.ndarray, means: np.ndarray, deviation: np.ndarray) -> np.ndarray | None:
        uniform, weights = uniform_nodes()
        if (ends := self.thresholds(y, uniform[:, None])) is None:
            return None
        total = np.zeros(means.shape)
        lower, upper = ends
        for i, weight in enumerate(weights):
            total += weight * normal_cdf((upper[i] - means) / deviation)
            if lower is not None:
                total -= weight * normal_cdf((lower[i] - means) / deviation)
        return total
