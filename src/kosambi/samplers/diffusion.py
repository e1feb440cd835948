r"""Langevin dynamics a' = a − h∇V + √(2h) ξ for all particles.

A preconditioned step u' = u − h P∇V(u) + √(2h) P^{1/2} ξ is a plain one in a = P^{-1/2}u. There one matrix serves both
products of a gradient, and the noise needs none.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Float

from kosambi._core.precision import compiled
from kosambi._core.types import Array, Key
from kosambi.basis import InducingBasis, NystromBasis, RitzBasis
from kosambi.parallel.terms import spread
from kosambi.samplers.segments import AbstractDynamics, Path, path_at
from kosambi.target import Target
from kosambi.target.data_terms import AbstractDataTerm


class Diffusion(AbstractDynamics):
    """V in the coordinates a, for one latent function or C of them."""

    term: AbstractDataTerm
    precision: Float[Array, "*MM"]
    """The prior's: (M,) when diagonal, (M, M) otherwise."""
    root: Float[Array, "M M"] | None
    """P^{1/2}, symmetric; None for P = I."""
    inverse: Float[Array, "M M"] | None
    """P^{-1/2}."""
    whitener: Float[Array, "M M"]
    """w = a @ whitener."""

    def gradient(self, a: Array) -> Array:
        """∇V(a)."""
        return self.term.gradient(a) + self._prior(a)

    def potential(self, a: Array) -> Float[Array, " J"]:
        """V(a)."""
        axes = tuple(range(1, a.ndim))
        return self.term.value(a) + 0.5 * jnp.sum(a * self._prior(a), axis=axes)

    def moved(self, key: Key, a: Array, noise: Array, step_size: Array) -> Array:
        """a − h∇V(a) + √(2h) ξ."""
        del key
        return a - step_size * self.gradient(a) + jnp.sqrt(2.0 * step_size) * noise

    def watched(self, a: Array) -> Float[Array, "J K"]:
        """w = a @ whitener."""
        return multiply(a, self.whitener).reshape(a.shape[0], -1)

    def block_length(self, shape: tuple[int, ...]) -> int:
        """As many as noise is drawn for at once."""
        return block_length(shape)

    def products(self, shape: tuple[int, ...]) -> int:
        """N·J·M."""
        # A quadratic needs M rows; those of a mesh are in a term of their own.
        psi: Array | None = getattr(getattr(self.term, "term", self.term), "psi", None)
        num_rows = shape[1] if psi is None else psi.shape[0]
        return int(num_rows * np.prod(shape))

    def _prior(self, a: Array) -> Array:
        if self.precision.ndim == 1:
            return a * (self.precision if a.ndim == 2 else self.precision[:, None])
        return multiply(a, self.precision)


def multiply(a: Array, matrix: Float[Array, "M L"]) -> Array:
    """a @ matrix along the axis of coordinates, the second."""
    return a @ matrix if a.ndim == 2 else jnp.moveaxis(jnp.moveaxis(a, 2, 1) @ matrix, 1, 2)


def of_target(target: Target, preconditioned: bool | None, mesh: Mesh | None = None) -> Diffusion:
    """The diffusion of a target, with its rows on the devices of a mesh; None preconditions inducing functions only."""
    basis = target.basis
    if preconditioned is None:
        preconditioned = isinstance(basis, InducingBasis)
    root = inverse = None
    if preconditioned:
        values, vectors = np.linalg.eigh(basis.gram if isinstance(basis, InducingBasis) else basis.covariance)
        # Bases keep no direction without variance; this only guards against rounding.
        deviations = np.sqrt(np.maximum(values, np.finfo(float).eps * values[-1]))
        root, inverse = (vectors * deviations) @ vectors.T, (vectors / deviations) @ vectors.T
    diagonal = isinstance(basis, NystromBasis | RitzBasis)
    # It stays where it was made: ψ is what is largest of all, and every step needs it there.
    term = target.term if mesh is None else spread(target.term, mesh)
    return _assemble(term, target.inverse_root, root, inverse, diagonal)


@compiled
def _assemble(
    term: AbstractDataTerm, inverse_root: Array, root: Array | None, inverse: Array | None, diagonal: bool
) -> Diffusion:
    whitener = inverse_root if root is None else root @ inverse_root
    precision = whitener @ whitener.T
    precision = jnp.diagonal(precision) if diagonal else precision
    return Diffusion(term.compose(whitener.T), precision, root, inverse, whitener)


@compiled
def one_step(diffusion: Diffusion, u: Array, noise: Array, step_size: Array) -> Array:
    """u' from u, for given noise."""
    a = _from_coordinates(diffusion, u)
    a = a - step_size * diffusion.gradient(a) + jnp.sqrt(2.0 * step_size) * noise
    return a if diffusion.root is None else multiply(a, diffusion.root)


@compiled
def coordinates(root: Float[Array, "M M"] | None, a: Array) -> Array:
    """u = P^{1/2}a, for the root alone: nothing else need be on the device."""
    return a if root is None else multiply(a, root)


@compiled
def whitened(diffusion: Diffusion, u: Array) -> Float[Array, "J K"]:
    """w of u, flattened."""
    return multiply(_from_coordinates(diffusion, u), diffusion.whitener).reshape(u.shape[0], -1)


def stable_limit(diffusion: Diffusion, u: Array) -> Array:
    """2/λ_max of the curvature of V in the coordinates a, at one u."""
    # On one device, also where those of a mesh have added up the curvature.
    return _limit(np.asarray(_curvature(diffusion, u)))


@compiled
def _limit(curvature: Float[Array, "K K"]) -> Array:
    return 2.0 / jnp.linalg.eigvalsh(curvature)[-1]


@compiled
def _curvature(diffusion: Diffusion, u: Array) -> Float[Array, "K K"]:
    a = _from_coordinates(diffusion, u[None])[0]
    precision = jnp.diag(diffusion.precision) if diffusion.precision.ndim == 1 else diffusion.precision
    latents = 1 if u.ndim == 1 else u.shape[1]
    return diffusion.term.curvature(a) + jnp.kron(precision, jnp.eye(latents, dtype=a.dtype))


@compiled
def begin(diffusion: Diffusion, u: Array) -> Path:
    """The path before the first step, at coordinates u."""
    return path_at(diffusion, _from_coordinates(diffusion, u))


def block_length(shape: tuple[int, ...]) -> int:
    """Steps whose noise is drawn at once: the generator uses all cores only on many numbers."""
    return int(np.clip(2**19 // int(np.prod(shape)), 16, 128))


def _from_coordinates(diffusion: Diffusion, u: Array) -> Array:
    return u if diffusion.inverse is None else multiply(u, diffusion.inverse)
