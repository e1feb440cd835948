"""Whether hyperparameters can be learned from what was given; what is only doubtful becomes a warning."""

from __future__ import annotations

import numpy as np

from kosambi._core.checks import as_count, as_inputs
from kosambi._core.precision import with_fields
from kosambi._core.types import Array
from kosambi.errors import InputError
from kosambi.kernels import AbstractCombination, AbstractKernel, AbstractStationary
from kosambi.likelihoods import AbstractLikelihood
from kosambi.priors import AbstractPrior, GaussianProcess


def as_prior(prior: object, x: Array, ard: bool) -> AbstractPrior:
    """The prior that a kernel stands for, with a lengthscale for each column if asked for."""
    if isinstance(prior, AbstractKernel):
        prior = GaussianProcess(prior)
    if not isinstance(prior, AbstractPrior):
        raise InputError(
            f"`fit_hyperparameters` needs a prior or a kernel second. Got {type(prior).__name__}. "
            "For example `kosambi.kernels.Matern52()`."
        )
    as_inputs("x", x, prior.num_columns)
    prior.check_columns(x.shape[1])
    return with_fields(prior, kernel=_with_ard(prior.kernel, x.shape[1])) if ard else prior


def _with_ard(kernel: AbstractKernel, num_columns: int) -> AbstractKernel:
    if isinstance(kernel, AbstractCombination):
        return with_fields(kernel, kernels=tuple(_with_ard(part, num_columns) for part in kernel.kernels))
    if isinstance(kernel, AbstractStationary) and np.size(kernel.lengthscale) == 1:
        number = num_columns if kernel.active_dims is None else len(kernel.active_dims)
        return with_fields(kernel, lengthscale=np.full(number, float(np.ravel(kernel.lengthscale)[0])))
    return kernel


def check_data(x: Array, y: Array, likelihood: AbstractLikelihood, num_free: int, num_rows: int) -> list[str]:
    """Refuse data that say nothing; texts of warnings for data that say little.

    x and y are the rows that count, of `num_rows`.
    """
    if len(y) < 2:
        raise InputError(f"Hyperparameters need two rows of data at least. Got {len(y)}.")
    if np.all(y == y[0]):
        raise InputError(
            f"All {len(y)} observations are {y[0]:g}, so they say nothing about variances and lengthscales. Use data "
            "that vary, or keep the hyperparameters that you have."
        )
    noise = getattr(likelihood, "noise", np.zeros(()))
    if np.ndim(noise) == 1 and len(noise) != num_rows:
        raise InputError(f"`noise` has {len(noise)} entries for {num_rows} rows of x. Give one for each row.")
    constant = np.flatnonzero(np.ptp(x, axis=0) == 0)
    if len(constant) == x.shape[1]:
        raise InputError("No column of `x` varies, so all inputs are one point. Give inputs that differ.")
    notes = []
    if len(constant):
        shown = ", ".join(map(str, constant[:5])) + (", ..." if len(constant) > 5 else "")
        notes.append(f"Column {shown} of x does not vary, so the data say nothing of its lengthscale. Leave it out.")
    if len(y) <= num_free:
        notes.append(
            f"{len(y)} rows are no more than the numbers to be learned ({num_free}); the weak prior around usual "
            "values decides most of them."
        )
    return notes


def as_rows(value: object) -> int:
    """A whole number of rows, two or more."""
    rows = as_count("max_rows", value)
    if rows < 2:
        raise InputError("`max_rows` must be at least 2. Got 1. Hyperparameters need rows that differ.")
    return rows
