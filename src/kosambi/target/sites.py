r"""Gaussian sites of the data for the potential with neighbours: a factor N(t_n; f_n, 1/W_n) near each likelihood.

Variational: with q(f_n) = N(f̂_n, v_n) what is known of f_n given all data,

    W_n = E_q c''(y_n, f_n),   t_n = f̂_n − E_q c'(y_n, f_n)/W_n

(Opper and Archambeau 2009). Where a cost is not convex its curvature would turn an outlier into a confident site at f̂;
there W_n is first that of a parabola above the cost (for Student's noise E_q c'/(f − y)), and t_n about y_n. That is
too narrow for ordinary rows. So in the end a site has the moments of its own factor (expectation propagation, Minka
2001): with N(μ, v) what all others say of f_n, s and k the first two derivatives of −log E exp(−c) in μ,

    W_n = max(k/(1 − v k), 0),   t_n = μ − v s − s/W_n,

which is next to nothing for an outlier.

q follows from the sites by what the coordinates and the m nearest of all *other* rows say, and the own site:

    f_n | w ~ N(b° + ψ̌°ᵀw, D°),   w ~ N(ŵ, H⁻¹) given all sites (the rows before each row as its neighbours)

These updates have no merit function: they are damped where they grow, there are at most 50, and what still moves then
is counted.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Float

from kosambi._core.journal import Steps
from kosambi._core.precision import compiled, lift
from kosambi._core.room import USUAL, Room
from kosambi._core.types import Array
from kosambi.basis.local import unexplained
from kosambi.likelihoods import AbstractLikelihood
from kosambi.likelihoods.marginals import Site
from kosambi.likelihoods.quadrature import Rule
from kosambi.priors import AbstractPrior
from kosambi.target.device_rounds import (
    DeviceRows,
    has_room,
    marginals_on_device,
    marginals_on_mesh,
    systems_on_device,
)
from kosambi.target.host_rounds import Data, Marginals, marginals_on_host
from kosambi.target.row_blocks import map_over_rows

MAX_ROUNDS = 50
"""Updates of the sites."""
SETTLED, ROUGHLY = 0.02, 0.1
"""Standard deviations of q by which no mean of it moves any more at the end, and what counts as moving."""
MANY, FEW = 1000, 100
"""One row in so many may still move; the second number for costs that are not convex, where a row between two groups of
others can go to and fro for long."""
NEAR, MATCHED = 1.0, 0.05
"""For costs that are not convex: deviations by which rows move when moments are first matched, and at the end."""
# Moments lead nowhere where rows, by their median, move so many times as far as they have before.
_ASTRAY = 8.0
# The variance of q at which rough latent values are first looked at, and the smallest, as parts of the prior's.
_FIRST_VARIANCE, _SMALLEST_VARIANCE = 0.25, 1e-10
# The smallest precision of a site that counts, over that of the prior: it keeps the slope of a saturated label.
_SMALLEST_PRECISION = 1e-8
_SMALLEST_STEP = 0.125
MAX_MATCHED = 30
"""Updates that give sites the moments of their factors, where costs are not convex."""
# How far an update that matches moments goes.
_PART = 0.5
# What is left, at least, where the own site is taken from q, and a part of what is known where it is added.
_SMALLEST_SHARE = 0.02


class Settled(NamedTuple):
    """Sites, and how the search for them went."""

    site: Site
    rounds: int
    num_unsettled: int


def settled_sites(
    prior: AbstractPrior, likelihood: AbstractLikelihood, data: Data, room: Room = USUAL, mesh: Mesh | None = None
) -> Settled:
    """Sites that agree with the q that follows from them."""
    marginals = _remembered(_guarded_marginals(prior, data, room, mesh))
    if likelihood.is_convex:
        return _updated(likelihood, data, marginals, _first(likelihood, data))
    begun = _updated(likelihood, data, marginals, _first(likelihood, data), NEAR, FEW)
    matched = _matched(likelihood, data, begun, marginals)
    return _updated(likelihood, data, marginals, _first(likelihood, data)) if matched is None else matched


def _remembered(marginals: Marginals) -> Marginals:
    """The same, written in a journal, if there is one, and known from it."""
    steps = Steps("sites")

    def known(site: Site) -> tuple[np.ndarray, np.ndarray]:
        mean, variance = steps.next(lambda: marginals(site), *site)
        return mean, variance

    return known


def _updated(
    likelihood: AbstractLikelihood,
    data: Data,
    marginals: Marginals,
    q: tuple[np.ndarray, np.ndarray],
    tolerance: float = SETTLED,
    many: int = MANY,
) -> Settled:
    """Variational sites, from those of a first q on until all but one row in `many` move by less than `tolerance`."""
    (mean, variance), floor = q, _SMALLEST_VARIANCE * data.variance
    step, before = 1.0, np.inf
    site, rounds = _sites(likelihood, data, mean, variance), 0
    moved = np.full(len(data.y), np.inf)
    counts = data.weights > 0
    while rounds < MAX_ROUNDS and not _has_settled(moved[counts], tolerance, many):
        rounds += 1
        new_mean, new_variance = marginals(site)
        moved = np.abs(new_mean - mean) / np.sqrt(np.maximum(new_variance, floor) + np.finfo(float).tiny)
        size = float(np.sqrt(np.mean(np.square(moved[counts])))) if counts.any() else 0.0
        step = max(_SMALLEST_STEP, 0.5 * step) if size > before else min(1.0, 1.5 * step)
        before = size
        mean = mean + step * (new_mean - mean)
        variance = np.maximum(variance + step * (new_variance - variance), floor)
        site = _sites(likelihood, data, mean, variance)
    return Settled(site, rounds, int(np.sum(~(moved[counts] <= ROUGHLY))))


def _matched(likelihood: AbstractLikelihood, data: Data, begun: Settled, marginals: Marginals) -> Settled | None:
    """Sites with the moments of their factors, from those that have `begun`; None where updates lead nowhere."""
    site, counts = begun.site, data.weights > 0
    least = _SMALLEST_PRECISION / np.maximum(data.variance, np.finfo(float).tiny)
    before, moved, widest, rounds = None, np.full(len(data.y), np.inf), np.inf, begun.rounds
    for _ in range(MAX_MATCHED):
        rounds += 1
        mean, variance = marginals(site)
        variance = np.maximum(variance, _SMALLEST_VARIANCE * data.variance)
        if before is not None:
            moved = np.abs(mean - before) / np.sqrt(variance)
            size = float(np.median(moved[counts])) if counts.any() else 0.0
            if not size <= _ASTRAY * widest:
                return None
            widest = min(widest, max(size, SETTLED))
            if _has_settled(moved[counts], MATCHED, FEW):
                break
        before = mean
        # What the others say: q without the own site.
        share = np.maximum(1.0 - site.precision * variance, _SMALLEST_SHARE)
        wide = variance / share
        centre = mean + wide * site.precision * (mean - site.location)
        slope, second = _factor_slopes(likelihood, data, centre, np.sqrt(wide))
        precision = np.maximum(second / np.maximum(1.0 - wide * second, _SMALLEST_SHARE), least)
        # Part of the way, in precisions and precisions times locations.
        aim = precision * (centre - wide * slope) - slope
        new = site.precision + _PART * (precision - site.precision)
        pulled = site.precision * site.location + _PART * (aim - site.precision * site.location)
        is_known = counts & np.isfinite(new) & np.isfinite(pulled)
        site = Site(
            np.where(is_known, new, site.precision), np.where(is_known, pulled / np.maximum(new, least), site.location)
        )
    return Settled(site, rounds, int(np.sum(~(moved[counts] <= ROUGHLY))))


def _has_settled(moved: Float[np.ndarray, " N"], tolerance: float, many: int) -> bool:
    """Whether no row moves by more than the tolerance any more; of very many, all but one in `many`."""
    if not len(moved):
        return True
    last = len(moved) - 1 - len(moved) // many
    return bool(np.partition(moved, last)[last] <= tolerance)


def _first(likelihood: AbstractLikelihood, data: Data) -> tuple[np.ndarray, np.ndarray]:
    """A q around rough latent values; around the prior mean where these say nothing."""
    with jax.enable_x64(True):
        rough = np.asarray(_rough(likelihood, data.y), dtype=np.float64)
    rough = data.mean if np.ptp(rough) == 0 else rough
    return rough, _FIRST_VARIANCE * data.variance


def _sites(likelihood: AbstractLikelihood, data: Data, mean: np.ndarray, variance: np.ndarray) -> Site:
    deviation = np.sqrt(np.maximum(variance, _SMALLEST_VARIANCE * np.max(data.variance)))
    with jax.enable_x64(True):
        slope, curvature = map(np.asarray, expected_slopes(likelihood, data.y, mean, deviation))
    counts = data.weights > 0
    least = _SMALLEST_PRECISION / np.maximum(data.variance, np.finfo(float).tiny)
    precision = np.where(counts, np.maximum(data.weights * curvature, np.minimum(least, 1e150)), 0.0)
    pull = np.where(counts, data.weights * slope, 0.0) / np.where(counts, precision, 1.0)
    is_known = counts & np.isfinite(precision) & np.isfinite(pull)
    return Site(np.where(is_known, precision, 0.0), np.where(is_known, mean - pull, data.mean))


def _guarded_marginals(prior: AbstractPrior, data: Data, room: Room, mesh: Mesh | None) -> Marginals:
    """On an accelerator where there is one with room, until systems come that its Cholesky factors cannot solve."""
    on_device = _marginals_on_device(prior, data, mesh)
    if on_device is None:
        return marginals_on_host(prior, data, room, mesh)
    chosen = [on_device]

    def marginals(site: Site) -> tuple[np.ndarray, np.ndarray]:
        found = chosen[0](site)
        if not all(np.all(np.isfinite(part)) for part in found):
            chosen[0] = marginals_on_host(prior, data, room, mesh)
            found = chosen[0](site)
        return found

    return marginals


def _marginals_on_device(prior: AbstractPrior, data: Data, mesh: Mesh | None) -> Marginals | None:
    """None where there is no accelerator, or no room."""
    if not has_room(len(data.y), data.earlier.shape[1], data.psi.shape[1], mesh):
        return None
    _, left, is_needed = unexplained(prior, data.x, data.psi)
    with jax.enable_x64(True):
        rows = DeviceRows(*map(jnp.asarray, (data.psi, data.mean, left, 1.0 * is_needed)))
        lifted, x = lift(prior), jnp.asarray(data.x)
        near = data.earlier, data.others
        earlier, others = (systems_on_device(lifted, x, rows.psi, index, mesh) for index in near)

    def marginals(site: Site) -> tuple[np.ndarray, np.ndarray]:
        if mesh is not None:
            return marginals_on_mesh(mesh, rows, earlier, others, *map(np.asarray, site))
        with jax.enable_x64(True):
            mean, variance = marginals_on_device(rows, earlier, others, site.precision, site.location)
            return np.asarray(mean), np.asarray(variance)

    return marginals


def _factor_slopes(
    likelihood: AbstractLikelihood, data: Data, mean: np.ndarray, deviation: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The first two derivatives of −log E exp(−weight·c) in the mean of f, in closed form where there is one."""
    weights = None if np.all(data.weights == 1.0) else data.weights
    rule = None
    if not likelihood.has_closed_marginal(weights is None):
        rule = likelihood.marginal_rule(deviation[data.weights > 0], None)
    with jax.enable_x64(True):
        slope, second = _marginal_slopes(likelihood, data.y, weights, mean, deviation, rule)
    return np.asarray(slope), np.asarray(second)


@compiled
def _marginal_slopes(
    likelihood: AbstractLikelihood, y: Array, weights: Array | None, mean: Array, deviation: Array, rule: Rule | None
) -> tuple[Array, Array]:
    def of_block(rows: tuple[Any, ...]) -> tuple[Array, Array]:
        y, weights, mean, deviation = rows
        if rule is None:
            found = likelihood.raw_closed_marginal(y, weights, mean, deviation)
        else:
            found = likelihood.raw_marginal(y, weights, mean, deviation, None, rule)
        return found.slope, found.second

    return map_over_rows(of_block, (y, weights, mean, deviation))


@compiled
def _rough(likelihood: AbstractLikelihood, y: Array) -> Array:
    return likelihood.raw_rough_latent(y)


@compiled
def expected_slopes(likelihood: AbstractLikelihood, y: Array, mean: Array, deviation: Array) -> tuple[Array, Array]:
    """E c' and a positive E c'' for f ~ N(mean, deviation²), in blocks of rows."""
    return map_over_rows(lambda rows: _expected_slopes(likelihood, *rows), (y, mean, deviation))


def _expected_slopes(likelihood: AbstractLikelihood, y: Array, mean: Array, deviation: Array) -> tuple[Array, Array]:
    rule = likelihood.evidence_rule
    slope = likelihood.raw_expected_derivative(y, mean, deviation, rule)
    if not likelihood.is_convex:
        return slope, likelihood.raw_expected_search_curvature(y, mean, deviation, rule)

    # The derivative of the expectation in the variance is half of E c'', also where c has a kink.
    def cost(width: Array) -> Array:
        return likelihood.raw_expected_cost(y, mean, width, rule)

    widening = jax.jvp(cost, (deviation,), (jnp.ones_like(deviation),))[1]
    return slope, jnp.maximum(widening / deviation, 0.0)
