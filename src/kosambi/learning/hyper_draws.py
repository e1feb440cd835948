r"""Draws of hyperparameters from p(θ | y) ∝ p(y | θ) p(θ), by Hamiltonian Monte Carlo on the evidence.

The free numbers θ of a model (`Layout`) have the log density that the search maximises: the log evidence plus the log
of their normal prior. With the curvature at its maximum θ̂,

    H = −∇² log p(θ̂ | y) = W⁻¹ V diag(λ) Vᵀ W⁻¹,   θ = θ̂ + W V diag(λ)^{-1/2} z,

W the widths of the prior, z is about standard normal, and a few leapfrog steps of a quarter turn and more make draws
that are all but independent. Curvatures below half of the prior's, where the evidence bends the wrong way, are raised
to that. After the first rounds each coordinate of z is given the scale that these found: a column that hardly matters
has a lengthscale whose distribution has one heavy side, of which the curvature knows nothing.

A slope of the evidence takes twice as long as the evidence itself, and a trajectory needs several. So the first
rounds, which are left out, are there to learn: a few by slopes of the evidence, with a step size that is adapted (dual
averaging, Hoffman and Gelman 2014), then some by slopes of a surrogate (`kosambi.learning.surrogate`) of all that was
seen so far. Where that serves, the rounds that are kept follow its slopes, and ask for one evidence each, at their
ends; otherwise they follow those of the evidence. Rounds are added until R̂ and the number of effective draws suffice,
or a limit is reached.

The evidence is computed with LAPACK on the host, where a compiled program has no part in it, so the loop is Python's;
chains run side by side, a thread each.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from kosambi._core.progress import Progress
from kosambi._core.threads import in_threads
from kosambi.learning.hyper_chain import Asked, Chain, StepSize
from kosambi.learning.search import Objective
from kosambi.learning.starts import Limits
from kosambi.learning.surrogate import MANY_NUMBERS, Surrogate, fitted

NUM_CHAINS, WARM_UP, BATCH, SHORTEST = 4, 4, 6, 12
"""Chains, rounds in which the step size is adapted, rounds after which it is looked whether there are enough, and
rounds below which R̂ says too little for that."""
LONG_WARM_UP = 8
"""The first rounds where there are too many numbers for a surrogate."""
STAGES, MOST_STAGES, OF_A_STAGE = 3, 6, 3
"""How often a surrogate is learned again, at least and at most, and the rounds that follow it each time."""
GOOD, SERVES = 0.5, 0.2
"""Acceptance in the last of these stages above which no more are needed, and from which a surrogate serves: a round
that follows it takes a tenth of the time of one by slopes of the evidence."""
MOST_ROUNDS, MORE = 36, 2
"""Rounds that are kept, at most, by slopes of the evidence; how many times as many by those of a surrogate."""
ENOUGH, R_HAT_LIMIT = 1.1, 1.2
"""R̂ of four short chains below which no rounds are added (Gelman et al. 2013), and above which the user is warned:
draws are averaged over, which needs less than quantiles of a parameter do."""
# A step of the differences that the curvature is estimated from, in standard deviations of the prior.
_STEP = 0.02
_FLATTEST = 0.5
# How near to a bound, in widths of the prior, a mode lies at it.
_AT_BOUND = 1e-6
# As many independent draws of a coordinate speak for the scale that the curvature gave it.
_TRUST = 20.0


@dataclasses.dataclass(frozen=True)
class Chains:
    """What Hamiltonian Monte Carlo has found."""

    vectors: Float[np.ndarray, "C T P"]
    """Free numbers, of each chain and round."""
    densities: Float[np.ndarray, "C T"]
    """Their log densities, up to a constant."""
    r_hat: float
    """The largest over the free numbers."""
    ess: float
    """The smallest number of effective draws."""
    acceptance: float
    evaluations: int
    failures: int
    """Evaluations that were not finite, or out of bounds."""

    @property
    def converged(self) -> bool:
        """Whether chains agree."""
        return self.r_hat <= R_HAT_LIMIT

    def thinned(self, number: int) -> tuple[Float[np.ndarray, "K P"], Float[np.ndarray, " K"]]:
        """`number` draws, spread over chains and rounds, and their log densities."""
        # Chain by chain within a round, so that evenly spaced ones come from all chains.
        vectors = np.swapaxes(self.vectors, 0, 1).reshape(-1, self.vectors.shape[2])
        chosen = np.linspace(0, len(vectors) - 1, number).round().astype(int)
        return vectors[chosen], self.densities.T.ravel()[chosen]


def draw_chains(
    objective: Callable[[], Objective],
    mode: Float[np.ndarray, " P"],
    bounds: Limits,
    generator: np.random.Generator,
    wanted: int,
    show: Progress,
    most_rounds: int = MOST_ROUNDS,
) -> Chains:
    """Chains from the density e^{−objective}, begun around its mode.

    Arguments:
        objective: makes a function of its own for each chain, of the free numbers, with its gradient.
        mode: where it is lowest.
        bounds: the prior's widths, and bounds beyond which the density is zero.
        generator: random numbers; every chain has its own, so that threads do not matter.
        wanted: effective draws that are enough.
        show: the progress line.
        most_rounds: transitions of each chain after the first ones, at most.
    """
    own = [Asked(objective()) for _ in range(NUM_CHAINS)]
    frame = _frame(own, mode, bounds)
    generators = generator.spawn(NUM_CHAINS)
    chains = [Chain(one, mode, frame, bounds, each) for one, each in zip(own, generators, strict=True)]
    in_threads(lambda chain: chain.begin(), chains)
    step, has_many = StepSize(), len(mode) > MANY_NUMBERS
    first = LONG_WARM_UP if has_many else WARM_UP
    for number in range(first):
        show.update("hyperparameters: first draws", number, first)
        step.adapt(float(np.mean(in_threads(lambda chain: chain.move(step.now), chains))))
    surrogate = _learned_surrogate(chains, 0 if has_many else MOST_STAGES, show)
    size, accepted, rounds = step.last, [], 0
    most = most_rounds if surrogate is None else MORE * most_rounds

    def move(chain: Chain) -> float:
        return chain.move(size) if surrogate is None else chain.follow(surrogate, with_slope=False)

    while rounds < most:
        for _ in range(min(BATCH, most - rounds)):
            accepted.append(float(np.mean(in_threads(move, chains))))
            rounds += 1
            show.update("hyperparameters: draws", rounds, most)
        vectors = np.array([chain.vectors for chain in chains])
        r_hat, ess = split_r_hat(vectors), effective_draws(vectors)
        if rounds >= SHORTEST and r_hat <= ENOUGH and ess >= wanted:
            break
    return Chains(
        vectors=vectors,
        densities=-np.array([chain.values for chain in chains]),
        r_hat=r_hat,
        ess=ess,
        acceptance=float(np.mean(accepted)),
        evaluations=sum(one.evaluations for one in own),
        failures=sum(one.failures for one in own),
    )


def _learned_surrogate(chains: list[Chain], most: int, show: Progress) -> Surrogate | None:
    """A surrogate that serves, after so many stages at most; None if there is none.

    Coordinates have the scales of what was drawn so far then, and chains have forgotten it.
    """
    acceptance = 0.0
    for stage in range(most):
        surrogate = _surrogate(chains)
        if surrogate is None or (stage >= STAGES and acceptance >= GOOD):
            break
        show.update("hyperparameters: first draws by a surrogate", stage, most)
        follow = functools.partial(Chain.follow, surrogate=surrogate, with_slope=True)
        acceptance = float(np.mean([in_threads(follow, chains) for _ in range(OF_A_STAGE)]))
    scales = _scales(np.array([chain.whitened for chain in chains]))
    for chain in chains:
        chain.rescale(scales)
        chain.forget()
    return _surrogate(chains) if acceptance >= SERVES else None


def _surrogate(chains: list[Chain]) -> Surrogate | None:
    parts = zip(*(chain.known() for chain in chains if chain.density.known), strict=True)
    # Round by round, so that the last ones are those of all chains.
    found = [_in_turns(part) for part in parts]
    return fitted(*found) if found else None


def _in_turns(parts: Sequence[np.ndarray]) -> np.ndarray:
    """The rows of several arrays, the last rows of each at the end."""
    order = np.argsort(np.concatenate([np.arange(len(part)) - len(part) for part in parts]), kind="stable")
    return np.concatenate(parts)[order]


def split_r_hat(draws: Float[np.ndarray, "C T P"]) -> float:
    """The largest R̂ of chains cut into halves (Gelman et al. 2013, section 11.4); infinite where one does not move.

    >>> import numpy as np
    >>> draws = np.random.default_rng(0).normal(size=(4, 200, 3))
    >>> bool(split_r_hat(draws) < 1.02), bool(split_r_hat(draws + np.arange(4)[:, None, None]) > 1.5)
    (True, True)
    """
    half = draws.shape[1] // 2
    parts = np.concatenate([draws[:, :half], draws[:, draws.shape[1] - half :]])
    within = np.mean(np.var(parts, axis=1, ddof=1), axis=0)
    between = np.var(np.mean(parts, axis=1), axis=0, ddof=1)
    if not np.all(within > 0):
        return np.inf
    return float(np.sqrt(np.max((half - 1) / half + between / within)))


def effective_draws(draws: Float[np.ndarray, "C T P"]) -> float:
    """The smallest number of independent draws that those of the chains are worth, by Geyer's positive pairs.

    As `kosambi.samplers.effective_sample_size`, which compiles for every number of rounds.

    >>> import numpy as np
    >>> draws = np.random.default_rng(0).normal(size=(4, 500, 2))
    >>> bool(1500 < effective_draws(draws) <= 2000), bool(effective_draws(np.repeat(draws, 10, axis=1)) < 3000)
    (True, True)
    """
    num_chains, length, _ = draws.shape
    away = draws - np.mean(draws, axis=1, keepdims=True)
    spectrum = np.fft.rfft(away, 2 * length, axis=1)
    covariance = np.mean(np.fft.irfft(np.square(np.abs(spectrum)), axis=1)[:, :length], axis=0) / length
    between = np.var(np.mean(draws, axis=1), axis=0, ddof=1) if num_chains > 1 else 0.0
    total = covariance[0] + between
    if not np.all(total > 0):
        return 0.0
    correlation = 1.0 - (covariance[:1] - covariance) / total
    pairs = correlation[: length // 2 * 2].reshape(length // 2, 2, -1).sum(axis=1)
    kept = np.minimum.accumulate(np.where(np.logical_and.accumulate(pairs > 0, axis=0), pairs, 0.0), axis=0)
    times = np.maximum(2.0 * np.sum(kept, axis=0) - 1.0, 1.0)
    return float(np.min(num_chains * length / times))


def _frame(own: list[Asked], mode: Float[np.ndarray, " P"], bounds: Limits) -> Float[np.ndarray, "P P"]:
    """The matrix that takes z to θ − θ̂, from differences of the gradient."""
    size, width = len(mode), bounds.width
    # Inwards, where there is a bound.
    inwards = np.where(bounds.upper - mode >= mode - bounds.lower, 1.0, -1.0)
    moves = np.clip(mode + np.diag(_STEP * width * inwards), bounds.lower, bounds.upper)
    every = np.concatenate([mode[None], moves])
    # An objective may keep what it has found for its next evaluation, so each has a thread of its own.
    shares = [np.arange(first, len(every), len(own)) for first in range(len(own))]
    parts = in_threads(lambda each: [_slope(own[each], every[i]) for i in shares[each]], list(range(len(own))))
    slopes = np.empty((len(every), size))
    for share, part in zip(shares, parts, strict=True):
        slopes[share] = np.reshape(part, (len(share), size))
    apart, push = np.diagonal(moves) - mode, np.nan_to_num(slopes[0])
    curvature = (slopes[1:] - slopes[0]) / np.where(apart != 0, apart, 1.0)[:, None]
    curvature = 0.5 * (curvature + curvature.T)
    # Where an evaluation has failed nothing is known but the prior.
    curvature = np.where(np.isfinite(curvature), curvature, 0.0)
    # At a bound that it is pushed against, a number has an exponential distribution, as wide as the slope says.
    is_pushed = ((mode <= bounds.lower + _AT_BOUND * width) & (push > 0)) | (
        (mode >= bounds.upper - _AT_BOUND * width) & (push < 0)
    )
    curvature[np.diag_indices(size)] += np.where(is_pushed, np.square(push), 0.0)
    values, vectors = np.linalg.eigh(width[:, None] * curvature * width)
    return width[:, None] * vectors / np.sqrt(np.maximum(values, _FLATTEST))


def _slope(density: Asked, vector: Float[np.ndarray, " P"]) -> Float[np.ndarray, " P"]:
    value, slope = density.both(vector)
    return slope if np.isfinite(value) else np.full(len(vector), np.nan)


def _scales(whitened: Float[np.ndarray, "C T P"]) -> Float[np.ndarray, " P"]:
    """Standard deviations of the coordinates, drawn towards the one that the curvature says; neighbours count half."""
    variance, worth = np.var(whitened, axis=(0, 1)), 0.5 * np.prod(whitened.shape[:2])
    return np.sqrt((worth * variance + _TRUST) / (worth + _TRUST))
