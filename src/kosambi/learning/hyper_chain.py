r"""One chain of Hamiltonian Monte Carlo in whitened coordinates z, by slopes of the density itself or of a surrogate.

A transition begins with a normal momentum and follows leapfrog steps for a random time (Neal 2011). By slopes of the
density its end is decided by the density; by those of a surrogate π̃ it is decided by π̃ first, and what passes by the
density over π̃ (Christen and Fox 2005), so that the draws are those of the density whatever π̃ is. At bounds trajectories
are thrown back.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from kosambi._core.journal import Keeper, Steps
from kosambi.learning.search import Objective
from kosambi.learning.starts import Limits
from kosambi.learning.surrogate import Surrogate

# Leapfrog steps of a transition, and reflections at bounds in one of them, at most.
_MOST_STEPS, _MOST_REFLECTIONS = 16, 64
_ACCEPTANCE = 0.7
_LONGEST_STEP = 1.5
# A quarter of a turn, by a fifth less to three fifths more, so that no coordinate comes back to where it was. Where
# slopes are free up to thrice as much, for coordinates that are wider than the frame says, in short steps.
_TURN, _SHORTEST, _LONGEST, _FREE_LONGEST, _FREE_STEP = 0.5 * np.pi, 0.8, 1.6, 3.2, 0.3


class StepSize:
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


def decide(gain: float, threshold: float) -> tuple[float, bool]:
    """Metropolis' rule: the probability with which a state of so much less energy is taken, and whether it is."""
    acceptance = float(np.exp(min(0.0, gain)))
    return acceptance, threshold < acceptance


def reach(size: int) -> float:
    """Nats above the lowest value that hardly a draw has: ½χ² with P degrees of freedom, for a normal distribution."""
    return 0.5 * size + 2.0 * np.sqrt(size)


class Asked:
    """A density, turned around, whose evaluations are counted, kept for a surrogate, and written in a journal.

    Arguments:
        objective: value and gradient at a vector; where it has a `value`, that says the value alone.
    """

    def __init__(self, objective: Objective) -> None:
        self._objective: Any = objective
        self._steps = Steps("chain", objective if isinstance(objective, Keeper) else None)
        self.known: list[tuple[np.ndarray, float, np.ndarray]] = []
        """Vectors, values and gradients, where all are finite."""
        self.evaluations = self.failures = 0

    def both(self, vector: Float[np.ndarray, " P"]) -> tuple[float, Float[np.ndarray, " P"]]:
        """Value and gradient; +∞ and zero where one of them is not finite."""
        self.evaluations += 1
        value, gradient = self._steps.next(lambda: self._objective(vector), vector)
        value = float(value)
        if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
            self.failures += 1
            return np.inf, np.zeros(len(vector))
        self.known.append((vector, value, gradient))
        return value, gradient

    def value(self, vector: Float[np.ndarray, " P"]) -> float:
        """The value; +∞ where it is not finite."""
        if not hasattr(self._objective, "value"):
            return self.both(vector)[0]
        self.evaluations += 1
        value = float(self._steps.next(lambda: (self._objective.value(vector),), vector)[0])
        self.failures += not np.isfinite(value)
        return value if np.isfinite(value) else np.inf


class Chain:
    """One chain, in coordinates z.

    Arguments:
        density: what it draws from.
        mode: θ̂.
        frame: the matrix that takes z to θ − θ̂.
        bounds: beyond which the density is zero.
        generator: random numbers.
    """

    def __init__(
        self,
        density: Asked,
        mode: Float[np.ndarray, " P"],
        frame: Float[np.ndarray, "P P"],
        bounds: Limits,
        generator: np.random.Generator,
    ) -> None:
        self.density, self._mode, self._frame, self._bounds = density, mode, frame, bounds
        self._generator = generator
        self._at, self._value, self._slope = np.zeros(len(mode)), np.inf, np.zeros(len(mode))
        self.vectors: list[np.ndarray] = []
        self.whitened: list[np.ndarray] = []
        self.values: list[float] = []

    def begin(self) -> None:
        """At a draw of the normal approximation, nearer to the mode where hardly a draw would be there."""
        towards, share = self._generator.normal(size=len(self._mode)), 1.0
        lowest = min((value for _, value, _ in self.density.known), default=np.finfo(np.float64).max)
        highest = lowest + reach(len(self._mode))
        while True:
            self._at, _ = self._drift(np.zeros(len(self._mode)), towards, share)
            self._value, self._slope = self._evaluate(self._at)
            if self._value <= highest or share == 0.0:
                return
            share = 0.5 * share if share > 1e-3 else 0.0

    def forget(self) -> None:
        """What was drawn so far."""
        self.vectors, self.whitened, self.values = [], [], []

    def rescale(self, scales: Float[np.ndarray, " P"]) -> None:
        """Coordinates in units of `scales`."""
        self._frame, self._at, self._slope = self._frame * scales, self._at / scales, self._slope * scales

    def known(self) -> tuple[Float[np.ndarray, "n P"], Float[np.ndarray, " n"], Float[np.ndarray, "n P"]]:
        """Points, values and slopes that it has come across, in its coordinates."""
        vectors, values, gradients = zip(*self.density.known, strict=True)
        points = np.linalg.solve(self._frame, (np.array(vectors) - self._mode).T).T
        return points, np.array(values), np.array(gradients) @ self._frame

    def move(self, step: float) -> float:
        """One transition by slopes of the density; the probability with which it was accepted."""
        momentum, at, value, slope = self._generator.normal(size=len(self._at)), self._at, self._value, self._slope
        energy = value + 0.5 * momentum @ momentum
        length = _TURN * self._generator.uniform(_SHORTEST, _LONGEST)
        threshold = self._generator.uniform()
        for _ in range(min(max(1, round(length / step)), _MOST_STEPS)):
            momentum = momentum - 0.5 * step * slope
            at, momentum = self._drift(at, momentum, step)
            value, slope = self._evaluate(at)
            if not np.isfinite(value):
                return self._decided(0.0, False, at, value, slope)
            momentum = momentum - 0.5 * step * slope
        decision = decide(float(energy - value - 0.5 * momentum @ momentum), threshold)
        return self._decided(*decision, at, value, slope)

    def follow(self, surrogate: Surrogate, with_slope: bool) -> float:
        """One transition of the surrogate's own chain, as a proposal; the probability with which it was accepted.

        That chain would go the same way back as often, so only what the surrogate is wrong by is left to decide, and
        where it stays nothing is asked. With `with_slope` the slope of the density is found at the end, for another
        surrogate.
        """
        at, threshold = self._wander(surrogate), self._generator.uniform()
        if at is self._at:
            return self._decided(0.0, False, at, self._value, self._slope)
        value, slope = self._evaluate(at) if with_slope else (self._evaluate_alone(at), np.full(len(at), np.nan))
        if not np.isfinite(value):
            return self._decided(0.0, False, at, value, slope)
        gain = self._value - surrogate.value(self._at) - value + surrogate.value(at)
        return self._decided(*decide(gain, threshold), at, value, slope)

    def _wander(self, surrogate: Surrogate) -> Float[np.ndarray, " P"]:
        """Where one transition with the surrogate's distribution leads; the very state, where it stays."""
        momentum, at = self._generator.normal(size=len(self._at)), self._at
        energy = surrogate.value(at) + 0.5 * momentum @ momentum
        length = _TURN * self._generator.uniform(_SHORTEST, _FREE_LONGEST)
        threshold = self._generator.uniform()
        number = int(np.ceil(length / _FREE_STEP))
        step, slope = length / number, surrogate.slope(at)
        for _ in range(number):
            momentum = momentum - 0.5 * step * slope
            at, momentum = self._drift(at, momentum, step)
            slope = surrogate.slope(at)
            momentum = momentum - 0.5 * step * slope
        _, is_taken = decide(float(energy - surrogate.value(at) - 0.5 * momentum @ momentum), threshold)
        return at if is_taken else self._at

    def _decided(self, acceptance: float, is_taken: bool, at: np.ndarray, value: float, slope: np.ndarray) -> float:
        """The state that follows, written down."""
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
        vector = self._vector(at)
        if vector is None:
            return np.inf, np.zeros(len(at))
        value, gradient = self.density.both(vector)
        return value, self._frame.T @ gradient

    def _evaluate_alone(self, at: Float[np.ndarray, " P"]) -> float:
        vector = self._vector(at)
        return np.inf if vector is None else self.density.value(vector)

    def _vector(self, at: Float[np.ndarray, " P"]) -> Float[np.ndarray, " P"] | None:
        """θ, at a bound where rounding has led beyond it; None farther out."""
        vector = self._mode + self._frame @ at
        slack = 1e-9 * self._bounds.width
        # Not so where a surrogate has led to no number at all.
        if not (np.all(vector >= self._bounds.lower - slack) and np.all(vector <= self._bounds.upper + slack)):
            self.density.failures += 1
            return None
        return np.clip(vector, self._bounds.lower, self._bounds.upper)
