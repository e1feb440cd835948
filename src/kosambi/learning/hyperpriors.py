"""Priors over hyperparameters: objects that can be read, printed, and given in the place of the usual ones.

`fit_hyperparameters(priors={"kernel.lengthscale": LogNormal(0.5, 1.0)})` says what is known of a parameter before the
data, in its own units: those of x for a lengthscale, of y for noise. What is not named has the usual prior, which
`report.priors` shows. Usual medians are sizes of the data (`kosambi.learning.starts`): √D standard deviations of a
column for its lengthscale, the variance of rough latent values for a variance, 0.3 standard deviations of y for noise.
They do not depend on the number of rows. All are normal in the free numbers that are learned (`Layout`).
"""

from __future__ import annotations

import abc
import dataclasses
import fnmatch
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_float_array, as_positive
from kosambi._core.types import ArrayLike
from kosambi.errors import InputError
from kosambi.learning.layout import Layout
from kosambi.learning.starts import Limits

REACH = 6.0
"""Standard deviations of a prior that a search may go, at least."""


@dataclasses.dataclass(frozen=True, eq=False)
class AbstractHyperprior(abc.ABC):
    """What is known of a parameter before the data."""

    supports: ClassVar[tuple[str, ...]] = ()
    """Which parameters can have it, by the values that they take; see `kosambi.learning.layout`."""

    @property
    @abc.abstractmethod
    def free(self) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
        """Mean and standard deviation of the free number that stands for the parameter."""


@dataclasses.dataclass(frozen=True, eq=False, init=False)
class LogNormal(AbstractHyperprior):
    """The logarithm of a positive parameter is normal; two thirds of the prior lie within a factor e^±width.

    Arguments:
        median: in the units of the parameter; a number, or one for each of its numbers.
        width: standard deviation of the logarithm.

    >>> LogNormal(0.5, 1.0)
    LogNormal(median=0.5, width=1)
    """

    median: Float[np.ndarray, "..."]
    width: Float[np.ndarray, "..."]

    supports: ClassVar[tuple[str, ...]] = ("positive",)

    def __init__(self, median: ArrayLike, width: ArrayLike) -> None:
        object.__setattr__(self, "median", as_positive("median", median, max_ndim=1))
        object.__setattr__(self, "width", _as_width("width", width))

    @property
    def free(self) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
        """Of the logarithm."""
        return np.asarray(np.log(self.median)), self.width

    def __repr__(self) -> str:
        return f"LogNormal(median={_shown(self.median)}, width={_shown(self.width)})"


@dataclasses.dataclass(frozen=True, eq=False, init=False)
class Normal(AbstractHyperprior):
    """A real parameter, such as the prior mean, is normal.

    Arguments:
        mean: in the units of the parameter; a number, or one for each of its numbers.
        deviation: its standard deviation.

    >>> Normal(0.0, 2.0)
    Normal(mean=0, deviation=2)
    """

    mean: Float[np.ndarray, "..."]
    deviation: Float[np.ndarray, "..."]

    supports: ClassVar[tuple[str, ...]] = ("real",)

    def __init__(self, mean: ArrayLike, deviation: ArrayLike) -> None:
        object.__setattr__(self, "mean", _as_mean(mean))
        object.__setattr__(self, "deviation", _as_width("deviation", deviation))

    @property
    def free(self) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
        """Of the parameter itself."""
        return self.mean, self.deviation

    def __repr__(self) -> str:
        return f"Normal(mean={_shown(self.mean)}, deviation={_shown(self.deviation)})"


@dataclasses.dataclass(frozen=True, eq=False, init=False)
class LogitNormal(AbstractHyperprior):
    """The logit of a parameter between zero and one is normal.

    Arguments:
        median: between zero and one.
        width: standard deviation of the logit.

    >>> LogitNormal(0.1, 1.5)
    LogitNormal(median=0.1, width=1.5)
    """

    median: Float[np.ndarray, "..."]
    width: Float[np.ndarray, "..."]

    supports: ClassVar[tuple[str, ...]] = ("unit",)

    def __init__(self, median: ArrayLike, width: ArrayLike) -> None:
        object.__setattr__(self, "median", as_positive("median", median, max_ndim=1))
        object.__setattr__(self, "width", _as_width("width", width))
        if np.any(self.median >= 1.0):
            raise InputError(f"`median` must lie between 0 and 1. Got {_shown(self.median)}.")

    @property
    def free(self) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
        """Of the logit."""
        return np.asarray(np.log(self.median) - np.log1p(-self.median)), self.width

    def __repr__(self) -> str:
        return f"LogitNormal(median={_shown(self.median)}, width={_shown(self.width)})"


@dataclasses.dataclass(frozen=True, eq=False, init=False)
class Increments(AbstractHyperprior):
    """The usual prior of increasing numbers, such as cut points: the first and the logarithms of the steps are normal.

    Arguments:
        mean: of the first number and of the logarithms of the steps.
        width: their standard deviations.
    """

    mean: Float[np.ndarray, " L"]
    width: Float[np.ndarray, " L"]
    supports: ClassVar[tuple[str, ...]] = ("increasing",)

    def __init__(self, mean: ArrayLike, width: ArrayLike) -> None:
        object.__setattr__(self, "mean", _as_mean(mean))
        object.__setattr__(self, "width", _as_width("width", width))

    @property
    def free(self) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
        """Of the first number and of the logarithms."""
        return self.mean, self.width

    def __repr__(self) -> str:
        return f"Increments(mean={_shown(self.mean)}, width={_shown(self.width)})"


def _as_width(name: str, value: ArrayLike) -> Float[np.ndarray, "..."]:
    array = as_positive(name, value, max_ndim=1)
    if not np.all((array > 1e-150) & (array < 1e150)):
        raise InputError(
            f"`{name}` has a square that cannot be represented. Got {value!r}. Use `freeze` for a parameter that is "
            "known, and no prior for one of which nothing is known."
        )
    return array


def _as_mean(value: ArrayLike) -> Float[np.ndarray, "..."]:
    array = as_float_array("mean", value)
    if array.ndim > 1 or not np.all(np.isfinite(array)):
        raise InputError(f"`mean` must be a finite number, or one for each number of the parameter. Got {value!r}.")
    return array


_BY_SUPPORT = {"positive": "LogNormal", "real": "Normal", "unit": "LogitNormal", "increasing": "Increments"}


def check_priors(priors: Mapping[str, AbstractHyperprior] | None, layout: Layout) -> dict[str, AbstractHyperprior]:
    """The prior of each parameter that has one of its own, by name; names may be patterns."""
    found: dict[str, AbstractHyperprior] = {}
    # Tied parameters have one prior, that of the first, whichever of them is named.
    free = {parameter.name: group[0] for group in layout.groups for parameter in group}
    if priors is not None and not isinstance(priors, Mapping):
        raise InputError(
            f"`priors` must be a dictionary from names to `kosambi.hyperpriors`. Got {type(priors).__name__}. Write "
            '{"likelihood.noise": kosambi.hyperpriors.LogNormal(0.1, 0.5)}.'
        )
    for pattern, prior in (priors or {}).items():
        if not isinstance(prior, AbstractHyperprior):
            raise InputError(
                f"`priors[{pattern!r}]` must be an object such as `kosambi.hyperpriors.LogNormal(0.5, 1.0)`. "
                f"Got {type(prior).__name__}."
            )
        names = [name for name in free if fnmatch.fnmatchcase(name, pattern)]
        if not names:
            raise InputError(
                f"`priors` names no parameter that is learned: {pattern!r}. Learned are {', '.join(free) or 'none'}."
            )
        for name in names:
            parameter = free[name]
            if parameter.support not in prior.supports:
                raise InputError(
                    f"`{name}` takes {parameter.support} values, so its prior is a "
                    f"`{_BY_SUPPORT.get(parameter.support, 'Normal')}`. Got {prior!r}."
                )
            if any(np.size(part) not in (1, parameter.size) for part in prior.free):
                raise InputError(f"The prior of `{name}` must have one entry or {parameter.size}. Got {prior!r}.")
            found[parameter.name] = prior
    return found


def with_priors(limits: Limits, layout: Layout, priors: Mapping[str, AbstractHyperprior]) -> Limits:
    """Limits whose middles and widths are those of `priors`, with bounds that leave them room."""
    if not priors:
        return limits
    centre, width = limits.centre.copy(), limits.width.copy()
    at = 0
    for group in layout.groups:
        if (prior := priors.get(group[0].name)) is not None:
            mean, deviation = prior.free
            centre[at : at + group[0].size], width[at : at + group[0].size] = np.ravel(mean), np.ravel(deviation)
        at += group[0].size
    changed = (centre != limits.centre) | (width != limits.width)
    # The rounding of y is noise, whatever is known of it.
    is_rounded = np.array([p.entry(i) in limits.rounded for p, i in layout.entries()], dtype=bool)
    lower = np.where(changed & ~is_rounded, np.minimum(limits.lower, centre - REACH * width), limits.lower)
    upper = np.where(changed, np.maximum(limits.upper, centre + REACH * width), limits.upper)
    return dataclasses.replace(limits, centre=centre, width=width, lower=lower, upper=upper)


def described(limits: Limits | None, layout: Layout) -> dict[str, AbstractHyperprior]:
    """The priors that these limits are, by the name of the parameter."""
    found: dict[str, AbstractHyperprior] = {}
    if limits is None:
        return found
    at = 0
    for group in layout.groups:
        parameter = group[0]
        own = slice(at, at + parameter.size)
        # A matrix is listed row by row.
        shape = parameter.shape if len(parameter.shape) < 2 else (parameter.size,)
        mean, width = (part[own].reshape(shape) for part in (limits.centre, limits.width))
        at += parameter.size
        if parameter.support == "positive":
            found[parameter.name] = LogNormal(np.exp(np.clip(mean, -700.0, 700.0)), width)
        elif parameter.support == "unit":
            found[parameter.name] = LogitNormal(1.0 / (1.0 + np.exp(-np.clip(mean, -30.0, 30.0))), width)
        elif parameter.support == "increasing":
            found[parameter.name] = Increments(mean, width)
        else:
            found[parameter.name] = Normal(mean, width)
    return found


def _shown(values: np.ndarray) -> str:
    return np.array2string(np.asarray(values), separator=", ", threshold=8, formatter={"float": "{:.4g}".format})
