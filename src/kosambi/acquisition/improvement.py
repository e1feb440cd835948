r"""Expected improvement (Mockus 1978; Jones, Schonlau and Welch 1998) over the best value so far, f*.

    E max(f − f*, 0) = σ h((μ − f*)/σ),   h(z) = φ(z) + zΦ(z),   for f ~ N(μ, σ²)

and the mean of that over the components of a mixture. Far from any improvement h is as small as e^(−z²/2), so its
logarithm is climbed (Ament et al. 2023): log h(z) = log φ(z) + log(1 + zΦ(z)/φ(z)), by an asymptotic series below −10.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr, logsumexp, ndtr
from jaxtyping import Float

from kosambi._core.checks import as_float_array, is_traced
from kosambi._core.precision import compiled, public
from kosambi._core.types import Array, ArrayLike
from kosambi.acquisition.base import AbstractAcquisition
from kosambi.acquisition.latent import Latent, latent_of
from kosambi.errors import InputError
from kosambi.posterior import Posterior

_LOG_ROOT_2PI = 0.5 * float(np.log(2.0 * np.pi))
# Where the series 1/z² − 3/z⁴ + 15/z⁶ − … takes over, with so many terms: right to 1e-11 there.
_FAR, _TERMS = -10.0, 12


@public
def expected_improvement(mean: ArrayLike, deviation: ArrayLike, best: ArrayLike) -> Array:
    """E max(f − best, 0) for f ~ N(mean, deviation²), of any shapes that go together.

    >>> expected_improvement([0.0, 2.0], [1.0, 1e-9], [0.0, 1.5]).round(6)
    array([0.398942, 0.5     ])
    """
    return _improvement(*_numbers(mean, deviation, best))


@compiled
def _improvement(mean: Array, deviation: Array, best: Array) -> Array:
    # From the logarithm, in which no digits are lost to the difference of φ and |z|Φ.
    return deviation * jnp.exp(log_h((mean - best) / deviation))


@public
def log_expected_improvement(mean: ArrayLike, deviation: ArrayLike, best: ArrayLike) -> Array:
    """Its logarithm, finite wherever that is a number: also where the improvement itself is below 1e-308.

    >>> log_expected_improvement([0.0, 0.0], 1.0, [0.0, 100.0]).round(3)
    array([-9.19000e-01, -5.01013e+03])
    """
    return _log_improvement(*_numbers(mean, deviation, best))


@compiled
def _log_improvement(mean: Array, deviation: Array, best: Array) -> Array:
    return jnp.log(deviation) + log_h((mean - best) / deviation)


def _numbers(mean: ArrayLike, deviation: ArrayLike, best: ArrayLike) -> tuple[Array, Array, Array]:
    width = as_float_array("deviation", deviation)
    if not is_traced(width) and not np.all(np.asarray(width) > 0):
        raise InputError(f"`deviation` must be positive. Got {float(np.min(np.asarray(width))):g}. Clip it at a floor.")
    return as_float_array("mean", mean), width, as_float_array("best", best)


def log_h(z: Array) -> Array:
    """log(φ(z) + zΦ(z)), traceable, with a derivative everywhere."""
    # `where`, since a maximum of equal numbers has half a derivative.
    near, far = jnp.where(z > _FAR, z, _FAR), jnp.where(z > _FAR, _FAR, z)
    # Where z is positive φ + zΦ has no difference in it; below, 1 + zΦ/φ is one between 1 and a ratio of like size.
    positive = jnp.where(z > -1.0, z, -1.0)
    above = jnp.log(jnp.exp(-0.5 * jnp.square(positive) - _LOG_ROOT_2PI) + positive * ndtr(positive))
    negative = jnp.where(z > -1.0, -1.0, near)
    inside = -0.5 * jnp.square(negative) - _LOG_ROOT_2PI
    below = inside + jnp.log1p(negative * jnp.exp(log_ndtr(negative) - inside))
    square = 1.0 / jnp.square(far)
    total, term = jnp.zeros_like(far), jnp.ones_like(far)
    for n in range(_TERMS):
        term = -term * (2 * n + 1) * square if n else square
        total = total + term
    series = -0.5 * jnp.square(far) - _LOG_ROOT_2PI + jnp.log(total)
    return jnp.where(z > -1.0, above, jnp.where(z > _FAR, below, series))


class ExpectedImprovement(AbstractAcquisition):
    """E max(f(x) − best, 0) given the data, in closed form; averaged over the components of any mixture.

    Arguments:
        posterior: of one latent function, without neighbours or with all rows; an average over hyperparameters too.
        best: the value to improve upon; the largest posterior mean of f at the rows when None.

    >>> import jax, numpy as np, kosambi as ko
    >>> x, gaussian = np.array([[0.0], [0.4], [1.0]]), ko.likelihoods.Gaussian(0.01)
    >>> posterior = ko.infer(jax.random.key(0), ko.kernels.Matern52(0.3), gaussian, x, [0.0, 1.0, -1.0])
    >>> improvement = ko.acquisition.ExpectedImprovement(posterior)
    >>> next_x, value = ko.acquisition.maximize(jax.random.key(1), improvement, [[0.0], [1.0]])
    >>> bool(0.2 < next_x[0] < 0.4), bool(value >= improvement(x).max())
    (True, True)
    """

    latent: Latent
    best: Float[Array, ""]
    incumbent: Float[Array, "T D"]

    def __init__(self, posterior: Posterior, best: float | None = None) -> None:
        self.latent = latent_of(posterior)
        self.incumbent, top = incumbent_of(self.latent)
        self.best = as_best(best, top)

    def value(self, x: Float[Array, "n D"]) -> Float[Array, " n"]:
        """The mean over the components."""
        return jnp.exp(self.score(x))

    def score(self, x: Float[Array, "n D"]) -> Float[Array, " n"]:
        """Its logarithm."""
        means, variances = self.latent.moments(x)
        deviations = jnp.sqrt(variances)
        values = jnp.log(deviations) + log_h((means - self.best) / deviations)
        return logsumexp(values, axis=1) - jnp.log(values.shape[1])


@public
def incumbent_of(latent: Latent) -> tuple[Float[np.ndarray, "1 D"], Float[np.ndarray, ""]]:
    """The row where the mean of f is largest, and how large it is there."""
    means = np.asarray(_mean(latent, latent.x))
    return np.asarray(latent.x)[[int(np.argmax(means))]], np.asarray(np.max(means))


@compiled
def _mean(latent: Latent, x: Array) -> Array:
    return latent.mean(x)


def as_best(best: float | None, otherwise: Array) -> Float[np.ndarray, ""]:
    """A checked value to improve upon."""
    if best is None:
        return np.asarray(otherwise)
    value = np.asarray(as_float_array("best", best))
    if value.ndim != 0 or not np.isfinite(value):
        raise InputError(f"`best` must be one finite number. Got {best!r}. Leave it out for that of the data.")
    return value
