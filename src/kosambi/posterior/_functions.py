r"""Posterior draws as functions: F_j = m + φᵀu_j + (G_j − φᵀu(G_j)) with an independent prior draw G_j.

In whitened coordinates F_j = m + ψᵀ(w_j − w(G_j)) + G_j. For a measure made of points G = κω with the root κ of r, and
w(G) = Bᵀω; where ψ = κB (Ritz, Point) all of it is one sum over the support, κ(ω + B(w_j − Bᵀω)). For a
`GaussianProcess` G comes from `kosambi.priors.functions`, and ψᵀ(w − w(G)) = r(·, Z) r(Z, Z)⁻¹(u − G(Z)).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from jaxtyping import Float, Int

from kosambi._core.checks import as_inputs, check_key, is_traced
from kosambi._core.linalg import by_rows
from kosambi._core.precision import at_rest, compiled, host_generator, public
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.basis import AbstractBasis, PointBasis, PointResidual
from kosambi.errors import InputError
from kosambi.posterior._matheron import MatheronDraws, draw_matheron
from kosambi.posterior._near_functions import AllData, NearData
from kosambi.priors import GaussianProcess, GaussianRandomElement
from kosambi.priors.functions.draws import FunctionDraws
from kosambi.priors.functions.expansions import AbstractExpansion, KernelExpansion
from kosambi.priors.measures import PointMeasure
from kosambi.samplers import Particles
from kosambi.target import Target

METHODS = ("pathwise", "matheron")
# Folded into the key, so that functions drawn with the key of `infer` do not depend on the particles.
_PURPOSE = 0x66756E63
# Likewise for the noise of sites.
_NOISE = 0x6E656172


class BasisExpansion(AbstractExpansion):
    """F_j = Σ_m c_jm ψ_m(·), the whitened functions of a basis."""

    basis: AbstractBasis
    coefficients: Float[Array, "J M"]

    @property
    def num_draws(self) -> int:
        """J, or J·C with C latent functions."""
        return int(self.coefficients.shape[0])

    def evaluate(self, x: Float[Array, "N D"]) -> Float[Array, "J N"]:
        """ψ(x) cᵀ, in blocks of rows."""
        width = 2 * self.basis.inducing_points.shape[0]
        return by_rows(lambda rows: self.basis.whitened_weights(rows) @ self.coefficients.T, x, width).T

    def select(self, indices: Int[np.ndarray, " L"]) -> BasisExpansion:
        """Rows of the coefficients."""
        return BasisExpansion(self.basis, self.coefficients[indices])


@public
def draw(
    key: Key, target: Target, particles: Particles, method: str, domain: ArrayLike | None, at: ArrayLike | None
) -> FunctionDraws | MatheronDraws:
    """`Posterior.functions`, with its arguments checked."""
    if is_traced((key, at)):
        raise InputError("`functions` chooses frequencies on the host. Call it outside `jit`; use the draws inside.")
    key = check_key(key)
    if method not in METHODS:
        raise InputError(f'`method` must be "pathwise" or "matheron". Got {method!r}.')
    if method == "matheron":
        if at is not None or domain is not None:
            raise InputError(
                '`at` and `domain` mean nothing to method="matheron", which draws as it is asked. Leave them out.'
            )
        if target.neighborhood is not None:
            raise InputError(
                'method="matheron" knows no neighbours, which inform the functions of this posterior. Use '
                'method="pathwise".'
            )
        return draw_matheron(key, target, particles.coordinates)
    points = None if at is None else as_inputs("at", at, target.x.shape[1])
    ends = None if domain is None else as_inputs("domain", domain, target.x.shape[1])
    if ends is not None and ends.shape[0] != 2:
        raise InputError(f"`domain` must have two rows, the lowest and the highest inputs. Got {ends.shape[0]} rows.")
    rows = target.neighborhood
    if rows is None:
        return draw_pathwise(key, target, particles, points, ends)
    if points is not None:
        points = np.concatenate([np.asarray(points), np.asarray(rows.x)])
    plain = draw_pathwise(key, target, particles, points, ends)
    noise = jax.random.fold_in(key, _NOISE)
    if rows.is_all:
        everything = AllData.of(target, plain, host_generator(noise))
        return FunctionDraws(plain.mean, plain.parts, plain.num_columns, plain.num_latents, everything)
    typed = jnp.issubdtype(noise.dtype, jax.dtypes.prng_key)
    data = np.asarray(jax.random.key_data(noise) if typed else noise)
    kind = str(jax.random.key_impl(noise)) if typed else "threefry2x32"
    near = NearData(target.basis, rows, data, kind, plain.num_draws, np.arange(plain.num_draws))
    return FunctionDraws(plain.mean, plain.parts, plain.num_columns, plain.num_latents, near)


def draw_pathwise(
    key: Key, target: Target, particles: Particles, at: Float[Array, "A D"] | None, domain: Float[Array, "2 D"] | None
) -> FunctionDraws:
    """One function per particle; `at` says where they must be exact if the kernel has no features, `domain` how far."""
    basis, latents = target.basis, target.likelihood.num_latents
    prior, columns = basis.prior, int(target.x.shape[1])
    whitened = np.asarray(particles.whitened)
    # One row per latent function, the C of one particle next to each other.
    w = whitened if whitened.ndim == 2 else np.moveaxis(whitened, 2, 1).reshape(-1, whitened.shape[1])
    key = jax.random.fold_in(key, _PURPOSE)
    reached = [target.x, basis.inducing_points] if domain is None else [target.x, basis.inducing_points, domain]
    reached += [] if target.stream is None else [np.stack([target.stream.lowest, target.stream.highest])]
    extent = np.ptp(np.concatenate(reached), axis=0)
    if at is None and isinstance(prior, GaussianRandomElement) and isinstance(prior.measure, PointMeasure):
        assert isinstance(basis.remainder, PointResidual)
        # On the host, which compiles nothing.
        omega = host_generator(key).normal(size=(w.shape[0], prior.measure.points.shape[0]))
        coefficients, rest = at_rest(_point_coefficients(prior.measure, basis, w, omega))
        parts: tuple[AbstractExpansion, ...] = (KernelExpansion(prior.kernel, prior.measure.points, coefficients),)
        if rest is not None:
            parts = (*parts, BasisExpansion(basis, rest))
        return FunctionDraws(prior.mean, parts, columns, latents)
    if at is not None:
        at = np.unique(np.concatenate([np.asarray(basis.inducing_points), np.asarray(at)]), axis=0)
    draws = prior.accurate_parts(key, w.shape[0], extent, at)
    if not basis.size:
        return FunctionDraws(prior.mean, draws, columns, latents)
    values = FunctionDraws(np.zeros(()), draws, columns).centred(basis.inducing_points)
    if isinstance(prior, GaussianProcess):
        assert isinstance(basis, PointBasis)
        weights = at_rest(_point_weights(basis, w, values))
        rest_part: AbstractExpansion = KernelExpansion(prior.kernel, basis.inducing_points, weights)
    else:
        rest_part = BasisExpansion(basis, at_rest(_rest(basis, w, values)))
    return FunctionDraws(prior.mean, (*draws, rest_part), columns, latents)


@compiled
def _point_coefficients(
    measure: PointMeasure, basis: AbstractBasis, w: Array, omega: Array
) -> tuple[Float[Array, "J S"], Float[Array, "J M"] | None]:
    loading = basis.remainder.loading  # type: ignore[attr-defined]
    rest = w - omega @ loading
    roots = jnp.sqrt(measure.weights)
    if basis.is_conditional:
        return roots * (omega + rest @ loading.T), None
    return roots * omega, rest


@compiled
def _point_weights(basis: PointBasis, w: Array, values: Array) -> Float[Array, "J M"]:
    rest = w - basis.divide_root(values)
    return jsl.solve_triangular(basis.factor, rest.T, lower=True, trans=1).T


@compiled
def _rest(basis: AbstractBasis, w: Array, values: Array) -> Float[Array, "J M"]:
    return w - basis.divide_root(basis.from_values(values))
