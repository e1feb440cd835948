r"""Expectations over ξ ~ N(0, 1) by the trapezoidal rule, with as many nodes as the integrand needs.

    E g(μ + σξ) ≈ h Σ_k φ(kh) g(μ + σkh),   |kh| ≤ 8.5

For g analytic in a strip of half-width d around the real line, the error falls as exp(−2πd/(σh)): the rule sees the
distance to the nearest singularity of the cost, and nothing else matters. Gauss-Hermite with the same number of nodes
spends most of them in the tails, and fails for heavy-tailed costs whose scale is below σ. Twice the larger difference
to the rules with steps h/2 and h/3 estimates the error, also for a cost with kinks, where it falls as h² only.

A `Rule` also says how its sum is evaluated, which decides between compile time, memory and speed: `AT_ONCE`,
`IN_GROUPS` or `ONE_BY_ONE`.
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from kosambi._core.precision import Module
from kosambi._core.types import Array
from kosambi.errors import InputError

AT_ONCE = "at once"
"""All values of the integrand are held in memory; what every rule does where they are few."""
IN_GROUPS = "in groups"
"""A loop that writes out some nodes at a time: the fastest to run. For potentials, which are evaluated many times."""
ONE_BY_ONE = "one by one"
"""A loop over single nodes, whose derivative computes them again: the fastest to compile, and it holds the least.
For derivatives in hyperparameters, and for integrals that are evaluated once."""
EVALUATIONS = (AT_ONCE, IN_GROUPS, ONE_BY_ONE)
"""The ways to evaluate a sum over nodes."""

# Nodes of a group. Fewer than two groups are written out as one.
_GROUP = 17
# Values of an integrand that are made at once. A loop over groups of nodes passes over memory less often, but writing
# the nodes of a group out takes seconds to compile, and a minute where derivatives are taken.
_VALUES_AT_ONCE = 2**18

# Beyond this many standard deviations the normal density is below 1e-16.
REACH = 8.5
# A short list of node counts, so that models with nearly the same residual share compiled code.
_COUNTS = (21, 34, 51, 68, 102, 136, 204, 272, 408, 544, 1088, 2176, 4352, 8704)
# Nodes where derivatives in hyperparameters are taken.
_EVIDENCE_NODES = 67
# Fewer nodes than this do not even integrate the normal density.
FEWEST_NODES = 13
# The relative error aimed for, as a natural logarithm: 1e-11.
_DIGITS = 25.0
# The same for summaries: 1e-8, with a reach that leaves out as little.
_FEWER_DIGITS, _FEWER_REACH = 18.0, 5.8


class Rule(Module):
    """Nodes ξ_k, (K,), or (K, C) for C latent values together, with weights that sum to one, and how to sum over them.

    Arguments:
        nodes: the values of ξ.
        weights: (K,), that of each node.
        evaluation: `AT_ONCE`, `IN_GROUPS` or `ONE_BY_ONE`.
    """

    nodes: Array
    weights: Array
    evaluation: str = eqx.field(static=True, default=IN_GROUPS)

    def __check_init__(self) -> None:
        if self.evaluation not in EVALUATIONS:
            raise InputError(f"`Rule(evaluation=...)` must be one of {EVALUATIONS}. Got {self.evaluation!r}.")


def trapezoidal(num_nodes: int, evaluation: str = IN_GROUPS) -> Rule:
    """The trapezoidal rule with `num_nodes` nodes, symmetric about zero."""
    nodes = np.linspace(-REACH, REACH, num_nodes)
    weights = np.exp(-0.5 * nodes**2)
    return Rule(nodes, weights / weights.sum(), evaluation)


def evidence_rule() -> Rule:
    """The trapezoidal rule where derivatives in hyperparameters are taken: ten digits for σ up to the strip."""
    return trapezoidal(_EVIDENCE_NODES, ONE_BY_ONE)


def gauss_hermite(num_nodes: int) -> Rule:
    """Gauss-Hermite: the fewest nodes for an integrand that is nearly a polynomial over a few standard deviations."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(num_nodes)
    return Rule(nodes, weights / weights.sum())


def cubature(num_latents: int) -> Rule:
    """For C independent standard normal numbers: ±√C along each axis, exact for polynomials of degree three."""
    axes = np.sqrt(num_latents) * np.eye(num_latents)
    return Rule(np.concatenate([axes, -axes]), np.full(2 * num_latents, 0.5 / num_latents), AT_ONCE)


def lattice(num_latents: int, num_pairs: int = 64) -> Rule:
    """For C independent standard normal numbers: evenly spread points and their mirror images, of unit variance."""
    from scipy.special import ndtri

    # The lattice of the generalised golden ratio: the positive root of g^(C+1) = g + 1.
    ratio = float(np.max(np.real(np.roots([1.0, *[0.0] * (num_latents - 1), -1.0, -1.0]))))
    steps = ratio ** -np.arange(1.0, num_latents + 1.0)
    half = ndtri((0.5 + np.outer(np.arange(num_pairs) + 0.5, steps)) % 1.0)
    half = half / np.sqrt(np.mean(np.square(half), axis=0))
    return Rule(np.concatenate([half, -half]), np.full(2 * num_pairs, 0.5 / num_pairs), AT_ONCE)


def nodes_for(strip: float, largest_deviation: float) -> int:
    """How many nodes a cost analytic within `strip` of the real line needs for residuals up to `largest_deviation`."""
    # The normal density itself limits the step: exp(−2π²/h²).
    step = min(2 * np.pi / np.sqrt(2 * _DIGITS), 2 * np.pi * strip / (_DIGITS * max(largest_deviation, 1e-300)))
    wanted = 2 * REACH / step + 1
    return next((count for count in _COUNTS if count >= wanted), _COUNTS[-1])


def finer(rule: Rule) -> tuple[Rule, Rule]:
    """The rules with a half and a third of the step. Two, because a kink can lie where one of them agrees by chance."""
    steps = rule.nodes.shape[0] - 1
    return trapezoidal(2 * steps + 1, ONE_BY_ONE), trapezoidal(3 * steps + 1, ONE_BY_ONE)


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
    nodes, weights = rule.nodes[inside], rule.weights[inside] / rule.weights[inside].sum()
    return Rule(nodes, weights, IN_GROUPS if number == len(_GAUSS) else ONE_BY_ONE)


def integrate(function: Callable[[Array], Array], mean: Array, deviation: Array, rule: Rule) -> Array:
    """Σ_k w_k function(mean + deviation ξ_k), evaluated as the rule says; traceable."""
    nodes, weights = rule.nodes, rule.weights
    axes = jnp.ndim(mean + deviation * 0.0)
    if nodes.ndim == 2:
        at = jnp.reshape(nodes, (nodes.shape[0], *(1 for _ in range(axes - 1)), nodes.shape[1]))
        return jnp.tensordot(weights, function(mean + deviation * at), axes=1)
    if rule.evaluation == AT_ONCE or is_little(mean, deviation, rule):
        at = jnp.reshape(nodes, (-1, *(1 for _ in range(axes))))
        return jnp.tensordot(weights, function(mean + deviation * at), axes=1)
    count = nodes.shape[0]
    group = 1 if rule.evaluation == ONE_BY_ONE else count if count < 2 * _GROUP else _GROUP

    def add(total: Array, part: tuple[Array, Array]) -> tuple[Array, None]:
        for i in range(part[0].shape[0]):
            total = total + part[1][i] * function(mean + deviation * part[0][i])
        return total, None

    shape = jax.eval_shape(function, mean + deviation * nodes[0])
    whole = count - count % group
    grouped = (jnp.reshape(nodes[:whole], (-1, group)), jnp.reshape(weights[:whole], (-1, group)))
    step = jax.checkpoint(add) if rule.evaluation == ONE_BY_ONE else add
    total, _ = jax.lax.scan(step, jnp.zeros(shape.shape, dtype=shape.dtype), grouped)
    return total if whole == count else add(total, (nodes[whole:], weights[whole:]))[0]


def is_little(mean: Array, deviation: Array, rule: Rule) -> bool:
    """Whether an integrand has so few values that all of them are made at once."""
    size = int(np.prod(jnp.broadcast_shapes(jnp.shape(mean), jnp.shape(deviation))))
    return size * rule.nodes.shape[0] <= _VALUES_AT_ONCE


def tiny(array: Array) -> float:
    """A positive number whose square is still representable in the precision of `array`."""
    return 2.0 * float(np.sqrt(np.finfo(jnp.result_type(array, float)).tiny))
