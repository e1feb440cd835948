"""The full posterior by brute force: a long run of BlackJAX's NUTS over the values of f at all N data.

Nothing is shared with the samplers of kosambi but the cost of an observation and the covariance r. With r(X, X) = VΛVᵀ
the values are f = m + VΛ^{1/2}w, where the prior of w is standard normal. That is whitening as by a Cholesky factor,
turned to the principal axes, along which posteriors lie nearly; directions of no variance (1e-12 of the largest) are
left out, so no jitter is needed. Values elsewhere follow from w and the conditional distribution of the prior.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.precision import compiled, host_generator, public
from kosambi._core.types import Array, Key
from kosambi.likelihoods import AbstractLikelihood
from kosambi.priors import AbstractPrior

NEGLIGIBLE = 1e-12
"""Eigenvalues of r(X, X) below this part of the largest are rounding errors."""


@dataclasses.dataclass(frozen=True, eq=False)
class LongRun:
    """Draws from the full posterior, and whether they can be trusted."""

    prior: AbstractPrior
    x: Float[np.ndarray, "N D"]
    whitened: Float[np.ndarray, "R K"]
    """w, chains one after the other."""
    back: Float[np.ndarray, "N K"]
    """VΛ^{−1/2}, which carries r(x, X) to the weights of w."""
    r_hat: float
    """The largest over w of the classical statistic."""
    ess: float
    """The least effective number of draws over w."""
    divergences: int

    def latent(self, x_new: Float[np.ndarray, "N D"]) -> tuple[Float[np.ndarray, "R N"], Float[np.ndarray, " N"]]:
        """Mean of f at new inputs given each draw, and the standard deviation around it that all draws share."""
        weights = np.asarray(self.prior.covariance(x_new, self.x)) @ self.back
        means = np.asarray(self.prior.mean_at(x_new)) + self.whitened @ weights.T
        rest = np.asarray(self.prior.variance(x_new)) - np.sum(weights**2, axis=1)
        return means, np.sqrt(np.maximum(rest, 0.0))

    def values(self, key: Key, x_new: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "R N"]:
        """Joint draws of f at new inputs, in random order."""
        noise_key, order_key = jax.random.split(key)
        means, _ = self.latent(x_new)
        weights = np.asarray(self.prior.covariance(x_new, self.x)) @ self.back
        rest = np.asarray(self.prior.covariance(x_new)) - weights @ weights.T
        values, vectors = np.linalg.eigh(rest)
        noise = host_generator(noise_key).normal(size=means.shape)
        draws = means + noise * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
        return draws[host_generator(order_key).permutation(len(draws))]


@public
def long_run(
    key: Key,
    prior: AbstractPrior,
    likelihood: AbstractLikelihood,
    x: Float[np.ndarray, "N D"],
    y: Float[np.ndarray, " N"],
    *,
    num_chains: int = 4,
    num_draws: int = 1000,
    num_warmup: int = 500,
) -> LongRun:
    """NUTS on the full posterior in float64.

    Arguments:
        key: a JAX random key.
        prior: the distribution of f.
        likelihood: the cost of an observation, with one latent function.
        x: (N, D), the inputs.
        y: (N,), the observations.
        num_chains: from different starts, one after the other.
        num_draws: of each chain, after
        num_warmup: transitions in which step size and a diagonal mass matrix are found.
    """
    import blackjax

    eigenvalues, vectors = np.linalg.eigh(np.asarray(prior.covariance(x)))
    kept = eigenvalues > NEGLIGIBLE * eigenvalues[-1]
    deviations, vectors = np.sqrt(eigenvalues[kept]), vectors[:, kept]
    start_key, chain_key = jax.random.split(key)
    starts = host_generator(start_key).normal(size=(num_chains, int(kept.sum())))
    draws, divergent = _chains(
        jax.random.split(chain_key, num_chains),
        starts,
        likelihood,
        vectors * deviations,
        np.asarray(prior.mean_at(x)),
        np.asarray(y, dtype=float),
        num_draws,
        num_warmup,
    )
    r_hat = blackjax.diagnostics.potential_scale_reduction(draws)
    ess = blackjax.diagnostics.effective_sample_size(draws)
    return LongRun(
        prior,
        x,
        np.asarray(draws).reshape(-1, int(kept.sum())),
        vectors / deviations,
        float(jnp.max(r_hat)),
        float(jnp.min(ess)),
        int(jnp.sum(divergent)),
    )


@compiled
def _chains(
    keys: Key,
    starts: Float[Array, "C K"],
    likelihood: AbstractLikelihood,
    root: Float[Array, "N K"],
    mean: Float[Array, " N"],
    y: Float[Array, " N"],
    num_draws: int,
    num_warmup: int,
) -> tuple[Float[Array, "C R K"], Any]:
    import blackjax

    def log_density(w: Float[Array, " K"]) -> Float[Array, ""]:
        return -jnp.sum(likelihood.raw_cost(y, mean + root @ w)) - 0.5 * jnp.sum(w**2)

    def chain(key_and_start: tuple[Key, Array]) -> tuple[Array, Array]:
        warmup_key, draw_key = jax.random.split(key_and_start[0])
        warmup = blackjax.window_adaptation(blackjax.nuts, log_density, target_acceptance_rate=0.9)
        (state, parameters), _ = warmup.run(warmup_key, key_and_start[1], num_warmup)
        step = blackjax.nuts(log_density, **parameters).step

        def one(state: Any, key: Key) -> tuple[Any, tuple[Array, Array]]:
            state, info = step(key, state)
            return state, (state.position, info.is_divergent)

        return jax.lax.scan(one, state, jax.random.split(draw_key, num_draws))[1]

    # One after the other: side by side every chain would wait for the longest trajectory.
    return jax.lax.map(chain, (keys, starts))
