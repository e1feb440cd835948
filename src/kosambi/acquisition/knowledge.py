r"""The knowledge gradient (Frazier, Powell and Dayanik 2009): by how much an observation raises the best known mean.

An observation at x moves the mean of f at z by s(z)Z, Z ~ N(0, 1), s(z) = Cov(f(z), f(x))/√(Var f(x) + σ²), so that the
best of A places z and x itself is worth E max_i (a_i + b_i Z) with a the means and b = s. Line i is the highest one
between two places l_i and u_i, where it crosses others, so that

    E max_i (a_i + b_i Z) = Σ_i a_i (Φ(u_i) − Φ(l_i)) + b_i (φ(l_i) − φ(u_i))

over the lines with l_i < u_i: exact, in O(A²) and with derivatives.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr
from jaxtyping import Float

from kosambi._core.checks import as_float_array, as_inputs
from kosambi._core.precision import compiled, public
from kosambi._core.types import Array, ArrayLike
from kosambi.acquisition.base import AbstractAcquisition
from kosambi.acquisition.improvement import incumbent_of
from kosambi.acquisition.latent import AbstractLatent, Latent, latent_of, over_models
from kosambi.errors import InputError
from kosambi.posterior import Posterior

_LOG_ROOT_2PI = 0.5 * float(np.log(2.0 * np.pi))


@public
def expected_maximum(intercepts: ArrayLike, slopes: ArrayLike) -> Float[Array, ""]:
    """E max_i (intercepts_i + slopes_i Z) for Z ~ N(0, 1), of A lines each; exact.

    >>> round(float(expected_maximum([0.0, 0.0], [-1.0, 1.0])), 6)  # E|Z|
    0.797885
    """
    a, b = as_float_array("intercepts", intercepts), as_float_array("slopes", slopes)
    if a.ndim != 1 or a.shape != b.shape or not a.shape[0]:
        raise InputError(f"`intercepts` and `slopes` must be (A,) both. Got shapes {a.shape} and {b.shape}.")
    return _compiled_maximum(a, b)


@compiled
def _compiled_maximum(a: Array, b: Array) -> Array:
    return gain(a, b) + jnp.max(a)


def gain(a: Float[Array, " A"], b: Float[Array, " A"]) -> Float[Array, ""]:
    """E max_i (a_i + b_i Z) − max_i a_i, not negative; traceable."""
    a = a - jnp.max(a)
    steeper = b[None, :] - b[:, None]
    differs = steeper != 0.0
    # Where line j crosses line i.
    crossing = (a[:, None] - a[None, :]) / jnp.where(differs, steeper, 1.0)
    upper = jnp.min(jnp.where(steeper > 0.0, crossing, jnp.inf), axis=1)
    lower = jnp.max(jnp.where(steeper < 0.0, crossing, -jnp.inf), axis=1)
    number = jnp.arange(a.shape[0])
    # Of parallel lines the highest counts, and of equal ones the first.
    hidden = (a[None, :] > a[:, None]) | ((a[None, :] == a[:, None]) & (number[None, :] < number[:, None]))
    is_top = (lower < upper) & ~jnp.any(~differs & hidden, axis=1)
    # Finite numbers in the places of lines that are never the highest, so that their derivatives are numbers too.
    lower, upper = jnp.where(is_top, lower, 0.0), jnp.where(is_top, upper, 0.0)
    share = jnp.where(lower > 0.0, ndtr(-lower) - ndtr(-upper), ndtr(upper) - ndtr(lower))
    parts = a * share + b * (_density(lower) - _density(upper))
    return jnp.maximum(jnp.sum(jnp.where(is_top, parts, 0.0)), 0.0)


def _density(z: Array) -> Array:
    finite = jnp.where(jnp.isfinite(z), z, 0.0)
    return jnp.where(jnp.isfinite(z), jnp.exp(-0.5 * jnp.square(finite) - _LOG_ROOT_2PI), 0.0)


class KnowledgeGradient(AbstractAcquisition):
    """By how much the largest mean of f, among `points` and x itself, is expected to rise by an observation at x.

    In closed form for Gaussian noise. For an average over hyperparameters it is the mean of those of its models, none
    of which learns what the observation says about the others.

    Arguments:
        posterior: of Gaussian noise with one number for all rows, without neighbours or with all rows.
        points: (A, D), places that may be the best one in the end; the rows of the data when None.

    >>> import jax, numpy as np, kosambi as ko
    >>> x, gaussian = np.array([[0.0], [0.4], [1.0]]), ko.likelihoods.Gaussian(0.1)
    >>> posterior = ko.infer(jax.random.key(0), ko.kernels.Matern52(0.3), gaussian, x, [0.0, 1.0, -1.0])
    >>> knowledge = ko.acquisition.KnowledgeGradient(posterior, np.linspace(0.0, 1.0, 21)[:, None])
    >>> bool(knowledge([[0.3]]) > knowledge([[1.0]]))
    True
    """

    latent: Latent
    points: Float[Array, "A D"]
    incumbent: Float[Array, "T D"]

    def __init__(self, posterior: Posterior, points: ArrayLike | None = None) -> None:
        self.latent = latent_of(posterior)
        if self.latent.noises is None:
            raise InputError(
                "`KnowledgeGradient` needs `Gaussian` noise with one number for all rows, under which a mean is moved "
                f"linearly by an observation. Got {posterior.likelihood!r}. Use `ExpectedImprovement`."
            )
        if any(stack.root is None for stack in self.latent.stacks):  # type: ignore[attr-defined]
            raise InputError(
                "`KnowledgeGradient` needs the closed form of the posterior, and these are draws of a sampler. Use "
                'sampler="auto", or `ExpectedImprovement`.'
            )
        self.incumbent, _ = incumbent_of(self.latent)
        columns = self.latent.x.shape[1]
        self.points = np.asarray(self.latent.x if points is None else as_inputs("points", points, columns))

    def value(self, x: Float[Array, "n D"]) -> Float[Array, " n"]:
        """The mean over the models."""

        def of_model(model: AbstractLatent, noise: Array) -> Float[Array, " n"]:
            known = model.moments(self.points)[0][:, 0]
            mean, variance = model.moments(x)
            root = jnp.sqrt(variance + jnp.square(noise))
            slopes = model.covariance(x, self.points) / root[:, None]
            own = variance / root
            return jax.vmap(lambda m, s, own: gain(jnp.append(known, m), jnp.append(s, own)))(mean[:, 0], slopes, own)

        return jnp.mean(jnp.concatenate(over_models(of_model, self.latent)), axis=0)
