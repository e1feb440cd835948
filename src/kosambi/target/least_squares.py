r"""What a Gaussian likelihood leaves of the data: ½|Rw − q|² + constant, from all rows or a block after the other.

R is a triangular factor of ψ in units of the noise, by QR decompositions, which lose no digits to squaring.
"""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import Float

from kosambi._core.linalg import is_for_host, positive_qr
from kosambi._core.long_tables import row_blocks
from kosambi.likelihoods import Gaussian
from kosambi.target.data_terms import QuadraticTerm
from kosambi.target.normal_sums import RootSum

IN_BLOCKS = 2**24
"""Numbers of ψ above which a Gaussian likelihood takes its rows in blocks."""
MANY = 512
"""Coordinates from which factorisations are what takes time, and those that keep the last digits are too dear."""
_ROWS_OF_A_BLOCK = 2**13


def quadratic_term(
    likelihood: Gaussian,
    psi: Float[np.ndarray, "N M"],
    y: Float[np.ndarray, " N"],
    offset: Float[np.ndarray, " N"],
    weights: Float[np.ndarray, " N"] | None,
    deviation: Float[np.ndarray, " N"] | None,
) -> QuadraticTerm:
    """What a Gaussian likelihood leaves of the data, by a QR decomposition of ψ in units of the noise.

    On the host where that is as fast: it runs once for a model, and would be compiled for each number of rows.
    """
    return least_squares(psi, *gaussian_rows(likelihood, y, offset, weights, deviation))


def gaussian_rows(
    likelihood: Gaussian,
    y: Float[np.ndarray, " N"],
    offset: Float[np.ndarray, " N"],
    weights: Float[np.ndarray, " N"] | None,
    deviation: Float[np.ndarray, " N"] | None,
) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"], float]:
    """Error and precision of every row, and the constant: what `least_squares` asks for beside ψ."""
    weights = np.ones_like(y) if weights is None else weights
    precision = weights / np.square(np.asarray(likelihood.row_noise))
    noise = np.broadcast_to(np.asarray(likelihood.row_noise), y.shape)
    constant = float(np.sum(weights * (np.log(noise) + 0.5 * np.log(2.0 * np.pi))))
    if deviation is not None:
        constant += 0.5 * float(np.sum(precision * np.square(deviation)))
    return y - offset, precision, constant


def least_squares(
    psi: Float[np.ndarray, "N M"], error: Float[np.ndarray, " N"], precision: Float[np.ndarray, " N"], constant: float
) -> QuadraticTerm:
    """½ Σ_n precision_n (error_n − ψ_nᵀw)² + constant."""
    if psi.size > IN_BLOCKS and jax.default_backend() == "cpu" and len(psi) > 2 * psi.shape[1]:
        rows = LeastSquares(psi.shape[1])
        rows.add(psi, error, precision)
        return rows.term(constant)
    error, scaled = error * np.sqrt(precision), psi * np.sqrt(precision)[:, None]
    if psi.shape[1] >= MANY and len(psi) <= 2 * psi.shape[1]:
        # Nothing to be gained from fewer rows.
        return QuadraticTerm(np.ascontiguousarray(scaled), error, np.asarray(constant))
    basis, root = _on_host(scaled) if is_for_host(psi.size) else map(np.asarray, positive_qr(scaled))
    aim = basis.T @ error
    # What no w can explain stays.
    constant += 0.5 * float(np.sum(np.square(error - basis @ aim)))
    return QuadraticTerm(np.ascontiguousarray(root), aim, np.asarray(constant))


class LeastSquares:
    """The same for rows that come a block after the other: the triangular factor of [ψ, error] is carried along.

    Digits do not depend on the blocks, as long as all but the last have a multiple of 8192 rows.
    """

    def __init__(self, size: int) -> None:
        self._sum = RootSum(size)

    def add(
        self, psi: Float[np.ndarray, "n M"], error: Float[np.ndarray, " n"], precision: Float[np.ndarray, " n"]
    ) -> None:
        """Count more rows."""
        for part in row_blocks(len(psi), _ROWS_OF_A_BLOCK):
            root = np.sqrt(precision[part])
            self._sum.add(np.column_stack([psi[part] * root[:, None], error[part] * root]))

    def term(self, constant: float) -> QuadraticTerm:
        """The quadratic of all rows."""
        # What no w can explain stays.
        root, aim, rest = self._sum.found()
        return QuadraticTerm(root, aim, np.asarray(constant + 0.5 * rest))


def _on_host(matrix: Float[np.ndarray, "N M"]) -> tuple[np.ndarray, np.ndarray]:
    import scipy.linalg  # here, because it doubles what `import kosambi` adds to `import jax`

    return scipy.linalg.qr(matrix, mode="economic", overwrite_a=True, check_finite=False)
