r"""What follows from a cost: derivatives, positive curvatures, and expectations under a normal f.

    E c(y, μ + σξ),   ξ ~ N(0, 1),

and its derivatives in μ, by quadrature. Nothing here has to be written: autodiff and quadrature give it for any cost. A
likelihood replaces a member where a closed form is faster or more stable.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from kosambi._core.checks import as_count, is_traced
from kosambi._core.types import Array
from kosambi.errors import InputError
from kosambi.likelihoods.quadrature import (
    FEWEST_NODES,
    Rule,
    cubature,
    evidence_rule,
    integrate,
    lattice,
    nodes_for,
    trapezoidal,
)
from kosambi.likelihoods.specification import AbstractSpecification


class AbstractExpectations(AbstractSpecification):
    """What a target, a bound and the evidence ask of a likelihood, derived from its cost."""

    # At a value of f.

    def raw_derivative(self, y: Array, f: Array) -> Array:
        """∂c/∂f, elementwise and traceable; with C latent functions the gradient, (..., C)."""
        return self._differentiated(lambda g: self.raw_cost(y, g), f)

    def raw_second_derivative(self, y: Array, f: Array) -> Array:
        """∂²c/∂f², elementwise and traceable; with C latent functions the Hessian, (..., C, C)."""
        return self._differentiated(lambda g: self.raw_derivative(y, g), f)

    def raw_curvature(self, y: Array, f: Array) -> Array:
        """A curvature that is never negative: the second derivative where it is positive, otherwise zero.

        The Fisher information does as well, and better where the second derivative is mostly negative or zero. With
        several latent functions the Hessian, so that a cost that is not convex in all of them replaces this.
        """
        second = self.raw_second_derivative(y, f)
        return jnp.maximum(second, 0.0) if self.num_latents == 1 else second

    def raw_search_curvature(self, y: Array, f: Array) -> Array:
        """The positive curvature that a search for the mode uses where the second derivative will not do."""
        return self.raw_curvature(y, f)

    # For f ~ N(mean, deviation²).

    def raw_expected_cost(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """E c(y, mean + deviation·ξ), traceable; by quadrature unless there is a closed form."""
        return self.expected(lambda f: self.raw_cost(y, f), mean, deviation, rule)

    def raw_expected_derivative(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """The derivative of the expected cost in `mean`, E ∂c/∂f, traceable; by quadrature."""
        return self.expected(lambda f: self.raw_derivative(y, f), mean, deviation, rule)

    def raw_expected_second_derivative(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """The second derivative of the expected cost in `mean`; with C latent functions (..., C, C). Traceable."""
        return self._differentiated(lambda m: self.raw_expected_derivative(y, m, deviation, rule), mean)

    def raw_expected_curvature(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """E of the positive curvature, traceable; by quadrature."""
        return self.expected(lambda f: self.raw_curvature(y, f), mean, deviation, rule)

    def raw_expected_search_curvature(self, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
        """The positive curvature of the expected cost that a search for the mode uses; traceable."""
        return self.raw_expected_curvature(y, mean, deviation, rule)

    def raw_expected_cost_of_each(self, y: Array, mean: Array, deviation: Array) -> Array:
        """E c(y, f) for independent f_c ~ N(mean_c, deviation_c²), both (N, C), where hyperparameters are learned.

        Traceable. One rule for any deviation: `evidence_rule`; with several latent functions a lattice of 128 nodes.
        """
        if self.num_latents == 1:
            return self.raw_expected_cost(y, mean[:, 0], deviation[:, 0], self.evidence_rule)
        return integrate(lambda f: self.raw_cost(y, f), mean, deviation, lattice(self.num_latents))

    # Quadrature.

    def rule(self, deviation: Array, num_nodes: int | None = None) -> Rule:
        """The quadrature rule of the optimal potential, for residual standard deviations up to the largest given.

        Arguments:
            deviation: standard deviations; the largest one and `strip` decide on the number of nodes.
            num_nodes: this many nodes instead.
        """
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
        """The quadrature rule of the log marginal likelihood, whose derivative in hyperparameters is taken.

        One rule for any deviation: ten digits for those up to the strip. With several latent functions a cubature,
        exact to third order.
        """
        return evidence_rule() if self.num_latents == 1 else cubature(self.num_latents)

    def expected(self, function: Callable[[Array], Array], mean: Array, deviation: Array, rule: Rule) -> Array:
        """E function(f) for f ~ N(mean, deviation²), with the nodes of the rule; traceable.

        C latent values are independent with one standard deviation; a rule for one of them cannot integrate over all.
        """
        if self.num_latents == 1:
            return integrate(function, mean, deviation, rule)
        if rule.nodes.ndim == 1:
            raise InputError(
                f"`{type(self).__name__}` has {self.num_latents} latent functions, over which there is no general "
                'quadrature. Use potential="projected" and summaries of f, or write `raw_expected_cost`, '
                "`raw_expected_derivative`, `raw_moments` and `raw_log_predictive` of the class as far as needed."
            )
        return integrate(function, mean, jnp.asarray(deviation)[..., None], rule)

    def _differentiated(self, function: Callable[[Array], Array], at: Array) -> Array:
        """The derivative in the latent value of each observation; in its C latent values along a new last axis."""
        if self.num_latents == 1:
            return jax.jvp(function, (at,), (jnp.ones_like(at),))[1]
        # What belongs to one observation depends on its own C latent values only, so C directions give all derivatives.
        units = jnp.eye(self.num_latents, dtype=at.dtype)
        return jnp.stack([jax.jvp(function, (at,), (jnp.broadcast_to(u, at.shape),))[1] for u in units], axis=-1)
