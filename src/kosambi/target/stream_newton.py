r"""Newton's search for a mode over a stream, a pass an evaluation, and the potential of particles in one more pass.

    V(w) = Σ_n weight_n c_n(m_n + ψ_nᵀw) + ½|w|²

Each pass gives the value, the slope and the second derivatives of all rows, summed in float64, so that a step that goes
down costs one pass. It begins at the mode of a sample, from which a few steps are enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from kosambi._core.journal import Arrays
from kosambi._core.linalg import all_blas_threads, is_for_host
from kosambi._core.precision import compiled
from kosambi._core.types import Array
from kosambi.basis import AbstractBasis
from kosambi.errors import NumericalError
from kosambi.likelihoods import AbstractLikelihood
from kosambi.likelihoods.quadrature import Rule
from kosambi.sources import Block, Stream
from kosambi.sources.sweeps import Sweeps
from kosambi.target.data_terms import FactorisedTerm
from kosambi.target.host_newton import HostPotential, RowCosts
from kosambi.target.newton import FLATTEST, SHARES
from kosambi.target.stream import Sums, features_of

MAX_PASSES = 30
"""Evaluations of the search."""
TOLERANCE = 1e-12
"""The search ends when a Newton step promises to lower V by less than this, or by less than sums are rounded to."""
# Relative rounding of a sum over very many rows.
_ROUNDING = 1e-14


class Derivatives(NamedTuple):
    """The data's part of a potential at one w, summed over rows."""

    value: float
    slope: Float[np.ndarray, " K"]
    second: Float[np.ndarray, "K K"]
    """Second derivatives, which need not be positive where the cost is not convex."""
    positive: Float[np.ndarray, "K K"]
    """A positive curvature; the same where the cost is convex."""


class StreamMode(NamedTuple):
    """Where a search over a stream ended."""

    w: Float[np.ndarray, " K"]
    here: Derivatives
    factor: Float[np.ndarray, "K K"]
    """The Cholesky factor of I plus the curvature there."""
    decrement: float
    passes: int

    @property
    def converged(self) -> bool:
        """Whether a further step would hardly lower V."""
        return self.decrement < 1e-6


class StreamPotential:
    """The data's part of V over a stream, for a likelihood that is a sum over rows.

    Arguments:
        basis: the coordinates.
        likelihood: the cost of a row.
        stream: the rows.
        block_rows: of a block.
        rule: the quadrature of the optimal potential; None for the projected one.
    """

    def __init__(
        self, basis: AbstractBasis, likelihood: AbstractLikelihood, stream: Stream, block_rows: int, rule: Rule | None
    ) -> None:
        self.basis, self.likelihood, self.rule = basis, likelihood, rule
        self.stream, self.block_rows = stream, block_rows
        self.sums: Sums | None = None
        """Variances of all rows, after the first pass."""
        self.group = stream.source.group
        """The processes that have some of the rows each."""
        latents = likelihood.num_latents
        self.shape = (basis.size,) if latents == 1 else (basis.size, latents)
        self._sweeps = Sweeps(stream, block_rows)

    def count(self) -> Sums:
        """Variances of all rows, in a pass of their own if there was none."""
        if self.sums is None:
            self._summed(lambda _: (), [])
        assert self.sums is not None
        return self.sums

    def derivatives(self, w: Float[np.ndarray, " K"]) -> Derivatives:
        """Of all rows at one w, in one pass."""
        (w,) = self.group.agreed("where the potential is evaluated", w)
        size = len(w)
        # Where the cost is convex the two matrices are the same.
        number = 3 if self.likelihood.is_convex else 4
        start = [np.zeros(()), np.zeros(size), np.zeros((size, size)), np.zeros((size, size))][:number]
        own = self._summed(lambda term: derivatives_of(term, w)[:number], start, w)
        value, slope, second, *positive = self.group.added("derivatives", *own)
        return Derivatives(float(value), slope, second, *(positive or [second]))

    def values(self, w: Float[np.ndarray, "J K"]) -> Float[np.ndarray, " J"]:
        """V at J places, the prior's part included, in one pass."""
        (w,) = self.group.agreed("where the potential is evaluated", w)
        shaped = w.reshape(len(w), *self.shape)
        own = self._summed(lambda term: (_value(term, shaped),), [np.zeros(len(w))], w)
        (total,) = self.group.added("values of the potential", *own)
        return total + 0.5 * np.sum(np.square(w), axis=1)

    def values_and_gradients(
        self, w: Float[np.ndarray, "J K"]
    ) -> tuple[Float[np.ndarray, " J"], Float[np.ndarray, "J K"]]:
        """V and its gradient at J places, in one pass."""
        (w,) = self.group.agreed("where the potential is evaluated", w)
        shaped = w.reshape(len(w), *self.shape)
        own = self._summed(
            lambda term: _value_and_gradient(term, shaped), [np.zeros(len(w)), np.zeros(shaped.shape)], w
        )
        value, gradient = self.group.added("values and gradients", *own)
        return value + 0.5 * np.sum(np.square(w), axis=1), gradient.reshape(w.shape) + w

    def _summed(
        self, parts_of: Callable[[FactorisedTerm], Sequence[Any]], start: list[np.ndarray], *asked: np.ndarray
    ) -> list[np.ndarray]:
        """What `parts_of` finds of each block's data term, added to `start` in one pass over the rows of this process.

        `asked` is where the potential is evaluated.
        """
        totals = _Totals(self, parts_of, start)
        self._sweeps.over(totals, *asked)
        self.sums = totals.sums.over(self.group)
        return totals.parts


class _Totals:
    """Sums of one pass, of what a function finds of the data term of each block."""

    def __init__(
        self,
        potential: StreamPotential,
        parts_of: Callable[[FactorisedTerm], Sequence[Any]],
        start: list[np.ndarray],
    ) -> None:
        self.potential, self.parts_of, self.parts, self.sums = potential, parts_of, start, Sums()

    def add(self, block: Block) -> None:
        whole = self.potential
        block = block.padded(whole.block_rows)
        features = features_of(whole.basis, block.x)
        self.sums.add(block, features)
        deviation = None if whole.rule is None else np.sqrt(features.residual)
        offset = np.ascontiguousarray(features.offset)
        term = FactorisedTerm(whole.likelihood, features.psi, block.y, offset, block.weights, deviation, whole.rule)
        with jax.enable_x64(True):
            found = [np.asarray(part) for part in self.parts_of(term)]
        self.parts = [total + more for total, more in zip(self.parts, found, strict=True)]

    def memory(self) -> Sequence[Any]:
        return [*self.sums.memory(), *self.parts]

    def recall(self, memory: Arrays) -> None:
        self.sums.recall(memory[:4])
        self.parts = [np.asarray(part) for part in memory[4:]]


def derivatives_of(term: FactorisedTerm, w: Float[np.ndarray, " K"]) -> Derivatives:
    """The value, slope and second derivatives of a data term that is in memory, or on an accelerator."""
    if not is_for_host(term.psi.size):
        shaped = w if term.likelihood.num_latents == 1 else w.reshape(term.psi.shape[1], -1)
        value, slope, *others = map(np.asarray, _derivatives_on_device(term, shaped))
        return Derivatives(float(value), slope.reshape(w.shape), others[0], others[-1])
    potential = HostPotential(term)
    with np.errstate(over="ignore", invalid="ignore"), all_blas_threads():
        rows: RowCosts = potential.rows(w)
        slope = potential.gradient(w, rows) - w
        unit = np.eye(len(w))
        second = potential.spread(rows.second) - unit
        is_convex = term.likelihood.is_convex
        positive = second if is_convex else potential.spread(rows.search_curvature) - unit
    return Derivatives(float(np.sum(rows.cost)), slope, second, positive)


@compiled
def _derivatives_on_device(term: FactorisedTerm, w: Array) -> tuple[Array, ...]:
    value, slope = term.value_and_gradient(w[None])
    if term.likelihood.is_convex:
        return value[0], slope[0], term.curvature(w)
    return value[0], slope[0], term.hessian(w), term.search_curvature(w)


def search_stream(
    potential: StreamPotential, start: Float[np.ndarray, " K"], tell: Callable[[str], None] = lambda _: None
) -> StreamMode:
    """The minimum of V that a damped Newton search from `start` ends in; each evaluation is a pass."""
    w, here, value = start, None, np.inf
    direction, decrement, length, passes = np.zeros(len(start)), np.inf, 1.0, 0
    factor = np.eye(len(start))
    while passes < MAX_PASSES and length > 1e-8:
        if here is not None and decrement <= max(TOLERANCE, _ROUNDING * abs(value)):
            break
        tell(f"looking for the mode, pass {passes + 1}")
        trial = w + length * direction
        found = potential.derivatives(trial)
        passes += 1
        reached = found.value + 0.5 * float(trial @ trial)
        if here is None and not np.isfinite(reached):
            break
        if here is None or reached <= value - 2e-4 * length * decrement + _ROUNDING * abs(value):
            w, here, value, length = trial, found, reached, 1.0
            slope = found.slope + w
            factor = _factor(found, potential.likelihood.is_convex)
            direction = -_solve(factor, slope)
            # All processes go on, or end, together.
            step = potential.group.agreed("a step of the search", w, direction, reached)
            w, direction, value = step[0], step[1], float(step[2])
            decrement = -0.5 * float(slope @ direction)
        else:
            length *= 0.5
    if here is None:
        raise NumericalError(
            "No mode was found: the potential of all rows is not finite where that of a sample is lowest. Look for "
            "values of y that the likelihood gives no probability, and at the scale of the kernel."
        )
    return StreamMode(w, here, factor, decrement, passes)


def _factor(found: Derivatives, is_convex: bool) -> Float[np.ndarray, "K K"]:
    """The Cholesky factor of the Hessian, or of a mixture with a positive curvature where that is too flat."""
    from scipy.linalg import LinAlgError, cholesky

    unit = np.eye(len(found.slope))
    if is_convex:
        return np.asarray(cholesky(found.second + unit, lower=True, check_finite=False))
    for share in SHARES:
        mixed = found.second + share * (found.positive - found.second) + unit
        try:
            cholesky(mixed - FLATTEST * (found.positive + unit), lower=True, check_finite=False)
            return np.asarray(cholesky(mixed, lower=True, check_finite=False))
        except LinAlgError:
            continue
    return np.asarray(cholesky(found.positive + unit, lower=True, check_finite=False))


def _solve(factor: Float[np.ndarray, "K K"], right: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
    from scipy.linalg import cho_solve

    return np.asarray(cho_solve((factor, True), right, check_finite=False))


@compiled
def _value(term: FactorisedTerm, w: Array) -> Array:
    return term.value(w)


@compiled
def _value_and_gradient(term: FactorisedTerm, w: Array) -> tuple[Array, Array]:
    return term.value_and_gradient(w)
