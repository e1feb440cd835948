r"""Half-integer Matérn correlations as functions of the squared distance, differentiable at zero distance.

With t = √s: g₀ = e^{−t}, g₁ = (1+t) e^{−t}, g₂ = (1+t+t²/3) e^{−t}. They form a chain under d/ds,

    g₂' = −g₁/6,   g₁' = −g₀/2,   g₀' = −e^{−t}/(2t),

so no division by t happens before the last one, where the function itself has a kink: its slope at s = 0 is set to 0.
Plain autodiff through √s would give NaN at coinciding points, and zero second derivatives with the usual guard.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._types import Array


@jax.custom_jvp
def matern12(s: Float[Array, "..."]) -> Float[Array, "..."]:
    """g₀(s) = e^{−√s}."""
    return jnp.exp(-jnp.sqrt(s))


@jax.custom_jvp
def matern32(s: Float[Array, "..."]) -> Float[Array, "..."]:
    """g₁(s) = (1 + √s) e^{−√s}."""
    t = jnp.sqrt(s)
    return (1.0 + t) * jnp.exp(-t)


@jax.custom_jvp
def matern52(s: Float[Array, "..."]) -> Float[Array, "..."]:
    """g₂(s) = (1 + √s + s/3) e^{−√s}."""
    t = jnp.sqrt(s)
    return (1.0 + t + s / 3.0) * jnp.exp(-t)


@matern12.defjvp
def _matern12_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (s,), (s_dot,) = primals, tangents
    value = matern12(s)
    # Rounding leaves coinciding points at a tiny distance, where 1/t would blow up the rounding of s_dot.
    apart = s > jnp.square(1e3 * np.finfo(s.dtype).eps)
    t = jnp.sqrt(jnp.where(apart, s, 1.0))
    return value, jnp.where(apart, -0.5 * value / t, 0.0) * s_dot


@matern32.defjvp
def _matern32_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (s,), (s_dot,) = primals, tangents
    return matern32(s), -0.5 * matern12(s) * s_dot


@matern52.defjvp
def _matern52_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (s,), (s_dot,) = primals, tangents
    return matern52(s), -matern32(s) / 6.0 * s_dot
