r"""Features and least squares of rows that lie on several devices.

Each device makes the features of its own rows, a block after the other, and carries the triangular factor of
[Ψ, e] in units of the noise along (a tall and skinny QR). The factors of all devices, matrices of M + 1 rows, are rows
like others: one more QR of them gives R and q of

    ½|Rw − q|² + constant

No digits are lost to squaring, no device waits for another, and the N×M matrix Ψ exists nowhere as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Float

from kosambi._core.meshes import ALL, Spec, filled, of_rows, put
from kosambi._core.precision import compiled
from kosambi._core.types import Array
from kosambi.basis import AbstractBasis
from kosambi.errors import NumericalError
from kosambi.target.data_terms import QuadraticTerm
from kosambi.target.normal_sums import RootSum

# Rows of a device whose features it holds at once.
_ROWS_OF_A_BLOCK = 2**13


def features_on_mesh(mesh: Mesh, basis: AbstractBasis, x: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n M"]:
    """ψ(x), each device with some of the rows."""
    found = of_rows(mesh, _features, basis, np.asarray(x))
    # What is no number is found again, with the row where it is.
    return found if np.isfinite(np.sum(found)) else np.asarray(basis.whitened_mean(x))


def least_squares_on_mesh(
    mesh: Mesh,
    basis: AbstractBasis,
    x: Float[np.ndarray, "N D"],
    error: Float[np.ndarray, " N"],
    precision: Float[np.ndarray, " N"],
    constant: float,
) -> QuadraticTerm:
    """½ Σ_n precision_n (error_n − ψ(x_n)ᵀw)² + constant."""
    rows = MeshLeastSquares(mesh, basis.size, _features, basis)
    rows.add(np.asarray(x), error, precision)
    if not rows.is_finite:
        # Says at which rows.
        basis.whitened_mean(x)
    return rows.term(constant)


class MeshLeastSquares:
    """The same for rows that come a block after the other, each of which is shared out among the devices.

    Arguments:
        mesh: whose devices.
        size: M.
        features: ψ as a function of `whole` and what `add` is given of the rows; that itself when None.
        whole: what all devices need for it.
    """

    def __init__(
        self, mesh: Mesh, size: int, features: Callable[[Any, Array], Array] | None = None, whole: Any = None
    ) -> None:
        self._mesh, self._size, self._of = mesh, size, (features or _themselves, whole)
        with jax.enable_x64(True):
            self._total = put(np.zeros((mesh.size * (size + 1), size + 1)), mesh, ALL)

    def add(
        self, rows: Float[np.ndarray, "n K"], error: Float[np.ndarray, " n"], precision: Float[np.ndarray, " n"]
    ) -> None:
        """Count more rows."""
        number = len(error)
        blocks = -(-number // (self._mesh.size * _ROWS_OF_A_BLOCK))
        parts = self._mesh.size * blocks
        # Rows that fill up weigh nothing.
        root = np.concatenate([np.sqrt(precision), np.zeros(-number % parts)])
        with jax.enable_x64(True):
            given = tuple(put(filled(each, parts), self._mesh, ALL) for each in (rows, error, root))
            self._total = _carried(self._mesh, *self._of, blocks, self._total, given)

    @property
    def is_finite(self) -> bool:
        """Whether all that was counted are numbers."""
        return bool(np.isfinite(np.sum(np.asarray(self._total))))

    def term(self, constant: float) -> QuadraticTerm:
        """The quadratic of all rows."""
        factors = np.asarray(self._total)
        if not self.is_finite:
            raise NumericalError(
                "Least squares of the rows have overflowed. Rescale y and the noise, or use a kernel with a smaller "
                "variance."
            )
        rows = RootSum(self._size)
        for factor in np.split(factors, self._mesh.size):
            rows.add(factor)
        root, aim, rest = rows.found()
        # What no w can explain stays.
        return QuadraticTerm(root, aim, np.asarray(constant + 0.5 * rest))


def _features(basis: AbstractBasis, x: Float[Array, "n D"]) -> Float[Array, "n M"]:
    return basis.whitened_weights(x)


def _themselves(whole: None, rows: Float[Array, "n M"]) -> Float[Array, "n M"]:
    del whole
    return rows


@compiled
def _carried(
    mesh: Mesh,
    features: Callable[[Any, Array], Array],
    whole: Any,
    blocks: int,
    total: Float[Array, "P K"],
    given: tuple[Array, Array, Array],
) -> Float[Array, "P K"]:
    """The factor of each device with its part of more rows."""

    def counted(total: Array, block: tuple[Array, Array, Array], whole: Any) -> tuple[Array, None]:
        rows, error, root = block
        own = jnp.concatenate([features(whole, rows), error[:, None]], axis=1) * root[:, None]
        return jnp.linalg.qr(jnp.concatenate([total, own]), mode="r"), None

    def local(whole: Any, total: Array, given: tuple[Array, Array, Array]) -> Array:
        pieces = jax.tree.map(lambda each: each.reshape(blocks, len(each) // blocks, *each.shape[1:]), given)
        return jax.lax.scan(lambda total, block: counted(total, block, whole), total, pieces)[0]

    return jax.shard_map(local, mesh=mesh, in_specs=(Spec(), ALL, ALL), out_specs=ALL, check_vma=False)(
        whole, total, given
    )
