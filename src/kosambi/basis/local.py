r"""What nearby rows say about the residual of a basis: g = f − m − ψᵀw given noisy values of it at a few rows.

The residual has the covariance R = r − ψᵀψ, formed from the same rounded ψ that is stored. Row k has the precision W_k
(that of a Gaussian site; zero where it says nothing), and 𝒩 are the rows near an input:

    B = R_{x𝒩} W^½ (I + W^½ R_{𝒩𝒩} W^½)⁻¹ W^½,   D = R_xx − B R_{𝒩x}

which are R_{x𝒩}(R_{𝒩𝒩} + W⁻¹)⁻¹ and the variance that is left, without an infinite W⁻¹.

Each input has its own small system: batches of them, in threads, with LAPACK on the host, because batches of
factorisations can block XLA's threads on a CPU for good; on an accelerator in one compiled program. With a mesh each
of its devices has some inputs of every batch: all of their systems on accelerators, and the covariances on devices of a
CPU, whose LAPACK is the host's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Bool, Float, Int

from kosambi._core.linalg import host_blocks, one_blas_thread
from kosambi._core.meshes import of_rows
from kosambi._core.precision import compiled, lift
from kosambi._core.room import MOST_THREADS, USUAL, Room
from kosambi._core.threads import in_threads, platform
from kosambi._core.types import Array
from kosambi.basis.kept_systems import KeptSystems, is_precise
from kosambi.priors import AbstractPrior

EXPLAINED = 1e-10
"""Inputs whose residual variance is below this part of the prior variance have no use for neighbours."""
# Rounding of features in single precision leaves so many times its unit of the prior variance.
_ROUNDED = 8.0
# Numbers of the features of all neighbours of one batch, and of their covariances, at most.
_NUMBERS = 2**21


class Rows(NamedTuple):
    """Rows that may be neighbours."""

    x: Float[np.ndarray, "N D"]
    psi: Float[np.ndarray, "N M"]
    precision: Float[np.ndarray, " N"]
    """W."""


class Local(NamedTuple):
    """What neighbours say about T inputs."""

    weights: Float[np.ndarray, "T m"]
    """B; zero in empty places."""
    variance: Float[np.ndarray, " T"]
    """D, never negative."""
    psi: Float[np.ndarray, "T M"]
    """ψ − Σ_k B_k ψ_k: what multiplies w, given the neighbours."""
    num_cut: int
    """Inputs whose neighbours were left out, because the coordinates explain all of f there."""
    num_clipped: int
    """Variances below zero by more than rounding, which were set to zero."""


def local_conditionals(
    prior: AbstractPrior,
    rows: Rows,
    x: Float[np.ndarray, "T D"],
    psi: Float[np.ndarray, "T M"],
    index: Int[np.ndarray, "T m"],
    share: Float[np.ndarray, "T m"] | None = None,
) -> Local:
    """B, D and the features that are left, at the rows of `x` with features `psi`.

    Arguments:
        prior: whose r it is.
        rows: what the numbers in `index` stand for.
        x: inputs.
        psi: ψ(x), in the precision of `rows.psi`.
        index: the neighbours of each input; −1 in a place that is empty.
        share: what part of its precision each neighbour has; all of it when None.
    """
    return LocalSystems(prior, rows, x, psi, index).conditionals(rows.precision, share)


def unexplained(
    prior: AbstractPrior, x: Float[np.ndarray, "T D"], psi: Float[np.ndarray, "T M"]
) -> tuple[Float[np.ndarray, " T"], Float[np.ndarray, " T"], Bool[np.ndarray, " T"]]:
    """Prior variance, what the coordinates leave of it, and which inputs have a use for neighbours."""
    variance = np.asarray(prior.variance(x)) if len(x) else np.empty(0)
    left = variance - np.einsum("tm,tm->t", psi, psi, dtype=np.float64)
    return variance, left, left > max(EXPLAINED, _rounding(psi)) * variance


class LocalSystems:
    """The systems of many inputs, for precisions that change; arguments are those of `local_conditionals`.

    Arguments:
        room: how much memory batches may take, and systems that are kept.
        keep: whether R_{𝒩𝒩} and R_{𝒩x} are held in memory once they are known, of as many inputs as fit: they do not
            depend on the precisions, and take longer than the rest.
        mesh: devices that share the inputs.
    """

    def __init__(
        self,
        prior: AbstractPrior,
        rows: Rows,
        x: Float[np.ndarray, "T D"],
        psi: Float[np.ndarray, "T M"],
        index: Int[np.ndarray, "T m"],
        room: Room = USUAL,
        keep: bool = False,
        mesh: Mesh | None = None,
    ) -> None:
        self._mesh, self._rows, self._x, self._psi, self._index = mesh, rows, x, psi, index
        number, places = index.shape
        self._variance, self._left, self._is_needed = unexplained(prior, x, psi)
        self._rounding = _rounding(psi)
        with jax.enable_x64(True):
            self._prior = lift(prior)
        self._batch = _batch_size(number, places, psi.shape[1], x.shape[1], room) if places and number else 1
        self._at_once = max(1, room.rows(places + psi.shape[1]) // self._batch)
        self._kept = KeptSystems(number, places, self._batch, room.kept) if keep else None

    @property
    def num_features(self) -> int:
        """M."""
        return int(self._psi.shape[1])

    def conditionals(self, precision: Float[np.ndarray, " N"], share: Float[np.ndarray, "T m"] | None = None) -> Local:
        """B, D and the features that are left, for the precisions of all rows."""
        parts = [found for _, found in self.blocks(precision, share, self._index.shape[0])]
        return parts[0]

    def blocks(
        self,
        precision: Float[np.ndarray, " N"],
        share: Float[np.ndarray, "T m"] | None = None,
        at_once: int | None = None,
    ) -> Iterator[tuple[slice, Local]]:
        """The same for some of the inputs at a time, in order, which need not all be held; one block if there are none.

        Arguments:
            precision: of all rows.
            share: see `local_conditionals`.
            at_once: batches of a block; as many as there is room for when None.
        """
        number, places = self._index.shape
        if not places or not number:
            yield slice(0, number), self._without_neighbors()
            return
        batches, step = list(host_blocks(number, self._batch)), self._at_once if at_once is None else at_once
        for first in range(0, len(batches), step):
            group = batches[first : first + step]
            block = slice(first * self._batch, group[-1].stop)
            yield block, self._block(block, group, precision, share)

    def _without_neighbors(self) -> Local:
        below = _num_below(self._left, self._variance, self._rounding)
        same, nothing = np.array(self._psi, dtype=np.float64), np.zeros(self._index.shape)
        return Local(nothing, np.maximum(self._left, 0.0), same, 0, below)

    def _block(
        self,
        block: slice,
        batches: Sequence[slice],
        precision: Float[np.ndarray, " N"],
        share: Float[np.ndarray, "T m"] | None,
    ) -> Local:
        number, psi, index, left = block.stop - block.start, self._psi, self._index, self._left
        found = Local(np.zeros((number, index.shape[1])), np.empty(number), np.empty((number, psi.shape[1])), 0, 0)

        def solve(part: slice) -> None:
            near = index[part]
            own = np.where(near >= 0, precision[near], 0.0) * self._is_needed[part, None]
            root = np.sqrt(own if share is None else own * share[part])
            # NumPy's arrays from here on: outside, JAX would compute in its own precision.
            weights, removed, explained = map(np.asarray, self._solve(part, near, root))
            # The last batch has rows of the one before, too.
            seen = slice(max(0, block.start - part.start), None)
            here = slice(part.start + seen.start, part.stop)
            to = slice(here.start - block.start, here.stop - block.start)
            found.weights[to], found.variance[to] = weights[seen], left[here] - removed[seen]
            found.psi[to] = psi[here] - explained[seen]

        with one_blas_thread():
            in_threads(solve, batches, MOST_THREADS)
        clipped = _num_below(found.variance, self._variance[block], self._rounding)
        cut = int(np.sum(~self._is_needed[block]))
        return found._replace(variance=np.maximum(found.variance, 0.0), num_cut=cut, num_clipped=clipped)

    @property
    def _platform(self) -> str:
        return platform() if self._mesh is None else self._mesh.devices.flat[0].platform

    def _solve(self, part: slice, near: np.ndarray, root: np.ndarray) -> tuple[Array, Array, Array]:
        """B, B R_{𝒩x}, and Σ_k B_k ψ_k of one batch."""
        known = None if self._kept is None else self._kept.at(part)
        if known is not None and is_precise(known[0], root):
            weights, removed = _solved(*known, root)
            return weights, removed, _mixed(weights, self._rows.psi, near)
        given = self._prior, self._rows.x[near], self._rows.psi[near]
        here = self._x[part], self._psi[part]
        if self._kept is None and self._platform != "cpu":
            if self._mesh is None:
                found = _on_device(*given, root, *here)
            else:
                found = of_rows(self._mesh, _whole_systems, given[0], *given[1:], root, *here)
            # A system that rounding has left without a Cholesky factor, which an accelerator needs, is the host's.
            if np.all(np.isfinite(np.asarray(found[0]))):
                return found
        blocks = residual_blocks(*given, *here, self._mesh)
        if self._kept is not None:
            # Rounded as those that are kept, so that how many these are changes no digit.
            rounded = self._kept.put(part, *blocks)
            blocks = rounded if is_precise(rounded[0], root) else blocks
        weights, removed = _solved(*blocks, root)
        return weights, removed, _mixed(weights, self._rows.psi, near)


def _num_below(left: np.ndarray, variance: np.ndarray, rounding: float) -> int:
    """How many variances are below zero by more than rounding."""
    return int(np.sum(left < -max(1e-8, 4.0 * rounding) * np.maximum(variance, 0.0)))


def _rounding(features: Array) -> float:
    """What rounding of the features adds to R, as a part of the prior variance; nothing in double precision."""
    return _ROUNDED * float(np.finfo(features.dtype).eps) if features.dtype == np.float32 else 0.0


def _batch_size(number: int, places: int, width: int, columns: int, room: Room) -> int:
    """A power of two, so that few lengths are compiled for."""
    # Features and inputs of the neighbours, with copies, and the matrices from covariances to what is solved.
    each = 8 * places * (2 * width + 3 * columns + 7 * places)
    size = max(1, min(number, _NUMBERS // (places * (width + places)), room.inputs(each)))
    return 2 ** int(np.log2(size))


def _raw_covariances(prior: AbstractPrior, near: Array, x: Array) -> tuple[Array, Array]:
    """r among the neighbours of each input, and with it."""
    among = jax.vmap(lambda rows: prior.pairwise(rows, rows))(near)
    return among, jax.vmap(lambda rows, one: prior.pairwise(rows, one[None])[:, 0])(near, x)


_covariances = compiled(_raw_covariances)


def residual_blocks(
    prior: AbstractPrior,
    near: np.ndarray,
    features: np.ndarray,
    x: np.ndarray,
    psi: np.ndarray,
    mesh: Mesh | None = None,
) -> tuple[Float[np.ndarray, "T m m"], Float[np.ndarray, "T m"]]:
    """R_{𝒩𝒩} and R_{𝒩x} of one batch, from the inputs (T, m, D) and the features (T, m, M) of all neighbours."""
    rounding = _rounding(features)
    features, psi = features.astype(np.float64, copy=False), psi.astype(np.float64, copy=False)
    if mesh is None:
        with jax.enable_x64(True):
            among, cross = _covariances(prior, near, x)
    else:
        among, cross = of_rows(mesh, _raw_covariances, prior, near, x)
    gram = np.asarray(among) - features @ np.swapaxes(features, 1, 2)
    if rounding:
        # So that it stays positive definite.
        places = np.arange(gram.shape[1])
        gram[:, places, places] += rounding * np.asarray(among)[:, places, places]
    return gram, np.asarray(cross) - np.einsum("tkm,tm->tk", features, psi)


def _solved(gram: np.ndarray, toward: np.ndarray, root: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """B and B R_{𝒩x}."""
    matrix = gram * (root[:, :, None] * root[:, None, :])
    places = np.arange(matrix.shape[1])
    matrix[:, places, places] += 1.0
    weights = root * np.linalg.solve(matrix, (root * toward)[:, :, None])[:, :, 0]
    return weights, np.einsum("tk,tk->t", weights, toward)


def _mixed(
    weights: Float[np.ndarray, "T m"], psi: Float[np.ndarray, "N M"], near: Int[np.ndarray, "T m"]
) -> Float[np.ndarray, "T M"]:
    """Σ_k B_k ψ_k, as a sparse product: the features of all neighbours would be m times as many numbers."""
    from scipy.sparse import csr_array

    number, places = weights.shape
    # An empty place has no weight, and may be any row.
    rows = np.maximum(near, 0).astype(np.int32, copy=False)
    ends = np.arange(0, number * places + 1, places)
    narrow = weights.astype(psi.dtype, copy=False)
    return csr_array((narrow.ravel(), rows.ravel(), ends), shape=(number, len(psi))) @ psi


def systems_of(
    prior: AbstractPrior, near: Array, features: Array, x: Array, psi: Array
) -> tuple[Float[Array, "T m m"], Float[Array, "T m"]]:
    """R_{𝒩𝒩} and R_{𝒩x} as `residual_blocks` has them, traceable."""
    among, cross = _covariances(prior, near, x)
    rounding = _rounding(features)
    features, psi = features.astype(among.dtype), psi.astype(among.dtype)
    gram = among * (1.0 + rounding * jnp.eye(among.shape[1])) - features @ jnp.swapaxes(features, 1, 2)
    return gram, cross - jnp.einsum("tkm,tm->tk", features, psi)


def weights_of(gram: Array, toward: Array, root: Array) -> tuple[Float[Array, "T m"], Float[Array, " T"]]:
    """B and B R_{𝒩x} for the roots of precisions, traceable."""
    matrix = gram * root[:, :, None] * root[:, None, :] + jnp.eye(gram.shape[1], dtype=gram.dtype)
    factor = jnp.linalg.cholesky(matrix)
    weights = root * jax.scipy.linalg.cho_solve((factor, True), (root * toward)[:, :, None])[:, :, 0]
    return weights, jnp.einsum("tk,tk->t", weights, toward)


def _whole_systems(
    prior: AbstractPrior, near: Array, features: Array, root: Array, x: Array, psi: Array
) -> tuple[Array, Array, Array]:
    """B, B R_{𝒩x}, and Σ_k B_k ψ_k of one batch, traceable."""
    gram, toward = systems_of(prior, near, features, x, psi)
    weights, removed = weights_of(gram, toward, root)
    return weights, removed, jnp.einsum("tk,tkm->tm", weights, features.astype(weights.dtype))


_on_device = compiled(_whole_systems)
