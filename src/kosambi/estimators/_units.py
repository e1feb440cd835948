"""The user's units: of a kernel that is given, of priors over hyperparameters, and of the kernel that is shown.

Whoever gives a kernel speaks of the columns as they are: a lengthscale of 20 years, a variance in squared units of y.
Such a kernel sees the columns as they are, but for a shift where it depends on differences alone; y is standardised
where likelihood and kernel can be carried over, so that a search has numbers of usual size, and carried back after it.

With (location, scale) of y, and of the function behind it, the parameters θ of the user's model and θ' of the
standardised one differ by factors: variance' = variance/scale², noise' = noise/scale, lengthscale' = lengthscale/s_d
where column d is divided by s_d. What is said of θ is said of θ' with these factors.
"""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from kosambi._core.parameters import parameters
from kosambi._core.precision import with_fields
from kosambi.errors import InputError
from kosambi.estimators._learn import Settings, kernel_of
from kosambi.estimators._models import in_units
from kosambi.kernels import AbstractCombination, AbstractKernel, AbstractRadial, AbstractStationary, Constant, Periodic
from kosambi.kernels import scaled as times
from kosambi.learning.hyperpriors import Increments, LogitNormal, LogNormal, Normal
from kosambi.learning.layout import Model, lay_out
from kosambi.likelihoods import AbstractLikelihood

KERNEL_UNITS = ("input", "standardized")


def check_units_of(estimator: Any) -> None:
    """Refuse what `standardize` and `kernel_units` cannot be."""
    if not isinstance(estimator.standardize, bool | np.bool_):
        raise InputError(f"`standardize` must be True or False. Got {estimator.standardize!r}.")
    if estimator.kernel_units not in KERNEL_UNITS:
        raise InputError(
            '`kernel_units` must be "input", where lengthscales have the units of the columns, or "standardized". Got '
            f"{estimator.kernel_units!r}."
        )


def is_in_input_units(estimator: Any) -> bool:
    """Whether the kernel of an estimator was given as one of the columns as they are."""
    return isinstance(estimator._kernel, AbstractKernel) and estimator.kernel_units == "input"


def input_units(
    estimator: Any, mean: Float[np.ndarray, " D"], scale: Float[np.ndarray, " D"]
) -> tuple[Float[np.ndarray, " D"], Float[np.ndarray, " D"]]:
    """What is subtracted from the columns, and what they are divided by, where (`mean`, `scale`) is usual.

    A single lengthscale for several columns has no counterpart once each is divided by its own number, so that a kernel
    in the units of the columns sees them undivided.
    """
    if not estimator.standardize:
        return np.zeros_like(mean), np.ones_like(scale)
    if not is_in_input_units(estimator):
        return mean, scale
    return (mean if _is_of_differences(estimator._kernel) else np.zeros_like(mean)), np.ones_like(scale)


def standardizes_target(estimator: Any, likelihood: AbstractLikelihood) -> bool:
    """Whether y is standardised: not if that was declined, nor if likelihood or kernel cannot be carried over."""
    if not estimator.standardize or in_units(likelihood, 0.0, 1.0) is None:
        return False
    return not is_in_input_units(estimator) or estimator._kernel.takes_factor


def in_standard_units(
    settings: Settings,
    likelihood: AbstractLikelihood,
    target_units: tuple[float, float],
    x_scale: Float[np.ndarray, " D"],
    *,
    is_input: bool,
    is_centred: bool,
) -> Settings:
    """The settings of a search with standardised observations.

    Arguments:
        settings: with kernel, ties and priors in the user's units.
        likelihood: of standardised observations.
        target_units: location and scale of y, (0, 1) where it is taken as it is.
        x_scale: what the columns were divided by.
        is_input: whether a kernel that was given is in the user's units.
        is_centred: whether y is standardised.
    """
    moved = likelihood.in_units(*target_units)
    factor = 1.0 if moved is None else moved.scale
    kernel = settings.kernel
    if isinstance(kernel, AbstractKernel) and is_input and factor != 1.0:
        kernel = times(kernel, factor**-2.0)
    settings = dataclasses.replace(settings, kernel=kernel, is_centred=is_centred)
    if not settings.is_restricted:
        return settings
    kernel = kernel_of(settings, len(x_scale))
    shown = in_input_units(kernel, np.zeros(len(x_scale)), x_scale)
    if shown is None or not (factor == 1.0 or shown.takes_factor):
        raise InputError(
            f"`freeze`, `tie` and `priors` need a kernel that is known in the units of the columns, and {kernel!r} of "
            'standardised columns is not. Give it in these units, `kernel_units="input"`.'
        )
    known = likelihood if moved is None else moved.likelihood
    ours = Model(kernel, np.asarray(0.0), likelihood)
    factors = _factors(ours, Model(times(shown, factor**2) if factor != 1.0 else shown, np.asarray(0.0), known))
    layout = lay_out(ours, settings.freeze, settings.tie)
    for group in layout.groups:
        _check_tied([parameter.name for parameter in group], factors)
    free = [parameter.name for group in layout.groups for parameter in group]
    return dataclasses.replace(settings, priors=_priors(settings.priors, free, factors))


def in_input_units(
    kernel: AbstractKernel, mean: Float[np.ndarray, " D"], scale: Float[np.ndarray, " D"]
) -> AbstractKernel | None:
    """The kernel k with k(x, x') = kernel((x − mean)/scale, (x' − mean)/scale); None if it has no such form.

    >>> import kosambi as ko
    >>> in_input_units(ko.kernels.Matern52(lengthscale=0.5), np.zeros(2), np.array([10.0, 4.0]))
    Matern52(lengthscale=[5.0, 2.0], variance=1.0)
    """
    if np.all(scale == 1.0) and (_is_of_differences(kernel) or np.all(mean == 0.0)):
        return kernel
    if isinstance(kernel, AbstractCombination):
        parts = [in_input_units(part, mean, scale) for part in kernel.kernels]
        return None if any(part is None for part in parts) else with_fields(kernel, kernels=tuple(parts))
    if isinstance(kernel, Constant):
        return kernel
    if not isinstance(kernel, AbstractRadial | Periodic):
        return None
    field = "period" if isinstance(kernel, Periodic) else "lengthscale"
    own = scale if kernel.active_dims is None else scale[list(kernel.active_dims)]
    value = np.asarray(getattr(kernel, field))
    is_one = value.ndim == 0 and np.all(own == own[0])
    return with_fields(kernel, **{field: np.asarray(value * (own[0] if is_one else own))})


def _is_of_differences(kernel: AbstractKernel) -> bool:
    """Whether a kernel is known to depend on x − z alone."""
    if isinstance(kernel, AbstractCombination):
        return all(_is_of_differences(part) for part in kernel.kernels)
    return isinstance(kernel, AbstractStationary | Constant)


def _factors(ours: Model, theirs: Model) -> dict[str, np.ndarray]:
    """θ'/θ for each parameter, by name."""
    found = {}
    for mine, yours in zip(parameters(**ours._asdict()), parameters(**theirs._asdict()), strict=True):
        value, other = np.asarray(mine.value), np.asarray(yours.value)
        with np.errstate(invalid="ignore", divide="ignore"):
            found[mine.name] = np.where(value == other, 1.0, value / other)
    return found


def _check_tied(names: list[str], factors: Mapping[str, np.ndarray]) -> None:
    for name in names[1:]:
        if not np.allclose(factors[name], factors[names[0]], rtol=1e-12):
            raise InputError(
                f"`tie` gives {names[0]} and {name} one value, but these have different units once inputs and target "
                "are standardised. Set `standardize=False`, which takes both as they are."
            )


def _priors(given: Mapping[str, Any] | None, free: list[str], factors: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Priors of the standardised parameters; a pattern becomes the names that it stands for."""
    found: dict[str, Any] = {}
    for pattern, prior in (given or {}).items():
        names = [name for name in free if fnmatch.fnmatchcase(name, pattern)]
        # What names nothing is refused by `fit_hyperparameters`, in its own words.
        found |= {name: _rescaled(prior, factors[name]) for name in names} or {pattern: prior}
    return found


def _rescaled(prior: Any, factor: np.ndarray) -> Any:
    """The prior of θ·factor, where `prior` is that of θ."""
    if np.all(factor == 1.0) or isinstance(prior, LogitNormal | Increments):
        return prior
    if isinstance(prior, LogNormal):
        return LogNormal(prior.median * factor, prior.width)
    if isinstance(prior, Normal):
        return Normal(prior.mean * factor, prior.deviation * np.abs(factor))
    return prior
