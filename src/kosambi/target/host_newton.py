r"""Newton's search of `kosambi.target.newton` with LAPACK, for costs that are sums over rows.

All that is compiled is the cost of every row with its derivatives, one program for each number of rows, whatever the
number M of inducing points is. A search compiled as a whole takes longer to compile than to run, once for each M.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from kosambi._core.lapack import clear_above, factorise, invert_triangle
from kosambi._core.linalg import all_blas_threads, one_blas_thread
from kosambi._core.precision import compiled, lift, with_fields
from kosambi._core.types import Array
from kosambi.likelihoods import AbstractLikelihood
from kosambi.likelihoods.quadrature import Rule
from kosambi.target.data_terms import FactorisedTerm, largest_slope
from kosambi.target.marginal_term import MarginalTerm
from kosambi.target.newton import FLATTEST, MAX_ITERATIONS, SHARES, TOLERANCE
from kosambi.target.row_blocks import map_over_rows

# Numbers that one curvature is summed over from which several threads are worth it. Threads of a BLAS wait for each
# other by turning in circles: where other work has the cores, a product of a tenth of a second takes seconds with two.
_MUCH = 2**34
# Where a program for the costs of rows needs none.
_NO_FEATURES = np.empty((0, 0))
# The Hessian leads the search on while it is above this part of the positive curvature: too flat for a normal
# distribution that stands for the posterior, but what is too long a step is halved.
_FLATTEST_STEP = 1e-3
# Evaluations on the way down, the slope at which it ends, and a hill for where costs are infinite.
_DOWNHILL, _LEVEL, _HILL = 300, 1e-3, 1e30
# Rows of a block of a product.
_ROWS = 2**13


class RowCosts(NamedTuple):
    """The cost of each row at its latent values, and its derivatives in them, with weights."""

    cost: Float[np.ndarray, " N"]
    slope: Float[np.ndarray, " N *C"]
    curvature: Float[np.ndarray, " N *CC"]
    """Never negative: the second derivative of a convex cost, Fisher's information or the like of others."""
    search_curvature: Float[np.ndarray, " N *CC"]
    """A positive one for a search where the second derivative will not do."""
    second: Float[np.ndarray, " N *CC"]
    """The second derivative; of a convex cost its curvature."""


@compiled
def _row_costs(
    likelihood: AbstractLikelihood, y: Array, f: Array, deviation: Array | None, rule: Rule | None
) -> RowCosts:
    if rule is None:
        cost, slope = likelihood.raw_cost(y, f), likelihood.raw_derivative(y, f)
        curvature = likelihood.raw_curvature(y, f)
    else:
        cost = likelihood.raw_expected_cost(y, f, deviation, rule)
        slope = likelihood.raw_expected_derivative(y, f, deviation, rule)
        curvature = likelihood.raw_expected_curvature(y, f, deviation, rule)
    if likelihood.is_convex:
        return RowCosts(cost, slope, curvature, curvature, curvature)
    if rule is None:
        others = likelihood.raw_search_curvature(y, f), likelihood.raw_second_derivative(y, f)
    else:
        others = (
            likelihood.raw_expected_search_curvature(y, f, deviation, rule),
            likelihood.raw_expected_second_derivative(y, f, deviation, rule),
        )
    return RowCosts(cost, slope, curvature, *others)


@compiled
def _rough_latent(likelihood: AbstractLikelihood, y: Array) -> Array:
    return likelihood.raw_rough_latent(y)


@compiled
def _marginal_costs(term: MarginalTerm, f: Array) -> RowCosts:
    def of_block(rows: tuple[Any, ...]) -> RowCosts:
        none = jnp.zeros((rows[0].shape[0], 0))
        found = term.at_rows((none, *rows[:-1])).marginal(rows[-1])
        return RowCosts(found.cost, found.slope, found.positive, found.positive, found.second)

    return map_over_rows(of_block, (*term.rows()[1:], f))


def row_costs(likelihood: AbstractLikelihood, y: Float[np.ndarray, " N"], f: Float[np.ndarray, " N *C"]) -> RowCosts:
    """The cost of every row without weights, as NumPy arrays."""
    with jax.enable_x64(True):
        return RowCosts(*map(np.asarray, _row_costs(likelihood, y, f, None, None)))


class Found(NamedTuple):
    """Where a search ended."""

    w: Float[np.ndarray, " K"]
    value: float
    """V there."""
    factor: Float[np.ndarray, "K K"]
    """The Cholesky factor of the curvature H."""
    decrement: float
    """How much a further step would promise to lower V."""
    iterations: int


class HostPotential:
    """V(w) = Σ_n weight_n c_n(m_n + ψ_nᵀw) + ½|w|² of a sum over rows, for one w of K = M·C numbers at a time."""

    def __init__(self, term: FactorisedTerm | MarginalTerm) -> None:
        self.term, self.psi, self.offset = term, np.asarray(term.psi), np.asarray(term.offset)
        # Inside the integral of a marginal cost its weight is part of it.
        is_plain = term.weights is None or isinstance(term, MarginalTerm)
        self.weights = np.ones(len(self.psi)) if is_plain else np.asarray(term.weights)
        self._count_once = bool(np.all(self.weights == 1.0))
        self.num_latents = term.likelihood.num_latents
        self.limit = largest_slope(np.float64)
        with jax.enable_x64(True):
            # What a program is given every time, without its features.
            self._moved = lift(with_fields(term, psi=_NO_FEATURES))

    def at(self, rows: Int[np.ndarray, " n"]) -> HostPotential:
        """The part of some rows, for `costs`; without their features."""
        term = self.term
        own = ["y", "offset", "weights", "deviation"]
        own += ["precision", "location"] if isinstance(term, MarginalTerm) else []
        parts = {name: np.asarray(value)[rows] for name in own if (value := getattr(term, name)) is not None}
        return HostPotential(with_fields(term, psi=np.empty((len(rows), 0)), **parts))

    def rows(self, w: Float[np.ndarray, " K"]) -> RowCosts:
        """The weighted costs of all rows at w."""
        return self.costs(self.latent(w))

    def latent(self, w: Float[np.ndarray, " K"]) -> Float[np.ndarray, " N *C"]:
        """m_n + ψ_nᵀw of all rows."""
        f = self.psi @ w.reshape(self.psi.shape[1], -1)
        return self.offset + f[:, 0] if self.num_latents == 1 else self.offset[:, None] + f

    def costs(self, f: Float[np.ndarray, " N *C"]) -> RowCosts:
        """The weighted costs of all rows at latent values f."""
        term = self._moved
        with jax.enable_x64(True):
            if isinstance(term, MarginalTerm):
                found = _marginal_costs(term, f)
            else:
                found = _row_costs(term.likelihood, term.y, f, term.deviation, term.rule)
            cost, *others = map(np.asarray, found)
        slope, *curvatures = (
            np.clip(others[0], -self.limit, self.limit),
            *(np.minimum(h, self.limit) for h in others[1:]),
        )
        if self._count_once:
            return RowCosts(cost, slope, *curvatures)
        # An observation of weight zero is absent, also where its cost is infinite.
        present = self.weights > 0
        cost = np.where(present, self.weights * np.where(present, cost, 0.0), 0.0)
        return RowCosts(cost, self._weighted(slope), *map(self._weighted, curvatures))

    def value(self, w: Float[np.ndarray, " K"], rows: RowCosts | None = None) -> float:
        """V(w)."""
        rows = self.rows(w) if rows is None else rows
        return float(np.sum(rows.cost) + 0.5 * np.sum(np.square(w)))

    def gradient(self, w: Float[np.ndarray, " K"], rows: RowCosts) -> Float[np.ndarray, " K"]:
        """∇V(w)."""
        return w + (self.psi.T @ rows.slope).reshape(-1)

    def likely_start(self) -> Float[np.ndarray, " K"]:
        """Where a search begins: one step from latent values that each row would choose by itself, or zero if lower.

        The step is the first of iteratively reweighted least squares; from zero a count of a thousand takes several
        steps more. One latent function and a convex cost; others begin at zero. Sites, if there are any, say it all.
        """
        likelihood = self.term.likelihood
        if isinstance(self.term, MarginalTerm):
            precision, location = np.asarray(self.term.precision), np.asarray(self.term.location)
            strength = precision / (1.0 + precision * np.square(np.asarray(self.term.deviation)))
            return self._lower(self.normal_factor(strength), strength * (location - self.offset))
        if self.num_latents > 1 or not likelihood.is_convex:
            return np.zeros(self.psi.shape[1] * self.num_latents)
        with jax.enable_x64(True):
            rough = np.asarray(_rough_latent(likelihood, self._moved.y), dtype=np.float64)
        rows = self.costs(rough)
        aim = rows.curvature * (rough - self.offset) - rows.slope
        return self._lower(self.normal_factor(rows.curvature), aim)

    def _lower(self, factor: Float[np.ndarray, "K K"], aim: Float[np.ndarray, " N"]) -> Float[np.ndarray, " K"]:
        """What solves the normal equations, unless V is lower at zero."""
        nothing = np.zeros(len(factor))
        if not (np.all(np.isfinite(aim)) and np.all(np.isfinite(factor))):
            return nothing
        start = _solve(factor, self.psi.T @ aim)
        return start if self.value(start) < self.value(nothing) else nothing

    def factor(self, rows: RowCosts, is_searching: bool = False) -> tuple[Float[np.ndarray, "K K"], bool]:
        """As `kosambi.target.newton.curvature_factor`: of the Hessian, unless that is too flat.

        In a search it may be flatter than a normal distribution that stands for the posterior allows; whether it is not
        comes second.
        """
        if self.term.likelihood.is_convex:
            return _cholesky(self.spread(rows.curvature)), True
        flattest = _FLATTEST_STEP if is_searching else FLATTEST
        if self.num_latents == 1:
            # Against its own positive part first, which it is made of: the other curvature is one more sum over rows.
            steep = self.spread(np.maximum(rows.second, 0.0))
            hessian = steep - self._below(rows.second)
            for least in sorted({FLATTEST, flattest}, reverse=True):
                if _is_positive(hessian - least * steep):
                    return _cholesky(hessian), least == FLATTEST
        else:
            hessian = self.spread(rows.second)
        positive = self.spread(rows.search_curvature)
        for share, least in zip(SHARES, (flattest, FLATTEST), strict=True):
            mixed = hessian + share * (positive - hessian)
            if _is_positive(mixed - least * positive):
                return _cholesky(mixed), least == FLATTEST
        return _cholesky(positive), True

    def normal_factor(self, h: Float[np.ndarray, " N"]) -> Float[np.ndarray, "K K"]:
        """The Cholesky factor of I + Σ_n h_n ψ_nψ_nᵀ."""
        return _cholesky(self.spread(h))

    def _weighted(self, values: np.ndarray) -> np.ndarray:
        return values * self.weights.reshape(-1, *(1,) * (values.ndim - 1))

    def spread(self, h: np.ndarray) -> Float[np.ndarray, "K K"]:
        """I + Σ_n h_n ψ_nψ_nᵀ; the rows of w run over points first and latent functions second."""
        size, latents = self.psi.shape[1], self.num_latents
        if latents == 1:
            total = self._gram(np.maximum(h, 0.0))
            if np.any(h < 0):
                total -= self._below(h)
        else:
            blocks = np.empty((size, latents, size, latents))
            for c in range(latents):
                for d in range(c + 1):
                    blocks[:, c, :, d] = blocks[:, d, :, c] = (self.psi * h[:, c, d][:, None]).T @ self.psi
            total = blocks.reshape(size * latents, -1)
        total[np.diag_indices_from(total)] += 1.0
        return total

    def _below(self, h: Float[np.ndarray, " N"]) -> Float[np.ndarray, "M M"]:
        """Σ_n −h_n ψ_nψ_nᵀ over rows where h is negative: outliers, few of all rows."""
        rows = np.flatnonzero(h < 0)
        scaled = self.psi[rows] * np.sqrt(-h[rows])[:, None]
        return scaled.T @ scaled

    def _gram(self, h: Float[np.ndarray, " N"]) -> Float[np.ndarray, "M M"]:
        """Σ_n h_n ψ_nψ_nᵀ for h that is nowhere negative: a matrix times its own transpose is half the work.

        In blocks, so that no second matrix of the size of ψ is made, which takes longer than the products.
        """
        root, total = np.sqrt(h)[:, None], np.zeros((self.psi.shape[1],) * 2)
        for first in range(0, len(h), _ROWS):
            scaled = self.psi[first : first + _ROWS] * root[first : first + _ROWS]
            total += scaled.T @ scaled
        return total


def search_on_host(
    potential: HostPotential,
    start: Float[np.ndarray, " K"],
    max_iterations: int = MAX_ITERATIONS,
    tolerance: float = TOLERANCE,
) -> Found:
    """Where the search for a minimum of V from one start ends; the same steps as `kosambi.target.newton.newton`."""
    psi = potential.psi
    is_much = psi.shape[0] * len(start) ** 2 > _MUCH
    with all_blas_threads() if is_much else one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
        # Any finite value is below infinity, so the start itself is the first step taken.
        w, value, factor = start, np.inf, np.eye(len(start))
        direction, decrement, length, iterations = np.zeros(len(start)), 1.0, 1.0, 0
        here, is_final = None, True
        while iterations <= max_iterations and decrement > tolerance and length > 1e-10:
            trial = w + length * direction
            rows = potential.rows(trial)
            reached = potential.value(trial, rows)
            if reached <= value - 2e-4 * length * decrement:
                slope = potential.gradient(trial, rows)
                w, value, here = trial, reached, rows
                factor, is_final = potential.factor(rows, is_searching=True)
                direction = -_solve(factor, slope)
                decrement, length, iterations = -0.5 * float(slope @ direction), 1.0, iterations + 1
            else:
                length *= 0.5
        if here is not None and not is_final:
            factor, _ = potential.factor(here)
    return Found(w, value, factor, decrement, iterations - 1)


def downhill(
    potential: HostPotential,
    start: Float[np.ndarray, " K"],
    mode: Float[np.ndarray, " K"],
    root: Float[np.ndarray, "K K"],
) -> Float[np.ndarray, " K"]:
    """About where the way down from `start` ends, by L-BFGS (SciPy) in the frame of a mode that is known.

    An evaluation takes O(NM) operations where a step of Newton's takes O(NM²); `root` is A with A Aᵀ = H⁻¹ there.
    """
    from scipy.linalg import solve_triangular
    from scipy.optimize import minimize

    def evaluate(v: np.ndarray) -> tuple[float, np.ndarray]:
        w = mode + root @ v
        rows = potential.rows(w)
        value = potential.value(w, rows)
        # A line search turns back from a hill that is not infinite.
        return (value, root.T @ potential.gradient(w, rows)) if np.isfinite(value) else (_HILL, np.zeros_like(v))

    with np.errstate(over="ignore", invalid="ignore"):
        first = solve_triangular(root, start - mode, lower=False, check_finite=False)
        options = {"maxfun": _DOWNHILL, "maxiter": _DOWNHILL, "gtol": _LEVEL}
        found = minimize(evaluate, first, jac=True, method="L-BFGS-B", options=options)
    return mode + root @ found.x


def inverse_root(factor: Float[np.ndarray, "K K"]) -> Float[np.ndarray, "K K"]:
    """A with A Aᵀ = H⁻¹, upper triangular, from the Cholesky factor of H."""
    if not np.all(np.isfinite(factor)):
        return np.full_like(factor, np.nan)
    inverse = np.array(factor, order="F")
    invert_triangle(inverse)
    return inverse.T


def _cholesky(matrix: Float[np.ndarray, "K K"]) -> Float[np.ndarray, "K K"]:
    """The lower factor of a symmetric matrix; NaN where there is none, as JAX has it."""
    # The transpose of a copy, which is the same matrix, is in LAPACK's order.
    factor = np.array(matrix, order="C").T
    if not (np.all(np.isfinite(matrix)) and factorise(factor)):
        return np.full_like(factor, np.nan)
    clear_above(factor)
    return factor


def _is_positive(matrix: Float[np.ndarray, "K K"]) -> bool:
    """Whether a symmetric matrix has a Cholesky factor; it is written over."""
    return bool(np.all(np.isfinite(matrix))) and factorise(matrix.T)


def _solve(factor: Float[np.ndarray, "K K"], right: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
    from scipy.linalg import cho_solve

    return cho_solve((factor, True), right, check_finite=False)
