"""Acquisition from functions drawn from a posterior, whatever its likelihood: improvement on draws, Thompson's rule.

Thompson's rule (Thompson 1933) observes where a function drawn from the posterior is largest.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_count, as_float_array, as_inputs, check_key
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.acquisition.base import AbstractAcquisition
from kosambi.acquisition.optimise import as_box, maximize
from kosambi.errors import InputError
from kosambi.posterior import Posterior
from kosambi.priors import FunctionDraws


class DrawnImprovement(AbstractAcquisition):
    """The mean over J drawn functions of max(F_j(x) − best_j, 0).

    Flat where no draw improves: take some hundred draws. For any posterior of one latent function, neighbours included.

    Arguments:
        draws: `posterior.functions(key)`.
        x: (N, D), the inputs seen, at the best of which each draw is what it is to improve upon ("noisy" expected
            improvement, Letham et al. 2019).
        best: a number, or (J,), in the place of that.

    >>> import jax, numpy as np, kosambi as ko
    >>> x, gaussian = np.array([[0.0], [0.4], [1.0]]), ko.likelihoods.Gaussian(0.01)
    >>> posterior = ko.infer(jax.random.key(0), ko.kernels.Matern52(0.3), gaussian, x, [0.0, 1.0, -1.0])
    >>> improvement = ko.acquisition.DrawnImprovement(posterior.functions(jax.random.key(1)), x)
    >>> improvement([[0.3], [0.4]]).round(2)[1]
    0.0
    """

    draws: FunctionDraws
    best: Float[Array, "..."]
    incumbent: Float[Array, "T D"]

    def __init__(self, draws: FunctionDraws, x: ArrayLike, best: ArrayLike | None = None) -> None:
        self.draws = _one_latent(draws)
        x = np.asarray(as_inputs("x", x, draws.num_columns))
        values = np.asarray(draws(x))
        self.incumbent = x[[int(np.argmax(values.mean(axis=0)))]]
        self.best = values.max(axis=1) if best is None else np.asarray(as_float_array("best", best))
        if self.best.shape not in ((), (len(draws),)):
            raise InputError(f"`best` must be a number, or one for each of {len(draws)} draws. Got {self.best.shape}.")

    def value(self, x: Float[Array, "n D"]) -> Float[Array, " n"]:
        """The mean over the draws."""
        return jnp.mean(jnp.maximum(self.draws(x) - jnp.reshape(self.best, (-1, 1)), 0.0), axis=0)


class DrawnFunction(AbstractAcquisition):
    """One drawn function itself, which Thompson's rule maximises.

    Arguments:
        draws: functions of one latent function, of which the first is taken.
        x: (N, D), the inputs seen.

    >>> import jax, kosambi as ko
    >>> prior = ko.GaussianProcess(ko.kernels.Matern52(0.3))
    >>> one = prior.draw(jax.random.key(0), num_draws=1, num_columns=1)
    >>> bool(ko.acquisition.DrawnFunction(one, [[0.0]])([[0.5]])[0] == one([[0.5]])[0, 0])
    True
    """

    draws: FunctionDraws
    incumbent: Float[Array, "T D"]

    def __init__(self, draws: FunctionDraws, x: ArrayLike) -> None:
        self.draws = _one_latent(draws)[:1]
        x = np.asarray(as_inputs("x", x, draws.num_columns))
        self.incumbent = x[[int(np.argmax(np.asarray(self.draws(x))[0]))]]

    def value(self, x: Float[Array, "n D"]) -> Float[Array, " n"]:
        """F(x)."""
        return self.draws(x)[0]


def thompson(
    key: Key, posterior: Posterior, bounds: ArrayLike, num_inputs: int = 1, **options: Any
) -> Float[np.ndarray, "B D"]:
    """Where `num_inputs` functions drawn from the posterior are largest in a box: (B, D), a batch to observe together.

    Arguments:
        key: a JAX random key.
        posterior: of one latent function.
        bounds: (2, D), the lowest and the highest input of each column.
        num_inputs: B, at most as many as the posterior has draws.
        options: others of `maximize`.

    >>> import jax, numpy as np, kosambi as ko
    >>> x, gaussian = np.array([[0.0], [0.4], [1.0]]), ko.likelihoods.Gaussian(0.01)
    >>> posterior = ko.infer(jax.random.key(0), ko.kernels.Matern52(0.3), gaussian, x, [0.0, 1.0, -1.0])
    >>> ko.acquisition.thompson(jax.random.key(1), posterior, [[0.0], [1.0]], 3).shape
    (3, 1)
    """
    if not isinstance(posterior, Posterior):
        raise InputError(f"`thompson` needs a `Posterior`. Got {type(posterior).__name__}.")
    number = as_count("num_inputs", num_inputs, at_most=posterior.num_particles, limit_name="the number of draws")
    key_draw, *keys = jax.random.split(check_key(key), number + 1)
    box = as_box(bounds, posterior.target.x.shape[1])
    draws = posterior.functions(key_draw, domain=box)
    assert isinstance(draws, FunctionDraws)
    which = np.linspace(0, posterior.num_particles - 1, number).round().astype(int)
    rows = np.asarray(posterior.target.x)
    chosen = [DrawnFunction(draws[int(j)], rows) for j in which]
    return np.stack([maximize(own, each, box, **options).x for own, each in zip(keys, chosen, strict=True)])


def _one_latent(draws: object) -> FunctionDraws:
    if not isinstance(draws, FunctionDraws) or draws.num_latents != 1:
        raise InputError(
            "`draws` must be functions from `posterior.functions(key)` with one latent function. Got "
            f"{type(draws).__name__}."
        )
    return draws
