r"""Expectations over ξ ~ N(0, 1) by the trapezoidal rule, with as many nodes as the integrand needs.

    E g(μ + σξ) ≈ h Σ_k φ(kh) g(μ + σkh),   |kh| ≤ 8.5

For g analytic in a strip of half-width d around the real line, the error falls as exp(−2πd/(σh)): the rule sees the
distance to the nearest singularity of the cost, and nothing else matters. Gauss-Hermite with the same number of nodes
spends most of them in the tails, and fails for heavy-tailed costs whose scale is below σ. Twice the larger difference
to the rules with steps h/2 and h/3 estimates the error, also for a cost with kinks, where it falls as h² only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kosambi._core.types import Array

# Beyond this many standard deviations the normal density is below 1e-16.
REACH = 8.5
# A short list of node counts, so that models with nearly the same residual share compiled code.
_COUNTS = (21, 34, 51, 68, 102, 136, 204, 272, 408, 544, 1088, 2176, 4352, 8704)
EVIDENCE_NODES = 67
"""Nodes where derivatives in hyperparameters are taken: a number without divisors, so that no group is written out."""
# Fewer nodes than this do not even integrate the normal density.
FEWEST_NODES = 13
# The relative error aimed for, as a natural logarithm: 1e-11.
_DIGITS = 25.0
# The same for summaries: 1e-8, with a reach that leaves out as little.
_FEWER_DIGITS, _FEWER_REACH = 18.0, 5.8


class Rule(NamedTuple):
    """Nodes ξ_k, (K,), or (K, C) for C latent values together, and weights that sum to one."""

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


def gauss_hermite(num_nodes: int) -> Rule:
    """Gauss-Hermite: the fewest nodes for an integrand that is nearly a polynomial over a few deviations."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(num_nodes)
    return Rule(nodes, weights / weights.sum())


def cubature(num_latents: int) -> Rule:
    """For C independent standard normal numbers: ±√C along each axis, exact for polynomials of degree three."""
    axes = np.sqrt(num_latents) * np.eye(num_latents)
    return Rule(np.concatenate([axes, -axes]), np.full(2 * num_latents, 0.5 / num_latents))


# Rules of about eight digits for summaries: the largest deviation, in strips, that each is good for. What is said of
# one input must not depend on others, so each input gets the rule of its own deviation.
_GAUSS = ((0.0, 1), (0.1, 5), (0.3, 13))
_TRAPEZOIDAL = (34, 68, 136, 272, 544, 1088, 2176, 4352, 8704)


def rule_number(strip: float | np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """For each deviation the number of the smallest rule that is good for it; the last one beyond all."""
    limits = [limit for limit, _ in _GAUSS]
    limits += [2 * np.pi * (count - 1) / (_FEWER_DIGITS * 2 * REACH) for count in _TRAPEZOIDAL]
    return np.minimum(np.searchsorted(limits, np.asarray(deviation) / strip), len(limits) - 1)


IS_WIDE = len(_GAUSS)
"""The first number of a rule with many nodes."""


def numbered_rule(number: int) -> Rule:
    """The rule of that number."""
    if number < len(_GAUSS):
        return gauss_hermite(_GAUSS[number][1])
    rule = trapezoidal(_TRAPEZOIDAL[number - len(_GAUSS)])
    inside = np.abs(rule.nodes) <= _FEWER_REACH
    return Rule(rule.nodes[inside], rule.weights[inside] / rule.weights[inside].sum())


def largest_deviation(rule: Rule, strip: float) -> float:
    """What a rule of `numbered_rule` is good for at most, from its number of nodes alone, so that it may be traced."""
    return 2 * np.pi * strip * (rule.nodes.shape[0] - 1) / (_FEWER_DIGITS * 2 * _FEWER_REACH)


def finer(rule: Rule) -> tuple[Rule, Rule]:
    """The rules with a half and a third of the step. Two, because a kink can lie where one of them agrees by chance."""
    steps = rule.nodes.shape[0] - 1
    return trapezoidal(2 * steps + 1), trapezoidal(3 * steps + 1)
