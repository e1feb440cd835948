r"""The log evidence of the potential that was sampled, log ∫ exp(−D(w)) N(w; 0, I) dw.

In closed form where the posterior is normal, from the ladder of a tempering run, and otherwise by importance sampling
from the Laplace laws at the modes, mixed by their masses and a little widened.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp

from kosambi._core.precision import compiled, public
from kosambi._core.types import Array
from kosambi.posterior.importance import smoothed_weights
from kosambi.samplers import Particles
from kosambi.samplers.report import LogEvidence, Report
from kosambi.target import Target
from kosambi.target.modes import Modes, find_modes

NUM_DRAWS = 4000
LARGEST_PARETO_K = 0.7
"""Above this the weights have no standard error that could be trusted."""
WIDENING = 1.1
_SEED = 20230514


@public
def log_evidence(target: Target, particles: Particles, report: Report | None) -> LogEvidence:
    """With a standard error; not a number for a loss without a density."""
    if not target.likelihood.is_density:
        raise target.likelihood.no_density("an evidence")
    if report is not None and report.ladder is not None:
        return report.ladder.log_evidence
    if particles.distribution is not None:
        mean, root = np.asarray(particles.distribution.mean), np.asarray(particles.distribution.root)
        value = -float(_potential(target, mean[None])[0]) + float(np.linalg.slogdet(root)[1])
        return LogEvidence(value, 0.0, "exact")
    modes = find_modes(jax.random.key(_SEED), target)
    w, log_density = _mixture_draws(modes)
    log_weights = -np.asarray(_potential(target, w)) - 0.5 * w.shape[1] * np.log(2.0 * np.pi) - log_density
    log_weights = np.where(np.isfinite(log_weights), log_weights, -np.inf)
    value = float(logsumexp(log_weights) - np.log(len(w)))
    weights = np.exp(log_weights - np.max(log_weights))
    _, pareto_k = smoothed_weights(log_weights)
    error = float(np.std(weights) / np.mean(weights) / np.sqrt(len(w)))
    return LogEvidence(value, error if pareto_k <= LARGEST_PARETO_K else np.nan, "importance")


def _mixture_draws(modes: Modes) -> tuple[Array, Array]:
    """Draws from the Laplace laws, and their log density under the mixture."""
    generator = np.random.default_rng(_SEED)
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
    value = target.term.value(w.reshape(-1, *target.shape)) + 0.5 * jnp.sum(jnp.square(w), axis=1)
    return jnp.where(jnp.isnan(value), jnp.inf, value)
