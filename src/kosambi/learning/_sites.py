r"""The evidence of any likelihood through Gaussian sites: a variational lower bound, and its gradient by formula.

Each observation n has a site, a Gaussian factor exp(λ_n f_n − ½W_n f_n²) in the place of its likelihood. With the prior
N(μ, K) at the data the sites make a normal distribution q(f) = N(m, V), and

    log p(y) ≥ −Σ_n E_q c(y_n, f_n) − KL(q, prior)
             = −Σ_n E_q c(y_n, f_n) − ½ [log|B| − N + tr B⁻¹ + (m − μ)ᵀα],
    B = I + W^½KW^½,   α = a − W^½B⁻¹W^½Ka,   a = λ − Wμ,   m = μ + Kα,   v_n = V_nn = (1 − (B⁻¹)_nn)/W_n.

The bound is highest where W_n = E_q c'' and λ_n = W_n m_n − E_q c' (Opper and Archambeau 2009). There it does not
change with q to first order, so that its gradient is the explicit one,

    ∂/∂K = ½(ααᵀ − W^½B⁻¹W^½),   ∂/∂μ = α,   ∂/∂(likelihood) = −Σ_n E_q ∂c,

the same as that of Gaussian noise with precisions W. W and λ are kept rather than a location and a variance, so that a
site may say nothing. W_n ≥ 0: where a cost is not convex (an outlier of Student's distribution) W_n may be zero, and
the gradient has one more term, since q could still be better there (`_clipped`); the other sites then just miss their
best, by which the gradient is off by some percent at worst.

C latent functions: q is a product over them, each with its own sites and the same K.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.precision import compiled
from kosambi._core.types import Array
from kosambi.learning._blocks import AbstractBlockEvaluator, Block
from kosambi.learning._layout import Layout, Model, rebuilt
from kosambi.learning._limits import Limits
from kosambi.likelihoods import AbstractLikelihood
from kosambi.priors import AbstractPrior
from kosambi.priors.base import evaluate_mean

MAX_UPDATES = 40
"""Updates of the sites for one evaluation."""
SETTLED, ROUGHLY = 1e-6, 0.03
"""Sites have settled when a further update promises less than this many nats, or little, and gains next to nothing; the
second number where starts are compared."""
_LITTLE, _NOTHING = 1e-3, 1e-6
# Where no part of an update helps, or there were too many: sites that promise more than this have not settled.
_MUCH = 0.1
# Below this product of W_n and K_nn the difference 1 − (B⁻¹)_nn has too few digits left.
_FAINT = 1e-5
# The variance of q at which rough latent values are first looked at, as a part of the prior's.
_FIRST_VARIANCE = 0.25
# Steps towards new sites: one, unless the bound would fall.
_SMALLEST_STEP = 2.0**-8


class Sites(NamedTuple):
    """Natural parameters of one Gaussian factor an observation and latent function."""

    precision: Float[np.ndarray, "N C"]
    """W."""
    shift: Float[np.ndarray, "N C"]
    """λ = W·location."""


class Fitted(NamedTuple):
    """q for some sites, and what it is worth."""

    sites: Sites
    bound: float
    alpha: Float[np.ndarray, "N C"]
    roots: list[Float[np.ndarray, "N N"]]
    """L⁻¹ with B = LLᵀ, of each latent function; LAPACK fills the lower triangle."""
    mean: Float[np.ndarray, "N C"]
    variance: Float[np.ndarray, "N C"]
    slope: Float[np.ndarray, "N C"]
    """E_q c', times how often an observation counts."""
    curvature: Float[np.ndarray, "N C"]
    """E_q c'', likewise; it need not be positive."""


class SiteEvaluator(AbstractBlockEvaluator):
    """Minus the variational bound on the log evidence without inducing points; see `AbstractBlockEvaluator`.

    Sites begin where those of the best evaluation so far ended: a cost with several modes would otherwise make the
    bound depend on where a line search has been.
    """

    def __init__(
        self, layout: Layout, given: Model, prior: AbstractPrior, blocks: list[Block], bounds: Limits | None = None
    ) -> None:
        super().__init__(layout, given, prior, blocks, bounds)
        self.is_settled, self.tolerance = True, SETTLED
        self._has_settled = [True] * len(blocks)
        self._best: list[Sites | None] = [None] * len(blocks)
        self._last: list[Sites | None] = [None] * len(blocks)

    def _block(self, number: int, vector: Float[np.ndarray, " P"]) -> tuple[float, Float[np.ndarray, " P"]]:
        given, (x, y, counts, _) = self._given[number], self._blocks[number]
        moments = _moments(self.layout, vector, given, self._prior, x)
        gram, mean = (np.array(part, order="F") for part in moments)
        likelihood = self.layout.model(vector, given).likelihood
        found, has_settled = settle(likelihood, gram, mean, y, counts, self._best[number], self.tolerance)
        if not np.isfinite(found.bound):
            return -np.inf, np.full(len(vector), np.nan)
        self._has_settled[number] = has_settled
        self._last[number] = found.sites
        slopes = _gram_slope(gram, found), np.sum(found.alpha, axis=1)
        q = found.mean, found.variance
        return found.bound, np.asarray(_pulled_back(self.layout, vector, given, self._prior, x, y, counts, *q, *slopes))

    def _keep(self) -> None:
        self._best, self.is_settled = list(self._last), all(self._has_settled)


def settle(
    likelihood: AbstractLikelihood,
    gram: Float[np.ndarray, "N N"],
    mean: Float[np.ndarray, " N"],
    y: Array,
    counts: Array,
    start: Sites | None = None,
    tolerance: float = SETTLED,
) -> tuple[Fitted, bool]:
    """The best sites for a prior N(mean, gram) at the data, from `start`, and whether they have settled."""
    data = likelihood, gram, mean, y, counts
    current = _fitted(*data, _first_sites(*data) if start is None else start)
    if start is not None and not np.isfinite(current.bound):
        current = _fitted(*data, _first_sites(*data))
    step = 1.0
    for _ in range(MAX_UPDATES):
        wanted = _updated(current)
        if _promise(current, wanted) < tolerance:
            return current, True
        while True:
            mixed = Sites(*(old + step * (new - old) for old, new in zip(current.sites, wanted, strict=True)))
            further = _fitted(*data, mixed)
            if further.bound >= current.bound - _NOTHING or step <= _SMALLEST_STEP:
                break
            step *= 0.5
        gain, promise = further.bound - current.bound, _promise(current, wanted)
        if gain < _NOTHING and promise < _LITTLE:
            return (further if gain > 0 else current), True
        if not gain >= -_NOTHING:
            return current, promise < _MUCH
        current, step = further, min(1.0, 2.0 * step)
    return current, _promise(current, _updated(current)) < _MUCH


def _first_sites(likelihood: AbstractLikelihood, gram: np.ndarray, mean: np.ndarray, y: Array, counts: Array) -> Sites:
    """Those of a q around rough latent values."""
    rough = np.asarray(_rough(likelihood, y), dtype=np.float64).reshape(len(mean), -1)
    if np.ptp(rough) == 0:
        rough = np.broadcast_to(mean[:, None], rough.shape)
    prior = np.diagonal(gram)
    variance = np.broadcast_to(np.maximum(_FIRST_VARIANCE * prior, _floor(prior))[:, None], rough.shape)
    _, slope, curvature = _expected(likelihood, y, counts, rough, variance)
    precision = np.maximum(np.asarray(curvature), 0.0)
    return Sites(precision, precision * rough - np.asarray(slope))


def _updated(fitted: Fitted) -> Sites:
    precision = np.maximum(fitted.curvature, 0.0)
    return Sites(precision, precision * fitted.mean - fitted.slope)


def _promise(fitted: Fitted, wanted: Sites) -> float:
    """About what an update gains, in nats."""
    pull = -fitted.slope - fitted.alpha
    turn = (wanted.precision - fitted.sites.precision) * fitted.variance
    return 0.5 * float(np.sum(np.square(pull) * fitted.variance)) + 0.25 * float(np.sum(np.square(turn)))


def _fitted(
    likelihood: AbstractLikelihood, gram: np.ndarray, mean: np.ndarray, y: Array, counts: Array, sites: Sites
) -> Fitted:
    from scipy.linalg import blas, lapack

    size, number = sites.precision.shape
    alpha, centre, variance = (np.empty((size, number)) for _ in range(3))
    roots, divergence = [], 0.0
    for c in range(number):
        root = np.sqrt(sites.precision[:, c])
        # Elementwise products keep the order of `gram`, which is LAPACK's.
        matrix = root[:, None] * gram * root
        matrix[np.diag_indices_from(matrix)] += 1.0
        factor, failed = lapack.dpotrf(matrix, lower=1, overwrite_a=1, clean=1)
        if failed or not np.all(np.isfinite(np.diagonal(factor))):
            return Fitted(sites, -np.inf, alpha, [], centre, variance, alpha, alpha)
        log_determinant = 2.0 * float(np.sum(np.log(np.diagonal(factor))))
        half, _ = lapack.dtrtri(factor, lower=1, overwrite_c=1)
        a = sites.shift[:, c] - sites.precision[:, c] * mean
        turned = blas.dtrmv(half, root * (gram @ a), lower=1)
        alpha[:, c] = a - root * blas.dtrmv(half, turned, lower=1, trans=1)
        centre[:, c] = mean + gram @ alpha[:, c]
        diagonal = np.einsum("kn,kn->n", half, half)
        variance[:, c] = _variances(gram, root, half, diagonal)
        kept = size - float(np.sum(diagonal))
        divergence += 0.5 * (log_determinant - kept + float((centre[:, c] - mean) @ alpha[:, c]))
        roots.append(half)
    cost, slope, curvature = (np.asarray(part) for part in _expected(likelihood, y, counts, centre, variance))
    bound = -float(cost) - divergence
    if not np.all(np.isfinite(slope)) or not np.all(np.isfinite(curvature)):
        bound = -np.inf
    return Fitted(sites, bound, alpha, roots, centre, variance, slope, curvature)


def _variances(gram: np.ndarray, root: np.ndarray, half: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
    """The diagonal of V, from that of B⁻¹."""
    from scipy.linalg import blas

    prior = np.diagonal(gram)
    faint = np.flatnonzero(np.square(root) * prior < _FAINT)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = (1.0 - diagonal) / np.square(root)
    if len(faint):
        loads = blas.dtrmm(1.0, half, np.array(root[:, None] * gram[:, faint], order="F"), lower=1)
        variance[faint] = prior[faint] - np.einsum("nk,nk->k", loads, loads)
    return np.maximum(np.minimum(variance, prior), _floor(prior))


def _floor(prior: np.ndarray) -> float:
    """The smallest variance of q, in whose root costs are differentiated; above a prior variance of zero it is safe."""
    return 1e-12 * max(float(np.max(prior)), np.finfo(np.float64).tiny)


def _gram_slope(gram: np.ndarray, fitted: Fitted) -> Float[np.ndarray, "N N"]:
    """∂ bound/∂K, with what lies below the diagonal counted twice and nothing above it."""
    from scipy.linalg import lapack

    total = np.zeros_like(gram)
    for c, half in enumerate(fitted.roots):
        root = np.sqrt(fitted.sites.precision[:, c])
        inverse, _ = lapack.dlauum(half, lower=1)
        total += np.multiply.outer(fitted.alpha[:, c], fitted.alpha[:, c]) - root[:, None] * inverse * root
        clipped = np.flatnonzero(fitted.curvature[:, c] < 0.0)
        if len(clipped):
            missed = 0.5 * (fitted.sites.precision[clipped, c] - fitted.curvature[clipped, c])
            total += 2.0 * _clipped(gram, root, half, clipped, missed)
    total = np.tril(total)
    total[np.diag_indices_from(total)] *= 0.5
    return total


def _clipped(
    gram: np.ndarray, root: np.ndarray, half: np.ndarray, rows: np.ndarray, missed: np.ndarray
) -> Float[np.ndarray, "N N"]:
    """Σ_n missed_n H_nH_nᵀ, H_n the n-th column of K⁻¹V: what v_n adds where the bound still rises with it."""
    from scipy.linalg import blas

    loads = blas.dtrmm(1.0, half, np.array(root[:, None] * gram[:, rows], order="F"), lower=1)
    columns = -root[:, None] * blas.dtrmm(1.0, half, loads, lower=1, trans_a=1)
    columns[rows, np.arange(len(rows))] += 1.0
    return (columns * missed) @ columns.T


@compiled
def _rough(likelihood: AbstractLikelihood, y: Array) -> Array:
    return likelihood.raw_rough_latent(y)


def _cost(likelihood: AbstractLikelihood, y: Array, counts: Array, mean: Array, deviation: Array) -> Array:
    """Σ_n count_n E c(y_n, f_n); an observation that counts for nothing is absent, also where its cost is infinite."""
    expected = likelihood.raw_expected_cost_of_each(y, mean, deviation)
    return jnp.sum(jnp.where(counts > 0, counts * expected, 0.0))


@compiled
def _expected(
    likelihood: AbstractLikelihood, y: Array, counts: Array, mean: Array, variance: Array
) -> tuple[Array, Array, Array]:
    """Σ E c, E c' and E c'' for f ~ N(mean, variance), the last two as derivatives in mean and variance."""
    deviation = jnp.sqrt(variance)
    value, (slope, widening) = jax.value_and_grad(_cost, argnums=(3, 4))(likelihood, y, counts, mean, deviation)
    # E c'' = 2 ∂/∂variance.
    return value, slope, widening / deviation


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
        gram, offset = _parts(layout, v, given, prior, x)
        likelihood = layout.model(v, given).likelihood
        cost = _cost(likelihood, y, counts, mean, jnp.sqrt(variance))
        return jnp.sum(weights * gram) + jnp.sum(alpha * offset) - cost

    return jax.grad(weighted)(vector)
