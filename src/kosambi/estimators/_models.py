"""What the names of likelihoods stand for, and how a model of standardised observations becomes one of observations."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from jaxtyping import Float

from kosambi._core.errors import InputError
from kosambi._core.precision import with_fields
from kosambi.kernels import AbstractKernel, scaled
from kosambi.likelihoods import (
    AbstractLikelihood,
    Gamma,
    Gaussian,
    HeteroscedasticGaussian,
    Laplace,
    NegativeBinomial,
    Poisson,
    ShiftMixture,
    StudentT,
)
from kosambi.priors import GaussianProcess

# Parameters are where the search for better ones begins.
LIKELIHOODS: dict[str, Any] = {
    "gaussian": lambda: Gaussian(0.3),
    "student_t": lambda: StudentT(degrees_of_freedom=4.0, scale=0.3),
    "heteroscedastic": HeteroscedasticGaussian,
    "poisson": Poisson,
    "negative_binomial": lambda: NegativeBinomial(dispersion=0.5),
    "gamma": lambda: Gamma(shape=2.0),
}


def as_likelihood(given: object) -> AbstractLikelihood:
    """The likelihood that a name stands for, or the object itself."""
    if isinstance(given, AbstractLikelihood):
        return given
    if isinstance(given, str) and given in LIKELIHOODS:
        return LIKELIHOODS[given]()
    names = ", ".join(f'"{name}"' for name in LIKELIHOODS)
    raise InputError(f"`likelihood` must be one of {names}, or an object from `kosambi.likelihoods`. Got {given!r}.")


@functools.singledispatch
def in_units(likelihood: Any, location: float, scale: float) -> AbstractLikelihood | None:
    """The law of location + scale·z where `likelihood` is that of z; None if it has no such form.

    For those whose latent function is in the units of an observation, that of location + scale·z given
    location + scale·f.
    """
    del likelihood, location, scale
    return None


@in_units.register
def _(likelihood: Gaussian, location: float, scale: float) -> AbstractLikelihood | None:
    del location
    return with_fields(likelihood, noise=np.asarray(likelihood.noise * scale))


@in_units.register(StudentT)
@in_units.register(Laplace)
def _(likelihood: Any, location: float, scale: float) -> AbstractLikelihood | None:
    del location
    return with_fields(likelihood, scale=np.asarray(likelihood.scale * scale))


@in_units.register
def _(likelihood: ShiftMixture, location: float, scale: float) -> AbstractLikelihood | None:
    del location
    return with_fields(
        likelihood, shift=np.asarray(likelihood.shift * scale), noise=np.asarray(likelihood.noise * scale)
    )


@in_units.register
def _(likelihood: HeteroscedasticGaussian, location: float, scale: float) -> AbstractLikelihood | None:
    # The second function is a logarithm without a unit, so the first stays without one too.
    return with_fields(
        likelihood,
        location=np.asarray(location + scale * likelihood.location),
        scale=np.asarray(likelihood.scale * scale),
    )


def prior_in_units(
    kernel: AbstractKernel, mean: Float[np.ndarray, ""], likelihood: AbstractLikelihood, location: float, scale: float
) -> GaussianProcess:
    """The prior of location + scale·f where `kernel` and `mean` are those of f."""
    if isinstance(likelihood, HeteroscedasticGaussian):
        return GaussianProcess(kernel, mean=mean)
    return GaussianProcess(scaled(kernel, scale**2), mean=np.asarray(location + scale * mean))
