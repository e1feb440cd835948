r"""Expectations over ξ ~ N(0, 1) by the trapezoidal rule, with as many nodes as the integrand needs.

    E g(μ + σξ) ≈ h Σ_k φ(kh) g(μ + σkh),   |kh| ≤ 8.5

For g analytic in a strip of half-width d around the real line, the error falls as exp(−2πd/(σh)): the rule sees the
distance to the nearest singularity of the cost, and nothing else matters. Gauss-Hermite with the same number of nodes
spends most of them in the tails, and fails for heavy-tailed costs whose scale is below σ. Twice the difference to the
rule with step h/2 bounds the error, also for a cost with kinks, where it falls as h² only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kosambi._types import Array

# Beyond this many standard deviations the normal density is below 1e-16.
REACH = 8.5
# A short list of node counts, so that models with nearly the same residual share compiled code.
_COUNTS = (21, 34, 51, 68, 102, 136, 204, 272, 408, 544, 1088)
# The relative error aimed for, as a natural logarithm: 1e-11.
_DIGITS = 25.0


class Rule(NamedTuple):
    """Nodes ξ_k, (K,), and weights that sum to one."""

    nodes: Array
    weights: Array


def trapezoidal(num_nodes: int) -> Rule:
    """The rule with `num_nodes` nodes, symmetric about zero."""
    nodes = np.linspace(-REACH, REACH, num_nodes)
    weights = np.exp(-0.5 * nodes**2)
    return Rule(nodes, weights / weights.sum())


def nodes_for(strip: float, largest_deviation: float) -> int:
    """How many nodes a cost analytic within `strip` of the real line needs for residuals up to `largest_deviation`."""
    # The normal density itself limits the step: exp(−2π²/h²).
    step = min(2 * np.pi / np.sqrt(2 * _DIGITS), 2 * np.pi * strip / (_DIGITS * max(largest_deviation, 1e-300)))
    wanted = 2 * REACH / step + 1
    return next((count for count in _COUNTS if count >= wanted), _COUNTS[-1])


def finer(rule: Rule) -> Rule:
    """The rule with half the step: for an analytic integrand its error is about the square of that of `rule`."""
    return trapezoidal(2 * rule.nodes.shape[0] - 1)
