r"""The paper's rule for draws at given inputs (appendix "Matheron's Rule for Gaussian Random Elements").

For inputs X* and a particle v, the values are U + φ(X*)(v − V) with (U, V) ~ N(0, R),

    R = [ r̂(X*, X*)   φΛ ]        r̂(X*, X*) = k(X*, X̂) k(X̂, X*)/(N* + M),   X̂ = X* ∪ Z
        [ Λφᵀ          Λ ]

so what a draw is at one input depends on which others are asked for. R need not be positive semi-definite: its negative
eigenvalues are set to zero, and how much that was is reported. For a `GaussianProcess` r itself stands in place of r̂,
and R is a covariance. Cost O((N* + M)³).
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_inputs, is_traced
from kosambi._core.precision import Module, at_rest, compiled, public
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.errors import InputError, RoundingWarning
from kosambi.priors import GaussianRandomElement
from kosambi.priors.base import evaluate_mean
from kosambi.target import Target

_PURPOSE = 0x6D617468
# A clipped spectrum larger than this part of the trace is more than rounding.
_LARGEST_ROUNDING = 1e-8


class Clipping(NamedTuple):
    """What was cut from the spectrum of R."""

    negative: int
    """How many eigenvalues were negative."""
    share: float
    """The sum of their sizes over the trace of R."""


class MatheronDraws(Module):
    """J draws by the paper's transductive rule: `draws(x)` gives (J, N), the same for the same `x` only.

    `draws.evaluate(x)` also tells how much of the spectrum of R was clipped.
    """

    target: Target
    coordinates: Float[Array, "L M"]
    key_data: Array
    key_kind: str = eqx.field(static=True)
    num_latents: int = eqx.field(static=True)

    def __len__(self) -> int:
        return self.num_draws

    @property
    def num_draws(self) -> int:
        """J, the number of functions."""
        return int(self.coordinates.shape[0]) // self.num_latents

    @public
    def __call__(self, x: ArrayLike) -> Float[Array, "J N *C"]:
        """The values of all draws at the rows of `x`, drawn jointly for these rows."""
        values, clipping = self.evaluate(x)
        if clipping.share > _LARGEST_ROUNDING:
            warnings.warn(
                f"The matrix R of Matheron's rule is not a covariance: {clipping.negative} negative eigenvalues, "
                f"{100 * clipping.share:.2g} % of its trace, were set to zero. "
                'Use method="pathwise", which has no such defect, or a `GaussianProcess`.',
                RoundingWarning,
                stacklevel=3,
            )
        return values

    @public
    def evaluate(self, x: ArrayLike) -> tuple[Float[Array, "J N *C"], Clipping]:
        """The values, and what was clipped."""
        x = as_inputs("x", x, self.target.x.shape[1], allow_empty=True)
        if is_traced(x):
            raise InputError(
                'Draws by method="matheron" are made on concrete inputs. Use "pathwise" ones under a trace.'
            )
        shape = (
            (self.num_draws, x.shape[0]) if self.num_latents == 1 else (self.num_draws, x.shape[0], self.num_latents)
        )
        if x.shape[0] == 0:
            return np.empty(shape), Clipping(0, 0.0)
        key = jax.random.fold_in(jax.random.wrap_key_data(self.key_data, impl=self.key_kind), _PURPOSE)
        values, eigenvalues, trace = at_rest(_draw(key, self.target, self.coordinates, x))
        negative = np.asarray(eigenvalues)[np.asarray(eigenvalues) < 0]
        values = values + np.asarray(evaluate_mean(self.target.basis.prior.mean, x))
        if self.num_latents > 1:
            values = np.ascontiguousarray(np.moveaxis(values.reshape(-1, self.num_latents, x.shape[0]), 1, 2))
        return values, Clipping(int(negative.size), float(-negative.sum() / trace))


def draw_matheron(key: Key, target: Target, coordinates: Array) -> MatheronDraws:
    """The paper's draws for particles u, (J, M) or (J, M, C)."""
    u = np.asarray(coordinates)
    rows = u if u.ndim == 2 else np.moveaxis(u, 2, 1).reshape(-1, u.shape[1])
    typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    data = np.asarray(jax.random.key_data(key) if typed else key)
    kind = str(jax.random.key_impl(key))
    return MatheronDraws(target, np.ascontiguousarray(rows), data, kind, target.likelihood.num_latents)


@compiled
def _draw(key: Key, target: Target, u: Array, x: Array) -> tuple[Array, Array, Array]:
    basis = target.basis
    phi = basis.mean_weights(x)
    if isinstance(basis.prior, GaussianRandomElement):
        union = jnp.concatenate([x, basis.inducing_points])
        gram = basis.prior.kernel.pairwise(x, union)
        prior = gram @ gram.T / union.shape[0]
    else:
        prior = basis.prior.pairwise(x, x)
    cross = phi @ basis.covariance
    joint = jnp.block([[prior, cross], [cross.T, basis.covariance]])
    eigenvalues, vectors = jnp.linalg.eigh(0.5 * (joint + joint.T))
    noise = jax.random.normal(key, (u.shape[0], joint.shape[0]))
    drawn = noise * jnp.sqrt(jnp.maximum(eigenvalues, 0.0)) @ vectors.T
    values = drawn[:, : x.shape[0]] + (u - drawn[:, x.shape[0] :]) @ phi.T
    return values, eigenvalues, jnp.trace(joint)
