"""Likelihoods by name, and how a model of standardised observations becomes one of observations."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from kosambi.errors import InputError
from kosambi.kernels import AbstractKernel, scaled
from kosambi.likelihoods import BY_SHORT_NAME, AbstractLikelihood
from kosambi.priors import GaussianProcess


def as_likelihood(given: object) -> AbstractLikelihood:
    """The likelihood that a name of `kosambi.likelihoods` stands for, or the object itself."""
    if isinstance(given, AbstractLikelihood):
        return given
    if isinstance(given, str) and given in BY_SHORT_NAME:
        return BY_SHORT_NAME[given].standard()
    names = ", ".join(f'"{name}"' for name in BY_SHORT_NAME)
    raise InputError(f"`likelihood` must be one of {names}, or an object from `kosambi.likelihoods`. Got {given!r}.")


def in_units(likelihood: AbstractLikelihood, location: float, scale: float) -> AbstractLikelihood | None:
    """The likelihood of location + scale·z where `likelihood` is that of z; None if it has no such form."""
    moved = likelihood.in_units(location, scale)
    return None if moved is None else moved.likelihood


def prior_in_units(
    kernel: AbstractKernel, mean: Float[np.ndarray, ""], likelihood: AbstractLikelihood, location: float, scale: float
) -> GaussianProcess:
    """The prior of the latent function of location + scale·z, where `kernel` and `mean` are of that of z."""
    moved = likelihood.in_units(location, scale)
    if moved is not None:
        location, scale = moved.location, moved.scale
        if (location, scale) == (0.0, 1.0):
            return GaussianProcess(kernel, mean=mean)
    return GaussianProcess(scaled(kernel, scale**2), mean=np.asarray(location + scale * mean))
