r"""Rows that are not all in memory: their features a block at a time, and what a Gaussian likelihood sums up of them.

A target of a stream holds a sample of the rows, each with the weight of those that it stands for, and a data term of
all of them: with Gaussian noise ½|Rw − q|² + constant in one pass, from ΨᵀΨ where its rounding is small beside the
prior, and otherwise from QR factorisations; with other likelihoods a `CorrectedTerm`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.groups import Group
from kosambi._core.journal import Arrays
from kosambi._core.linalg import all_blas_threads, is_for_host
from kosambi._core.precision import Module, compiled
from kosambi._core.types import Array
from kosambi.basis import AbstractBasis
from kosambi.likelihoods import Gaussian
from kosambi.sources import Block, Stream
from kosambi.sources.sweeps import Sweeps
from kosambi.target.data_terms import QuadraticTerm
from kosambi.target.normal_sums import GramSum, RootSum

LARGEST_TRACE = 1e8
"""Of ΨᵀΨ in units of the noise, over √B for B blocks, up to which it is summed; beyond, a factor is carried along."""


class StreamFacts(Module):
    """What is known of all rows of a stream, as a posterior needs it that holds a sample of them."""

    num_rows: Array
    """N."""
    factor: Array
    """How many rows one of the sample stands for: what its weight was multiplied by."""
    residual_trace: Array
    """Σ_n σ_n², the residual variance of the coordinates at all rows."""
    prior_trace: Array
    """Σ_n r(x_n, x_n)."""
    largest_variance: Array
    """max_n r(x_n, x_n)."""
    largest_residual: Array
    """max_n σ_n²."""
    lowest: Float[Array, " D"]
    highest: Float[Array, " D"]
    """The range of each column."""
    squared_error: Array
    """Σ_n weight_n (y_n − m(x_n))²/s_n² for Gaussian noise s; NaN for others."""
    noise_trace: Array
    """Σ_n weight_n σ_n²/s_n², likewise."""
    log_correction: Array
    """log E exp(V' − V) over draws of a potential V' that stood for V; zero where none did."""
    log_correction_error: Array
    """Its standard error."""
    pareto_k: Array
    """k̂ of the weights exp(V' − V); −inf where there are none."""


class RowFeatures(NamedTuple):
    """What the coordinates say about a block of rows."""

    psi: Float[Array, "n M"]
    """On an accelerator, if it has enough to do there: then nothing is read back but sums."""
    offset: Float[np.ndarray, " n"]
    """m(x), the prior mean."""
    residual: Float[np.ndarray, " n"]
    """σ², not below zero."""
    variance: Float[np.ndarray, " n"]
    """r(x, x)."""


def features_of(basis: AbstractBasis, x: Float[np.ndarray, "n D"]) -> RowFeatures:
    """Whitened features and variances of the rows of x."""
    offset = np.broadcast_to(np.asarray(basis.prior.mean_at(x), dtype=np.float64), (len(x),))
    known = basis.explained_on_host(x)
    if known is not None:
        return RowFeatures(known.psi, offset, np.maximum(known.residual, 0.0), known.variance)
    psi, residual = _features_on_device(basis, x), np.asarray(basis.residual_variance(x))
    if is_for_host(psi.size):
        psi = np.asarray(psi)
    if not np.all(np.isfinite(residual)):
        # Says at which row.
        basis.whitened_mean(x)
    return RowFeatures(psi, offset, residual, np.asarray(basis.prior.variance(x)))


@compiled
def _features_on_device(basis: AbstractBasis, x: Array) -> Array:
    return basis.whitened_weights(x)


class Sums:
    """What `StreamFacts` has of residual and prior variances, added up."""

    def __init__(self) -> None:
        self.residual = self.variance = self.most = self.largest = 0.0

    def add(self, block: Block, features: RowFeatures) -> None:
        """Count the rows of a block that weigh something."""
        used = block.weights > 0
        self.residual += float(np.sum(features.residual[used]))
        self.variance += float(np.sum(features.variance[used]))
        self.most = max(self.most, float(np.max(features.variance[used], initial=0.0)))
        self.largest = max(self.largest, float(np.max(features.residual[used], initial=0.0)))

    def memory(self) -> list[float]:
        """They, for a journal."""
        return [self.residual, self.variance, self.most, self.largest]

    def recall(self, memory: Arrays) -> None:
        """Go on from there."""
        self.residual, self.variance, self.most, self.largest = (float(np.asarray(part)) for part in memory)

    def over(self, group: Group) -> Sums:
        """Those of the rows of all processes."""
        whole = Sums()
        for (found,) in group.gathered("variances", self.memory()):
            residual, variance, most, largest = found.tolist()
            whole.residual, whole.variance = whole.residual + residual, whole.variance + variance
            whole.most, whole.largest = max(whole.most, most), max(whole.largest, largest)
        return whole

    def facts(
        self, num_rows: int, factor: float, lowest: np.ndarray, highest: np.ndarray, **others: float
    ) -> StreamFacts:
        """They, with what else is known."""
        known = {"squared_error": np.nan, "noise_trace": np.nan, "log_correction": 0.0, "log_correction_error": 0.0}
        known |= {"pareto_k": -np.inf} | others
        return StreamFacts(
            num_rows=np.asarray(num_rows),
            factor=np.asarray(factor),
            residual_trace=np.asarray(self.residual),
            prior_trace=np.asarray(self.variance),
            largest_variance=np.asarray(self.most),
            largest_residual=np.asarray(self.largest),
            lowest=np.asarray(lowest),
            highest=np.asarray(highest),
            **{name: np.asarray(value) for name, value in known.items()},
        )


def _in_deviations(
    psi: Float[Array, "n M"], root: Float[np.ndarray, " n"], error: Float[np.ndarray, " n"]
) -> Float[Array, "n K"]:
    """[Ψ, e] in units of the deviations 1/root, where Ψ is."""
    if isinstance(psi, np.ndarray):
        return np.column_stack([psi * root[:, None], error * root])
    return _scaled_on_device(psi, root, error)


@compiled
def _scaled_on_device(psi: Array, root: Array, error: Array) -> Array:
    return jnp.concatenate([psi * root[:, None], (error * root)[:, None]], axis=1)


class GaussianSums(NamedTuple):
    """What one pass over a stream leaves of it, with Gaussian noise."""

    term: QuadraticTerm
    sums: Sums
    squared_error: float
    noise_trace: float


def gaussian_sums(
    basis: AbstractBasis, likelihood: Gaussian, stream: Stream, block_rows: int, is_optimal: bool, total_weight: float
) -> GaussianSums:
    """The quadratic potential of all rows, in one pass.

    Arguments:
        basis: the coordinates.
        likelihood: with one noise for all rows.
        stream: the rows.
        block_rows: of a block.
        is_optimal: whether the residual's expected cost is added, as the optimal potential has it.
        total_weight: how often all rows count together.
    """
    noise = float(np.asarray(likelihood.noise))
    # Of the normal matrix, if prior variances elsewhere are what they are at the inducing points.
    trace_bound = total_weight * float(np.max(np.asarray(basis.prior.variance(basis.inducing_points)))) / noise**2
    num_blocks = max(1.0, (stream.num_rows or 0) / block_rows)
    rows_sum = (GramSum if trace_bound <= LARGEST_TRACE * np.sqrt(num_blocks) else RootSum)(basis.size)
    own, group = _GaussianTotals(basis, noise, block_rows, rows_sum), stream.source.group
    Sweeps(stream, block_rows).over(own, "normal equations", noise)
    constant, squared, trace = group.added("sums of squares", own.parts)[0].tolist()
    sums = own.sums.over(group)
    root, aim, rest = rows_sum.over(group).found(squared)
    constant += 0.5 * rest + (0.5 * trace if is_optimal else 0.0)
    return GaussianSums(QuadraticTerm(root, aim, np.asarray(constant)), sums, squared, trace)


class _GaussianTotals:
    """What one pass adds up with Gaussian noise: sums of squares and traces, variances, and the normal matrix."""

    def __init__(self, basis: AbstractBasis, noise: float, block_rows: int, rows_sum: GramSum | RootSum) -> None:
        self.basis, self.noise, self.block_rows, self.rows_sum = basis, noise, block_rows, rows_sum
        self.parts, self.sums = np.zeros(3), Sums()

    def add(self, block: Block) -> None:
        constant = float(np.sum(block.weights)) * (np.log(self.noise) + 0.5 * np.log(2.0 * np.pi))
        block = block.padded(self.block_rows)
        features = features_of(self.basis, block.x)
        self.sums.add(block, features)
        root, error = np.sqrt(block.weights) / self.noise, block.y - features.offset
        with all_blas_threads():
            self.rows_sum.add(_in_deviations(features.psi, root, error))
        squared = float(np.sum(np.square(error * root)))
        trace = float(np.sum(np.square(root) * features.residual))
        self.parts = self.parts + np.array([constant, squared, trace])

    def memory(self) -> Sequence[Any]:
        return [self.parts, *self.sums.memory(), self.rows_sum.total.copy()]

    def recall(self, memory: Arrays) -> None:
        parts, *sums, total = memory
        self.parts, self.rows_sum.total = np.asarray(parts), np.asarray(total)
        self.sums.recall(tuple(sums))
