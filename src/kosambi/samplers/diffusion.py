r"""Langevin dynamics a' = a − h∇V + √(2h) ξ for all particles, compiled, with its noise drawn in blocks of steps.

A preconditioned step u' = u − h P∇V(u) + √(2h) P^{1/2} ξ is a plain one in a = P^{-1/2}u. There one matrix serves both
products of a gradient, and the noise needs none.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from kosambi._core.precision import Module, at_rest, compiled, compiled_loop, strong
from kosambi._core.types import Array, Key
from kosambi.basis import InducingBasis, NystromBasis, RitzBasis
from kosambi.target import Target
from kosambi.target.data_terms import AbstractDataTerm

MAX_BLOCKS = 64
"""Blocks whose energies one compiled segment can hold."""


class Diffusion(Module):
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

    def _prior(self, a: Array) -> Array:
        if self.precision.ndim == 1:
            return a * (self.precision if a.ndim == 2 else self.precision[:, None])
        return multiply(a, self.precision)


def multiply(a: Array, matrix: Float[Array, "M L"]) -> Array:
    """a @ matrix along the axis of coordinates, the second."""
    return a @ matrix if a.ndim == 2 else jnp.moveaxis(jnp.moveaxis(a, 2, 1) @ matrix, 1, 2)


def of_target(target: Target, preconditioned: bool | None) -> Diffusion:
    """The diffusion of a target; None preconditions inducing functions only."""
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
    return at_rest(_assemble(target.term, target.inverse_root, root, inverse, diagonal))


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
    return _to_coordinates(diffusion, a)


@compiled
def coordinates(diffusion: Diffusion, a: Array) -> Array:
    """u = P^{1/2}a."""
    return _to_coordinates(diffusion, a)


@compiled
def whitened(diffusion: Diffusion, u: Array) -> Float[Array, "J K"]:
    """w of u, flattened."""
    return multiply(_from_coordinates(diffusion, u), diffusion.whitener).reshape(u.shape[0], -1)


@compiled
def stable_limit(diffusion: Diffusion, u: Array) -> Array:
    """2/λ_max of the curvature of V in the coordinates a, at one u."""
    a = _from_coordinates(diffusion, u[None])[0]
    precision = jnp.diag(diffusion.precision) if diffusion.precision.ndim == 1 else diffusion.precision
    latents = 1 if u.ndim == 1 else u.shape[1]
    curvature = diffusion.term.curvature(a) + jnp.kron(precision, jnp.eye(latents, dtype=a.dtype))
    return 2.0 / jnp.linalg.eigvalsh(curvature)[-1]


class Path(NamedTuple):
    """Where the particles are, and what the report needs of how they came there."""

    position: Array
    first_potential: Float[Array, " J"]
    step: Int[Array, ""]
    sums: Float[Array, "2 J Q"]
    squares: Float[Array, "2 J Q"]
    counts: Int[Array, " 2"]
    """Snapshots of whitened coordinates and potential in the third and the last quarter of the run."""
    blocks: Int[Array, ""]
    energies: Float[Array, " B"]
    times: Int[Array, " B"]


@compiled
def begin(diffusion: Diffusion, u: Array) -> Path:
    """The path before the first step, at coordinates u."""
    a = _from_coordinates(diffusion, u)
    potential = diffusion.potential(a)
    size = int(np.prod(u.shape[1:])) + 1
    none = jnp.zeros((2, u.shape[0], size), dtype=a.dtype)
    energies = jnp.zeros(MAX_BLOCKS, dtype=a.dtype).at[0].set(jnp.mean(potential))
    zero = jnp.asarray(0)
    times = jnp.zeros(MAX_BLOCKS, int)
    return strong(Path(a, potential, zero, none, none, jnp.zeros(2, dtype=int), zero, energies, times))


def block_length(shape: tuple[int, ...]) -> int:
    """Steps whose noise is drawn at once: the generator uses all cores only on many numbers."""
    return int(np.clip(2**19 // int(np.prod(shape)), 16, 128))


@compiled_loop
def advance(
    diffusion: Diffusion, key: Key, path: Path, step_size: Array, num_steps: Int[Array, ""], max_blocks: Int[Array, ""]
) -> Path:
    """Up to `max_blocks` blocks of steps, ending at `num_steps` or when something is not finite."""
    length = block_length(path.position.shape)
    scale = jnp.sqrt(2.0 * step_size)

    def one_block(path: Path) -> Path:
        # Numbered by its first step, so each block of a run has a key of its own.
        block_key = jax.random.fold_in(key, path.step)
        # Flat, because the generator is compiled for long rows; and finished before the steps begin.
        # In float32 also for float64 runs, at half the cost: its steps of 1e-7 and its end at 5.3 deviations are
        # nothing beside the scheme's own bias.
        flat = jax.random.normal(block_key, (length * path.position.size,), dtype=jnp.float32)
        noise = jax.lax.optimization_barrier(flat.reshape(length, *path.position.shape))  # type: ignore[no-untyped-call]
        count = jnp.minimum(length, num_steps - path.step)

        def one(i: Array, a: Array) -> Array:
            return a - step_size * diffusion.gradient(a) + scale * noise[i].astype(a.dtype)

        a = jax.lax.fori_loop(0, count, one, path.position)
        potential = diffusion.potential(a)
        step = path.step + count
        w = multiply(a, diffusion.whitener).reshape(a.shape[0], -1)
        snapshot = jnp.concatenate([w, potential[:, None]], axis=1)
        # Quarter 2 and 3 of 0 to 3.
        quarter = jnp.stack([4 * step > 2 * num_steps, 4 * step > 3 * num_steps])
        here = jnp.stack([quarter[0] & ~quarter[1], quarter[1]])
        part = here[:, None, None] * snapshot
        return Path(
            a,
            path.first_potential,
            step,
            path.sums + part,
            path.squares + part * snapshot,
            path.counts + here,
            path.blocks + 1,
            path.energies.at[path.blocks].set(jnp.mean(potential)),
            path.times.at[path.blocks].set(step),
        )

    def going_on(path: Path) -> Array:
        last = path.energies[jnp.maximum(path.blocks - 1, 0)]
        return (path.step < num_steps) & (path.blocks < max_blocks) & jnp.isfinite(last)

    return strong(jax.lax.while_loop(going_on, one_block, path._replace(blocks=jnp.asarray(0))))


def _from_coordinates(diffusion: Diffusion, u: Array) -> Array:
    return u if diffusion.inverse is None else multiply(u, diffusion.inverse)


def _to_coordinates(diffusion: Diffusion, a: Array) -> Array:
    return a if diffusion.root is None else multiply(a, diffusion.root)
