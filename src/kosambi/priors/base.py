"""What the two priors share: a mean, a covariance function r, and checked calls."""

from __future__ import annotations

import abc
from typing import Any

import numpy as np
from jaxtyping import Float

from kosambi._core.errors import InputError, as_inputs
from kosambi._core.parameters import Configurable
from kosambi._core.precision import compiled, public
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.kernels import AbstractKernel
from kosambi.priors.functions.draws import evaluate_mean
from kosambi.priors.functions.expansions import AbstractExpansion


class AbstractPrior(Configurable):
    """A Gaussian law over functions with a mean and a covariance function r."""

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
        return _pairwise(self, x, x if z is None else self._checked(z, "z", x.shape[1]))

    @public
    def variance(self, x: ArrayLike) -> Float[Array, " N"]:
        """The prior variances r(x_n, x_n), (N,)."""
        return _pointwise(self, self._checked(x))

    @public
    def mean_at(self, x: ArrayLike) -> Float[Array, " N"]:
        """The prior mean m(x_n), (N,)."""
        return evaluate_mean(self.mean, self._checked(x))

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
