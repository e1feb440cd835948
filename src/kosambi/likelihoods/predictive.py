r"""log ∫ p(y | f) N(f; μ, σ²) df wherever its mass lies: for convex costs, Student t, and squared rates.

For a cost that is convex in f the integrand exp(−q), q(f) = c(y, f) + (f − μ)²/2σ², is log-concave with q'' ≥ 1/σ².
Bisection finds its mode, which lies between μ and μ − σ²c'(y, μ), and then the two ends where it has fallen by e^{−36},
at most 8.5 σ away. The trapezoidal rule between them resolves a likelihood however narrow or far off it is.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln, log_ndtr

from kosambi._core.types import Array

_DROP = 36.0
_BISECTIONS = 45
# Nodes of the integrals that are written out below.
_NODES = 256


def log_concave_integral(
    cost: Callable[[Array], Array], slope: Callable[[Array], Array], mean: Array, deviation: Array, num_nodes: int
) -> Array:
    """log E exp(−cost(f)) for f ~ N(mean, deviation²), elementwise over arrays of one shape; traceable."""
    safe = jnp.where(deviation > 0, deviation, 1.0)
    precision = 1.0 / jnp.square(safe)

    def objective(f: Array) -> Array:
        return cost(f) + 0.5 * precision * jnp.square(f - mean)

    pull = -jnp.square(safe) * slope(mean)
    # A slope that overflows says nothing about the distance; exponential costs do, and bisection halves quickly.
    pull = jnp.clip(jnp.nan_to_num(pull, posinf=1e30, neginf=-1e30), -1e4 * safe - 1e3, 1e4 * safe + 1e3)
    low, high = jnp.minimum(mean, mean + pull), jnp.maximum(mean, mean + pull)
    mode = _bisect(lambda f: slope(f) + precision * (f - mean) > 0, low, high)
    floor = objective(mode) + _DROP
    reach = jnp.sqrt(2.0 * _DROP) * safe
    left = -_bisect(lambda f: objective(-f) > floor, -mode, -mode + reach)
    right = _bisect(lambda f: objective(f) > floor, mode, mode + reach)
    step = (right - left) / (num_nodes - 1)

    def add(total: Array, i: Array) -> tuple[Array, None]:
        return total + jnp.exp(floor - _DROP - objective(left + i * step)), None

    total, _ = jax.lax.scan(add, jnp.zeros_like(mode), jnp.arange(num_nodes, dtype=mode.dtype))
    log_scale = jnp.log(step) - 0.5 * jnp.log(2.0 * jnp.pi) - jnp.log(safe)
    return jnp.where(deviation > 0, jnp.log(total) + log_scale - (floor - _DROP), -cost(mean))


def _bisect(is_beyond: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """Where a condition that is false at `low` and true beyond some point turns true."""

    def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        middle = 0.5 * (ends[0] + ends[1])
        beyond = is_beyond(middle)
        return jnp.where(beyond, ends[0], middle), jnp.where(beyond, middle, ends[1])

    low, high = jax.lax.fori_loop(0, _BISECTIONS, halve, (low, high))
    return 0.5 * (low + high)


def student_log_predictive(error: Array, deviation: Array, nu: Array, scale: Array) -> Array:
    r"""log density of scale·t_ν + N(0, deviation²) at `error`: t as a normal variable with a random precision.

    With λ = e^t ~ Gamma(ν/2, ν/2) the density is E N(error; 0, deviation² + scale²/λ), an integral over t whose
    integrand is as smooth for a wide as for a narrow deviation. It lies between the t at which the law of λ, on either
    side, has fallen by e^{−40}, and farther down for errors far out.
    """
    shape = jnp.broadcast_shapes(jnp.shape(error), jnp.shape(deviation))
    square = jnp.broadcast_to(jnp.square(error), shape)
    above, below = 92.0 / nu, 92.0 / (nu + 1.0)
    high = jnp.log(1.0 + above + jnp.sqrt(2.0 * above))
    far = jnp.log(jnp.maximum(square / ((nu + 1.0) * jnp.square(scale)), 1.0))
    low = -far - below - jnp.sqrt(2.0 * below)
    step = (high - low) / (_NODES - 1)

    def add(total: Array, i: Array) -> tuple[Array, None]:
        t = low + i * step
        variance = jnp.square(deviation) + jnp.square(scale) * jnp.exp(-t)
        log_normal = -0.5 * (jnp.log(2.0 * jnp.pi * variance) + square / variance)
        return jnp.logaddexp(total, 0.5 * nu * (t - jnp.exp(t)) + log_normal), None

    total, _ = jax.lax.scan(add, jnp.full(shape, -jnp.inf), jnp.arange(_NODES, dtype=square.dtype))
    return total + jnp.log(step) + 0.5 * nu * jnp.log(0.5 * nu) - gammaln(0.5 * nu)


def squared_rate_log_predictive(y: Array, mean: Array, deviation: Array) -> Array:
    r"""log E Poisson(y; f²) for f ~ N(mean, deviation²), y a count.

    e^{−f²} times the normal density is a normal density again, of mean m = μ/(1 + 2σ²) and variance v = σ²/(1 + 2σ²).
    What is left is its moment of order 2y: an integral over f > 0 and one over f < 0, each of a log-concave function
    whose mode is known.
    """
    shape = jnp.broadcast_shapes(jnp.shape(y), jnp.shape(mean), jnp.shape(deviation))
    y, mean, deviation = (jnp.broadcast_to(v, shape) for v in (y, mean, deviation))
    shrink = 1.0 / (1.0 + 2.0 * jnp.square(deviation))
    outside = 0.5 * jnp.log(shrink) - jnp.square(mean) * shrink - gammaln(y + 1.0)
    count, sd = jnp.maximum(y, 1.0), jnp.sqrt(shrink) * jnp.where(deviation > 0, deviation, 1.0)

    def half(centre: Array) -> Array:
        root = jnp.sqrt(jnp.square(centre) + 8.0 * count * jnp.square(sd))
        mode = jnp.where(
            centre > 0, 0.5 * (centre + root), 4.0 * count * jnp.square(sd) / (root - jnp.minimum(centre, 0.0))
        )

        def objective(f: Array) -> Array:
            return 0.5 * jnp.square((f - centre) / sd) - 2.0 * count * jnp.log(f)

        floor = objective(mode) + _DROP
        left = -_bisect(lambda f: objective(-f) > floor, -mode, jnp.zeros_like(mode))
        right = _bisect(lambda f: objective(f) > floor, mode, mode + jnp.sqrt(2.0 * _DROP) * sd)
        step = (right - left) / (_NODES - 1)

        def add(total: Array, i: Array) -> tuple[Array, None]:
            return total + jnp.exp(floor - _DROP - objective(left + i * step)), None

        total, _ = jax.lax.scan(add, jnp.zeros_like(mode), jnp.arange(_NODES, dtype=mode.dtype))
        return jnp.log(total * step / sd) - 0.5 * jnp.log(2.0 * jnp.pi) - (floor - _DROP)

    moment = jnp.logaddexp(half(mean * shrink), half(-mean * shrink))
    at_mean = 2.0 * y * jnp.log(jnp.maximum(jnp.abs(mean), 1e-300)) - jnp.square(mean)
    plain = jnp.where(y > 0, at_mean, -jnp.square(mean)) - gammaln(y + 1.0)
    return jnp.where(deviation > 0, outside + jnp.where(y > 0, moment, 0.0), plain)


def log_upper_tail(a: Array) -> Array:
    """a²/2 + log Φ(−a), without the cancellation of its two terms for a large a."""
    far = jnp.maximum(a, 10.0)
    inverse = 1.0 / jnp.square(far)
    series = 1.0 - inverse * (1.0 - inverse * (3.0 - inverse * (15.0 - inverse * (105.0 - 945.0 * inverse))))
    tail = jnp.log(series) - jnp.log(far) - 0.5 * jnp.log(2.0 * jnp.pi)
    near = jnp.minimum(a, 10.0)
    return jnp.where(a > 10.0, tail, 0.5 * jnp.square(near) + log_ndtr(-near))
