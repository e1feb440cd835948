r"""Dual averaging of a step size (Nesterov 2009, Hoffman and Gelman 2014), for the mean acceptance of many particles.

With J particles the acceptance of one step is known to about 1/√J, so the gain is larger and the memory shorter than
for a single chain, and the step size is cut at a limit: beyond it, the acceptance may be high for ever.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Float, Int

from kosambi._types import Array

_GAIN = 5.0
_OFFSET = 5.0
_DECAY = 0.75


class Tuning(NamedTuple):
    """The state of dual averaging, in logarithms of the step size."""

    step_size: Float[Array, ""]
    """What the next step uses."""
    first: Float[Array, ""]
    """Where the iterates are drawn back to."""
    error: Float[Array, ""]
    """The running mean of target minus acceptance."""
    average: Float[Array, ""]
    """The weighted mean of the iterates, which a finished adaptation uses."""
    count: Int[Array, ""]


def start_tuning(step_size: Float[Array, ""]) -> Tuning:
    """Nothing known yet."""
    log_size = jnp.log(step_size)
    return Tuning(step_size, log_size, jnp.zeros_like(log_size), log_size, jnp.asarray(0))


def tune(tuning: Tuning, surplus: Float[Array, ""], limit: float) -> Tuning:
    """One update, with `surplus` the acceptance seen minus the acceptance wanted."""
    count = tuning.count + 1
    number = count.astype(surplus.dtype)
    error = tuning.error - (surplus + tuning.error) / (number + _OFFSET)
    log_size = jnp.minimum(tuning.first - jnp.sqrt(number) * _GAIN * error, jnp.log(limit))
    weight = number**-_DECAY
    average = weight * log_size + (1.0 - weight) * tuning.average
    return Tuning(jnp.exp(log_size), tuning.first, error, average, count)


def finish_tuning(tuning: Tuning) -> Tuning:
    """Use the averaged iterates, and begin there if there is more adaptation."""
    zero = jnp.zeros_like(tuning.error)
    return Tuning(jnp.exp(tuning.average), tuning.average, zero, tuning.average, jnp.zeros_like(tuning.count))
