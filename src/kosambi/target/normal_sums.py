r"""Sums over rows of what least squares need of them, a block at a time: no N×M matrix is made.

For e ≈ Ψw with the rows of [Ψ, e] in units of their deviations, R, q and |e − Qq|² of ½|Rw − q|² + constant: from the
sum of [Ψ, e]ᵀ[Ψ, e] where its rounding is small beside the prior's I, and otherwise from a triangular factor.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.groups import Group
from kosambi._core.linalg import is_for_host
from kosambi._core.precision import compiled
from kosambi._core.types import Array


class GramSum:
    """R, q and |e − Qq|² of e ≈ Ψw from the sum of [Ψ, e]ᵀ[Ψ, e], at the speed of a matrix product.

    What rounding takes from a sum of blocks is summed beside it (Knuth's two-sum), so that only the product of a block
    is rounded, at about 1e-16 of its trace. Over B blocks that adds up like a random walk, to 1e-16/√B of the trace of
    all: less than 1e-8, beside the prior's I, for a trace of 1e8·√B.
    """

    def __init__(self, size: int) -> None:
        self.size, self.total = size, np.zeros((2, size + 1, size + 1))

    def add(self, rows: Float[Array, "n K"]) -> None:
        """Count more rows, the last column of which is e; on an accelerator if they are there."""
        total = self.total[0]
        block = rows.T @ rows if isinstance(rows, np.ndarray) else np.asarray(_gram(rows))
        whole = total + block
        counted = whole - total
        self.total = np.stack([whole, self.total[1] + ((total - (whole - counted)) + (block - counted))])

    def over(self, group: Group) -> GramSum:
        """That of the rows of all processes."""
        (self.total,) = group.added("the normal matrix", self.total)
        return self

    def found(self, squared: float) -> tuple[Float[np.ndarray, "M M"], Float[np.ndarray, " M"], float]:
        """A root of ΨᵀΨ, what it is to meet, and what no w can explain; `squared` is |e|²."""
        from scipy.linalg import eigh

        total = self.total[0] + self.total[1]
        values, vectors = eigh(total[:-1, :-1], check_finite=False)
        # Directions in which the data say less than rounding does, which the prior's I outweighs by far.
        known = values > 1e-15 * max(float(values[-1]), 0.0)
        lengths = np.sqrt(np.where(known, values, 1.0))
        aim = np.where(known, vectors.T @ total[:-1, -1] / lengths, 0.0)
        root = np.where(known, lengths, 0.0)[:, None] * vectors.T
        return np.ascontiguousarray(root), aim, max(squared - float(aim @ aim), 0.0)


class RootSum:
    """The same from a triangular factor that QR factorisations carry from block to block: all digits, more slowly."""

    def __init__(self, size: int) -> None:
        self.size, self.total = size, np.zeros((0, size + 1))

    def add(self, rows: Float[Array, "n K"]) -> None:
        """Count more rows, the last column of which is e; on an accelerator if they are there, or are many."""
        if isinstance(rows, np.ndarray) and is_for_host(rows.size):
            from scipy.linalg import qr  # here, because it doubles what `import kosambi` adds to `import jax`

            both = np.concatenate([self.total, rows])
            self.total = qr(both, mode="r", overwrite_a=True, check_finite=False)[0][: self.size + 1].copy()
            return
        # Of one shape from the first block on.
        missing = np.zeros((self.size + 1 - len(self.total), self.size + 1))
        self.total = np.asarray(_triangle(np.concatenate([self.total, missing]), rows))

    def over(self, group: Group) -> RootSum:
        """That of the rows of all processes, whose factors are rows like others."""
        if group.count > 1:
            factors = group.gathered("the factor of the normal matrix", self.total)
            self.total = np.zeros((0, self.size + 1))
            for (factor,) in factors:
                if len(factor):
                    self.add(factor)
        return self

    def found(self, squared: float = np.nan) -> tuple[Float[np.ndarray, "M M"], Float[np.ndarray, " M"], float]:
        """The factor, Qᵀe, and what no w can explain, which stands below it."""
        del squared
        whole = np.zeros((self.size + 1, self.size + 1))
        whole[: len(self.total)] = self.total
        root = np.ascontiguousarray(whole[:-1, :-1])
        return root, whole[:-1, -1].copy(), float(whole[-1, -1] ** 2)


@compiled
def _gram(rows: Float[Array, "n K"]) -> Float[Array, "K K"]:
    return rows.T @ rows


@compiled
def _triangle(factor: Float[Array, "K K"], rows: Float[Array, "n K"]) -> Float[Array, "K K"]:
    return jnp.linalg.qr(jnp.concatenate([factor, rows]), mode="r")
