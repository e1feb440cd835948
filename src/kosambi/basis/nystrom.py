r"""The Nyström basis of the paper (section 4.2, appendix "The Nyström method").

From the eigenpairs of k(Z, Z)/M, M the number of inducing points,

    e_m(x) = v_mᵀ k(Z, x) / √(M λ_m),   u = ⟨F − m, e⟩,   φ = e,   Λ = diag(λ).

λ and e estimate the eigenpairs of the covariance operator as if Z were a sample of ν; greedily chosen points are not,
which `RitzBasis` mends. φ is the conditional mean, and Λ the covariance of u, only when Z is the support of ν with
equal weights.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Float

from kosambi._core.precision import at_rest, compiled, public
from kosambi._core.types import Array, ArrayLike
from kosambi.basis.base import as_inducing_points, as_random_element, as_tolerance
from kosambi.basis.orthonormal import DEFAULT_TOLERANCE, AbstractOrthonormalBasis, orthonormal_span
from kosambi.basis.residual import AbstractResidual, GeneralResidual, PointResidual
from kosambi.priors import AbstractPrior, GaussianRandomElement


class NystromBasis(AbstractOrthonormalBasis):
    """The paper's estimated eigenfunctions of the covariance operator.

    `conditional_mean` gives φ = e, the weights of the paper's projection, which is not the prior's conditional mean.

    Arguments:
        prior: a `GaussianRandomElement`.
        inducing_points: (M, D), taken as a sample of the measure.
        tolerance: eigenvalues of k(Z, Z) at or below this part of the largest are dropped.

    >>> import kosambi as ko
    >>> z = [[1.0, 2.0, 3.0], [1.5, 2.5, 3.5]]
    >>> prior = ko.GaussianRandomElement(ko.kernels.Linear(), ko.measures.empirical(z))
    >>> ko.NystromBasis(prior, z).eigenvalues.round(8)
    array([17.35339039,  0.02160961])
    """

    is_conditional = False

    @public
    def __init__(
        self, prior: AbstractPrior, inducing_points: ArrayLike, *, tolerance: float = DEFAULT_TOLERANCE
    ) -> None:
        prior, points = as_inducing_points("NystromBasis", prior, inducing_points)
        self.prior = as_random_element("NystromBasis", prior)
        self.inducing_points = points
        self.tolerance = as_tolerance(tolerance)
        spectrum, transform = orthonormal_span(self.prior, points, float(self.tolerance))
        self.spectrum, self.transform = at_rest(spectrum), at_rest(transform)
        self.eigenvalues = self.spectrum[: self.transform.shape[1]] / points.shape[0]
        self.remainder = at_rest(_remainder(self.prior, points, self.transform, self.eigenvalues))

    def mean_weights(self, x: Float[Array, "N D"]) -> Float[Array, "N M"]:
        """φ = e."""
        return self.functions(x)

    def whitened_weights(self, x: Float[Array, "N D"]) -> Float[Array, "N M"]:
        """ψ = e √Λ."""
        return self.functions(x) * jnp.sqrt(self.eigenvalues)


@compiled
def _remainder(prior: GaussianRandomElement, points: Array, transform: Array, eigenvalues: Array) -> AbstractResidual:
    if prior.has_points:
        return PointResidual(prior.root(points).T @ (transform / jnp.sqrt(eigenvalues)))
    return GeneralResidual(transform, transform.T @ prior.pairwise(points, points) @ transform)
