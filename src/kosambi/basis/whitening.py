r"""Whitened features ψ of any inducing points, where none may be dropped: for the evidence and the choice of points.

    ψ(x) = r(x, Z) L⁻ᵀ,   L Lᵀ = r(Z, Z) + εI,   σ²(x) = r(x, x) − |ψ(x)|²

so that m(x) + ψ(x)ᵀw with w ~ N(0, I) is the conditional mean of the function given its values at Z, and σ² the
residual variance. ψ is nested: its first m columns belong to the first m points.

A `PointBasis` drops points that the others determine, which needs concrete numbers and another size for other
hyperparameters. Here the matrix must factorise for every value of the hyperparameters and keep its shape, so ε is added
to the diagonal. It stands for inducing values that are seen with noise of that variance: a lower bound of the log
marginal likelihood stays one.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from jaxtyping import Float

from kosambi._core.types import Array
from kosambi.priors import AbstractPrior
from kosambi.priors.functions.draws import evaluate_mean

JITTER = 1e-8
"""ε as a part of the mean prior variance at the inducing points."""
SMALLEST_RESIDUAL = 1e-10
"""Residual variances below this part of the prior variance are rounding errors, and a square root has no slope at 0."""


class Features(NamedTuple):
    """What the inducing points say about the function at N inputs."""

    psi: Float[Array, "N M"]
    """Whitened features: m(x_n) + ψ(x_n)ᵀw is the conditional mean."""
    residual: Float[Array, " N"]
    """σ_n², the residual variance."""
    offset: Float[Array, " N"]
    """The prior mean m(x_n)."""


def whitened_features(prior: AbstractPrior, x: Float[Array, "N D"], points: Float[Array, "M D"]) -> Features:
    """ψ, σ² and m at the rows of `x`; traceable and differentiable, O(NM²), and O(NSM) with a measure of S points."""
    gram = prior.pairwise(points, points)
    scale = jnp.mean(jnp.diagonal(gram))
    # In float32, under a trace of the caller's, more is needed.
    jitter = max(JITTER, 10.0 * float(np.finfo(gram.dtype).eps))
    factor = jnp.linalg.cholesky(gram + jitter * scale * jnp.eye(points.shape[0], dtype=gram.dtype))
    psi = jsl.solve_triangular(factor, prior.pairwise(x, points).T, lower=True).T
    variance = prior.pointwise(x)
    residual = jnp.maximum(variance - jnp.sum(jnp.square(psi), axis=1), SMALLEST_RESIDUAL * variance)
    return Features(psi, residual, jnp.asarray(evaluate_mean(prior.mean, x)))


def whitened_on_host(
    prior: AbstractPrior, x: Float[np.ndarray, "N D"], points: Float[np.ndarray, "M D"]
) -> Float[np.ndarray, "N M"]:
    """ψ alone, with LAPACK: nothing but the kernel is compiled for a number of points that is used once."""
    import scipy.linalg  # here, because it doubles what `import kosambi` adds to `import jax`

    gram = np.array(prior.covariance(points))
    gram[np.diag_indices_from(gram)] += JITTER * np.mean(np.diag(gram))
    factor = scipy.linalg.cholesky(gram, lower=True, overwrite_a=True, check_finite=False)
    cross = np.array(prior.covariance(points, x))
    return scipy.linalg.solve_triangular(factor, cross, lower=True, overwrite_b=True, check_finite=False).T
