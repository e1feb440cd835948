"""What Nyström and Ritz share: functions e = Aᵀk(Z, ·) that are orthonormal in the Hilbert space of k."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.checks import is_traced
from kosambi._core.linalg import by_rows, check_gram, count_above, eigh_decreasing
from kosambi._core.precision import compiled
from kosambi._core.types import Array
from kosambi.basis.base import AbstractBasis, BasisReport
from kosambi.basis.residual import AbstractResidual
from kosambi.errors import NumericalError
from kosambi.priors import GaussianRandomElement

# Eigenvalues of k(Z, Z) below this part of the largest are dropped; orthonormality then holds to about 1e-8.
DEFAULT_TOLERANCE = 1e-8


class AbstractOrthonormalBasis(AbstractBasis):
    """Coordinates u = ⟨F − m, e⟩ = Aᵀ(F − m)(Z), independent a priori with the `eigenvalues` as variances."""

    prior: GaussianRandomElement
    inducing_points: Float[Array, "Z D"]
    eigenvalues: Float[Array, " M"]
    transform: Float[Array, "Z M"]
    spectrum: Float[Array, " Z"]
    tolerance: Array
    remainder: AbstractResidual

    @property
    def size(self) -> int:
        """M, the number of functions kept."""
        return int(self.eigenvalues.shape[0])

    @property
    def covariance(self) -> Float[Array, "M M"]:
        """Λ, diagonal."""
        return jnp.diag(self.eigenvalues) if is_traced(self.eigenvalues) else np.diag(self.eigenvalues)

    @property
    def report(self) -> BasisReport:
        """How many eigenpairs were kept."""
        kept, given, span = self.size, int(self.spectrum.shape[0]), count_above(self.spectrum, float(self.tolerance))
        condition = float(self.spectrum[0] / self.spectrum[span - 1])
        return BasisReport(given, kept, given - kept, float(self.tolerance), 0.0, condition)

    def functions(self, x: Float[Array, "N D"]) -> Float[Array, "N M"]:
        """e(x) = k(x, Z) A."""
        return by_rows(
            lambda block: self.prior.kernel.pairwise(block, self.inducing_points) @ self.transform,
            x,
            self.inducing_points.shape[0],
        )

    def multiply_root(self, w: Float[Array, "... M"]) -> Float[Array, "... M"]:
        """u = √Λ w."""
        return w * jnp.sqrt(self.eigenvalues)

    def divide_root(self, u: Float[Array, "... M"]) -> Float[Array, "... M"]:
        """w = u/√Λ."""
        return u / jnp.sqrt(self.eigenvalues)

    def from_values(self, values: Float[Array, "J Z"]) -> Float[Array, "J M"]:
        """u = AᵀF(Z), by the reproducing property."""
        return values @ self.transform


def orthonormal_span(
    prior: GaussianRandomElement, points: Float[Array, "Z D"], tolerance: float
) -> tuple[Float[Array, " Z"], Float[Array, "Z M"]]:
    """All eigenvalues of k(Z, Z), and A = V D^{−1/2} for those above the tolerance, so that Aᵀk(Z, Z)A = I."""
    values, vectors = eigh_decreasing(check_gram("k(Z, Z)", prior.kernel(points)))
    kept = count_above(values, tolerance)
    if kept == 0:
        raise NumericalError(
            "k(Z, Z) has no positive eigenvalue, so the inducing points span nothing. "
            "Choose inducing points at which the kernel has a positive variance."
        )
    return values, _scaled(values, vectors, kept)


@compiled
def _scaled(values: Array, vectors: Array, kept: int) -> Array:
    return vectors[:, :kept] / jnp.sqrt(values[:kept])
