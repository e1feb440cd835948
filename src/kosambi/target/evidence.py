r"""The log marginal likelihood (evidence) log p(y): how probable the data are under a model, all functions averaged.

With ψ = r(x, Z)L⁻ᵀ, LLᵀ = r(Z, Z) + εI, and σ_n² = r(x_n, x_n) − |ψ(x_n)|² the residual
variance of the inducing points,

    log ∫ exp(−V*(w)) N(w; 0, I) dw,   V*(w) = Σ_n E_ξ c(y_n, m(x_n) + ψ(x_n)ᵀw + σ_n ξ)

is a lower bound of log p(y) by Jensen's inequality, and the normalising constant of the optimal potential (`Target`).

* Gaussian likelihood: closed form, log N(y; m, ψψᵀ + σ²I) − Σ_n σ_n²/(2σ²) (Titsias 2009); without inducing points
  log p(y) itself, log N(y; m, r(x, x) + σ²I), in O(N³).
* Others: Laplace's approximation −V*(ŵ) − ½|ŵ|² − ½ log|H| at the mode ŵ.

ε is that of `kosambi.basis.points`; with it the bound stays a bound.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_inputs, is_traced
from kosambi._core.precision import compiled, public, warn_once_if_single
from kosambi._core.types import Array, ArrayLike
from kosambi.basis.points import Features, whitened_features
from kosambi.errors import InputError
from kosambi.likelihoods import AbstractLikelihood, CustomJoint, Gaussian
from kosambi.priors import AbstractPrior
from kosambi.priors.base import evaluate_mean
from kosambi.target.checks import as_weights
from kosambi.target.data_terms import FactorisedTerm
from kosambi.target.newton import curvature_factor, newton, starting_mode

_LOG_2PI = float(np.log(2.0 * np.pi))


@public
def log_evidence(
    prior: AbstractPrior,
    likelihood: AbstractLikelihood,
    x: ArrayLike,
    y: ArrayLike,
    inducing_points: ArrayLike | None = None,
    weights: ArrayLike | None = None,
) -> Float[Array, ""]:
    """The log marginal likelihood (evidence) of a model, to compare kernels, likelihoods and their parameters.

    Differentiable in all of them.

    A lower bound in closed form for `Gaussian`, Laplace's approximation to it for others; see
    `kosambi.target.evidence`.

    Arguments:
        prior: a prior, of either sort.
        likelihood: one with a density.
        x: (N, D), the inputs.
        y: (N,), the observations.
        inducing_points: (M, D); all rows of x when None, and then exact for `Gaussian`.
        weights: (N,), how often each observation counts; once when None.

    >>> import numpy as np, kosambi as ko
    >>> x = np.linspace(0.0, 6.0, 60)[:, None]
    >>> y, noise = np.sin(x[:, 0]), ko.likelihoods.Gaussian(0.1)
    >>> short, long = (ko.GaussianProcess(ko.kernels.SquaredExponential(scale)) for scale in (0.1, 1.5))
    >>> bool(ko.log_evidence(long, noise, x, y, x[::6]) > ko.log_evidence(short, noise, x, y, x[::6]))
    True
    """
    if not isinstance(prior, AbstractPrior):
        raise InputError(
            f"`log_evidence` needs a prior. Got {type(prior).__name__}. For a kernel write `GaussianProcess(kernel)`."
        )
    check_density(likelihood)
    x = as_inputs("x", x, prior.num_columns)
    points = None if inducing_points is None else as_inputs("inducing_points", inducing_points, x.shape[1])
    prior.check_columns(x.shape[1])
    if is_traced((prior, likelihood, x, points)):
        warn_once_if_single("The evidence is computed")
    y = likelihood.check(y)
    if y.shape[0] != x.shape[0]:
        raise InputError(f"`y` has {y.shape[0]} entries for {x.shape[0]} rows of x. Give one for each row.")
    counts = None if weights is None else as_weights(weights, x)
    return _log_evidence(prior, likelihood, x, y, points, counts)


def check_density(likelihood: object) -> None:
    """Refuse what has no evidence: a loss that is no density of y."""
    if not isinstance(likelihood, AbstractLikelihood):
        raise InputError(
            f"The evidence needs a likelihood from `kosambi.likelihoods`. Got {type(likelihood).__name__}."
        )
    if not likelihood.is_density or isinstance(likelihood, CustomJoint):
        raise InputError(
            f"`{type(likelihood).__name__}` is a loss without a density of y, so the data have no evidence under it, "
            "and its scale against the prior is a choice that no data can make. Use a likelihood with a density, for "
            "example `StudentT` in place of `Huber`, or `Custom(cost, is_density=True)` for a normalised one."
        )


@compiled
def _log_evidence(
    prior: AbstractPrior, likelihood: AbstractLikelihood, x: Array, y: Array, points: Array | None, counts: Array | None
) -> Float[Array, ""]:
    if points is None and isinstance(likelihood, Gaussian):
        return exact(prior, likelihood, x, y, counts)
    features = whitened_features(prior, x, x if points is None else points)
    return of_features(likelihood, features, y, starting_mode(likelihood, features, y), counts)[0]


def exact(
    prior: AbstractPrior,
    likelihood: Gaussian,
    x: Float[Array, "N D"],
    y: Float[Array, " N"],
    counts: Float[Array, " N"] | None = None,
) -> Float[Array, ""]:
    """log N(y; m, r(x, x) + σ²I), or that of data that count several times; traceable, O(N³)."""
    root, constant = _gaussian_parts(likelihood, y, counts)
    gram = root[:, None] * prior.pairwise(x, x) * root + jnp.eye(y.shape[0], dtype=root.dtype)
    factor = jnp.linalg.cholesky(gram)
    white = jsl.solve_triangular(factor, root * (y - evaluate_mean(prior.mean, x)), lower=True)
    log_determinant = 2.0 * jnp.sum(jnp.log(jnp.diagonal(factor)))
    return -0.5 * (jnp.sum(jnp.square(white)) + log_determinant + constant)


def _gaussian_parts(likelihood: Gaussian, y: Array, counts: Array | None) -> tuple[Array, Array]:
    """√w_n/σ_n, and Σ_n w_n log 2πσ_n²."""
    noise = jnp.broadcast_to(likelihood.row_noise, y.shape)
    counts = jnp.ones_like(noise) if counts is None else counts
    return jnp.sqrt(counts) / noise, jnp.sum(counts * (2.0 * jnp.log(noise) + _LOG_2PI))


def of_features(
    likelihood: AbstractLikelihood,
    features: Features,
    y: Float[Array, " N"],
    start: Float[Array, " K"],
    counts: Float[Array, " N"] | None = None,
) -> tuple[Float[Array, ""], Float[Array, " K"]]:
    """The log evidence and the mode ŵ, flattened to K = M·C numbers; traceable.

    `start` is where the search for the mode begins; a Gaussian likelihood has no use for it. `counts` says how often
    each observation counts.
    """
    if isinstance(likelihood, Gaussian):
        return _closed_form(likelihood, features, y, counts)
    return _laplace(likelihood, features, y, start, counts)


def _closed_form(likelihood: Gaussian, features: Features, y: Array, counts: Array | None) -> tuple[Array, Array]:
    psi, residual, offset = features
    root, constant = _gaussian_parts(likelihood, y, counts)
    scaled, error = psi * root[:, None], (y - offset) * root
    factor = jnp.linalg.cholesky(scaled.T @ scaled + jnp.eye(psi.shape[1], dtype=psi.dtype))
    explained = jsl.solve_triangular(factor, scaled.T @ error, lower=True)
    misfit = jnp.sum(jnp.square(error)) - jnp.sum(jnp.square(explained)) + jnp.sum(residual * jnp.square(root))
    log_determinant = 2.0 * jnp.sum(jnp.log(jnp.diagonal(factor))) + constant
    mode = jsl.solve_triangular(factor, explained, lower=True, trans=1)
    return -0.5 * (misfit + log_determinant), mode


def _laplace(
    likelihood: AbstractLikelihood, features: Features, y: Array, start: Array, counts: Array | None
) -> tuple[Array, Array]:
    psi, residual, offset = features
    rule = likelihood.evidence_rule

    def with_deviation(variance: Array) -> FactorisedTerm:
        return FactorisedTerm(likelihood, psi, y, offset, counts, jnp.sqrt(variance), rule)

    # The mode and the curvature of a cost with kinks are those of the cost averaged over its `blur`.
    term = with_deviation(residual + jnp.square(likelihood.blur))
    shape = (psi.shape[1],) if likelihood.num_latents == 1 else (psi.shape[1], likelihood.num_latents)
    convex, still = likelihood.is_convex, jax.lax.stop_gradient(term)
    found = jax.lax.stop_gradient(newton(still, shape, convex, jax.lax.stop_gradient(start)).w)
    identity = jnp.eye(found.shape[0], dtype=found.dtype)

    def hessian_factor(term: FactorisedTerm, w: Array) -> Array:
        hessian = term.hessian(w.reshape(shape)) + identity
        if convex:
            return jnp.linalg.cholesky(hessian)
        # At a mode the Hessian is positive; where the search was given up earlier it need not be. Chosen before it is
        # factorised, since a factor that does not exist has no derivative, not even one that is multiplied by zero.
        is_positive = jnp.all(jnp.isfinite(jnp.linalg.cholesky(jax.lax.stop_gradient(hessian))))
        other = curvature_factor(term, shape, False, w)
        return jnp.linalg.cholesky(jnp.where(is_positive, hessian, other @ other.T))

    def newton_step(term: FactorisedTerm, w: Array) -> Array:
        _, slope = term.value_and_gradient(w.reshape(1, *shape))
        return w - jsl.cho_solve((jax.lax.stop_gradient(hessian_factor(still, w)), True), w + slope.reshape(-1))

    # The search ends when the potential no longer falls, where the mode, and so H, has half the digits. One step
    # without a derivative gives it the others. The derivative of a further one in the hyperparameters is that of the
    # mode (implicit function theorem): dŵ/dθ = −H⁻¹ ∂∇V/∂θ, as the slope itself is zero.
    mode = newton_step(term, jax.lax.stop_gradient(newton_step(still, found)))
    value = with_deviation(residual).value(mode.reshape(1, *shape))[0] + 0.5 * jnp.sum(jnp.square(mode))
    return -value - jnp.sum(jnp.log(jnp.diagonal(hessian_factor(term, mode)))), mode
