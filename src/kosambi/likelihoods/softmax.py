r"""Expectations of log Σ_c e^{f_c} and of softmax(f), for C independent f_c ~ N(μ_c, σ²): one integral, whatever C is.

**Probabilities.** With independent standard Gumbel variables G_c, softmax(f)_c = P(f_c + G_c is the largest | f). The
V_c = f_c + G_c are independent, V_c − μ_c has one cdf H that depends on σ alone, and

    E softmax(f)_c = P(V_c is the largest) = ∫ h(v − μ_c) Π_{d≠c} H(v − μ_d) dv,   H(t) = E exp(−e^{σξ−t}),  h = H'.

H is tabulated once for each σ, as log(−log H), which is a straight line for σ = 0 and smooth for every σ, so that
products over classes are sums and small probabilities keep their digits. The integral goes by the trapezoidal rule in
z, v = log Σ_c e^{μ_c} + σz − log(−log Φ(z)): exact for σ = 0, when the largest V_c is itself a Gumbel variable.

**Expected cost.** Frullani's integral log S = ∫ (exp(−e^s) − exp(−S e^s)) ds turns E log Σ_c e^{f_c} into products of
one-dimensional expectations; see `expected_log_sum_exp`.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Float

from kosambi._core.types import Array
from kosambi.likelihoods.quadrature import Rule, integrate, tiny

# The outer integral of `expected_log_sum_exp`: a step at which it is exact to 1e-12, and where its integrand ends.
_STEP, _REACH = 0.35, 40.0
# The rule of `expected_softmax`: nodes in z, and how far they go. Errors are below 1e-6 for ten classes, 1e-5 for 30.
_NODES, _ENDS = 25, 5.5
# Entries of its table, which are 1e-6 of a probability apart from the function, and how far below the largest class it
# goes; farther down it is extrapolated.
_ENTRIES, _DEPTH = 192, 20.0
# Values held at once, and rows of tables, so that both stay in a core's cache.
_VALUES_AT_ONCE, _ROWS_AT_ONCE = 2**11, 32


def expected_softmax(mean: Float[Array, "*B C"], deviation: Array, rule: Rule) -> Float[Array, "*B C"]:
    """E softmax(f) for independent f_c ~ N(mean_c, deviation²), to about 1e-6; traceable.

    Arguments:
        mean: the C means along the last axis.
        deviation: their common standard deviation, of a shape that broadcasts to that of `mean` without its last axis.
            What is tabulated is shared along the axes that it has not.
        rule: the nodes for H.
    """
    deviation = jnp.asarray(deviation)
    shape = jnp.broadcast_shapes(mean.shape[:-1], deviation.shape)
    rows = shape[len(shape) - deviation.ndim :]
    sd = jnp.broadcast_to(deviation, rows).reshape(-1)
    means = jnp.moveaxis(jnp.broadcast_to(mean, (*shape, mean.shape[-1])).reshape(-1, *sd.shape, mean.shape[-1]), 0, 1)
    size = int(np.clip(_VALUES_AT_ONCE // max(1, means[0].size), 1, _ROWS_AT_ONCE))
    missing = -len(sd) % size if len(sd) > size else 0
    if missing == 0 and len(sd) <= size:
        found = _block(means, sd, rule)
    else:
        means, sd = jnp.pad(means, ((0, missing), (0, 0), (0, 0))), jnp.pad(sd, (0, missing))
        blocks = (means.reshape(-1, size, *means.shape[1:]), sd.reshape(-1, size))
        found = jax.lax.map(lambda block: _block(block[0], block[1], rule), blocks).reshape(means.shape)
    return jnp.moveaxis(found[: len(sd) - missing], 1, 0).reshape(*shape, mean.shape[-1])


def _block(means: Float[Array, "R L C"], sd: Float[Array, " R"], rule: Rule) -> Float[Array, "R L C"]:
    """E softmax(f) for R standard deviations with L sets of means each."""
    low, step, table = _table(sd, rule)
    centred = means - logsumexp(means, axis=-1, keepdims=True)
    # Places in the table: whole part the entry, fraction the place between two.
    origin = (-(centred + low[:, None, None]) / step[:, None, None]).reshape(len(sd), -1)

    def add(total: Array, node: tuple[Array, Array, Array]) -> tuple[Array, None]:
        z, gumbel, slope = node
        at = jnp.maximum(origin + ((sd * z + gumbel) / step)[:, None], 0.0)
        entry = jnp.minimum(at, _ENTRIES - 1.0).astype(jnp.int32)
        x = at - entry
        found = jnp.take_along_axis(table, entry[:, :, None], axis=1, mode="promise_in_bounds")
        a, b, c, d = (found[..., i] for i in range(4))
        minus_log = jnp.exp(a + x * (b + x * (c + x * d)))
        rate = -minus_log * (b + x * (2.0 * c + 3.0 * x * d))
        weight = jnp.exp(-jnp.sum(minus_log.reshape(means.shape), axis=-1)) * ((sd + slope) / step)[:, None]
        return total + rate.reshape(means.shape) * weight[..., None], None

    z, gumbel, slope = (jnp.asarray(part, dtype=centred.dtype) for part in _OUTER)
    total, _ = jax.lax.scan(add, jnp.zeros_like(centred), (z, gumbel, slope))
    return total / jnp.sum(total, axis=-1, keepdims=True)


def _table(sd: Float[Array, " R"], rule: Rule) -> tuple[Array, Array, Float[Array, "R G 4"]]:
    """log(−log H) as cubic polynomials between entries: where the first is, how far they are apart, coefficients."""
    low = _OUTER[1][0] - _ENDS * sd
    high = _OUTER[1][-1] + _DEPTH + (_ENDS + 4.0) * sd
    step = (high - low) / (_ENTRIES - 1)
    t = low[:, None] + step[:, None] * jnp.arange(_ENTRIES, dtype=sd.dtype)
    largest, least = 0.9 * float(np.log(np.finfo(t.dtype).max)), tiny(t)

    def add(totals: tuple[Array, Array, Array], node: tuple[Array, Array]) -> tuple[tuple[Array, Array, Array], None]:
        x, weight = node
        e = jnp.exp(jnp.minimum(sd[:, None] * x - t, largest))
        below = jnp.exp(-e)
        # 1 − exp(−e) without cancellation.
        above = jnp.where(e < 1e-2, e * (1.0 - e * (0.5 - e * (1.0 / 6.0 - e / 24.0))), 1.0 - below)
        return (totals[0] + weight * below, totals[1] + weight * above, totals[2] + weight * e * below), None

    zero = jnp.zeros_like(t)
    (below, above, density), _ = jax.lax.scan(add, (zero, zero, zero), (rule.nodes, rule.weights))
    below = jnp.maximum(below, least)
    minus_log = jnp.where(below < 0.5, -jnp.log(below), -jnp.log1p(-jnp.minimum(above, 0.6)))
    minus_log = jnp.maximum(minus_log, least)
    value, slope = jnp.log(minus_log), -density / below / minus_log * step[:, None]
    rise, first, last = jnp.diff(value, axis=1), slope[:, :-1], slope[:, 1:]
    cubic = jnp.stack([value[:, :-1], first, 3.0 * rise - 2.0 * first - last, first + last - 2.0 * rise], axis=-1)
    beyond = jnp.stack([value[:, -1], slope[:, -1], zero[:, 0], zero[:, 0]], axis=-1)
    return low, step, jnp.concatenate([cubic, beyond[:, None]], axis=1)


def _outer() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """z, −log(−log Φ(z)) and its derivative at the nodes."""
    z = np.linspace(-_ENDS, _ENDS, _NODES)
    # log Φ(z), from the tail that is small; SciPy would take longer to import than all of this module.
    tail = np.array([0.5 * math.erfc(abs(value) / math.sqrt(2.0)) for value in z])
    log_below = np.where(z < 0, np.log(tail), np.log1p(-tail))
    density = np.exp(-0.5 * z**2 - 0.5 * np.log(2.0 * np.pi))
    return z, -np.log(-log_below), -density / np.exp(log_below) / log_below


_OUTER = _outer()


def expected_log_sum_exp(mean: Array, deviation: Array, rule: Rule) -> tuple[Array, Array]:
    r"""E log Σ_c e^{f_c} and its gradient E softmax(f), for independent f_c ~ N(mean_c, deviation²); traceable.

    With L(t) = E exp(−e^{t + σξ}),

        E log Σ_c e^{f_c} = ∫ (exp(−e^s) − Π_c L(s + mean_c)) ds.
    """
    top = jnp.max(mean, axis=-1, keepdims=True)
    centred, sd = mean - top, jnp.asarray(deviation)[..., None]

    def add(totals: tuple[Array, Array], s: Array) -> tuple[tuple[Array, Array], None]:
        survival = lambda t: jnp.exp(-jnp.exp(jnp.minimum(t, 50.0)))
        slope = lambda t: jnp.exp(t - jnp.exp(jnp.minimum(t, 50.0)))
        value = jnp.maximum(integrate(survival, s + centred, sd, rule), tiny(mean))
        drop = integrate(slope, s + centred, sd, rule)
        product = jnp.prod(value, axis=-1)
        gained = jnp.exp(-jnp.exp(s)) - product
        return (totals[0] + _STEP * gained, totals[1] + _STEP * drop / value * product[..., None]), None

    grid = jnp.arange(-_REACH, _REACH, _STEP, dtype=centred.dtype)
    shape = jnp.broadcast_shapes(centred.shape, sd.shape)
    start = (jnp.zeros(shape[:-1], dtype=centred.dtype), jnp.zeros(shape, dtype=centred.dtype))
    (value, gradient), _ = jax.lax.scan(add, start, grid)
    return top[..., 0] + value, gradient
