"""The upper confidence bound: the mean of f plus some of its standard deviations (Srinivas et al. 2010)."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_positive
from kosambi._core.types import Array
from kosambi.acquisition.base import AbstractAcquisition
from kosambi.acquisition.improvement import incumbent_of
from kosambi.acquisition.latent import Latent, latent_of
from kosambi.posterior import Posterior


class UpperConfidenceBound(AbstractAcquisition):
    """E f(x) + κ·sd f(x) given the data; of a mixture its mean and its standard deviation.

    Arguments:
        posterior: as for `ExpectedImprovement`.
        deviations: κ, how many standard deviations; more of them look farther afield.

    >>> import jax, numpy as np, kosambi as ko
    >>> x, gaussian = np.array([[0.0], [0.4], [1.0]]), ko.likelihoods.Gaussian(0.01)
    >>> posterior = ko.infer(jax.random.key(0), ko.kernels.Matern52(0.3), gaussian, x, [0.0, 1.0, -1.0])
    >>> bound, there = ko.acquisition.UpperConfidenceBound(posterior), posterior.predict([[0.7]])
    >>> bool(np.isclose(bound([[0.7]]), there.mean + 2.0 * np.sqrt(there.variance)))
    True
    """

    latent: Latent
    deviations: Float[Array, ""]
    incumbent: Float[Array, "T D"]

    def __init__(self, posterior: Posterior, deviations: float = 2.0) -> None:
        self.deviations = np.asarray(as_positive("deviations", deviations, max_ndim=0))
        self.latent = latent_of(posterior)
        self.incumbent, _ = incumbent_of(self.latent)

    def value(self, x: Float[Array, "n D"]) -> Float[Array, " n"]:
        """μ + κσ."""
        means, variances = self.latent.moments(x)
        mean = jnp.mean(means, axis=1)
        spread = jnp.mean(variances, axis=1) + jnp.mean(jnp.square(means - mean[:, None]), axis=1)
        return mean + self.deviations * jnp.sqrt(spread)
