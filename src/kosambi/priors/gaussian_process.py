"""A Gaussian process: the covariance function r is given directly."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_count, as_inputs, check_key, is_traced
from kosambi._core.linalg import count_above, eigh_decreasing
from kosambi._core.precision import compiled, public, warn_once_if_single
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.errors import InputError
from kosambi.kernels import AbstractKernel
from kosambi.kernels.tiles import diagonal, gram
from kosambi.priors.base import AbstractPrior, as_kernel, as_mean
from kosambi.priors.functions.draws import FunctionDraws
from kosambi.priors.functions.expansions import AbstractExpansion, KernelExpansion
from kosambi.priors.functions.features import draw_expansions, expand, shared_covariance_error
from kosambi.priors.functions.spectra import draw_spectra

# Eigenvalues of r(at, at) below this part of the largest are left out of a dense draw.
_DENSE_TOLERANCE = 1e-12


class GaussianProcess(AbstractPrior):
    """F ~ GP(mean, kernel): the kernel is the covariance function r itself.

    Arguments:
        kernel: the covariance function.
        mean: a number, or a callable from (N, D) to (N,).

    >>> import kosambi as ko
    >>> prior = ko.GaussianProcess(ko.kernels.Matern52(variance=4.0), mean=1.0)
    >>> prior.variance([[0.0], [7.0]]), prior.mean_at([[0.0]])
    (array([4., 4.]), array([1.]))
    """

    def __init__(self, kernel: AbstractKernel, mean: ArrayLike | Callable[[Array], ArrayLike] = 0.0) -> None:
        self.kernel = as_kernel("GaussianProcess", kernel)
        self.mean = as_mean(mean)

    @property
    def num_columns(self) -> int | None:
        """None: a kernel does not say how many columns there are."""
        return None

    def pairwise(self, x: Float[Array, "N D"], z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        """The kernel."""
        return self.kernel.pairwise(x, z)

    def pointwise(self, x: Float[Array, "N D"]) -> Float[Array, " N"]:
        """The kernel's diagonal."""
        return self.kernel.pointwise(x)

    def _pairwise(self, x: Float[Array, "N D"], z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        return gram(self.kernel, x, z)

    def _pointwise(self, x: Float[Array, "N D"]) -> Float[Array, " N"]:
        return diagonal(self.kernel, x)

    @public
    def draw(
        self,
        key: Key,
        num_draws: int = 1,
        *,
        num_columns: int | None = None,
        num_features: int = 512,
        shared_features: bool = False,
        at: ArrayLike | None = None,
    ) -> FunctionDraws:
        """`num_draws` functions from the prior, callable anywhere.

        By random Fourier features where the kernel is made of stationary and finite-rank kernels: at every single
        input the distribution is exact, and so is the covariance of any two values; joint moments of order four are off
        by O(1/num_features). See `kosambi.priors.functions.features`. With `at=...`, which other kernels require, by a
        dense factorisation: exact at the rows of `at`, and elsewhere the conditional mean given those values.

        Arguments:
            key: a JAX random key.
            num_draws: J.
            num_columns: D; the smallest number that fits the kernel when None.
            num_features: R, the number of random frequencies.
            shared_features: use the same frequencies for all draws. Faster, but then their covariance is off by
                `shared_feature_error`, however many draws there are.
            at: (A, D), where dense draws are exact; O(A³) time.

        >>> import jax, kosambi as ko
        >>> prior = ko.GaussianProcess(ko.kernels.Matern52() + ko.kernels.Linear())
        >>> prior.draw(jax.random.key(0), num_draws=2)([[0.0], [1.0], [2.0]]).shape
        (2, 3)
        """
        key, num_draws = check_key(key), as_count("num_draws", num_draws)
        num_features = as_count("num_features", num_features)
        if is_traced(key):
            warn_once_if_single("A prior draw is made")
        if at is not None:
            if shared_features:
                raise InputError("Dense draws (`at=...`) have no features to share. Leave out one of the two.")
            points = as_inputs("at", at, num_columns)
            self.check_columns(points.shape[1])
            expansion = _dense_draw(key, self.kernel, points, num_draws)
            return FunctionDraws(self.mean, (expansion,), points.shape[1])
        terms = expand(self.kernel)
        if terms is None:
            raise InputError(
                f"`{type(self.kernel).__name__}` has no random features, so draws need to know where they must be "
                "exact. Pass `at=x` with the inputs at which you will evaluate them."
            )
        columns = self.kernel.min_columns if num_columns is None else as_count("num_columns", num_columns)
        self.check_columns(columns)
        return FunctionDraws(
            self.mean, _feature_draw(key, terms, num_draws, num_features, columns, bool(shared_features)), columns
        )

    def accurate_parts(
        self, key: Key, num_draws: int, extent: Float[np.ndarray, " D"], at: Array | None = None
    ) -> tuple[AbstractExpansion, ...]:
        """Spectra on a grid (`kosambi.priors.functions.spectra`), or a dense draw at the rows of `at`."""
        if at is not None:
            return (_dense_draw(key, self.kernel, at, num_draws),)
        terms = expand(self.kernel)
        if terms is None:
            raise InputError(
                f"`{type(self.kernel).__name__}` has no random features, so draws need to know where they must be "
                "exact. Pass `at=x_new` with the inputs at which you will evaluate them."
            )
        return draw_spectra(key, terms, num_draws, len(extent), extent)

    @public
    def shared_feature_error(self, x: ArrayLike, z: ArrayLike, num_features: int) -> Float[Array, "N M"]:
        """Standard deviation of the covariance that draws with `shared_features=True` have, around r(x, z).

        >>> import kosambi as ko
        >>> prior = ko.GaussianProcess(ko.kernels.SquaredExponential())
        >>> prior.shared_feature_error([[0.0]], [[0.0], [9.0]], num_features=800).round(4)
        array([[0.   , 0.025]])
        """
        terms = expand(self.kernel)
        if terms is None:
            raise InputError(f"`{type(self.kernel).__name__}` has no random features, so none can be shared.")
        x = self._checked(x)
        z = self._checked(z, "z", x.shape[1])
        return _shared_error(terms, x, z, as_count("num_features", num_features))


_feature_draw = compiled(draw_expansions)
_shared_error = compiled(shared_covariance_error)


def _dense_draw(key: Key, kernel: AbstractKernel, points: Array, num_draws: int) -> KernelExpansion:
    if is_traced((key, kernel, points)):
        raise InputError("Dense draws (`at=...`) choose how many eigenpairs to keep, which a JAX trace cannot do.")
    values, vectors = eigh_decreasing(kernel(points))
    kept = count_above(values, _DENSE_TOLERANCE)
    return KernelExpansion(kernel, points, _dense_coefficients(key, values, vectors, kept, num_draws))


@compiled
def _dense_coefficients(key: Key, values: Array, vectors: Array, kept: int, num_draws: int) -> Float[Array, "J A"]:
    # F(at) = V √D ξ, and r(at, at)⁻¹ F(at) = V ξ/√D are the coefficients of its conditional mean.
    normal = jax.random.normal(key, (num_draws, kept))
    return normal / jnp.sqrt(values[:kept]) @ vectors[:, :kept].T
