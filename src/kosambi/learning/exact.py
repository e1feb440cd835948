r"""The exact evidence of a Gaussian likelihood and its gradient, with the factorisation on the host.

Also what all evidences without inducing points share: they are sums over blocks of rows (`AbstractBlockEvaluator`).

    log p(y) = log N(y; m, K),   K = r(x, x) + σ²I,
    ∂ log p = Σ_nm W_nm ∂K_nm + αᵀ∂m,   W = ½(ααᵀ − K⁻¹),   α = K⁻¹(y − m)

Where observation n counts w_n times, with S = diag(√w): S(y − m) and S r(x, x) S + σ²I stand for y − m and K, and
½ Σ_n (w_n − 1) log σ_n² + ½ log 2π Σ_n w_n for the constant; a weight of zero takes a row out.

JAX makes K and pulls W back to the hyperparameters; LAPACK factorises and inverts (potrf, potri) in N³ operations:
differentiating a Cholesky factorisation takes several times as many. Of many rows an accelerator does all of it.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from jaxtyping import Float

from kosambi._core.journal import Arrays
from kosambi._core.lapack import clear_above, factorise, invert_triangle, multiply_triangle
from kosambi._core.precision import compiled, lift
from kosambi._core.threads import in_threads, platform
from kosambi._core.types import Array
from kosambi.learning.layout import Layout, Model, rebuilt
from kosambi.learning.rows import Block
from kosambi.learning.starts import Limits, penalty
from kosambi.likelihoods import Gaussian
from kosambi.priors import AbstractPrior
from kosambi.priors.base import evaluate_mean

Result = TypeVar("Result")
# Rows whose covariances with all others are differentiated at once, on a CPU and on an accelerator.
_ROWS_OF_A_BLOCK, _ROWS_ON_DEVICE = 256, 2048
DEVICE_FROM = 4096
"""Rows of a block from which an accelerator, if there is one, is faster than to compile for it."""


class AbstractBlockEvaluator(abc.ABC):
    """Minus the sum of the blocks' log evidences, and minus the log of the weak prior where there is one.

    Arguments:
        layout: which parameters are free.
        given: the model whose other parameters stand still.
        prior: whose kernel and mean are replaced.
        blocks: the data; blocks of one size share what is compiled.
        bounds: the weak prior; none when None.
    """

    def __init__(
        self, layout: Layout, given: Model, prior: AbstractPrior, blocks: list[Block], bounds: Limits | None = None
    ) -> None:
        self.layout, self.bounds, self.evidence = layout, bounds, -np.inf
        self._lowest = np.inf
        self._prior = lift(prior)
        self._given = [lift(given._replace(likelihood=block.likelihood)) for block in blocks]
        self._blocks = [lift(block) for block in blocks]

    def __call__(self, vector: Float[np.ndarray, " P"]) -> tuple[float, Float[np.ndarray, " P"]]:
        """Value and gradient; not finite where an evidence cannot be computed."""
        parts = self._parts(vector)
        if not all(np.isfinite(part) for part, _ in parts):
            return np.inf, np.full(len(vector), np.nan)
        evidence = float(sum(part for part, _ in parts))
        away, push = penalty(self.bounds, vector)
        value, gradient = away - evidence, push - np.sum([slope for _, slope in parts], axis=0)
        if value < self._lowest:
            self._lowest, self.evidence = value, evidence
            self._keep(gradient)
        return value, gradient

    def value(self, vector: Float[np.ndarray, " P"]) -> float:
        """The value alone, in less time; +∞ where an evidence cannot be computed. Nothing of it is kept."""
        found = self._of_blocks(lambda number: self._evidence(number, vector))
        return penalty(self.bounds, vector)[0] - sum(found) if np.all(np.isfinite(found)) else np.inf

    def _parts(self, vector: Float[np.ndarray, " P"]) -> list[tuple[float, Float[np.ndarray, " P"]]]:
        """The log evidence of every block and its gradient."""
        return self._of_blocks(lambda number: self._block(number, vector))

    def _of_blocks(self, function: Callable[[int], Result]) -> list[Result]:
        """What a function of a block's number says of each; several blocks at a time, one in each thread."""
        numbers = range(len(self._blocks))
        return [function(0)] if len(numbers) == 1 else in_threads(function, numbers)

    def leave_one_out(self, vector: Float[np.ndarray, " P"]) -> float:
        """Mean log density of each observation given all others of its block."""
        density, times = self.left_out(vector)
        return float(density @ times / np.sum(times))

    @abc.abstractmethod
    def left_out(self, vector: Float[np.ndarray, " P"]) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
        """Log densities of the observations, each given all others of its block, and how often each counts.

        −∞ where there is no evidence.
        """

    @abc.abstractmethod
    def _block(self, number: int, vector: Float[np.ndarray, " P"]) -> tuple[float, Float[np.ndarray, " P"]]:
        """The log evidence of one block and its gradient."""

    @abc.abstractmethod
    def _evidence(self, number: int, vector: Float[np.ndarray, " P"]) -> float:
        """The log evidence of one block; −∞ where there is none."""

    def _keep(self, gradient: Float[np.ndarray, " P"]) -> None:  # noqa: B027
        """The last evaluation was the best so far; what it found may be where the next one begins."""

    def memory(self) -> list[Any]:
        """What the next evaluation, and whoever asks for the evidence, goes by; for a journal."""
        return [np.asarray(self._lowest), np.asarray(self.evidence)]

    def recall(self, memory: Arrays) -> None:
        """Be as after the evaluation of that memory."""
        lowest, evidence = memory[:2]
        assert lowest is not None
        assert evidence is not None
        self._lowest, self.evidence = float(lowest), float(evidence)


class _Solved(NamedTuple):
    """What the evidence of a block and its gradient share."""

    evidence: float
    matrix: Float[np.ndarray, "N N"]
    """L, with K = LLᵀ."""
    times: Float[np.ndarray, " N"]
    """How often each observation counts."""
    alpha: Float[np.ndarray, " N"]
    variance: Float[np.ndarray, " N"]
    """Of the noise."""


class ExactEvaluator(AbstractBlockEvaluator):
    """Minus the log evidence of Gaussian noise without inducing points; see `AbstractBlockEvaluator`.

    Arguments:
        layout: which parameters are free.
        given: the model whose other parameters stand still.
        prior: whose kernel and mean are replaced.
        blocks: the data.
        bounds: the weak prior; none when None.
        known: (B,), variances of noise that is known and comes on top, the same for each block; none when None.
    """

    def __init__(
        self,
        layout: Layout,
        given: Model,
        prior: AbstractPrior,
        blocks: list[Block],
        bounds: Limits | None = None,
        known: Float[Array, " B"] | None = None,
    ) -> None:
        super().__init__(layout, given, prior, blocks, bounds)
        self._known = np.zeros(()) if known is None else known

    def _block(self, number: int, vector: Float[np.ndarray, " P"]) -> tuple[float, Float[np.ndarray, " P"]]:
        from scipy.linalg import blas

        given, (x, y, counts, _) = self._given[number], self._blocks[number]
        if len(y) >= DEVICE_FROM and platform() != "cpu":
            found = _on_device(self.layout, vector, given, self._prior, x, y, counts, self._known)
            return float(found[0]), np.asarray(found[1])
        solved = self._solved(number, vector)
        if solved is None:
            return -np.inf, np.full(len(vector), np.nan)
        evidence, matrix, times, alpha, variance = solved
        root = np.sqrt(times)
        invert_triangle(matrix)
        multiply_triangle(matrix)
        np.negative(matrix, out=matrix)
        blas.dsyr(1.0, alpha, lower=1, a=matrix, overwrite_a=1)
        # ααᵀ − K⁻¹ below the diagonal; K is symmetric, so what lies there counts twice, and nothing above it does.
        matrix[np.diag_indices_from(matrix)] *= 0.5
        slopes = np.diagonal(matrix) - 0.5 * (times - 1.0) / variance
        matrix *= root
        matrix *= root[:, None]
        # Its transpose is in JAX's order.
        pulled = _pulled_back(self.layout, vector, given, self._prior, x, matrix.T, slopes, root * alpha)
        return evidence, np.asarray(pulled)

    def _evidence(self, number: int, vector: Float[np.ndarray, " P"]) -> float:
        if len(self._blocks[number].y) >= DEVICE_FROM and platform() != "cpu":
            return self._block(number, vector)[0]
        solved = self._solved(number, vector)
        return -np.inf if solved is None else solved.evidence

    def _solved(self, number: int, vector: Float[np.ndarray, " P"]) -> _Solved | None:
        """The evidence of one block and what its gradient needs; None where K has no factor."""
        from scipy.linalg import lapack

        given, (x, y, counts, _) = self._given[number], self._blocks[number]
        gram, variance, mean = (np.asarray(part) for part in _covariance(self.layout, vector, given, self._prior, x))
        times = np.asarray(counts)
        root = np.sqrt(times)
        # r is symmetric, so that its transpose, which is in LAPACK's order, is the same.
        matrix = gram.T * root
        matrix *= root[:, None]
        clear_above(matrix)
        matrix[np.diag_indices_from(matrix)] += variance + self._known
        if not factorise(matrix):
            return None
        error = root * (np.asarray(y) - mean)
        alpha, _ = lapack.dpotrs(matrix, error, lower=1)
        log_determinant = 2.0 * np.sum(np.log(np.diagonal(matrix)))
        constant = (times - 1.0) @ np.log(variance) + np.sum(times) * np.log(2.0 * np.pi)
        evidence = -0.5 * float(error @ alpha + log_determinant + constant)
        return _Solved(evidence, matrix, times, alpha, variance)

    def left_out(self, vector: Float[np.ndarray, " P"]) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
        """As N(y_n − α_n/p_n, 1/p_n), p = diag K⁻¹.

        An observation that counts several times has a noise that is as much smaller, and counts as often.
        """
        from scipy.linalg import cho_solve, lapack

        densities, every = [], []
        for given, (x, y, counts, _) in zip(self._given, self._blocks, strict=True):
            parts = _covariance(self.layout, vector, given, self._prior, x)
            gram, variance, mean = (np.asarray(part) for part in parts)
            rows = np.flatnonzero(np.asarray(counts))
            times = np.asarray(counts)[rows]
            noise = np.broadcast_to(variance + self._known, len(gram))[rows] / times
            factor, failed = lapack.dpotrf(gram[np.ix_(rows, rows)] + np.diag(noise), lower=1)
            if failed or not np.all(np.isfinite(np.diagonal(factor))):
                densities.append(np.full(len(rows), -np.inf))
            else:
                inverse = cho_solve((factor, True), np.eye(len(rows)))
                alpha, precision = inverse @ (np.asarray(y) - mean)[rows], np.diagonal(inverse)
                densities.append(0.5 * (np.log(precision / (2.0 * np.pi)) - np.square(alpha) / precision))
            every.append(times)
        return np.concatenate(densities), np.concatenate(every)


def _parts(
    layout: Layout, vector: Array, given: Model, prior: AbstractPrior, x: Array
) -> tuple[Float[Array, "N N"], Float[Array, " N"], Float[Array, " N"]]:
    model = layout.model(vector, given)
    assert isinstance(model.likelihood, Gaussian)
    variance = jnp.broadcast_to(jnp.square(model.likelihood.row_noise), (x.shape[0],))
    mean = jnp.asarray(evaluate_mean(model.mean, x))
    return rebuilt(prior, model).pairwise(x, x), variance, mean


_covariance = compiled(_parts)


@compiled
def _on_device(
    layout: Layout,
    vector: Array,
    given: Model,
    prior: AbstractPrior,
    x: Array,
    y: Array,
    counts: Array,
    known: Array,
) -> tuple[Float[Array, ""], Float[Array, " P"]]:
    """The log evidence and its gradient, −∞ and NaN where there is no factor."""
    gram, variance, mean = _parts(layout, vector, given, prior, x)
    root, excess = jnp.sqrt(counts), counts - 1.0
    matrix = root[:, None] * gram * root + jnp.diag(variance + known)
    factor = jax.lax.linalg.cholesky(matrix, symmetrize_input=False)
    error = root * (y - mean)
    alpha = jsl.cho_solve((factor, True), error)
    log_determinant = 2.0 * jnp.sum(jnp.log(jnp.diagonal(factor)))
    constant = excess @ jnp.log(variance) + jnp.sum(counts) * jnp.log(2.0 * jnp.pi)
    evidence = -0.5 * (error @ alpha + log_determinant + constant)
    inverse = jsl.cho_solve((factor, True), jnp.eye(len(y), dtype=gram.dtype))
    slopes = 0.5 * (jnp.square(alpha) - jnp.diagonal(inverse) - excess / variance)
    weights = 0.5 * root[:, None] * (jnp.outer(alpha, alpha) - inverse) * root
    gradient = _pulled_back(layout, vector, given, prior, x, weights, slopes, root * alpha)
    return jnp.where(jnp.isfinite(evidence), evidence, -jnp.inf), gradient


@compiled
def _pulled_back(
    layout: Layout,
    vector: Array,
    given: Model,
    prior: AbstractPrior,
    x: Array,
    weights: Array,
    slopes: Array,
    alpha: Array,
) -> Float[Array, " P"]:
    """The slope in the free numbers, from those in r, in the variances of the noise, and in the mean."""

    def weighted(v: Array) -> Array:
        model = layout.model(v, given)
        assert isinstance(model.likelihood, Gaussian)
        variance = jnp.broadcast_to(jnp.square(model.likelihood.row_noise), (x.shape[0],))
        return jnp.sum(slopes * variance) + jnp.sum(alpha * jnp.asarray(evaluate_mean(model.mean, x)))

    return jax.grad(weighted)(vector) + gram_gradient(layout, vector, given, prior, x, weights)


def gram_gradient(
    layout: Layout, vector: Array, given: Model, prior: AbstractPrior, x: Array, weights: Float[Array, "N N"]
) -> Float[Array, " P"]:
    """The gradient of Σ_nm weights_nm r(x_n, x_m) in the free numbers, block by block of rows; traceable.

    Of all rows at once, what the gradient passes through would leave a core's cache, and take four times as long.
    """
    num_rows = x.shape[0]
    blocks = -(-num_rows // (_ROWS_OF_A_BLOCK if platform() == "cpu" else _ROWS_ON_DEVICE))
    size = -(-num_rows // blocks)
    missing = blocks * size - num_rows
    # Rows that are missing have no weight.
    tall = jnp.concatenate([x, x[:missing]]) if missing else x
    heavy = jnp.pad(weights, ((0, missing), (0, 0))) if missing else weights

    def add(total: Array, part: tuple[Array, Array]) -> tuple[Array, None]:
        own, own_weights = part

        def weighted(v: Array) -> Array:
            return jnp.sum(own_weights * rebuilt(prior, layout.model(v, given)).pairwise(own, x))

        return total + jax.grad(weighted)(vector), None

    parts = tall.reshape(blocks, size, -1), heavy.reshape(blocks, size, num_rows)
    return jax.lax.scan(add, jnp.zeros_like(vector), parts)[0]
