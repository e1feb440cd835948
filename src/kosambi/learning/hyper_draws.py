r"""Draws of hyperparameters from p(θ | y) ∝ p(y | θ) p(θ), by Hamiltonian Monte Carlo on the evidence.

The free numbers θ of a model (`Layout`) have the log density that the search maximises: the log evidence plus the log
of their normal prior. With the curvature at its maximum θ̂,

    H = −∇² log p(θ̂ | y) = W⁻¹ V diag(λ) Vᵀ W⁻¹,   θ = θ̂ + W V diag(λ)^{-1/2} z,

W the widths of the prior, z is about standard normal, and a few leapfrog steps of a quarter turn and more make draws
that are all but independent. Curvatures below half of the prior's, where the evidence bends the wrong way, are raised
to that. After the first rounds each coordinate of z is given the scale that these found: a column that hardly matters
has a lengthscale whose distribution has one heavy side, of which the curvature knows nothing.

The evidence is computed with LAPACK on the host, where a compiled program has no part in it, so the loop is Python's;
chains run side by side, a thread each. At bounds trajectories are thrown back. Step sizes are adapted in the first
rounds (dual averaging, Hoffman and Gelman 2014), which are left out; rounds are added until R̂ and the number of
effective draws suffice, or a limit is reached.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from kosambi._core.progress import Progress
from kosambi._core.threads import in_threads
from kosambi.learning.search import Objective, remembered
from kosambi.learning.starts import Limits

NUM_CHAINS, WARM_UP, BATCH, SHORTEST = 4, 8, 6, 12
"""Chains, rounds in which the step size is adapted, rounds after which it is looked whether there are enough, and
rounds below which R̂ says too little for that."""
MOST_ROUNDS = 36
ENOUGH, R_HAT_LIMIT = 1.1, 1.2
"""R̂ of four short chains below which no rounds are added (Gelman et al. 2013), and above which the user is warned:
draws are averaged over, which needs less than quantiles of a parameter do."""
# A step of the differences that the curvature is estimated from, in standard deviations of the prior.
_STEP = 0.02
_FLATTEST = 0.5
# How near to a bound, in widths of the prior, a mode lies at it.
_AT_BOUND = 1e-6
# Leapfrog steps of a transition, and reflections at bounds in one of them, at most.
_MOST_STEPS, _MOST_REFLECTIONS = 16, 64
_ACCEPTANCE = 0.7
_LONGEST_STEP = 1.5
# A quarter of a turn, by a fifth less to three fifths more, so that no coordinate comes back to where it was.
_TURN, _SHORTEST, _LONGEST = 0.5 * np.pi, 0.8, 1.6
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
    own = [remembered("chain", objective()) for _ in range(NUM_CHAINS)]
    frame = _frame(own, mode, bounds)
    generators = generator.spawn(NUM_CHAINS)
    chains = [_Chain(one, mode, frame, bounds, each) for one, each in zip(own, generators, strict=True)]
    in_threads(lambda chain: chain.begin(), chains)
    step = _StepSize()
    for number in range(WARM_UP):
        show.update("hyperparameters: first draws", number, WARM_UP)
        step.adapt(float(np.mean(in_threads(lambda chain: chain.move(step.now), chains))))
    size, accepted, rounds = step.last, [], 0
    scales = _scales(np.array([chain.whitened for chain in chains]))
    for chain in chains:
        chain.rescale(scales)
        chain.forget()
    while rounds < most_rounds:
        for _ in range(min(BATCH, most_rounds - rounds)):
            accepted.append(float(np.mean(in_threads(lambda chain: chain.move(size), chains))))
            rounds += 1
            show.update("hyperparameters: draws", rounds, most_rounds)
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
        evaluations=1 + len(mode) + sum(chain.evaluations for chain in chains),
        failures=sum(chain.failures for chain in chains),
    )


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


def _frame(own: list[Objective], mode: Float[np.ndarray, " P"], bounds: Limits) -> Float[np.ndarray, "P P"]:
    """The matrix that takes z to θ − θ̂, from differences of the gradient."""
    size, width = len(mode), bounds.width
    # Inwards, where there is a bound.
    inwards = np.where(bounds.upper - mode >= mode - bounds.lower, 1.0, -1.0)
    moves = np.clip(mode + np.diag(_STEP * width * inwards), bounds.lower, bounds.upper)
    every = np.concatenate([mode[None], moves])
    # An objective may keep what it has found for its next evaluation, so each has a thread of its own.
    shares = [np.arange(first, len(every), len(own)) for first in range(len(own))]
    parts = in_threads(lambda each: [own[each](every[i])[1] for i in shares[each]], list(range(len(own))))
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


def _scales(whitened: Float[np.ndarray, "C T P"]) -> Float[np.ndarray, " P"]:
    """Standard deviations of the coordinates, drawn towards the one that the curvature says; neighbours count half."""
    variance, worth = np.var(whitened, axis=(0, 1)), 0.5 * np.prod(whitened.shape[:2])
    return np.sqrt((worth * variance + _TRUST) / (worth + _TRUST))


class _StepSize:
    """Dual averaging of log ε towards an acceptance rate (Hoffman and Gelman 2014), with constants for few rounds."""

    def __init__(self, first: float = 0.8) -> None:
        self.now, self._centre, self._error, self._mean, self._count = first, np.log(2.0 * first), 0.0, 0.0, 0

    def adapt(self, acceptance: float) -> None:
        """After a round with this mean acceptance."""
        self._count += 1
        share = 1.0 / (self._count + 5.0)
        self._error += share * (_ACCEPTANCE - acceptance - self._error)
        logarithm = min(self._centre - np.sqrt(self._count) / 0.2 * self._error, np.log(_LONGEST_STEP))
        weight = self._count**-0.75
        self._mean += weight * (logarithm - self._mean)
        self.now = float(np.exp(logarithm))

    @property
    def last(self) -> float:
        """The step size to go on with."""
        return float(np.exp(self._mean))


def _decide(gain: float, threshold: float) -> tuple[float, bool]:
    """Metropolis' rule: the probability with which a state of so much less energy is taken, and whether it is."""
    acceptance = float(np.exp(min(0.0, gain)))
    return acceptance, threshold < acceptance


class _Chain:
    """One chain, in coordinates z."""

    def __init__(
        self,
        objective: Objective,
        mode: Float[np.ndarray, " P"],
        frame: Float[np.ndarray, "P P"],
        bounds: Limits,
        generator: np.random.Generator,
    ) -> None:
        self._objective, self._mode, self._frame, self._bounds = objective, mode, frame, bounds
        self._generator = generator
        self.evaluations = self.failures = 0
        self._at, self._value, self._slope = np.zeros(len(mode)), np.inf, np.zeros(len(mode))
        self.vectors: list[np.ndarray] = []
        self.whitened: list[np.ndarray] = []
        self.values: list[float] = []

    def begin(self) -> None:
        """At a draw of the normal approximation, nearer to the mode where the density is zero there."""
        towards, share = self._generator.normal(size=len(self._mode)), 1.0
        while True:
            self._at, _ = self._drift(np.zeros(len(self._mode)), towards, share)
            self._value, self._slope = self._evaluate(self._at)
            if np.isfinite(self._value) or share == 0.0:
                return
            share = 0.5 * share if share > 1e-3 else 0.0

    def forget(self) -> None:
        """What was drawn so far."""
        self.vectors, self.whitened, self.values = [], [], []

    def rescale(self, scales: Float[np.ndarray, " P"]) -> None:
        """Coordinates in units of `scales`."""
        self._frame, self._at, self._slope = self._frame * scales, self._at / scales, self._slope * scales

    def move(self, step: float) -> float:
        """One transition; the probability with which it was accepted."""
        generator, at, value, slope = self._generator, self._at.copy(), self._value, self._slope
        momentum = generator.normal(size=len(at))
        energy = value + 0.5 * momentum @ momentum
        length = _TURN * generator.uniform(_SHORTEST, _LONGEST)
        number = min(max(1, round(length / step)), _MOST_STEPS)
        threshold, acceptance = generator.uniform(), 0.0
        for _ in range(number):
            momentum = momentum - 0.5 * step * slope
            at, momentum = self._drift(at, momentum, step)
            value, slope = self._evaluate(at)
            if not np.isfinite(value):
                break
            momentum = momentum - 0.5 * step * slope
        else:
            acceptance, is_taken = _decide(float(energy - value - 0.5 * momentum @ momentum), threshold)
            if is_taken:
                self._at, self._value, self._slope = at, value, slope
        self.vectors.append(self._mode + self._frame @ self._at)
        self.whitened.append(self._at)
        self.values.append(self._value)
        return acceptance

    def _drift(
        self, at: Float[np.ndarray, " P"], momentum: Float[np.ndarray, " P"], time: float
    ) -> tuple[Float[np.ndarray, " P"], Float[np.ndarray, " P"]]:
        """Straight on for a time, thrown back like light from the bounds, which keeps energy and volume."""
        for _ in range(_MOST_REFLECTIONS):
            vector, speed = self._mode + self._frame @ at, self._frame @ momentum
            gap = np.maximum(np.where(speed > 0, self._bounds.upper - vector, vector - self._bounds.lower), 0.0)
            until = np.where(speed != 0, gap / np.where(speed != 0, np.abs(speed), 1.0), np.inf)
            first = int(np.argmin(until))
            if until[first] >= time:
                return at + time * momentum, momentum
            at, time = at + until[first] * momentum, time - until[first]
            normal = self._frame[first]
            momentum = momentum - 2.0 * normal * (normal @ momentum) / (normal @ normal)
        return at + time * momentum, momentum

    def _evaluate(self, at: Float[np.ndarray, " P"]) -> tuple[float, Float[np.ndarray, " P"]]:
        vector = self._mode + self._frame @ at
        # Rounding at a wall is not beyond it.
        slack = 1e-9 * self._bounds.width
        inside = np.all(vector >= self._bounds.lower - slack) and np.all(vector <= self._bounds.upper + slack)
        vector = np.clip(vector, self._bounds.lower, self._bounds.upper)
        value, slope = self._objective(vector) if inside else (np.inf, np.zeros(len(at)))
        self.evaluations += bool(inside)
        if not (np.isfinite(value) and np.all(np.isfinite(slope))):
            self.failures += 1
            return np.inf, np.zeros(len(at))
        return value, self._frame.T @ slope
