r"""`AbstractLikelihood`: a specification, what follows from it, and the calls that check and compile.

Three layers: what is written (`specification`), what is derived (`expectations`, `predictive`, `marginals`), and here
what is called. A new likelihood subclasses `AbstractLikelihood` in a file of its own, and is listed in
`kosambi.likelihoods`.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_float_array, check_key, is_traced
from kosambi._core.precision import compiled, public
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.errors import InputError
from kosambi.likelihoods.marginals import AbstractMarginals
from kosambi.likelihoods.quadrature import FEWEST_NODES, Rule, trapezoidal

# Nodes that predictive densities are compiled for.
_DENSITY_COUNTS = (136, 544, 2176, 8704)


class AbstractLikelihood(AbstractMarginals):
    """How observations depend on the latent function: a cost c(y, f) = −log p(y | f), and all that follows from it.

    A likelihood of your own needs two members, and a third unless any finite number can be observed:

    * `raw_cost(y, f)`: the cost of one observation, in plain JAX, elementwise, constants included;
    * `is_convex`: whether it is convex in f;
    * `check(y)`: the observations as a float64 vector, or an error that says which are not possible.

    Parameters are fields that hold arrays, and are learned unless `supports` says "fixed". With these alone there are
    draws of functions, summaries of f, predictive densities and, for labels (`num_labels`), probabilities. More comes
    with

    * `raw_mean`, `raw_variance`: mean and variance of an observation; `raw_draw`: draws of them;
    * `cdf`: quantiles and intervals; with `is_discrete` and `lowest` for counts;
    * `strip`: as many quadrature nodes as needed; `lipschitz`, `curvature_range`: proven bounds in the certificate;
    * `raw_rough_latent`, `started_from`: better starts of searches; `in_units`: standardised observations;
    * `short_name`, `standard`: a name for estimators and the command line.

    A closed form replaces what is derived otherwise: `raw_derivative`, `raw_second_derivative`, `raw_expected_cost`,
    `raw_moments`, `raw_log_predictive`, `predictive_cdf` and the like.

    >>> import jax, jax.numpy as jnp, numpy as np, kosambi as ko
    >>> class Logistic(ko.likelihoods.AbstractLikelihood):
    ...     '''y = f + logistic noise.'''
    ...
    ...     is_convex = True
    ...
    ...     def raw_cost(self, y, f):
    ...         return y - f + 2.0 * jax.nn.softplus(f - y)
    >>> x = np.linspace(0.0, 1.0, 20)[:, None]
    >>> posterior = ko.infer(jax.random.key(0), ko.kernels.Matern52(), Logistic(), x, np.sin(x[:, 0]), num_inducing=5)
    >>> posterior.log_predictive_density(x[:2], [0.0, 0.1]).shape
    (2,)
    """

    @public
    def cost(self, y: ArrayLike, f: ArrayLike) -> Float[Array, "..."]:
        """c(y, f), constants included. Values of y are not checked, so that it can be probed anywhere."""
        return _elementwise(self, "raw_cost", *self._arguments_of_cost(y, f))

    @public
    def derivative(self, y: ArrayLike, f: ArrayLike) -> Float[Array, "..."]:
        """∂c/∂f; with C latent functions the gradient, (..., C)."""
        return _elementwise(self, "raw_derivative", *self._arguments_of_cost(y, f))

    @public
    def second_derivative(self, y: ArrayLike, f: ArrayLike) -> Float[Array, "..."]:
        """∂²c/∂f²; with C latent functions the Hessian, (..., C, C)."""
        return _elementwise(self, "raw_second_derivative", *self._arguments_of_cost(y, f))

    @public
    def curvature(self, y: ArrayLike, f: ArrayLike) -> Float[Array, "..."]:
        """A positive semi-definite curvature: the Hessian of a convex cost, Fisher or clipped otherwise."""
        return _elementwise(self, "raw_curvature", *self._arguments_of_cost(y, f))

    @public
    def expected_cost(
        self, y: ArrayLike, mean: ArrayLike, deviation: ArrayLike, *, num_nodes: int | None = None
    ) -> Float[Array, "..."]:
        """E c(y, f) for f ~ N(mean, deviation²): closed form, or quadrature.

        Arguments:
            y: observations.
            mean: of f, (..., C) with C latent functions.
            deviation: the standard deviation of f.
            num_nodes: of the quadrature; chosen from the largest deviation and the likelihood's `strip` when None.
        """
        y, mean, deviation = self._arguments_of_integral(y, mean, deviation)
        return _expected_cost(self, y, mean, deviation, self.rule(deviation, num_nodes))

    @public
    def log_density(self, y: ArrayLike, f: ArrayLike) -> Float[Array, "..."]:
        """log p(y | f) = −c(y, f). Refused for a loss that is no density."""
        if not self.is_density:
            raise self.no_density("a log density")
        return -self.cost(y, f)

    @public
    def observation_mean(self, f: ArrayLike) -> Float[Array, "..."]:
        """E[y | f]; for `Categorical` the class probabilities, (..., C)."""
        return _of_latent(self, "raw_mean", as_float_array("f", f))

    @public
    def observation_variance(self, f: ArrayLike) -> Float[Array, "..."]:
        """Var[y | f]; for `Categorical` that of each class, (..., C)."""
        return _of_latent(self, "raw_variance", as_float_array("f", f))

    @public
    def draw(self, key: Key, f: ArrayLike) -> Float[Array, "..."]:
        """One observation for each value of the latent function."""
        return _draw(self, check_key(key), as_float_array("f", f))

    @public
    def log_predictive_density(self, y: ArrayLike, mean: ArrayLike, deviation: ArrayLike) -> Float[Array, "..."]:
        """log ∫ p(y | f) N(f; mean, deviation²) df: closed form, or quadrature with nodes where the integrand lies."""
        if not self.is_density:
            raise self.no_density("a predictive density")
        arrays = self._arguments_of_integral(y, mean, deviation)
        deviation = arrays[2]
        # Under a trace the deviations are not known yet, so more nodes than most models need.
        count = 544 if is_traced(deviation) else int(np.max(self.density_nodes(deviation), initial=FEWEST_NODES))
        # More than are needed, so that few numbers of nodes are compiled for.
        count = next((few for few in _DENSITY_COUNTS if few >= count), count)
        return _log_predictive(self, *arrays, trapezoidal(count))

    def _arguments_of_cost(self, y: ArrayLike, f: ArrayLike) -> tuple[Array, Array]:
        y, f = as_float_array("y", y), as_float_array("f", f)
        self._check_shapes("f", f, y=y)
        return y, f

    def _arguments_of_integral(self, y: ArrayLike, mean: ArrayLike, deviation: ArrayLike) -> tuple[Array, Array, Array]:
        y, mean, deviation = (
            as_float_array("y", y),
            as_float_array("mean", mean),
            as_float_array("deviation", deviation),
        )
        if not is_traced(deviation) and not np.all(np.isfinite(deviation) & (deviation >= 0)):
            raise InputError(
                "`deviation` must be finite and not negative. Got values from "
                f"{float(np.min(deviation)):g} to {float(np.max(deviation)):g}. Give the standard deviations of f."
            )
        self._check_shapes("mean", mean, y=y, deviation=deviation)
        return y, mean, deviation

    def _check_shapes(self, name: str, latent: Array, **others: Array) -> None:
        """Refuse arrays that do not go together, one for each observation."""
        shape, several = np.shape(latent), self.num_latents
        if several > 1 and shape[-1:] != (several,):
            raise InputError(
                f"`{type(self).__name__}` has {several} latent functions, so `{name}` needs a last axis of length "
                f"{several}. Got shape {shape}."
            )
        shapes = {name: shape[:-1] if several > 1 else shape} | {key: np.shape(v) for key, v in others.items()}
        if self.num_rows is not None:
            shapes["noise"] = (self.num_rows,)
        try:
            np.broadcast_shapes(*shapes.values())
        except ValueError as error:
            shown = ", ".join(f"{key} {value}" for key, value in shapes.items())
            raise InputError(
                f"`y` and `{name}` must have one number for each observation. Got shapes {shown}, which do not go "
                "together. Give arrays of the same shape, or single numbers."
            ) from error

    def distribution(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """Deprecated name of `cdf`."""
        _warn_of_distribution(stacklevel=3)
        return self.cdf(y, f)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "distribution" in vars(cls):
            # A class that was written for version 0.1.0.
            _warn_of_distribution(stacklevel=4)
            if "cdf" not in vars(cls):
                cls.cdf = vars(cls)["distribution"]  # type: ignore[method-assign]


def _warn_of_distribution(stacklevel: int) -> None:
    warnings.warn(
        "`distribution` of a likelihood is now called `cdf`.",
        DeprecationWarning,
        stacklevel=stacklevel,
    )


@compiled
def _elementwise(likelihood: AbstractLikelihood, name: str, y: Array, f: Array) -> Array:
    return getattr(likelihood, name)(y, f)


@compiled
def _expected_cost(likelihood: AbstractLikelihood, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
    return likelihood.raw_expected_cost(y, mean, deviation, rule)


@compiled
def _of_latent(likelihood: AbstractLikelihood, name: str, f: Array) -> Array:
    return getattr(likelihood, name)(f)


@compiled
def _draw(likelihood: AbstractLikelihood, key: Key, f: Array) -> Array:
    return likelihood.raw_draw(key, f)


@compiled
def _log_predictive(likelihood: AbstractLikelihood, y: Array, mean: Array, deviation: Array, rule: Rule) -> Array:
    return likelihood.raw_log_predictive(y, mean, deviation, rule)
