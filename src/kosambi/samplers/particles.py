"""Draws of coordinates: what a sampler returns."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from kosambi._types import Array, ArrayLike
from kosambi.precision import Module, public
from kosambi.target import Target


class GaussianLaw(Module):
    """A normal law of the whitened coordinates, where the posterior is one: N(mean, root rootᵀ)."""

    mean: Float[Array, " M"]
    root: Float[Array, "M M"]


class Particles(Module):
    """J draws of the coordinates u, one a row.

    `sample` makes them. Coordinates from elsewhere become particles with `Particles.from_coordinates`.
    """

    coordinates: Float[Array, "J M *C"]
    """u_j."""
    whitened: Float[Array, "J M *C"]
    """w_j = L⁻¹u_j, in which the prior is standard normal."""
    law: GaussianLaw | None = None
    """The law that the draws come from, when it is known in closed form."""

    @staticmethod
    @public
    def from_coordinates(target: Target, coordinates: ArrayLike) -> Particles:
        """Particles from coordinates u of shape (J, M), or (J, M, C) with C latent functions.

        >>> import numpy as np, kosambi as ko
        >>> x = np.linspace(-1.0, 1.0, 20)[:, None]
        >>> basis = ko.PointBasis(ko.GaussianProcess(ko.kernels.Matern52()), x[::5])
        >>> target = ko.Target(basis, ko.likelihoods.Gaussian(0.1), x, x[:, 0])
        >>> ko.samplers.Particles.from_coordinates(target, np.zeros((3, 4))).num_particles
        3
        """
        u = np.reshape(target._checked("coordinates", coordinates), (-1, *target.shape))
        return Particles(u, target.whiten(u))

    @staticmethod
    def from_whitened(target: Target, whitened: Array, law: GaussianLaw | None = None) -> Particles:
        """Particles from flattened whitened coordinates, (J, M·C)."""
        w = np.array(whitened, dtype=np.float64).reshape(-1, *target.shape)
        if len(target.shape) == 1:
            return Particles(target.basis.colour(w), w, law)
        u = np.moveaxis(target.basis.colour(np.moveaxis(w, 2, 1)), 1, 2)
        return Particles(np.ascontiguousarray(u), w, law)

    @property
    def num_particles(self) -> int:
        """J."""
        return int(self.coordinates.shape[0])
