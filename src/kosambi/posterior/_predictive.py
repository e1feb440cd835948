r"""From particles to predictions: the distribution of f at new inputs, in blocks of them.

Given the coordinates, f(x) ~ N(m(x) + ψ(x)ᵀw, σ²(x)) with the residual variance σ² of the basis. Over J particles that
is a mixture of J normal components with one standard deviation per input; where the distribution of w is known,
N(μ, RRᵀ), it is the one normal distribution with mean m + ψᵀμ and variance σ² + |Rᵀψ|². With potential="neighbors" the
sites of the m rows nearest to x, of all rows, inform the residual: b, ψ̌ and D stand in the places of m, ψ and σ²
(`kosambi.target.neighborhood`).
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_inputs, as_positive, check_rows, is_traced
from kosambi._core.linalg import host_blocks
from kosambi._core.precision import compiled, lift, public
from kosambi._core.types import Array, ArrayLike
from kosambi.basis import AbstractBasis
from kosambi.basis.base import Explained
from kosambi.errors import InputError, SupportWarning
from kosambi.likelihoods import AbstractLikelihood, Gaussian
from kosambi.posterior.prediction import Prediction
from kosambi.priors import GaussianRandomElement
from kosambi.priors.base import evaluate_mean
from kosambi.samplers import Particles
from kosambi.samplers.base import warn_user
from kosambi.target import Target
from kosambi.target.neighborhood import Everything, Near

LOW_SUPPORT = 0.05
"""Inputs with less support than this are warned of."""
# Components times inputs of one block.
_VALUES_AT_ONCE = 2**21


class Latent(NamedTuple):
    """K components at N inputs, all with weight 1/K."""

    means: Float[Array, "K N *C"]
    deviation: Float[Array, " N"]
    prior_variance: Float[Array, " N"]


@public
def predict(
    target: Target, particles: Particles, x_new: ArrayLike, noise: ArrayLike | None, largest_variance: float
) -> Prediction:
    """`Posterior.predict`; `largest_variance` is that of the prior at the data, which support is measured by."""
    x, likelihood = _checked(target, x_new, noise)
    prediction = _predict(target, particles, x, likelihood, noise is not None, largest_variance)
    note = _support_note(target, prediction.support)
    prediction.warnings = () if note is None else (note,)
    return prediction


@public
def log_predictive_density(
    target: Target,
    particles: Particles,
    x_new: ArrayLike,
    y_new: ArrayLike,
    noise: ArrayLike | None,
    largest_variance: float,
) -> Float[Array, " N"]:
    """`Posterior.log_predictive_density`: that of `predict`, a block of inputs at a time."""
    x, likelihood = _checked(target, x_new, noise)
    y = likelihood.check(y_new) if np.size(y_new) or len(x) else np.empty(0)
    if y.shape != (len(x),):
        raise InputError(f"`y_new` has shape {y.shape} for {len(x)} inputs. Give one observation per input.")
    values, support = np.empty(len(x)), np.empty(len(x))
    for part in host_blocks(len(x), _rows_at_once(target, particles)):
        at = likelihood.at_rows(part) if noise is not None else likelihood
        block = _predict(target, particles, x[part], at, noise is not None, largest_variance)
        values[part], support[part] = block.log_density(y[part]), block.support
    _support_note(target, support)
    return values


def latent_distribution(target: Target, particles: Particles, x: Float[Array, "N D"]) -> Latent:
    """The components at the rows of `x`, in blocks of rows."""
    known, basis = particles.distribution, target.basis
    w = np.asarray(particles.whitened) if known is None else np.asarray(known.mean)[None]
    latents = target.likelihood.num_latents
    rows = w if w.ndim == 2 else np.moveaxis(w, 2, 1).reshape(-1, w.shape[1])
    num_rows, size = x.shape[0], rows.shape[0]
    means, deviation, prior = np.empty((size, num_rows)), np.empty(num_rows), np.empty(num_rows)
    root = None if known is None else known.root
    near = None if target.neighborhood is None else target.neighborhood.nearest(np.asarray(x))
    for part in host_blocks(num_rows, _rows_at_once(target, particles)):
        if near is not None:
            block = _near_data(target, rows, root, np.asarray(x[part]), near.at(part))
        elif (explained := basis.explained_on_host(x[part])) is None:
            block = _block(*lift((basis, rows, root)), x[part])
        else:
            block = _on_host(explained, rows, root)
        means[:, part], deviation[part], prior[part] = block
    if near is None:
        means += np.asarray(evaluate_mean(basis.prior.mean, x)) if num_rows else 0.0
    if latents > 1:
        means = np.ascontiguousarray(np.moveaxis(means.reshape(size // latents, latents, num_rows), 1, 2))
    return Latent(means, deviation, prior)


def _rows_at_once(target: Target, particles: Particles) -> int:
    components = 1 if particles.distribution is not None else particles.num_particles
    return _VALUES_AT_ONCE // max(components * target.likelihood.num_latents, target.basis.size)


def _on_host(explained: Explained, w: Array, root: Array | None) -> tuple[Array, Array, Array]:
    """What `_block` gives, with nothing compiled."""
    variance = np.maximum(explained.residual, 0.0)
    if root is not None:
        variance = variance + np.sum(np.square(explained.psi @ np.asarray(root)), axis=1)
    return np.asarray(w) @ explained.psi.T, np.sqrt(variance), explained.variance


def _near_data(
    target: Target, w: Array, root: Array | None, x: Float[np.ndarray, "N D"], near: Near | Everything
) -> tuple[Array, Array, Array]:
    """The same where near data inform the residual, the prior mean included."""
    assert target.neighborhood is not None
    given = target.neighborhood.conditional(target.basis, x, near)
    variance = given.variance
    if root is not None:
        variance = variance + np.sum(np.square(given.psi @ np.asarray(root)), axis=1)
    return given.offset + np.asarray(w) @ given.psi.T, np.sqrt(variance), np.asarray(target.basis.prior.variance(x))


@compiled
def _block(basis: AbstractBasis, w: Array, root: Array | None, x: Array) -> tuple[Array, Array, Array]:
    psi = basis.whitened_weights(x)
    variance = jnp.maximum(basis.residual(x), 0.0)
    if root is not None:
        variance = variance + jnp.sum(jnp.square(psi @ root), axis=1)
    return w @ psi.T, jnp.sqrt(variance), basis.prior.pointwise(x)


def _predict(
    target: Target,
    particles: Particles,
    x: Float[Array, "N D"],
    likelihood: AbstractLikelihood,
    is_noise_given: bool,
    largest_variance: float,
) -> Prediction:
    latent = latent_distribution(target, particles, x)
    _check_numbers(latent, x)
    support = np.clip(latent.prior_variance / largest_variance, 0.0, 1.0)
    is_known = is_noise_given or likelihood.num_rows is None
    return Prediction(likelihood, latent.means, latent.deviation, support, is_noise_known=is_known)


def _check_numbers(latent: Latent, x: Float[Array, "N D"]) -> None:
    """Raise where f has no distribution that is one, instead of handing NaN over in silence."""
    is_number = np.isfinite(np.sum(latent.means, axis=(0, *range(2, latent.means.ndim)))) & np.isfinite(
        latent.deviation
    )
    check_rows("predict", is_number, x)


def _checked(target: Target, x_new: ArrayLike, noise: ArrayLike | None) -> tuple[Array, AbstractLikelihood]:
    """The inputs, and the likelihood of observations there."""
    x = as_inputs("x_new", x_new, target.x.shape[1], allow_empty=True)
    if is_traced(x):
        raise InputError("`predict` works on concrete inputs. Use `posterior.functions(key)` inside `jit` and `grad`.")
    target.basis.prior.kernel.check_inputs(np.asarray(x))
    if noise is None:
        return x, target.likelihood
    if not isinstance(target.likelihood, Gaussian):
        raise InputError(
            f"`noise` is for `Gaussian` likelihoods. Got {type(target.likelihood).__name__}. Leave it out."
        )
    values = as_positive("noise", noise, max_ndim=1)
    if values.ndim == 1 and values.shape[0] != x.shape[0]:
        raise InputError(f"`noise` has {values.shape[0]} entries for {x.shape[0]} inputs. Give one per input.")
    return x, Gaussian(values)


def _support_note(target: Target, support: Float[Array, " N"]) -> str | None:
    """Warn of inputs where the prior has next to no variance, and return what was said."""
    far = int(np.sum(support < LOW_SUPPORT))
    # A `GaussianProcess` without variance somewhere, such as a linear one at zero, means what it says.
    if not far or not isinstance(target.basis.prior, GaussianRandomElement):
        return None
    note = (
        f"{far} of {len(support)} new inputs lie where the prior has less than {100 * LOW_SUPPORT:g} % of its variance "
        "at the data, so f is near its prior mean there with false certainty. Use `GaussianProcess`, or give the "
        "measure a background: `prior.with_background()`."
    )
    warn_user(note, SupportWarning)
    return note
