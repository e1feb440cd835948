"""What the two priors share: a mean, a covariance function r, and checked calls."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_float_array, as_inputs, finite_rows, is_traced
from kosambi._core.parameters import Configurable
from kosambi._core.precision import Module, compiled, public
from kosambi._core.representation import shown_value
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.errors import InputError
from kosambi.kernels import AbstractKernel
from kosambi.priors.functions.expansions import AbstractExpansion


class AbstractPrior(Configurable):
    """A Gaussian distribution over functions with a mean and a covariance function r."""

    kernel: AbstractKernel
    mean: Any

    @abc.abstractmethod
    def pairwise(self, x: Float[Array, "N D"], z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        """r(x, z), traceable, for checked inputs."""

    @abc.abstractmethod
    def pointwise(self, x: Float[Array, "N D"]) -> Float[Array, " N"]:
        """r(x, x), traceable, for checked inputs."""

    @abc.abstractmethod
    def accurate_parts(
        self, key: Key, num_draws: int, extent: Float[np.ndarray, " D"], at: Array | None = None
    ) -> tuple[AbstractExpansion, ...]:
        """J draws with mean zero that are jointly normal, with a covariance good enough to condition them on values.

        `extent` is the width of the data in each column; `at`, (A, D), where draws must be exact if the kernel has no
        spectrum. For concrete arguments.
        """

    @property
    @abc.abstractmethod
    def num_columns(self) -> int | None:
        """D, or None while any number of columns fits."""

    def check_columns(self, num_columns: int) -> None:
        """Raise `InputError` if inputs with `num_columns` columns do not fit."""
        self.kernel.check_columns(num_columns)

    @public
    def covariance(self, x: ArrayLike, z: ArrayLike | None = None) -> Float[Array, "N M"]:
        """The prior covariance r, (N, M), of F(x) with F(z), or with itself."""
        x = self._checked(x)
        found = self._pairwise(x, x if z is None else self._checked(z, "z", x.shape[1]))
        return finite_rows("covariance", found, x)

    @public
    def variance(self, x: ArrayLike) -> Float[Array, " N"]:
        """The prior variances r(x_n, x_n), (N,)."""
        x = self._checked(x)
        return finite_rows("variance", self._pointwise(x), x)

    @public
    def mean_at(self, x: ArrayLike) -> Float[Array, " N"]:
        """The prior mean m(x_n), (N,)."""
        return evaluate_mean(self.mean, self._checked(x))

    def _pairwise(self, x: Float[Array, "N D"], z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        return _pairwise(self, x, z)

    def _pointwise(self, x: Float[Array, "N D"]) -> Float[Array, " N"]:
        return _pointwise(self, x)

    def _checked(self, x: ArrayLike, name: str = "x", num_columns: int | None = None) -> Array:
        array = as_inputs(name, x, num_columns or self.num_columns, allow_empty=True)
        self.check_columns(array.shape[1])
        return array


def as_kernel(owner: str, kernel: object) -> AbstractKernel:
    """Refuse anything but a kernel."""
    if not isinstance(kernel, AbstractKernel):
        raise InputError(
            f"`{owner}` needs a kernel from `kosambi.kernels`. Got {type(kernel).__name__}. "
            "For example `kosambi.kernels.Matern52(lengthscale=0.5)`."
        )
    return kernel


@compiled
def _pairwise(prior: AbstractPrior, x: Array, z: Array) -> Array:
    return prior.pairwise(x, z)


@compiled
def _pointwise(prior: AbstractPrior, x: Array) -> Array:
    return prior.pointwise(x)


class MeanFunction(Module):
    """A plain function as a prior mean, kept out of the leaves so that its owner stays a pytree of arrays."""

    function: Callable[[Array], ArrayLike] = eqx.field(static=True)

    def __call__(self, x: Array) -> ArrayLike:
        """The function itself."""
        return self.function(x)

    def __repr__(self) -> str:
        return shown_value(self.function)


class Named(Module):
    """A function with a name, as a prior mean that can be saved: files hold the name and no code.

    Arguments:
        name: what `kosambi.load(path, custom={name: function})` will find it under.
        function: a callable from (N, D) to (N,), written with `jax.numpy`.

    >>> import kosambi as ko
    >>> prior = ko.GaussianProcess(ko.kernels.Matern52(), mean=ko.Named("trend", lambda x: 2.0 * x[:, 0]))
    >>> prior.mean_at([[1.0], [3.0]])
    array([2., 6.])
    """

    name: str = eqx.field(static=True)
    function: Callable[[Array], ArrayLike] = eqx.field(static=True)

    def __init__(self, name: str, function: Callable[[Array], ArrayLike]) -> None:
        if not isinstance(name, str) or not name:
            raise InputError(f"`Named` needs a name first, as in `Named('trend', function)`. Got {name!r}.")
        if not callable(function):
            raise InputError(f"`Named({name!r}, ...)` needs a function. Got {type(function).__name__}.")
        self.name, self.function = name, function

    def __call__(self, x: Array) -> ArrayLike:
        """The function itself."""
        return self.function(x)


class OutputMean(Module):
    """A prior mean for each of several outputs, whose number is in a column of the inputs.

    Arguments:
        values: (P,), one for each output; learned by `fit_hyperparameters` unless frozen.
        column: the input column that holds the number of the output; from the end if negative.

    >>> import kosambi as ko
    >>> prior = ko.GaussianProcess(ko.kernels.Matern52(active_dims=[0]), mean=ko.priors.OutputMean([1.0, 20.0]))
    >>> prior.mean_at([[0.3, 0.0], [0.3, 1.0]])
    array([ 1., 20.])
    """

    values: Float[Array, " P"]
    column: int = eqx.field(static=True)

    def __init__(self, values: ArrayLike, column: int = -1) -> None:
        self.values, self.column = as_float_array("OutputMean(values=...)", values), int(column)
        if self.values.ndim != 1 or not (is_traced(self.values) or np.all(np.isfinite(self.values))):
            raise InputError(f"`OutputMean(values=...)` must be one finite number for each output. Got {values!r}.")

    def __call__(self, x: Float[Array, "N D"]) -> Float[Array, " N"]:
        """The mean of the output of each row."""
        numpy = jnp if is_traced((self, x)) else np
        away = numpy.abs(x[:, self.column, None] - numpy.arange(self.values.shape[0]))
        return numpy.where(away < 0.5, 1.0, 0.0) @ self.values


def as_mean(mean: Any) -> Any:
    """A checked prior mean: a finite number as a float64 array, or a callable as it is."""
    if isinstance(mean, eqx.Module):
        return mean
    if callable(mean):
        return MeanFunction(mean)
    value = as_float_array("mean", mean)
    if value.ndim != 0 or not (is_traced(value) or np.isfinite(value)):
        raise InputError(f"`mean` must be a finite number or a callable from (N, D) to (N,). Got {mean!r}.")
    return value


def evaluate_mean(mean: Any, x: Float[Array, "N D"]) -> Float[Array, " N"]:
    """The prior mean at the rows of `x`."""
    if not callable(mean):
        return jnp.broadcast_to(mean, (x.shape[0],)) if is_traced(mean) else np.broadcast_to(mean, (x.shape[0],))
    value = as_float_array("mean(x)", mean(x))
    if value.shape != (x.shape[0],):
        raise InputError(
            f"`mean` must map inputs of shape (N, D) to N numbers. For shape {x.shape} it returned shape "
            f"{value.shape}. Return one number per row, for example `lambda x: x[:, 0]`."
        )
    return value
