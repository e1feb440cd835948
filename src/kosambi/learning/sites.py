r"""Gaussian sites: how a likelihood that is not Gaussian enters a log marginal likelihood that is.

Each observation n has a site, a Gaussian factor exp(λ_n f_n − ½W_n f_n²) in the place of its likelihood. Together with
the prior the sites make a normal distribution q(f), and

    log p(y) ≥ −Σ_n E_q c(y_n, f_n) − KL(q, prior)

is highest where W_n = E_q c'' and λ_n = W_n m_n − E_q c' (Opper and Archambeau 2009). There it does not change with q
to first order, so that its gradient in hyperparameters is the explicit one. W and λ are kept rather than a location and
a variance, so that a site may say nothing. W_n ≥ 0: where a cost is not convex (an outlier of Student's distribution)
W_n may be zero.

How q follows from the sites is the matter of `dense` (without inducing points) and `points` (with them); here is what
both share. C latent functions: q is a product over them, each with its own sites.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.journal import Arrays
from kosambi._core.precision import compiled
from kosambi._core.types import Array
from kosambi.likelihoods import AbstractLikelihood

MAX_UPDATES = 40
"""Updates of the sites for one evaluation."""
SETTLED, SHORTLY, ROUGHLY, DRAWN = 1e-6, 1e-4, 0.03, 1e-2
"""Sites have settled when a further update promises less than this many nats, or little, and gains next to nothing; the
second number for short searches, the third where starts are compared, and the last for a density that is drawn from."""
_LITTLE, _NOTHING, _HARDLY = 1e-3, 1e-6, 1e-2
# Where no part of an update helps, or there were too many: sites that promise more than this have not settled, and a
# search learns nothing from a bound that promises so much more.
_MUCH, _HOPELESS = 0.1, 100.0
# Nats that better means promise above which updates that fail are shortened by steadier precisions, and below which
# parts of an update are not tried one after the other.
_NEAR = 1.0
# The variance of q at which rough latent values are first looked at, as a part of the prior's.
_FIRST_VARIANCE = 0.25
# Steps towards new sites: one, unless the bound would fall.
_SMALLEST_STEP = 2.0**-8
# Updates that the acceleration looks back at, and the part of the tolerance to which it must settle.
_MEMORY, _STRICTER = 6, 0.1


class Sites(NamedTuple):
    """Natural parameters of one Gaussian factor for each observation and latent function."""

    precision: Float[np.ndarray, "N C"]
    """W."""
    shift: Float[np.ndarray, "N C"]
    """λ = W·location."""


class SiteStore:
    """What an evaluator whose sites begin at the best ones so far has for a journal."""

    evidence: float
    is_settled: bool
    _lowest: float
    _best: Sites | None

    def memory(self) -> list[Any]:
        """What the next evaluation, and whoever asks for the evidence, goes by."""
        return [self._lowest, self.evidence, self.is_settled, *(self._best or (None, None))]

    def recall(self, memory: Arrays) -> None:
        """Be as after the evaluation of that memory."""
        lowest, evidence, is_settled = np.array(memory[:3], dtype=np.float64)
        self._lowest, self.evidence, self.is_settled = float(lowest), float(evidence), bool(is_settled)
        first, second = memory[3:]
        self._best = None if first is None or second is None else Sites(first, second)


class Fitted(NamedTuple):
    """q for some sites, and what it is worth."""

    sites: Sites
    bound: float
    """−∞ where q cannot be computed."""
    mean: Float[np.ndarray, "N C"]
    variance: Float[np.ndarray, "N C"]
    slope: Float[np.ndarray, "N C"]
    """E_q c', times how often an observation counts."""
    curvature: Float[np.ndarray, "N C"]
    """E_q c'', likewise; it need not be positive."""
    pull: float
    """About what better means would gain, in nats."""
    factors: Any
    """What the gradient needs."""


@np.errstate(over="ignore", invalid="ignore")
def settle(
    fit: Callable[[Sites], Fitted],
    first: Callable[[], Sites],
    start: Sites | None = None,
    tolerance: float = SETTLED,
) -> tuple[Fitted, bool]:
    """The best sites, and whether they have settled; a bound of −∞ where they are nowhere near.

    Arguments:
        fit: q for given sites.
        first: sites to begin with where there are no better ones.
        start: those of an earlier search.
        tolerance: nats that a further update may promise at the end.
    """
    # Good sites need no others, which take an expectation for each observation.
    begun = functools.cache(first)
    found, has_settled = None, False
    if start is not None:
        found, has_settled = _settled_from(fit, start, tolerance, begun)
    if found is None or not has_settled:
        # Sites of another kernel can be so far off that no update helps; of two attempts the better one is kept.
        again, has_again = _settled_from(fit, begun(), tolerance, begun)
        if found is None or not np.isfinite(found.bound) or again.bound > found.bound:
            found, has_settled = again, has_again
    # Per row, where there are more than a block has.
    limit = _HOPELESS * max(1.0, len(found.mean) / 512.0)
    if not has_settled and not _promise(found, _updated(found)) < limit:
        found = found._replace(bound=-np.inf)
    return found, has_settled


def _settled_from(
    fit: Callable[[Sites], Fitted], start: Sites, tolerance: float, steady: Callable[[], Sites]
) -> tuple[Fitted, bool]:
    """The best sites that updates from `start` lead to; `steady` has precisions for updates that would go too far."""
    current = fit(start)
    if not np.isfinite(current.bound):
        return current, False
    step, past, is_guess, is_careful = 1.0, _Past(), False, False
    for _ in range(MAX_UPDATES):
        wanted = _updated(current)
        promise = _promise(current, wanted)
        # Plain updates end well below the tolerance, guesses just below it, and the gradient has half as many digits.
        if promise < (_STRICTER * tolerance if is_guess else tolerance):
            return current, True
        is_careful = is_careful and current.pull > _NEAR
        guess = past.guess(current, wanted) if step == 1.0 and not is_careful else None
        if guess is not None:
            further = fit(guess)
            # A guess that gains nothing costs one more fit; the plain update follows, and says when to end.
            if further.bound >= current.bound + _NOTHING:
                current, is_guess = further, True
                continue
            past = _Past()
        is_guess = False
        # Parts of an update that promises next to nothing are not worth a fit each; and where precisions are kept from
        # being negative, the best sites are not those that an update leads to.
        is_cut = promise < _HARDLY and bool(np.any(current.curvature < 0.0))
        smallest = _SMALLEST_STEP if promise > _NEAR else 1.0 if is_cut else 0.25
        wanted = _updated(current, steady().precision) if is_careful else wanted
        while True:
            mixed = Sites(*(old + step * (new - old) for old, new in zip(current.sites, wanted, strict=True)))
            further = fit(mixed)
            if further.bound >= current.bound - _NOTHING or step <= smallest:
                break
            if current.pull > _NEAR and not is_careful:
                is_careful, wanted = True, _updated(current, steady().precision)
            else:
                step *= 0.5
        gain = further.bound - current.bound
        if gain < _NOTHING and promise < _LITTLE:
            return (further if gain > 0 else current), True
        if not gain >= -_NOTHING:
            return current, promise < _MUCH
        current, step = further, min(1.0, 2.0 * step)
    return current, _promise(current, _updated(current)) < _MUCH


class _Past:
    """Anderson's acceleration: where the last updates led, to guess where they all lead to.

    Updates of several latent functions hold each other back, since each has its own sites: what no observation sees,
    such as their sum for softmax, goes to its end in hundreds of updates, and so do observations that say much against
    a prior that says little. The guess is the mixture of the past updates that would have changed the least.
    """

    def __init__(self) -> None:
        self.sites: list[np.ndarray] = []
        self.changes: list[np.ndarray] = []

    def guess(self, current: Fitted, wanted: Sites) -> Sites | None:
        """Sites that an endless number of updates may lead to; None while too little is known."""
        here, there = (np.stack([sites.precision, sites.shift]) for sites in (current.sites, wanted))
        self.sites, self.changes = [*self.sites, here][-_MEMORY:], [*self.changes, there - here][-_MEMORY:]
        if len(self.sites) < 2:
            return None
        # In units in which all of them matter alike: those of the promise.
        units = np.stack([current.variance, np.sqrt(current.variance)])
        moves, turns = (np.diff(np.stack(each), axis=0) for each in (self.sites, self.changes))
        flat = (turns * units).reshape(len(turns), -1)
        mixed, *_ = np.linalg.lstsq(flat.T, (self.changes[-1] * units).reshape(-1), rcond=1e-8)
        precision, shift = there - np.tensordot(mixed, moves + turns, axes=1)
        if not (np.all(np.isfinite(precision)) and np.all(np.isfinite(shift))):
            return None
        # A precision that would be negative is left where the plain update has it, with its shift.
        fits = precision >= 0.0
        return Sites(np.where(fits, precision, wanted.precision), np.where(fits, shift, wanted.shift))


def first_sites(
    likelihood: AbstractLikelihood,
    y: Float[Array, " N"],
    counts: Float[Array, " N"],
    mean: Float[np.ndarray, " N"],
    variance: Float[np.ndarray, " N"],
) -> Sites:
    """Sites of a q around rough latent values, given the mean and the variance of the prior."""
    rough = np.asarray(_rough(likelihood, y), dtype=np.float64).reshape(len(mean), -1)
    if np.ptp(rough) == 0:
        rough = np.broadcast_to(mean[:, None], rough.shape)
    spread = np.broadcast_to(np.maximum(_FIRST_VARIANCE * variance, floor(variance))[:, None], rough.shape)
    if rough.shape[1] > 1 and not likelihood.is_convex:
        # A function that agrees with every observation would ask another for no noise at all.
        spread = np.maximum(spread, np.var(rough, axis=0))
    _, slope, curvature = expected(likelihood, y, counts, rough, spread)
    precision = np.maximum(np.asarray(curvature), 0.0)
    return Sites(precision, precision * rough - np.asarray(slope))


def floor(variance: Float[np.ndarray, " N"]) -> float:
    """The smallest variance of q, in whose root costs are differentiated; above a prior variance of zero it is safe."""
    return 1e-12 * max(float(np.max(variance)), np.finfo(np.float64).tiny)


def _updated(fitted: Fitted, least: Float[np.ndarray, "N C"] | float = 0.0) -> Sites:
    """The sites that q asks for.

    Where a mean is far off a cost may be all but straight (a count under an exponential), so that one update would lead
    far beyond the other end. Precisions of at least what the cost has where the observation is likely shorten it, and
    lead to the same means.
    """
    precision = np.maximum(fitted.curvature, least)
    return Sites(precision, precision * fitted.mean - fitted.slope)


def _promise(fitted: Fitted, wanted: Sites) -> float:
    """About what an update gains, in nats."""
    turn = (wanted.precision - fitted.sites.precision) * fitted.variance
    return fitted.pull + 0.25 * float(np.sum(np.square(turn)))


@compiled
def _rough(likelihood: AbstractLikelihood, y: Array) -> Array:
    return likelihood.raw_rough_latent(y)


def expected_cost(likelihood: AbstractLikelihood, y: Array, counts: Array, mean: Array, deviation: Array) -> Array:
    """Σ_n count_n E c(y_n, f_n), traceable; an observation that does not count is absent, even at infinite cost."""
    each = likelihood.raw_expected_cost_of_each(y, mean, deviation)
    return jnp.sum(jnp.where(counts > 0, counts * each, 0.0))


def expected_with_slopes(
    likelihood: AbstractLikelihood, y: Array, counts: Array, mean: Array, variance: Array
) -> tuple[Array, Array, Array]:
    """Σ E c, E c' and E c'' for f ~ N(mean, variance), the last two as derivatives in mean and variance; traceable."""
    deviation = jnp.sqrt(variance)
    value, (slope, widening) = jax.value_and_grad(expected_cost, argnums=(3, 4))(likelihood, y, counts, mean, deviation)
    # E c'' = 2 ∂/∂variance.
    return value, slope, widening / deviation


expected = compiled(expected_with_slopes)
