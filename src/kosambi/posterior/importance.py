r"""Importance weights and what they estimate: draws taken again by weight, and the log marginal likelihood (evidence).

Weights are Pareto-smoothed (Vehtari et al. 2024). The evidence of the potential that was sampled,

    log ∫ exp(−D(w)) N(w; 0, I) dw

with D the cost of the data, is in closed form where the posterior is normal, comes from the ladder of a tempering run,
and otherwise from importance sampling: proposals from the Laplace approximations at the modes, mixed by their masses
and a little widened.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from scipy.special import logsumexp

from kosambi._core.precision import compiled, host_generator, public
from kosambi._core.types import Array, Key
from kosambi.samplers import LogEvidence, Particles, Report
from kosambi.target import Target
from kosambi.target.data_terms import QuadraticTerm
from kosambi.target.modes import Modes, find_modes

FEWEST_FOR_TAIL = 25
"""Fewer draws have no tail of weights to judge."""
LARGEST_PARETO_K = 0.7
"""Above it importance weights cannot be trusted."""
NUM_DRAWS = 4000
"""Proposals for the evidence."""
NUM_STARTS = 64
"""Particles from which modes are searched for, beside prior draws, when the cost is not convex."""
WIDENING = 1.1
"""Of the Laplace approximations that proposals are drawn from: lighter tails than the posterior's have no variance."""


def smoothed_weights(log_weights: Float[np.ndarray, " J"]) -> tuple[Float[np.ndarray, " J"], float]:
    """Pareto-smoothed weights with sum one, and k̂ (BlackJAX): −inf for equal weights, NaN for fewer than 25.

    >>> import numpy as np, kosambi as ko
    >>> ko.posterior.smoothed_weights(np.zeros(4))
    (array([0.25, 0.25, 0.25, 0.25]), -inf)
    """
    # A draw whose weight is not a number has none.
    log_weights = np.where(np.isfinite(log_weights), log_weights, -np.inf)
    if not np.any(np.isfinite(log_weights)):
        return np.full(len(log_weights), 1.0 / len(log_weights)), np.nan
    if np.ptp(log_weights) < 1e-12:
        return np.full(len(log_weights), 1.0 / len(log_weights)), -np.inf
    with jax.enable_x64(True):
        smoothed, pareto_k = _psis()(log_weights)
    weights = np.exp(np.asarray(smoothed))
    weights = weights / np.sum(weights)
    if len(weights) < FEWEST_FOR_TAIL:
        return weights, np.nan
    # One weight beside which all others vanish leaves no tail to fit.
    return weights, float(pareto_k) if np.isfinite(pareto_k) else np.inf


@functools.cache
def _psis() -> Callable[..., Any]:
    # Imported here because BlackJAX takes as long to import as the rest, and once, so that it compiles once a shape.
    from blackjax.diagnostics import psis_weights

    return compiled(psis_weights)


def systematic(key: Key, weights: Float[np.ndarray, " J"]) -> Int[np.ndarray, " J"]:
    """J numbers of draws, each as often as J times its weight, rounded up or down (BlackJAX).

    >>> import jax, numpy as np, kosambi as ko
    >>> ko.posterior.systematic(jax.random.key(0), np.array([0.5, 0.25, 0.25, 0.0]))
    array([0, 0, 1, 2])
    """
    from blackjax.smc import resampling

    with jax.enable_x64(True):
        return np.asarray(resampling.systematic(key, jnp.asarray(weights), len(weights)), dtype=np.int64)


@public
def log_evidence(target: Target, particles: Particles, report: Report | None) -> LogEvidence:
    """The log marginal likelihood of a target, with a standard error; refused for a loss that is no density of y.

    `report` is that of a run on this very target, or None.
    """
    if not target.likelihood.is_density:
        raise target.likelihood.no_density("an evidence")
    if report is not None and report.ladder is not None:
        return report.ladder.log_evidence
    if particles.distribution is not None:
        mean, root = np.asarray(particles.distribution.mean), np.asarray(particles.distribution.root)
        value = -float(_potential(target, mean[None])[0]) + float(np.linalg.slogdet(root)[1])
        if not isinstance(target.term, QuadraticTerm):
            # There are no coordinates to integrate over, and the rest is that of sites.
            return LogEvidence(value, np.nan, "sites")
        return LogEvidence(value, 0.0, "exact")
    mode_key, draw_key = _keys_of(particles)
    # Prior draws alone can all end in one mode of several, and the evidence would lack the others without a sign of it.
    every = np.asarray(particles.whitened).reshape(particles.num_particles, -1)
    starts = every[np.linspace(0, len(every) - 1, min(len(every), NUM_STARTS)).astype(int)]
    w, log_density = _mixture_draws(draw_key, find_modes(mode_key, target, starts))
    log_weights = -np.asarray(_potential(target, w)) - 0.5 * w.shape[1] * np.log(2.0 * np.pi) - log_density
    log_weights = np.where(np.isfinite(log_weights), log_weights, -np.inf)
    value = float(logsumexp(log_weights) - np.log(len(w)))
    weights = np.exp(log_weights - np.max(log_weights))
    _, pareto_k = smoothed_weights(log_weights)
    error = float(np.std(weights) / np.mean(weights) / np.sqrt(len(w)))
    if (known := target.stream) is not None:
        # From the potential that the sample stands for to that of all rows.
        value += float(known.log_correction)
        error = float(np.hypot(error, known.log_correction_error))
    return LogEvidence(value, error if pareto_k <= LARGEST_PARETO_K else np.nan, "importance")


def share_of_evidence(whole: LogEvidence, share: float, num_particles: int, is_known: bool) -> LogEvidence:
    """The evidence of a part that holds a share s of the posterior: log Z + log s, s being estimated by particles.

    Arguments:
        whole: log Z with its standard error.
        share: s, of which `num_particles` particles are the part: its relative variance is (1 − s)/(s J) = (1 − s)/n.
        num_particles: n.
        is_known: whether the particles pass between the parts; where not, their numbers say little and the standard
            error is NaN.
    """
    error = np.hypot(whole.standard_error, np.sqrt((1.0 - share) / num_particles)) if is_known else np.nan
    return LogEvidence(whole.value + float(np.log(share)), float(error), whole.method)


def _keys_of(particles: Particles) -> tuple[Key, Key]:
    """Two random keys that follow from the particles, and so from the key that they were drawn with.

    A posterior then has one evidence, without a seed of its own, and another run another estimate.
    """
    digest = hashlib.sha256(np.ascontiguousarray(particles.whitened, dtype="<f8").tobytes()).digest()
    words = np.frombuffer(digest, dtype="<u4").astype(np.uint32)
    return words[:2], words[2:4]


def _mixture_draws(key: Key, modes: Modes) -> tuple[Array, Array]:
    """Draws from the Laplace approximations, and their log density under the mixture."""
    generator = host_generator(key)
    positions, roots = np.asarray(modes.positions), WIDENING * np.asarray(modes.roots)
    which = generator.choice(len(positions), size=NUM_DRAWS, p=np.asarray(modes.weights))
    noise = generator.normal(size=(NUM_DRAWS, positions.shape[1]))
    w = positions[which] + np.einsum("sij,sj->si", roots[which], noise)
    parts = []
    for weight, position, root in zip(modes.weights, positions, roots, strict=True):
        white = np.linalg.solve(root, (w - position).T)
        constant = float(np.linalg.slogdet(root)[1]) + 0.5 * len(position) * np.log(2.0 * np.pi)
        with np.errstate(divide="ignore"):
            parts.append(np.log(weight) - 0.5 * np.sum(np.square(white), axis=0) - constant)
    return w, logsumexp(np.stack(parts), axis=0)


@compiled
def _potential(target: Target, w: Array) -> Array:
    value = target.term.value(w.reshape(len(w), *target.shape)) + 0.5 * jnp.sum(jnp.square(w), axis=1)
    return jnp.where(jnp.isnan(value), jnp.inf, value)
