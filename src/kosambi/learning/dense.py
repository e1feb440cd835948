r"""The evidence of any likelihood without inducing points: the bound of Gaussian sites, dense, and its gradient.

With the prior N(μ, K) at the data, sites W and λ (`kosambi.learning.sites`) make q(f) = N(m, V), and

    log p(y) ≥ −Σ_n E_q c(y_n, f_n) − ½ [log|B| − N + tr B⁻¹ + (m − μ)ᵀα],
    B = I + W^½KW^½,   α = a − W^½B⁻¹W^½Ka,   a = λ − Wμ,   m = μ + Kα,   v_n = V_nn = (1 − (B⁻¹)_nn)/W_n.

At the best sites the gradient is the explicit one,

    ∂/∂K = ½(ααᵀ − W^½B⁻¹W^½),   ∂/∂μ = α,   ∂/∂(likelihood) = −Σ_n E_q ∂c,

the same as that of Gaussian noise with precisions W. Where W_n was kept from being negative the gradient has one more
term, since q could still be better there (`_clipped`); the other sites then just miss their best, by which the gradient
is off by some percent at worst. C latent functions have the same K.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.journal import Arrays
from kosambi._core.lapack import clear_above, factorise, invert_triangle, multiply_triangle
from kosambi._core.precision import at_rest, compiled
from kosambi._core.types import Array
from kosambi.learning.device_dense import FAINT, fit_on_device, gram_slope_on_device, is_for_device
from kosambi.learning.exact import AbstractBlockEvaluator, gram_gradient
from kosambi.learning.layout import Layout, Model, rebuilt
from kosambi.learning.rows import Block
from kosambi.learning.sites import SETTLED, SHORTLY, Fitted, Sites, expected, expected_cost, first_sites, floor, settle
from kosambi.learning.starts import Limits
from kosambi.likelihoods import AbstractLikelihood
from kosambi.priors import AbstractPrior
from kosambi.priors.base import evaluate_mean

# Nats that an update of the sites may promise, over the square of the steepest slope: the slope is off by about the
# root of it.
_RELATIVE = 1e-4


class Factors(NamedTuple):
    """What the gradient needs of q."""

    alpha: Float[np.ndarray, "N C"]
    roots: Any
    """L⁻¹ with B = LLᵀ, of each latent function, zero above the diagonal; (C, N, N) on an accelerator."""


class SiteEvaluator(AbstractBlockEvaluator):
    """Minus the variational bound on the log evidence without inducing points; see `AbstractBlockEvaluator`.

    Sites begin where those of the best evaluation so far ended: a cost with several modes would otherwise make the
    bound depend on where a line search has been.

    `tolerance` are nats that a further update of the sites may promise. With `is_searched` they are more while the best
    slope so far is steep: sites must be as good as the slope is to be known.
    """

    def __init__(
        self, layout: Layout, given: Model, prior: AbstractPrior, blocks: list[Block], bounds: Limits | None = None
    ) -> None:
        super().__init__(layout, given, prior, blocks, bounds)
        self.is_settled, self.tolerance, self.is_searched, self._steepness = True, SETTLED, False, np.inf
        self._is_held = False
        self._has_settled = [True] * len(blocks)
        self._best: list[Sites | None] = [None] * len(blocks)
        self._last: list[Sites | None] = [None] * len(blocks)

    def _block(self, number: int, vector: Float[np.ndarray, " P"]) -> tuple[float, Float[np.ndarray, " P"]]:
        given, (x, y, counts, _) = self._given[number], self._blocks[number]
        gram, found, has_settled = self._settled_at(number, vector)
        if not np.isfinite(found.bound):
            return -np.inf, np.full(len(vector), np.nan)
        self._has_settled[number] = has_settled
        self._last[number] = found.sites
        slopes = _gram_slope(gram, found), np.sum(found.factors.alpha, axis=1)
        q = found.mean, found.variance
        return found.bound, np.asarray(_pulled_back(self.layout, vector, given, self._prior, x, y, counts, *q, *slopes))

    def _evidence(self, number: int, vector: Float[np.ndarray, " P"]) -> float:
        return self._settled_at(number, vector)[1].bound

    def _settled_at(self, number: int, vector: Float[np.ndarray, " P"]) -> tuple[Array, Fitted, bool]:
        """K of a block, the best sites there, and whether they have settled."""
        _, y, counts, _ = self._blocks[number]
        gram, mean = self._prior_at(number, vector)
        likelihood = self.layout.model(vector, self._given[number]).likelihood
        rough = min(SHORTLY, _RELATIVE * self._steepness**2) if self.is_searched else 0.0
        return gram, *settled(likelihood, gram, mean, y, counts, self._best[number], max(self.tolerance, rough))

    def _prior_at(self, number: int, vector: Float[np.ndarray, " P"]) -> tuple[Array, Float[np.ndarray, " N"]]:
        """K, on an accelerator if it is worth it there, and μ."""
        x = self._blocks[number].x
        gram, mean = _moments(self.layout, vector, self._given[number], self._prior, x)
        # Symmetric, so that its transpose, which is in LAPACK's order, is the same.
        return (gram if is_for_device(len(x)) else np.asarray(gram).T), np.asarray(mean)

    def _keep(self, gradient: Float[np.ndarray, " P"]) -> None:
        if not self._is_held:
            self._best = list(self._last)
        self.is_settled = all(self._has_settled)
        self._steepness = float(np.max(np.abs(gradient if self.bounds is None else gradient * self.bounds.scale)))

    def memory(self) -> list[Any]:
        """With the sites, of the best evaluation and of the last one."""
        own = np.asarray(self.is_settled), np.asarray(self._steepness), np.asarray(self._has_settled)
        every = [part for sites in (*self._best, *self._last) for part in (sites or (None, None))]
        return [*super().memory(), *own, *every]

    def recall(self, memory: Arrays) -> None:
        super().recall(memory)
        settled, steepness, every = memory[2:5]
        assert settled is not None
        assert steepness is not None
        assert every is not None
        self.is_settled, self._steepness = bool(settled), float(steepness)
        self._has_settled = [bool(one) for one in every]
        pairs = zip(memory[5::2], memory[6::2], strict=True)
        sites = [None if one is None or other is None else Sites(one, other) for one, other in pairs]
        self._best, self._last = sites[: len(self._best)], sites[len(self._best) :]

    @property
    def sites(self) -> list[Sites | None]:
        """Those of every block at the best evaluation so far; None where there was none."""
        return list(self._best)

    def begin_with(self, sites: list[Sites | None]) -> None:
        """Sites of every block that the first evaluation begins with, in the place of those of rough latent values."""
        self._best = list(sites)

    def hold(self, vector: Float[np.ndarray, " P"], sites: list[Sites | None] | None) -> None:
        """Begin every evaluation with the sites at `vector`, found from `sites`, so that it depends on nothing else.

        As a density must: one that depends on where a chain has been is none.
        """
        self.is_searched = False
        if sites:
            self.begin_with(sites)
        self(vector)
        self._is_held = True

    def left_out(self, vector: Float[np.ndarray, " P"]) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
        """Given the sites of all others; for one latent function.

        Without its own site f_n has the variance v_n/(1 − W_n v_n) and the mean (m_n − v_n λ_n)/(1 − W_n v_n).
        """
        densities, every = [], []
        for at, (_, y, counts, _) in enumerate(self._blocks):
            gram, mean = self._prior_at(at, vector)
            likelihood = self.layout.model(vector, self._given[at]).likelihood
            found, _ = settled(likelihood, gram, mean, y, counts, self._best[at], self.tolerance)
            rows = np.flatnonzero(np.asarray(counts))
            every.append(np.asarray(counts)[rows])
            if not np.isfinite(found.bound):
                densities.append(np.full(len(rows), -np.inf))
                continue
            centre, variance = found.mean[:, 0], found.variance[:, 0]
            left = np.maximum(1.0 - found.sites.precision[:, 0] * variance, FAINT)
            away = (centre - variance * found.sites.shift[:, 0]) / left
            density = at_rest(likelihood).log_predictive_density(np.asarray(y), away, np.sqrt(variance / left))
            densities.append(np.asarray(density)[rows])
        return np.concatenate(densities), np.concatenate(every)


def settled(
    likelihood: AbstractLikelihood,
    gram: Float[Array, "N N"],
    mean: Float[np.ndarray, " N"],
    y: Float[Array, " N"],
    counts: Float[Array, " N"],
    start: Sites | None = None,
    tolerance: float = SETTLED,
) -> tuple[Fitted, bool]:
    """The best sites for a prior N(mean, gram) at the data, from `start`, and whether they have settled.

    Where `gram` is on an accelerator, so are all matrices.
    """
    variance = np.asarray(gram.diagonal())
    below = np.array(gram, order="F") if isinstance(gram, np.ndarray) else None
    if below is not None:
        clear_above(below)

    def first() -> Sites:
        return first_sites(likelihood, y, counts, mean, variance)

    def fit(sites: Sites) -> Fitted:
        if below is not None:
            return _fitted(likelihood, gram, below, mean, y, counts, sites)
        return _fitted_on_device(likelihood, gram, mean, y, counts, sites, np.asarray(floor(variance)))

    return settle(fit, first, start, tolerance)


def _fitted_on_device(
    likelihood: AbstractLikelihood,
    gram: Array,
    mean: np.ndarray,
    y: Array,
    counts: Array,
    sites: Sites,
    smallest: Float[np.ndarray, ""],
) -> Fitted:
    parts, half = fit_on_device(likelihood, gram, mean, y, counts, *sites, smallest)
    bound, centre, variance, slope, curvature, pull, alpha = map(np.asarray, parts)
    is_known = all(np.all(np.isfinite(part)) for part in (bound, centre, variance, slope, curvature))
    value = float(bound) if is_known else -np.inf
    return Fitted(sites, value, centre, variance, slope, curvature, float(pull), Factors(alpha, half))


def _fitted(
    likelihood: AbstractLikelihood,
    gram: np.ndarray,
    below: np.ndarray,
    mean: np.ndarray,
    y: Array,
    counts: Array,
    sites: Sites,
) -> Fitted:
    """q and the bound; `below` is K with zeros above the diagonal, as all matrices are that come of it."""
    from scipy.linalg import blas

    size, number = sites.precision.shape
    alpha, centre, variance = (np.empty((size, number)) for _ in range(3))
    roots, divergence = [], 0.0
    for c in range(number):
        root = np.sqrt(sites.precision[:, c])
        half = below * root
        half *= root[:, None]
        half[np.diag_indices_from(half)] += 1.0
        if not factorise(half):
            return Fitted(sites, -np.inf, centre, variance, alpha, alpha, np.inf, None)
        log_determinant = 2.0 * float(np.sum(np.log(np.diagonal(half))))
        invert_triangle(half)
        a = sites.shift[:, c] - sites.precision[:, c] * mean
        turned = blas.dtrmv(half, root * (gram @ a), lower=1)
        alpha[:, c] = a - root * blas.dtrmv(half, turned, lower=1, trans=1)
        centre[:, c] = mean + gram @ alpha[:, c]
        diagonal = np.einsum("kn,kn->n", half, half)
        variance[:, c] = _variances(gram, root, half, diagonal)
        kept = size - float(np.sum(diagonal))
        divergence += 0.5 * (log_determinant - kept + float((centre[:, c] - mean) @ alpha[:, c]))
        roots.append(half)
    cost, slope, curvature = (np.asarray(part) for part in expected(likelihood, y, counts, centre, variance))
    bound = -float(cost) - divergence
    if not np.all(np.isfinite(slope)) or not np.all(np.isfinite(curvature)):
        bound = -np.inf
    pull = 0.5 * float(np.sum(np.square(slope + alpha) * variance))
    return Fitted(sites, bound, centre, variance, slope, curvature, pull, Factors(alpha, roots))


def _variances(gram: np.ndarray, root: np.ndarray, half: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
    """The diagonal of V, from that of B⁻¹."""
    from scipy.linalg import blas

    prior = np.diagonal(gram)
    faint = np.flatnonzero(np.square(root) * prior < FAINT)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = (1.0 - diagonal) / np.square(root)
    if len(faint):
        loads = blas.dtrmm(1.0, half, np.array(root[:, None] * gram[:, faint], order="F"), lower=1)
        variance[faint] = prior[faint] - np.einsum("nk,nk->k", loads, loads)
    return np.maximum(np.minimum(variance, prior), floor(prior))


def _gram_slope(gram: Array, fitted: Fitted) -> Float[Array, "N N"]:
    """∂ bound/∂K; from the host with what lies on one side of the diagonal counted twice and nothing on the other.

    What `fitted` has of L⁻¹ is used up.
    """
    from scipy.linalg import blas

    if not isinstance(gram, np.ndarray):
        return gram_slope_on_device(
            gram, fitted.factors.roots, fitted.factors.alpha, fitted.sites.precision, fitted.curvature
        )
    total = np.zeros_like(gram, order="F")
    for c, half in enumerate(fitted.factors.roots):
        root = np.sqrt(fitted.sites.precision[:, c])
        clipped = np.flatnonzero(fitted.curvature[:, c] < 0.0)
        if len(clipped):
            missed = 0.5 * (fitted.sites.precision[clipped, c] - fitted.curvature[clipped, c])
            total += np.tril(2.0 * _clipped(gram, root, half, clipped, missed))
        multiply_triangle(half)
        half *= root
        half *= root[:, None]
        total -= half
        blas.dsyr(1.0, fitted.factors.alpha[:, c], lower=1, a=total, overwrite_a=1)
    total[np.diag_indices_from(total)] *= 0.5
    # In JAX's order.
    return total.T


def _clipped(
    gram: np.ndarray, root: np.ndarray, half: np.ndarray, rows: np.ndarray, missed: np.ndarray
) -> Float[np.ndarray, "N N"]:
    """Σ_n missed_n H_nH_nᵀ, H_n the n-th column of K⁻¹V: what v_n adds where the bound still rises with it."""
    from scipy.linalg import blas

    loads = blas.dtrmm(1.0, half, np.array(root[:, None] * gram[:, rows], order="F"), lower=1)
    columns = -root[:, None] * blas.dtrmm(1.0, half, loads, lower=1, trans_a=1)
    columns[rows, np.arange(len(rows))] += 1.0
    return (columns * missed) @ columns.T


def _parts(
    layout: Layout, vector: Array, given: Model, prior: AbstractPrior, x: Array
) -> tuple[Float[Array, "N N"], Float[Array, " N"]]:
    model = layout.model(vector, given)
    return rebuilt(prior, model).pairwise(x, x), jnp.asarray(evaluate_mean(model.mean, x))


_moments = compiled(_parts)


@compiled
def _pulled_back(
    layout: Layout,
    vector: Array,
    given: Model,
    prior: AbstractPrior,
    x: Array,
    y: Array,
    counts: Array,
    mean: Array,
    variance: Array,
    weights: Array,
    alpha: Array,
) -> Float[Array, " P"]:
    """The slope in the free numbers, from those in K and μ, and of the costs themselves."""

    def weighted(v: Array) -> Array:
        model = layout.model(v, given)
        cost = expected_cost(model.likelihood, y, counts, mean, jnp.sqrt(variance))
        return jnp.sum(alpha * jnp.asarray(evaluate_mean(model.mean, x))) - cost

    return jax.grad(weighted)(vector) + gram_gradient(layout, vector, given, prior, x, weights)
