r"""The cost of an observation whose f is uncertain: −log E exp(−c(y, μ + √D ξ)), ξ ~ N(0, 1), and its derivatives in μ.

With E_t the expectation under the tilted density ∝ exp(−c) N(f; μ, D),

    ∂/∂μ = E_t c',   ∂²/∂μ² = E_t c'' − Var_t c',

which is convex in μ where c is. An observation that counts w times has the cost w·c.

**Nodes that follow the integrand.** exp(−c) can be far narrower than N(μ, D), and far from μ: with 50 fixed nodes a
count of 1,000 and D = 1 is 15 nats off. So the nodes are those of N(μ, D) times a Gaussian *site* N(t; f, 1/W) that is
near exp(−c): with κ = DW

    ξ = √D W (t − μ)/(1 + κ) + z/√(1 + κ),   z the nodes of a rule for N(0, 1).

That is exact for Gaussian noise. Where c is not convex exp(−c) can have a second hump that a site does not see; there
the nodes are those of N(μ, D), as many as the cost asks for.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.types import Array
from kosambi.likelihoods.predictive import AbstractPredictive
from kosambi.likelihoods.quadrature import FEWEST_NODES, Rule, nodes_for, trapezoidal

# exp(−e^f) is bounded within this distance of the real line only.
_STRIP = 0.5 * np.pi
# Half the nodes that give eleven digits give five, and so do those within this many standard deviations: every node
# costs as much as the cost itself, for each row and particle at each step. Those of N(μ, D) may miss a narrower
# integrand.
_PART, _FEWEST, _REACH, _WITHOUT_SITE = 0.5, 17, 5.4, 102


class Marginal(NamedTuple):
    """The cost with f integrated out, and its derivatives in the mean of f; elementwise."""

    cost: Array
    slope: Array
    second: Array
    positive: Array
    """A curvature that is never negative: `second` of a convex cost."""


class Site(NamedTuple):
    """A Gaussian N(t; f, 1/W) near exp(−c)."""

    precision: Float[Array, " N"]
    """W; zero where it says nothing."""
    location: Float[Array, " N"]
    """t."""


class AbstractMarginals(AbstractPredictive):
    """What a potential asks of a likelihood where f is known up to a normal residual."""

    def has_closed_marginal(self, is_plain: bool) -> bool:
        """Whether `raw_closed_marginal` is there; `is_plain` says that no observation counts other than once."""
        del is_plain
        return False

    def raw_closed_marginal(self, y: Array, weights: Array | None, mean: Array, deviation: Array) -> Marginal:
        """−log E exp(−weight·c) and its derivatives without a rule, traceable; where `has_closed_marginal`."""
        del weights
        unused = trapezoidal(FEWEST_NODES)
        one = jnp.ones_like(mean)

        def cost(m: Array) -> Array:
            return -self.raw_log_predictive(y, m, deviation, unused)

        def slope(m: Array) -> Array:
            return jax.jvp(cost, (m,), (one,))[1]

        first, second = jax.jvp(slope, (mean,), (one,))
        return Marginal(cost(mean), first, second, jnp.maximum(second, 0.0))

    def marginal_rule(
        self, deviation: Float[np.ndarray, " N"], site: Site | None, num_nodes: int | None = None
    ) -> Rule:
        """The rule of `raw_marginal`, with as many nodes as the widest integrand needs, or `num_nodes`."""
        if num_nodes is not None:
            return self.rule(deviation, num_nodes)
        width = deviation
        if site is not None and self.is_convex:
            width = deviation / np.sqrt(1.0 + np.square(deviation) * np.asarray(site.precision))
        strip = self.strip if np.isfinite(self.strip) else _STRIP
        needed = nodes_for(strip, float(np.max(width, initial=0.0)))
        if not self.is_convex:
            return self.rule(deviation, max(_WITHOUT_SITE, needed))
        whole = self.rule(deviation, max(_FEWEST, int(_PART * needed)))
        inside = np.abs(whole.nodes) <= _REACH
        return Rule(whole.nodes[inside], whole.weights[inside] / np.sum(whole.weights[inside]), whole.evaluation)

    def raw_marginal(
        self, y: Array, weights: Array | None, mean: Array, deviation: Array, site: Site | None, rule: Rule
    ) -> Marginal:
        """−log E exp(−weight·c) and its derivatives by a rule with nodes where the integrand is; traceable."""
        nodes = jnp.reshape(rule.nodes, (-1, *(1 for _ in range(jnp.ndim(mean)))))
        flat = jnp.log(rule.weights[len(rule.weights) // 2]) + 0.5 * rule.nodes[len(rule.nodes) // 2] ** 2
        if site is None or not self.is_convex:
            at, log_scale = nodes, jnp.zeros_like(mean)
        else:
            strength = 1.0 + jnp.square(deviation) * site.precision
            shift = deviation * site.precision * (site.location - mean) / strength
            at, log_scale = shift + nodes / jnp.sqrt(strength), -0.5 * jnp.log(strength)
        f = mean + deviation * at
        count = 1.0 if weights is None else weights
        # An observation of weight zero is absent, also where its cost is infinite.
        cost = self.raw_cost(y, f) if weights is None else jnp.where(count > 0, count * self.raw_cost(y, f), 0.0)
        logs = flat + log_scale - 0.5 * jnp.square(at) - cost
        total = jax.scipy.special.logsumexp(logs, axis=0)
        tilted = jnp.exp(logs - total)
        slopes = self.raw_derivative(y, f)
        slopes = slopes if weights is None else jnp.where(count > 0, count * slopes, 0.0)
        slope = jnp.sum(tilted * slopes, axis=0)
        variance = jnp.sum(tilted * jnp.square(slopes - slope), axis=0)
        curvature = self.raw_second_derivative(y, f)
        curvature = curvature if weights is None else jnp.where(count > 0, count * curvature, 0.0)
        second = jnp.sum(tilted * curvature, axis=0) - variance
        total = total if weights is None else jnp.where(count > 0, total, 0.0)
        if self.is_convex:
            return Marginal(-total, slope, second, jnp.maximum(second, 0.0))
        above = self.raw_search_curvature(y, f)
        above = above if weights is None else jnp.where(count > 0, count * above, 0.0)
        positive = jnp.sum(tilted * above, axis=0)
        return Marginal(-total, slope, second, positive)
