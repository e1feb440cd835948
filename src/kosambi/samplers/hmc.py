r"""Hamiltonian Monte Carlo in the frame of the Laplace approximation, with BlackJAX's kernels.

Step size and trajectory length are adapted over all particles together by the ChEES criterion (Hoffman, Radul and
Sountsov 2021); the number of leapfrog steps follows a Halton sequence, the same for all particles. The density is
exp(−V), without bias.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_count, as_positive
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.errors import InputError
from kosambi.samplers.base import AbstractMarkovSampler, AnyFrame, Info, Work, as_initial


class HMCState(NamedTuple):
    """What the next step needs."""

    chains: Any
    """BlackJAX's state of each particle, with positions v."""
    whitened: Float[Array, "J K"]
    potential: Float[Array, " J"]
    step_size: Float[Array, ""]
    num_leapfrog: Float[Array, ""]


class HMC(AbstractMarkovSampler):
    """Hamiltonian Monte Carlo with a trajectory length found by the ChEES criterion; nothing to tune.

    BlackJAX moves particles one by one, so the N latent values of all J exist at once: J·N numbers of memory, times the
    nodes of the optimal potential. `MALA` bounds that.

    Arguments:
        target_acceptance: the mean acceptance that the step is adapted to.
        num_adaptation: transitions of the adaptation.
        max_leapfrog: the most gradients that one transition may take.
        max_steps: where to stop, converged or not, after the adaptation.
        initial: "laplace" (a widened Laplace approximation around the modes), "prior", or coordinates (J, M).
    """

    name: ClassVar[str] = "hmc"
    num_adaptation_steps: ClassVar[int] = 0  # `init` adapts: BlackJAX runs that phase as a whole

    target_acceptance: Array
    num_adaptation: int
    max_leapfrog: int
    max_steps: Array
    initial: str | Array

    def __init__(
        self,
        target_acceptance: float = 0.75,
        *,
        num_adaptation: int = 60,
        max_leapfrog: int = 64,
        max_steps: int = 1000,
        initial: str | ArrayLike = "laplace",
    ) -> None:
        self.target_acceptance = as_positive("target_acceptance", target_acceptance)
        if self.target_acceptance >= 1:
            raise InputError(f"`target_acceptance` must be below 1. Got {target_acceptance}. The default is 0.75.")
        self.num_adaptation = as_count("num_adaptation", num_adaptation)
        self.max_leapfrog = as_count("max_leapfrog", max_leapfrog)
        self.max_steps = np.asarray(as_count("max_steps", max_steps))
        self.initial = as_initial(initial, ("laplace", "prior"))

    def init(self, key: Key, frame: AnyFrame, v: Float[Array, "J K"]) -> tuple[HMCState, Work]:
        """A state near v, after adaptation."""
        import blackjax
        import optax

        v = v.astype(float)
        adaptation = blackjax.chees_adaptation(
            _log_density(frame),
            v.shape[0],
            target_acceptance_rate=self.target_acceptance,
            max_leapfrog_steps=self.max_leapfrog,
        )
        # In this frame a standard deviation is about one, so one leapfrog step of half of it is a fair beginning.
        (chains, found), info = adaptation.run(key, v, 0.5, optax.adam(0.05), self.num_adaptation)
        gradients = 1 + jnp.sum(jnp.max(info.info.num_integration_steps, axis=1))
        state = HMCState(
            chains,
            frame.whitened(chains.position),
            -chains.logdensity,
            jnp.asarray(found["step_size"], dtype=v.dtype),
            jnp.minimum(jnp.asarray(found["integration_steps_params"][0], dtype=v.dtype), float(self.max_leapfrog)),
        )
        return state, Work(jnp.asarray(self.num_adaptation), gradients)

    def step(self, key: Key, frame: AnyFrame, state: HMCState) -> tuple[HMCState, Info]:
        """One trajectory for each particle."""
        from blackjax.mcmc import dynamic_hmc

        bits = math.ceil(math.log2(2**16))

        def num_steps(argument: Array, mean: Array) -> Array:
            # Between zero and twice the mean, as during adaptation, at least one.
            return jnp.ceil(dynamic_hmc.halton_sequence(argument, bits) * mean).astype(int)

        kernel = dynamic_hmc.build_kernel(next_random_arg_fn=lambda i: i + 1, integration_steps_fn=num_steps)
        identity = jnp.ones(state.whitened.shape[1], dtype=state.whitened.dtype)
        density = _log_density(frame)
        chains, info = jax.vmap(
            lambda one, chain: kernel(one, chain, density, state.step_size, identity, (state.num_leapfrog,))
        )(jax.random.split(key, state.whitened.shape[0]), state.chains)
        moved = state._replace(chains=chains, whitened=frame.whitened(chains.position), potential=-chains.logdensity)
        return moved, Info(info.acceptance_rate, info.is_divergent, jnp.max(info.num_integration_steps))

    def adapt(self, frame: AnyFrame, state: HMCState, info: Info) -> HMCState:
        """Nothing: `init` has done it."""
        del frame, info
        return state


def _log_density(frame: AnyFrame) -> Any:
    """−V for one v. BlackJAX works in float64; the products with the data are in the precision of the frame."""

    def log_density(v: Float[Array, " K"]) -> Float[Array, ""]:
        return -frame.potential(v[None].astype(frame.mode.dtype))[0].astype(v.dtype)

    return log_density
