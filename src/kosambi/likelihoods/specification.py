r"""What is written of a likelihood: two members must be, and each of the others is there for one purpose.

A likelihood is a cost c(y, f) = −log p(y | f) of one observation y, given the value f of the latent function at its
input, or of C latent functions. Required are

* `raw_cost`, the cost itself, in plain JAX and elementwise, its constants included, so that −c is the log density;
* `is_convex`, whether it is convex in f.

`check` says which observations are possible; any finite numbers, unless it is replaced. All else has a default, and
the section it stands in says what it is for: what observations are, how the latent functions enter, how smooth the
cost is, the distribution of an observation given f, and what learning begins with. What follows from these members is
in `expectations` (derivatives, curvatures, expectations) and `predictive` (moments, densities, cdfs); nothing there has
to be written, though a closed form may replace any of it.

Shapes: y (N,), f (..., N) for one latent function and (..., N, C) for several; costs are (..., N).
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, TypeVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_float_array, check_finite, is_traced
from kosambi._core.parameters import Configurable
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.errors import InputError

Instance = TypeVar("Instance", bound="AbstractSpecification")


class Rescaled(NamedTuple):
    """A likelihood of z that has become one of y = location + scale·z, and what became of f."""

    likelihood: Any
    """The likelihood of y."""
    location: float
    """Its latent function is location + scale·f; 0 where f has no unit."""
    scale: float
    """1 where f has no unit."""


class AbstractSpecification(Configurable):
    """What a likelihood says of itself. Subclass `AbstractLikelihood`, which adds what follows from it."""

    # Required.

    @abc.abstractmethod
    def raw_cost(self, y: Array, f: Array) -> Array:
        """c(y, f) = −log p(y | f), elementwise, for observations that `check` has let pass; traceable.

        Write it with `jax.numpy`. With C latent functions f has a last axis of length C, which the cost has not.
        """

    @property
    @abc.abstractmethod
    def is_convex(self) -> bool:
        """Whether c(y, ·) is convex for every y, so that the density is log-concave and the posterior has one mode."""

    # Observations.

    def check(self, y: ArrayLike) -> Float[Array, " N"]:
        """`y` as a float64 vector, or an `InputError` that says which values are not possible.

        Any finite numbers are, unless this is replaced; `as_labels` and `check_values` below are for that.
        """
        return as_observations(type(self).__name__, y)

    @property
    def is_density(self) -> bool:
        """Whether exp(−c) is a normalised density of y; False for a loss, which has no predictive distribution."""
        return True

    @property
    def num_labels(self) -> int | None:
        """How many labels there are, where observations are labels 0, 1, …; None where they are not."""
        return None

    @property
    def is_binary(self) -> bool:
        """Whether P(y = 1) says all: predictions then give this one probability in place of a table of labels."""
        return False

    @property
    def is_discrete(self) -> bool:
        """Whether observations are whole numbers, labels or counts, so that exp(−c) is a probability."""
        return self.num_labels is not None

    @property
    def lowest(self) -> float:
        """The smallest observation that is possible."""
        return -np.inf

    # Latent functions.

    @property
    def num_latents(self) -> int:
        """C, how many latent functions one observation depends on. They have one prior, independently."""
        return 1

    @property
    def is_even(self) -> bool:
        """Whether c(y, −f) = c(y, f) for every y, so that a posterior with a prior of mean zero has two signs."""
        return False

    # How smooth the cost is: bounds on divergences, the number of quadrature nodes, curvatures.

    @property
    def lipschitz(self) -> float | None:
        """sup |∂c/∂f|, the Lipschitz constant of one observation's cost; None if there is none."""
        return None

    @property
    def curvature_bound(self) -> float | None:
        """An upper bound L on c'' where the cost is convex, 0 ≤ c'' ≤ L; None if there is none."""
        return None

    def curvature_range(self, y: np.ndarray) -> tuple[Array | float, Array | float] | None:
        """Between which numbers c''(y, ·) lies, one pair for each y or for all; None where it has no bounds.

        With C latent functions, between which the trace of the second derivatives lies.
        """
        return None if self.curvature_bound is None or not self.is_convex else (0.0, self.curvature_bound)

    def has_pole(self, y: np.ndarray) -> np.ndarray:
        """Whether c(y, ·) is infinite at some finite f, elementwise."""
        return np.zeros(np.shape(y), dtype=bool)

    @property
    def strip(self) -> float:
        """Half-width of the strip around the real line in which c(y, ·) is analytic; one if it is not said.

        Quadrature has as many nodes as this asks for, and `target.quadrature_error` tells whether they were enough.
        Infinite for a cost without a singularity whose expectations are closed forms.
        """
        return 1.0

    @property
    def blur(self) -> Array | float:
        """Standard deviation over which f is averaged before a curvature is taken; above zero for costs with kinks."""
        return 0.0

    # The distribution of an observation given f. Without them there are densities, and summaries of f.

    def raw_mean(self, f: Array) -> Array:
        """E[y | f], traceable; needed with `raw_variance` for the mean and the variance of an observation."""
        raise self.no_density("an observation mean")

    def raw_variance(self, f: Array) -> Array:
        """Var[y | f], traceable."""
        raise self.no_density("an observation variance")

    def raw_draw(self, key: Key, f: Array) -> Array:
        """One observation drawn for each f, traceable."""
        raise self.no_density("draws of observations")

    def cdf(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """P(observation ≤ y | f), the cumulative distribution function, elementwise.

        Quantiles and intervals need it, labels do not. With NumPy and SciPy, whose special functions are the fastest.
        """
        raise InputError(
            f"`{type(self).__name__}` has no cumulative distribution function, so there are no quantiles. Write `cdf`, "
            "use a likelihood that has one, or look at `posterior.functions(key)` and the summaries of f."
        )

    # Learning: what its parameters can be, and where a search begins.

    supports: ClassVar[Mapping[str, str]] = {}
    """Which values a parameter can take where it is learned: "positive" (unless said otherwise), "real", "unit"
    (between 0 and 1), "increasing", or "fixed" for one that is never learned."""

    def raw_rough_latent(self, y: Array) -> Array:
        """Latent values at which y is not unlikely, (N,) or (N, C), for the start of a search; traceable.

        Scales and starts of hyperparameters are taken from them too. All zero says that nothing is known.
        """
        return jnp.zeros((*jnp.shape(y), *([self.num_latents] if self.num_latents > 1 else [])))

    def started_from(self: Instance, y: np.ndarray, share: float, deviation: float) -> Instance:
        """The likelihood with parameters of the right size for y, where a search for better ones may begin.

        Itself where there are none, or where what was given is the best guess.

        Arguments:
            y: the observations.
            share: noise, as a part of the standard deviation of the latent values; several are tried.
            deviation: that standard deviation.
        """
        del y, share, deviation
        return self

    def in_units(self, location: float, scale: float) -> Rescaled | None:
        """The likelihood of location + scale·z, where this is the one of z; None if it has no such form.

        Estimators standardise observations where there is one.
        """
        del location, scale
        return None

    @property
    def num_rows(self) -> int | None:
        """How many observations it is for, where a parameter has one value for each; None where it has not."""
        return None

    def at_rows(self: Instance, rows: Any) -> Instance:
        """The likelihood of some of those observations, by their numbers or a slice; itself for any number of them."""
        del rows
        return self

    # Names.

    short_name: ClassVar[str | None] = None
    """What estimators and the command line call it, such as "poisson"; None if it is to be given as an object."""

    @classmethod
    def standard(cls: type[Instance]) -> Instance:
        """What the short name stands for: parameters for standardised observations, where a search begins."""
        return cls()

    # Errors.

    def no_density(self, what: str) -> InputError:
        """The error to raise where `what` is asked for and the likelihood does not know it."""
        if self.is_density:
            return InputError(
                f"`{type(self).__name__}` knows the density of one observation, and cannot give {what}. Use "
                "`log_predictive_density`, or the summaries of f."
            )
        return InputError(
            f"`{type(self).__name__}` is a loss without a density of y, so there is no such thing as {what}. "
            "Use a likelihood with a density, for example `StudentT` in place of `Huber`."
        )


def as_observations(name: str, y: ArrayLike) -> Float[Array, " N"]:
    """A vector of finite observations, at least one; `name` is that of the likelihood, for messages."""
    array = as_float_array("y", y)
    if array.ndim != 1:
        raise InputError(
            f"`{name}` needs y of shape (N,). Got shape {array.shape}. Write `np.ravel(y)` for one column; "
            "for several outputs see `kosambi.outputs`."
        )
    if array.shape[0] == 0:
        raise InputError(f"`{name}` needs at least one observation. Got an empty y.")
    check_finite("y", array)
    return array


def as_labels(name: str, y: ArrayLike, num_labels: int, remedy: str) -> Float[Array, " N"]:
    """Labels 0, 1, …, `num_labels` − 1."""
    array, last = as_observations(name, y), num_labels - 1
    allowed = (array >= 0) & (array <= last) & (array == np.round(array))
    return check_values(name, array, allowed, f"in {{0, ..., {last}}}", remedy)


def check_values(name: str, y: Array, allowed: Array, needed: str, remedy: str) -> Array:
    """Refuse observations outside the range of a likelihood, showing a few of them."""
    if not is_traced(y) and not np.all(allowed):
        bad = np.unique(np.asarray(y)[~np.asarray(allowed)])
        shown = ", ".join(f"{value:g}" for value in bad[:4]) + (", ..." if bad.size > 4 else "")
        raise InputError(f"`{name}` needs y {needed}. Got values {shown}. {remedy}")
    return y
