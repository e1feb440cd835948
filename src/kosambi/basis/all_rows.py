r"""What all rows together say about the residual of a basis: the full process, by one factorisation.

With R = r − ψᵀψ and W the precisions of the rows (those of Gaussian sites; zero where a row says nothing),

    I + W^½ R_XX W^½ = LLᵀ,   B(x) = R_xX W^½ L⁻ᵀL⁻¹ W^½,   D(x) = R_xx − |L⁻¹ W^½ R_Xx|²

are the weights and the variance of `kosambi.basis.local` where every row is a neighbour of every input. Without
coordinates R is r, and this is regression with the process itself. One N×N matrix in float64: on the host in the place
of the one that is factorised, on an accelerator in its memory.
"""

from __future__ import annotations

import contextlib
import functools
import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from jaxtyping import Float

from kosambi._core.lapack import clear_above, factorise
from kosambi._core.linalg import MOST, all_blas_threads, host_blocks, one_blas_thread
from kosambi._core.precision import compiled, lift
from kosambi._core.programs import bucket
from kosambi._core.threads import platform
from kosambi._core.types import Array
from kosambi.basis.local import Rows
from kosambi.errors import InputError, NumericalError
from kosambi.priors import AbstractPrior

# Numbers of one block of covariances: 2**24 float64 numbers are 128 MiB.
_NUMBERS = 2**24
# Where the system does not say how much memory there is.
_UNKNOWN = 8 * 2**30
MOST_ROWS = 46_000
"""An accelerator's libraries count the numbers of a matrix with 31 bits."""
# Matrices that an accelerator holds while it factorises one, and the part of the memory that they may take.
_COPIES, _SHARE = 3, 0.6


def largest_process() -> int:
    """How many rows fit into the memory of the machine, or of its accelerator.

    >>> largest_process() > 1000
    True
    """
    if platform() == "cpu":
        # One matrix, and as much again for everything else.
        return int(np.sqrt(0.5 * _host_bytes() / 8))
    device: Any = jax.config.jax_default_device or jax.devices()[0]  # type: ignore[attr-defined]
    known = None if isinstance(device, str) else device.memory_stats()
    limit = _host_bytes() if not known else known.get("bytes_limit", 0)
    return min(MOST_ROWS, int(np.sqrt(_SHARE * limit / (8 * _COPIES))))


def _host_bytes() -> int:
    """The memory of the machine, or what a container may use of it."""
    found = _UNKNOWN
    with contextlib.suppress(AttributeError, ValueError, OSError):
        found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(ValueError, OSError):
        # "max" where there is no limit.
        found = min(found, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return found


def check_process(num_rows: int) -> None:
    """Refuse more rows than fit, with the remedy."""
    if num_rows > (most := largest_process()):
        raise InputError(
            f"A matrix of all pairs of {num_rows} rows takes {8e-9 * num_rows**2:.0f} GB, and this machine has memory "
            f'for {most} rows. Leave the number of inducing points and neighbours to "auto".'
        )


class AllRows:
    """The factor L of all rows, and what follows from it.

    Arguments:
        prior: whose r it is.
        rows: inputs, features and precisions.
        error: t − m, what the rows say beyond the prior mean.
    """

    def __init__(self, prior: AbstractPrior, rows: Rows, error: Float[np.ndarray, " N"]) -> None:
        check_process(len(rows.x))
        self.rows, self._error, self._root = rows, error, np.sqrt(rows.precision)
        # What rounding can take from the eigenvalues of R, so that a factor exists; far below the noise.
        self._rounding = len(rows.x) * float(np.finfo(np.float64).eps)
        with jax.enable_x64(True):
            self._prior = lift(prior)
            self._on_device = platform() != "cpu"
            self._factor = self._device_factor() if self._on_device else self._host_factor()
            diagonal = np.asarray(jnp.diagonal(self._factor) if self._on_device else np.diagonal(self._factor))
        self.diagonal = diagonal
        """Of L."""
        if not np.all(np.isfinite(diagonal)):
            raise NumericalError(
                f"The covariance of {len(rows.x)} rows has no Cholesky factor. Raise the noise, or take inducing "
                "points without all rows as neighbours."
            )
        self.log_determinant = 2.0 * float(np.sum(np.log(diagonal)))
        """log det(I + W^½ R W^½)."""

    def _device_factor(self) -> Array:
        x, psi, precision = map(jnp.asarray, self.rows)
        return _factor_on_device(self._prior, x, psi, precision, self._rounding)

    def _host_factor(self) -> Float[np.ndarray, "N N"]:
        number = len(self.rows.x)
        matrix = np.empty((number, number), order="F")
        for part in host_blocks(number, max(1, _NUMBERS // number)):
            matrix[:, part] = self.residual(self.rows.x[part], self.rows.psi[part]).T * self._root[part]
        matrix *= self._root[:, None]
        loads = self._root**2 * np.asarray(_pointwise(self._prior, self.rows.x))
        matrix[np.diag_indices_from(matrix)] += 1.0 + self._rounding * loads
        with _blas_threads(number):
            if not factorise(matrix):
                matrix[0, 0] = np.nan
        clear_above(matrix)
        return matrix

    def residual(self, x: Float[np.ndarray, "T D"], psi: Float[np.ndarray, "T M"]) -> Float[np.ndarray, "T N"]:
        """R_xX."""
        cross = np.asarray(_pairwise(self._prior, x, self.rows.x))
        return cross - psi.astype(np.float64) @ self.rows.psi.T if psi.shape[1] else cross

    def whitened(self, values: Float[np.ndarray, "N K"]) -> Float[np.ndarray, "N K"]:
        """L⁻¹ W^½ values."""
        return self._divide(self._root[:, None] * values)

    def weighted(self, values: Float[np.ndarray, "N K"]) -> Float[np.ndarray, "N K"]:
        """(R + W⁻¹)⁻¹ values = W^½ L⁻ᵀL⁻¹ W^½ values."""
        return self._root[:, None] * self._divide(self.whitened(values), transposed=True)

    @functools.cached_property
    def _solved(self) -> Float[np.ndarray, "N K"]:
        """(R + W⁻¹)⁻¹ [t − m, Ψ]."""
        return self.weighted(np.column_stack([self._error, self.rows.psi]))

    def explained(
        self, x: Float[np.ndarray, "T D"], psi: Float[np.ndarray, "T M"]
    ) -> tuple[Float[np.ndarray, " T"], Float[np.ndarray, "T M"], Float[np.ndarray, " T"]]:
        """B(t − m), BΨ, and what the rows take from the variance, |L⁻¹ W^½ R_Xx|²; in blocks of inputs."""
        values, number = self._solved, len(x)
        # Filled up, so that not every number of inputs compiles.
        missing = bucket(number) - number
        x, psi = (np.concatenate([part, np.repeat(part[:1], missing, axis=0)]) for part in (x, psi))
        products, removed = np.empty((len(x), values.shape[1])), np.empty(len(x))
        with jax.enable_x64(True):
            for part in host_blocks(len(x), max(1, _NUMBERS // len(self.rows.x))):
                if self._on_device:
                    given = self.rows.x, self.rows.psi, self._root, values, x[part], psi[part]
                    found = _explain_on_device(self._prior, self._factor, *map(jnp.asarray, given))
                    products[part], removed[part] = map(np.asarray, found)
                else:
                    cross = self.residual(x[part], psi[part])
                    products[part] = cross @ values
                    removed[part] = np.sum(np.square(self.whitened(cross.T)), axis=0)
        return products[:number, 0], products[:number, 1:], removed[:number]

    def _divide(self, values: Float[np.ndarray, "N K"], transposed: bool = False) -> Float[np.ndarray, "N K"]:
        """L⁻¹ values, or L⁻ᵀ values."""
        if not values.shape[1]:
            return np.asarray(values)
        if self._on_device:
            with jax.enable_x64(True):
                return np.asarray(_divide_on_device(self._factor, jnp.asarray(values), transposed))
        from scipy.linalg import solve_triangular  # here, because it doubles what `import kosambi` adds to `import jax`

        with _blas_threads(len(self._factor)):
            return solve_triangular(self._factor, values, lower=True, trans=int(transposed), check_finite=False)


def _blas_threads(number: int) -> contextlib.AbstractContextManager[None]:
    """Several for many rows. Of few, those that wait for one another take longer than one where cores are shared."""
    return all_blas_threads() if number > MOST else one_blas_thread()


@compiled
def _pairwise(prior: AbstractPrior, x: Array, rows: Array) -> Array:
    return prior.pairwise(x, rows)


@compiled
def _pointwise(prior: AbstractPrior, x: Array) -> Array:
    return prior.pointwise(x)


def _residual(prior: AbstractPrior, x: Array, psi: Array, rows: Array, features: Array) -> Array:
    return prior.pairwise(x, rows) - psi.astype(rows.dtype) @ features.astype(rows.dtype).T


@compiled
def _factor_on_device(prior: AbstractPrior, x: Array, psi: Array, precision: Array, rounding: float) -> Array:
    root = jnp.sqrt(precision)
    matrix = root[:, None] * _residual(prior, x, psi, x, psi) * root
    diagonal = jnp.arange(len(x))
    matrix = matrix.at[diagonal, diagonal].add(1.0 + rounding * precision * prior.pointwise(x))
    return jax.lax.linalg.cholesky(matrix, symmetrize_input=False)


@compiled
def _explain_on_device(
    prior: AbstractPrior, factor: Array, rows: Array, features: Array, root: Array, values: Array, x: Array, psi: Array
) -> tuple[Array, Array]:
    cross = _residual(prior, x, psi, rows, features)
    half = jsl.solve_triangular(factor, root[:, None] * cross.T, lower=True)
    return cross @ values, jnp.sum(jnp.square(half), axis=0)


@compiled
def _divide_on_device(factor: Array, values: Array, transposed: bool) -> Array:
    return jsl.solve_triangular(factor, values, lower=True, trans=int(transposed))
